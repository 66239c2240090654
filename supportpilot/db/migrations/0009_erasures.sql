-- Erasure: who asked and what came of it, which ticket numbers are gone, and what must not come back.

CREATE SEQUENCE desk.erasure_number;

-- A request until it is done, its receipt afterwards: then it names nobody.
CREATE TABLE desk.erasures (
    id          text PRIMARY KEY DEFAULT 'E' || lpad(nextval('desk.erasure_number')::text, 6, '0'),
    customer_id text,
    contact     text CHECK (contact = lower(contact)),
    asked_by    text NOT NULL,
    asked_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    done_at     timestamptz,
    counts      jsonb,
    woken_at    timestamptz,
    wakes       integer NOT NULL DEFAULT 0,
    CHECK (CASE WHEN done_at IS NULL THEN customer_id IS NOT NULL OR contact IS NOT NULL
                ELSE customer_id IS NULL AND contact IS NULL AND counts IS NOT NULL END)
);
CREATE INDEX ON desk.erasures (asked_at) WHERE done_at IS NULL;

-- Erased tickets and the replays of them, by thread id.
CREATE TABLE desk.erased_tickets (
    thread_id  text PRIMARY KEY,
    erasure_id text NOT NULL REFERENCES desk.erasures
);

-- The key of the hashes below (HMAC-SHA256), xored with both of HMAC's constants already, so that one statement
-- can look an id up. Made by the first erasure; without it there is nothing to look up.
CREATE TABLE desk.erasure_key (
    only_row  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    inner_pad bytea NOT NULL,
    outer_pad bytea NOT NULL
);

-- Ids of erased messages and deliveries; with `erasure_id`: the customer's number or address, to find the receipt.
CREATE TABLE desk.erased_hashes (
    hash       bytea PRIMARY KEY,
    erasure_id text REFERENCES desk.erasures,
    erased_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON desk.erased_hashes (erased_at) WHERE erasure_id IS NULL;

-- Invoices and refunds have to be kept when their customer and ticket are gone. Who writes one holds the lease and
-- the invoice, and looks the ticket's customer up.
ALTER TABLE biz.invoices DROP CONSTRAINT invoices_customer_id_fkey, DROP CONSTRAINT invoices_subscription_id_fkey;
ALTER TABLE biz.refunds DROP CONSTRAINT refunds_ticket_id_fkey;
