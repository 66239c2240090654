-- What replies promise, written with the reply's outbox row.

CREATE SEQUENCE desk.commitment_number;

CREATE TABLE desk.commitments (
    id         text PRIMARY KEY DEFAULT 'P' || lpad(nextval('desk.commitment_number')::text, 6, '0'),
    ticket_id  text NOT NULL REFERENCES biz.tickets,
    outbox_key text NOT NULL REFERENCES desk.outbox (idempotency_key) ON DELETE CASCADE,
    position   integer NOT NULL,
    turn_id    text,
    message_id text,                    -- the message that the promise answers
    text       text NOT NULL,           -- words of the reply
    due_at     timestamptz,
    closed_at  timestamptz,             -- kept, or dropped: read wrongly, or not needed any more
    closed_by  text,
    dropped_because text,               -- null: kept
    overdue_noted_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (outbox_key, position)
);
CREATE INDEX ON desk.commitments (ticket_id);
CREATE INDEX ON desk.commitments (due_at) WHERE closed_at IS NULL;

-- A promise counts once its reply is on its way. One that is withheld, could not be sent, or will be withheld because
-- a human has taken the ticket since, was made to nobody; if it goes out after all, it counts again.
CREATE VIEW desk.commitment_states AS
SELECT c.*, t.customer_id, o.kind,
       CASE WHEN c.dropped_because IS NOT NULL THEN 'dropped'
            WHEN c.closed_at IS NOT NULL THEN 'kept'
            WHEN o.status IN ('withheld', 'failed') THEN 'unsent'
            WHEN o.kind = 'reply' AND o.status = 'queued' AND t.taken_over_seq > u.taken_over_seq THEN 'unsent'
            WHEN c.due_at <= clock_timestamp() THEN 'overdue'
            ELSE 'open' END AS state
FROM desk.commitments c
JOIN desk.outbox o ON o.idempotency_key = c.outbox_key
JOIN biz.tickets t ON t.id = c.ticket_id
LEFT JOIN desk.turns u ON u.turn_id = o.turn_id;
