-- Failures that are nobody's fault wait longer each time without counting as attempts.

ALTER TABLE desk.turns
    ADD COLUMN setbacks  integer NOT NULL DEFAULT 0,     -- uncounted failures in a row
    ADD COLUMN failed_at timestamptz;                    -- the last failure of any kind

-- Did this model answer anybody since? Asked at each failure of a model call.
CREATE INDEX ON desk.llm_calls (model, id);

-- A view's columns are those of the day it was made.
DROP VIEW desk.resumable_turns;
CREATE VIEW desk.resumable_turns AS
SELECT u.*, a.id AS approval_id
FROM desk.turns u
JOIN desk.approvals a ON a.turn_id = u.turn_id
WHERE u.status = 'waiting'
  AND a.status IN ('approved', 'rejected', 'expired')
  AND a.applied_at IS NULL;

DROP VIEW desk.orphaned_turns;
CREATE VIEW desk.orphaned_turns AS
SELECT u.*, (l.token IS NOT NULL) AS killed
FROM desk.turns u
JOIN desk.leases l ON l.ticket_id = u.ticket_id
WHERE u.status = 'running'
  AND u.next_attempt_at <= clock_timestamp()
  AND (l.token IS NULL OR l.expires_at <= clock_timestamp());
