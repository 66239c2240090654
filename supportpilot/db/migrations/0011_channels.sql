-- Channels: what their doors turned away, and how far a helpdesk was asked for messages whose hook was lost.

-- No customer's data: reasons are ours, numbers are counts.
CREATE TABLE desk.channel_counts (
    channel text NOT NULL,
    day     date NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('ignored', 'refused')),
    reason  text NOT NULL,
    n       bigint NOT NULL CHECK (n > 0),
    last_at timestamptz NOT NULL,
    PRIMARY KEY (channel, day, outcome, reason)
);

CREATE TABLE desk.channel_cursors (
    channel    text NOT NULL,
    account    text NOT NULL,
    asked_to   timestamptz NOT NULL,      -- by the helpdesk's clock
    reached    timestamptz,               -- a round that was cut short: conversations quiet since then are done
    found      bigint NOT NULL DEFAULT 0, -- messages whose hook was lost
    last_error text,
    checked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (channel, account)
);

-- Asked at each message that comes in: the rate of answers to one contact.
CREATE INDEX ON desk.outbox (ticket_id, created_at);
