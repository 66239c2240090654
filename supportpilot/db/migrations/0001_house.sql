-- The house as architecture.md section 4 draws it: business data, knowledge base, desk.

CREATE SCHEMA biz;
CREATE SCHEMA kb;
CREATE SCHEMA desk;

-- biz ---------------------------------------------------------------------------------------------

CREATE TABLE biz.customers (
    id          text PRIMARY KEY,
    email       text NOT NULL UNIQUE CHECK (email = lower(email)),
    name        text NOT NULL,
    company     text NOT NULL DEFAULT '',
    is_vip      boolean NOT NULL DEFAULT false,
    locale      text NOT NULL DEFAULT 'zh',
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE biz.subscriptions (
    id            text PRIMARY KEY,
    customer_id   text NOT NULL REFERENCES biz.customers,
    plan          text NOT NULL,
    billing_cycle text NOT NULL CHECK (billing_cycle IN ('monthly', 'yearly')),
    status        text NOT NULL CHECK (status IN ('trial', 'active', 'past_due', 'cancelled')),
    seats         integer NOT NULL DEFAULT 1,
    period_start  date NOT NULL,
    period_end    date NOT NULL
);
CREATE INDEX ON biz.subscriptions (customer_id);

CREATE TABLE biz.invoices (
    id              text PRIMARY KEY,
    customer_id     text NOT NULL REFERENCES biz.customers,
    subscription_id text REFERENCES biz.subscriptions,
    number          text NOT NULL UNIQUE,
    description     text NOT NULL DEFAULT '',
    amount          numeric(12, 2) NOT NULL CHECK (amount >= 0),
    status          text NOT NULL CHECK (status IN ('open', 'paid', 'refunded', 'void')),
    issued_at       date NOT NULL,
    paid_at         timestamptz
);
CREATE INDEX ON biz.invoices (customer_id);

CREATE TABLE biz.bank_connections (
    id            text PRIMARY KEY,
    customer_id   text NOT NULL REFERENCES biz.customers,
    bank          text NOT NULL,
    account_tail  text NOT NULL,
    status        text NOT NULL CHECK (status IN ('active', 'expired', 'error')),
    authorised_at date NOT NULL,
    expires_at    date NOT NULL,
    last_sync_at  timestamptz,
    last_error    text
);
CREATE INDEX ON biz.bank_connections (customer_id);

CREATE SEQUENCE biz.ticket_number;

CREATE TABLE biz.tickets (
    id              text PRIMARY KEY DEFAULT 'T' || lpad(nextval('biz.ticket_number')::text, 6, '0'),
    customer_id     text REFERENCES biz.customers,
    contact         text NOT NULL CHECK (contact = lower(contact)),
    contact_name    text NOT NULL DEFAULT '',
    channel         text NOT NULL,
    conversation_id text,
    linked_to       text,
    subject         text NOT NULL DEFAULT '',
    body            text NOT NULL DEFAULT '',
    status          text NOT NULL DEFAULT 'open'
                    CHECK (status IN ('open', 'answered', 'waiting_approval', 'escalated', 'resolved')),
    category        text,
    error_code      text,
    resolution_kb   text,
    resolution      text,
    promise         text,
    wish            text,
    handoff_reason  text,
    last_seq        bigint NOT NULL DEFAULT 0,
    taken_over_seq  bigint NOT NULL DEFAULT 0,
    last_written_at timestamptz,
    created_at      timestamptz NOT NULL DEFAULT now(),
    resolved_at     timestamptz
);
CREATE INDEX ON biz.tickets (customer_id, status);
CREATE INDEX ON biz.tickets (contact, channel);
CREATE INDEX ON biz.tickets (channel, conversation_id) WHERE conversation_id IS NOT NULL;

CREATE TABLE biz.refunds (
    id          text PRIMARY KEY,
    ticket_id   text NOT NULL REFERENCES biz.tickets,
    approval_id text NOT NULL UNIQUE,
    invoice_id  text NOT NULL REFERENCES biz.invoices,
    amount      numeric(12, 2) NOT NULL CHECK (amount > 0),
    status      text NOT NULL CHECK (status IN ('paid')),
    reason      text NOT NULL DEFAULT '',
    decided_by  text NOT NULL,
    message_ids text[] NOT NULL DEFAULT '{}',
    turn_id     text,
    created_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON biz.refunds (invoice_id);
CREATE INDEX ON biz.refunds (ticket_id);

CREATE TABLE biz.customer_profiles (
    customer_id         text PRIMARY KEY REFERENCES biz.customers,
    summary             text NOT NULL,
    source_ticket_count integer NOT NULL,
    source_fingerprint  text NOT NULL DEFAULT '',
    updated_at          timestamptz NOT NULL DEFAULT now()
);

-- kb ----------------------------------------------------------------------------------------------

CREATE TABLE kb.articles (
    id         text PRIMARY KEY,
    title      text NOT NULL,
    url        text,
    lang       text NOT NULL DEFAULT 'zh',
    keywords   text NOT NULL DEFAULT '',
    body       text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE kb.chunks (
    article_id text NOT NULL REFERENCES kb.articles ON DELETE CASCADE,
    position   integer NOT NULL,
    heading    text NOT NULL DEFAULT '',
    text       text NOT NULL,
    terms      text[] NOT NULL,       -- every term as often as it occurs
    length     integer NOT NULL,
    PRIMARY KEY (article_id, position)
);
CREATE INDEX ON kb.chunks USING gin (terms);

-- desk --------------------------------------------------------------------------------------------

CREATE SEQUENCE desk.message_number;
CREATE SEQUENCE desk.approval_number;
CREATE SEQUENCE desk.outbox_number;
CREATE SEQUENCE desk.quarantine_number;

CREATE TABLE desk.leases (
    ticket_id   text PRIMARY KEY REFERENCES biz.tickets,
    token       uuid UNIQUE,
    holder      text,
    expires_at  timestamptz,
    deadline_at timestamptz
);

CREATE TABLE desk.inbox (
    id           text PRIMARY KEY DEFAULT 'M' || lpad(nextval('desk.message_number')::text, 6, '0'),
    ticket_id    text NOT NULL REFERENCES biz.tickets,
    seq          bigint NOT NULL,
    channel      text NOT NULL,
    external_id  text NOT NULL,
    delivery_id  text,
    author       text NOT NULL CHECK (author IN ('customer', 'human', 'automatic')),
    author_name  text NOT NULL DEFAULT '',
    body         text NOT NULL,
    content_hash text NOT NULL DEFAULT '',
    sent_at      timestamptz,
    received_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at       timestamptz NOT NULL,
    state        text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'dead')),
    done_at      timestamptz,
    woken_at     timestamptz,
    wakes        integer NOT NULL DEFAULT 0,
    last_error   text,
    UNIQUE (ticket_id, seq),
    UNIQUE (channel, external_id),
    UNIQUE (channel, delivery_id)
);
CREATE INDEX ON desk.inbox (due_at) WHERE state = 'pending';

CREATE TABLE desk.quarantine (
    id          text PRIMARY KEY DEFAULT 'Q' || lpad(nextval('desk.quarantine_number')::text, 6, '0'),
    channel     text NOT NULL,
    sender      text NOT NULL DEFAULT '',
    delivery_id text,
    raw         bytea NOT NULL,
    reason      text NOT NULL,
    state       text NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'accepted')),
    message_id  text,
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (channel, delivery_id)
);

CREATE TABLE desk.turns (
    turn_id         text PRIMARY KEY,
    ticket_id       text NOT NULL REFERENCES biz.tickets,
    message_ids     text[] NOT NULL,
    highest_seq     bigint NOT NULL,
    taken_over_seq  bigint NOT NULL,
    silent          boolean NOT NULL DEFAULT false,   -- takes the messages into the thread, replies nothing
    status          text NOT NULL CHECK (status IN ('running', 'waiting', 'done', 'dead', 'replaced')),
    attempts        integer NOT NULL DEFAULT 0,
    crashes         integer NOT NULL DEFAULT 0,
    closing         boolean NOT NULL DEFAULT false,   -- the customer has the answer; only the thread lacks it
    next_attempt_at timestamptz NOT NULL,
    woken_at        timestamptz,
    wakes           integer NOT NULL DEFAULT 0,
    outcome         text,
    last_error      text,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at     timestamptz
);
CREATE UNIQUE INDEX one_open_turn_a_ticket ON desk.turns (ticket_id) WHERE status IN ('running', 'waiting');
CREATE INDEX ON desk.turns (ticket_id, created_at);

CREATE TABLE desk.approvals (
    id           text PRIMARY KEY DEFAULT 'A' || lpad(nextval('desk.approval_number')::text, 6, '0'),
    ticket_id    text NOT NULL REFERENCES biz.tickets,
    turn_id      text NOT NULL REFERENCES desk.turns,
    interrupt_id text NOT NULL UNIQUE,
    request      jsonb NOT NULL,
    version      bigint NOT NULL,
    status       text NOT NULL DEFAULT 'pending'
                 CHECK (status IN ('pending', 'approved', 'rejected', 'expired', 'withdrawn')),
    amount       numeric(12, 2),
    decided_by   text,
    reason       text,
    seen_version bigint,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz NOT NULL,
    decided_at   timestamptz,
    applied_at   timestamptz,
    woken_at     timestamptz,
    wakes        integer NOT NULL DEFAULT 0
);
CREATE INDEX ON desk.approvals (ticket_id);
CREATE INDEX ON desk.approvals (expires_at) WHERE status = 'pending';

CREATE TABLE desk.audit (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor     text NOT NULL,
    action    text NOT NULL,
    ticket_id text,
    subject   text,
    detail    jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX ON desk.audit (ticket_id);

CREATE TABLE desk.outbox (
    id              text PRIMARY KEY DEFAULT 'R' || lpad(nextval('desk.outbox_number')::text, 6, '0'),
    position        bigint GENERATED ALWAYS AS IDENTITY,
    ticket_id       text NOT NULL REFERENCES biz.tickets,
    turn_id         text,
    idempotency_key text NOT NULL UNIQUE,
    kind            text NOT NULL CHECK (kind IN ('reply', 'notice', 'ack', 'handoff', 'human')),
    author          text NOT NULL DEFAULT '',
    body            text NOT NULL,
    citations       jsonb NOT NULL DEFAULT '[]',
    in_reply_to     text,
    status          text NOT NULL DEFAULT 'queued'
                    CHECK (status IN ('queued', 'sending', 'accepted', 'unknown', 'failed', 'withheld')),
    attempts        integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    claimed_until   timestamptz,
    woken_at        timestamptz,
    wakes           integer NOT NULL DEFAULT 0,
    provider_id     text,
    last_error      text,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    sent_at         timestamptz
);
CREATE INDEX ON desk.outbox (ticket_id, position);
CREATE INDEX ON desk.outbox (next_attempt_at) WHERE status IN ('queued', 'sending', 'unknown');

CREATE TABLE desk.llm_calls (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ticket_id     text,
    turn_id       text,
    node          text,
    model         text NOT NULL,
    tokens_in     integer NOT NULL,
    tokens_out    integer NOT NULL,
    tokens_cached integer NOT NULL DEFAULT 0,
    parts         jsonb NOT NULL DEFAULT '{}',
    cost_cny      numeric(14, 8) NOT NULL,
    ms            integer NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON desk.llm_calls (ticket_id);

-- One row once `seed` has filled this database: what it did not seed it refuses to wipe.
CREATE TABLE desk.demo_data (
    only_row  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version   text NOT NULL,
    seeded_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The three predicates of durability.md section 1; taking, releasing and sweeping all read these.

CREATE VIEW desk.runnable_messages AS
SELECT m.*
FROM desk.inbox m
JOIN biz.tickets t ON t.id = m.ticket_id
WHERE m.state = 'pending'
  AND m.due_at <= clock_timestamp()
  AND t.status <> 'escalated'
  AND NOT EXISTS (SELECT 1 FROM desk.inbox e
                  WHERE e.ticket_id = m.ticket_id AND e.state = 'pending' AND e.seq < m.seq
                    AND e.due_at > clock_timestamp())
  AND NOT EXISTS (SELECT 1 FROM desk.turns u
                  WHERE u.ticket_id = m.ticket_id AND u.status IN ('running', 'waiting'));

CREATE VIEW desk.resumable_turns AS
SELECT u.*, a.id AS approval_id
FROM desk.turns u
JOIN desk.approvals a ON a.turn_id = u.turn_id
WHERE u.status = 'waiting'
  AND a.status IN ('approved', 'rejected', 'expired')
  AND a.applied_at IS NULL;

CREATE VIEW desk.orphaned_turns AS
SELECT u.*, (l.token IS NOT NULL) AS killed
FROM desk.turns u
JOIN desk.leases l ON l.ticket_id = u.ticket_id
WHERE u.status = 'running'
  AND u.next_attempt_at <= clock_timestamp()
  AND (l.token IS NULL OR l.expires_at <= clock_timestamp());
