-- Who may log in to the pages and the API. A token is shown once and kept as a hash only; so is a session's.

CREATE SEQUENCE desk.approver_number;

CREATE TABLE desk.approvers (
    id          text PRIMARY KEY DEFAULT 'U' || lpad(nextval('desk.approver_number')::text, 4, '0'),
    name        text NOT NULL,
    folded_name text NOT NULL UNIQUE,          -- one person, however the name is typed
    role        text NOT NULL CHECK (role IN ('viewer', 'agent', 'approver', 'admin')),
    token_hash  text UNIQUE,                   -- NULL: revoked
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at  timestamptz,
    seen_at     timestamptz
);

CREATE TABLE desk.sessions (
    id_hash     text PRIMARY KEY,
    approver_id text NOT NULL REFERENCES desk.approvers ON DELETE CASCADE,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz NOT NULL
);
CREATE INDEX ON desk.sessions (approver_id);
CREATE INDEX ON desk.sessions (expires_at);

-- A form that was sent is not obeyed again.
CREATE TABLE desk.form_keys (
    key_hash text PRIMARY KEY,
    used_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON desk.form_keys (used_at);

-- Above `two_person_above` (NULL: no such limit; APPROVAL_TWO_PERSON_CNY when it was asked) the first approval waits here
-- for a second person's.
ALTER TABLE desk.approvals
    ADD COLUMN two_person_above numeric(12, 2),
    ADD COLUMN assigned_to     text,
    ADD COLUMN customer_reason text NOT NULL DEFAULT '',
    ADD COLUMN first_by        text,
    ADD COLUMN first_at        timestamptz,
    ADD COLUMN first_amount    numeric(12, 2),
    ADD COLUMN first_version   bigint,
    ADD COLUMN first_reason    text,
    ADD COLUMN first_facts     text;      -- fingerprint of the facts that the first of two people saw
CREATE INDEX ON desk.approvals (status, created_at);
