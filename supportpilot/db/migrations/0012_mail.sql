-- Mail: the raw message first, what it became later. Outgoing mails have a row too, so that answers find their ticket.

CREATE SEQUENCE desk.mail_number;

CREATE TABLE desk.mails (
    id            text PRIMARY KEY DEFAULT 'E' || lpad(nextval('desk.mail_number')::text, 6, '0'),
    direction     text NOT NULL CHECK (direction IN ('in', 'out')),
    mailbox       text NOT NULL DEFAULT '',
    door          text NOT NULL CHECK (door IN ('webhook', 'pipe', 'imap', 'outbox')),
    digest        text UNIQUE,                       -- of the raw bytes: a door that takes a mail twice stores one row
    raw           bytea,                             -- gone once a copy is in quarantine or the mail proved a repetition
    size          bigint NOT NULL DEFAULT 0,         -- of the mail; more than length(raw) if only its head was taken
    envelope_from text,
    envelope_to   text NOT NULL DEFAULT '',
    state         text NOT NULL DEFAULT 'stored'
                  CHECK (state IN ('stored', 'filed', 'note', 'ignored', 'quarantined', 'duplicate', 'sent')),
    reason        text NOT NULL DEFAULT '',
    attempts      integer NOT NULL DEFAULT 0,
    external_id   text,
    content_hash  text NOT NULL DEFAULT '',
    message_id    text,
    "references"  text[] NOT NULL DEFAULT '{}',      -- newest first
    subject       text NOT NULL DEFAULT '',
    sender        text NOT NULL DEFAULT '',
    recipients    text[] NOT NULL DEFAULT '{}',
    verified      boolean NOT NULL DEFAULT false,    -- our server vouches for the sender
    full_text     text NOT NULL DEFAULT '',
    visible       text NOT NULL DEFAULT '',
    quoted        text NOT NULL DEFAULT '',
    ticket_id     text REFERENCES biz.tickets,
    inbox_id      text,
    outbox_id     text,
    quarantine_id text,
    sent_at       timestamptz,
    received_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    done_at       timestamptz,
    woken_at      timestamptz,
    wakes         integer NOT NULL DEFAULT 0
);
CREATE INDEX ON desk.mails (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX ON desk.mails (external_id) WHERE external_id IS NOT NULL;
CREATE INDEX ON desk.mails (ticket_id, received_at);
CREATE INDEX ON desk.mails (sender);
CREATE INDEX ON desk.mails (received_at) WHERE state = 'stored';

CREATE TABLE desk.attachments (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mail_id      text NOT NULL REFERENCES desk.mails ON DELETE CASCADE,
    ticket_id    text REFERENCES biz.tickets,
    position     integer NOT NULL,
    name         text NOT NULL,
    content_type text NOT NULL,
    size         bigint NOT NULL,
    sha256       text NOT NULL,
    inline       boolean NOT NULL DEFAULT false,
    data         bytea,
    skipped      text NOT NULL DEFAULT '',           -- why data is missing
    UNIQUE (mail_id, position)
);
CREATE INDEX ON desk.attachments (ticket_id);

-- Where the reading of an IMAP folder stands.
CREATE TABLE desk.mailboxes (
    id            text PRIMARY KEY,
    uid_validity  bigint NOT NULL,
    last_uid      bigint NOT NULL DEFAULT 0,
    first_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    claimed_until timestamptz,
    polled_at     timestamptz,
    last_error    text
);

-- Addresses that do not exist (any more), by a bounce of a mail that we did send there.
CREATE TABLE desk.suppressions (
    address    text PRIMARY KEY CHECK (address = lower(address)),
    reason     text NOT NULL,
    mail_id    text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A ticket opened by a mail for whose sender nobody vouches: it has no customer, and so no history and no account.
ALTER TABLE biz.tickets ADD COLUMN verified boolean NOT NULL DEFAULT true;
