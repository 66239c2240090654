-- What a human says about a customer's profile: inputs of every rebuild, applied last.
-- `seen` is what the rows said when it was written; if they say something else now, it is shown as a conflict.

CREATE SEQUENCE biz.override_number;

CREATE TABLE biz.profile_overrides (
    id          text PRIMARY KEY DEFAULT 'V' || lpad(nextval('biz.override_number')::text, 6, '0'),
    customer_id text NOT NULL REFERENCES biz.customers,
    kind        text NOT NULL CHECK (kind IN ('set', 'suppress', 'note')),
    target      text NOT NULL DEFAULT '',       -- a field, an error code, or a row's id; of a note nothing
    value       text NOT NULL DEFAULT '',
    seen        jsonb,
    author      text NOT NULL,
    reason      text NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz
);
CREATE INDEX ON biz.profile_overrides (customer_id);
CREATE UNIQUE INDEX one_override_a_target ON biz.profile_overrides (customer_id, target) WHERE kind <> 'note';

-- Which rows each sentence came from, and why a model's wording was not stored.
ALTER TABLE biz.customer_profiles
    ADD COLUMN sentences jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN made_by text NOT NULL DEFAULT 'model' CHECK (made_by IN ('model', 'rule')),
    ADD COLUMN refused text[] NOT NULL DEFAULT '{}';

-- Who is wording a customer's profile at this moment, so that a burst of events costs one call of the model.
CREATE TABLE desk.profile_rebuilds (
    customer_id text PRIMARY KEY REFERENCES biz.customers,
    token       uuid NOT NULL,
    until       timestamptz NOT NULL
);

-- The known error codes: those that an article of the help centre explains. What a customer makes up is none.
CREATE VIEW kb.error_codes AS
SELECT DISTINCT upper(found.code[1]) AS code
FROM kb.articles a, regexp_matches(a.title || ' ' || a.keywords || ' ' || a.body,
                                   '(?<![A-Za-z0-9])([Ee][0-9]{4})(?![A-Za-z0-9])', 'g') AS found(code);
