-- Retention: what a resolved ticket's thread was cut down for, so that each night looks only at what has become due.
-- Both hold the time the ticket has been quiet since; a word from either side, or resolving it again, makes it due anew.
ALTER TABLE biz.tickets
    ADD COLUMN reduced_for   timestamptz,      -- only the last snapshot was left
    ADD COLUMN forgotten_for timestamptz;      -- nothing was left

CREATE INDEX tickets_to_reduce ON biz.tickets ((greatest(resolved_at, last_written_at)))
    WHERE status = 'resolved' AND reduced_for IS DISTINCT FROM greatest(resolved_at, last_written_at);
CREATE INDEX tickets_to_forget ON biz.tickets ((greatest(resolved_at, last_written_at)))
    WHERE status = 'resolved' AND forgotten_for IS DISTINCT FROM greatest(resolved_at, last_written_at);
CREATE INDEX ON desk.forks (created_at);
CREATE INDEX ON desk.quarantine (received_at);
CREATE INDEX ON desk.llm_calls (created_at);
