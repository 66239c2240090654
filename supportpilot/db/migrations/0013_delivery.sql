-- Delivery: sends that nobody answered are counted, and channels have a speed.

ALTER TABLE desk.outbox
    ADD COLUMN unanswered integer NOT NULL DEFAULT 0,   -- sends whose text left and whose answer is missing
    ADD COLUMN waits integer NOT NULL DEFAULT 0;        -- times the channel's rate let others go first

-- No customer's data: channels and times.
CREATE TABLE desk.delivery_rates (
    channel  text PRIMARY KEY,
    free_at  timestamptz NOT NULL,      -- when the next one may leave if nothing is saved up
    queue_at timestamptz NOT NULL       -- behind those who were told to wait
);

CREATE INDEX ON desk.mails (outbox_id) WHERE outbox_id IS NOT NULL;
