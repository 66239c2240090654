-- Live view, background memory, time travel.

-- Live steps and tokens of a running turn: written only while somebody watches, deleted after it. Losing them
-- in a crash loses nothing, so they are not logged.
CREATE UNLOGGED TABLE desk.events (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ticket_id text NOT NULL,
    turn_id   text NOT NULL,
    type      text NOT NULL CHECK (type IN ('turn', 'step', 'tool', 'token', 'end')),
    data      jsonb NOT NULL DEFAULT '{}',
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON desk.events (ticket_id, id);

-- A short-lived mark that somebody watches a ticket; renewed while they do.
CREATE UNLOGGED TABLE desk.watchers (
    watcher_id text PRIMARY KEY,
    ticket_id  text NOT NULL,
    until      timestamptz NOT NULL
);
CREATE INDEX ON desk.watchers (ticket_id);

-- Versions of the summary of a ticket's early part; used only if `upto` and the source's hash fit the thread.
CREATE TABLE desk.summaries (
    ticket_id   text NOT NULL REFERENCES biz.tickets,
    upto        integer NOT NULL CHECK (upto > 0),
    source_hash text NOT NULL,
    summary     text NOT NULL,
    made_by     text NOT NULL CHECK (made_by IN ('model', 'rule')),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (ticket_id, upto, source_hash)
);

-- Replays of a ticket under thread ids of their own: they send nothing and pay for themselves.
CREATE TABLE desk.forks (
    thread_id       text PRIMARY KEY,
    ticket_id       text NOT NULL REFERENCES biz.tickets,
    from_checkpoint text NOT NULL,
    outcome         text,
    reply           text,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON desk.forks (ticket_id);

CREATE INDEX ON desk.turns (finished_at) WHERE status = 'done';
CREATE INDEX ON biz.tickets (last_written_at) WHERE status = 'answered';

-- Tickets with something open: these are not settled. A reply that could not be delivered is open too.
CREATE VIEW desk.unsettled_tickets AS
SELECT ticket_id FROM desk.inbox WHERE state = 'pending'
UNION ALL SELECT ticket_id FROM desk.turns WHERE status IN ('running', 'waiting')
UNION ALL SELECT ticket_id FROM desk.approvals WHERE status = 'pending'
UNION ALL SELECT ticket_id FROM desk.outbox WHERE status IN ('queued', 'sending', 'unknown', 'failed');
CREATE INDEX ON desk.outbox (ticket_id) WHERE status IN ('queued', 'sending', 'unknown', 'failed');
