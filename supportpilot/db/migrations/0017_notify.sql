-- What colleagues are told: a refund waits, its time runs out, a ticket waits for a human. Ids and times only.

CREATE SEQUENCE desk.notification_number;

CREATE TABLE desk.notifications (
    id              text PRIMARY KEY DEFAULT 'N' || lpad(nextval('desk.notification_number')::text, 6, '0'),
    position        bigint GENERATED ALWAYS AS IDENTITY,
    kind            text NOT NULL CHECK (kind IN ('approval', 'reminder', 'handoff')),
    ticket_id       text NOT NULL REFERENCES biz.tickets,
    subject_id      text NOT NULL,               -- the approval, or the ticket itself
    key             text NOT NULL UNIQUE,
    taken_over_seq  bigint NOT NULL,             -- the ticket's when it was handed over: above it, a human has it
    state           text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'sent', 'failed', 'dropped')),
    targets         jsonb NOT NULL DEFAULT '{}', -- by keyed hash of the address: state, service, at, error
    attempts        integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    claimed_until   timestamptz,
    woken_at        timestamptz,
    wakes           integer NOT NULL DEFAULT 0,
    last_error      text,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at       timestamptz
);
CREATE INDEX ON desk.notifications (next_attempt_at) WHERE state = 'queued';
CREATE INDEX ON desk.notifications (subject_id) WHERE state = 'queued';
CREATE INDEX ON desk.notifications (ticket_id);
CREATE INDEX ON desk.notifications (created_at);

-- Signs the links and names the targets; made when it is first needed.
CREATE TABLE desk.notify_key (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    key      bytea NOT NULL
);
