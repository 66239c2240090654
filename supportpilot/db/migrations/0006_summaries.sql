-- Versions of a ticket's summary are numbered, so that of two writers who have read the same version one stores
-- (compare-and-set); `refused` has the codes of why answers of the model were not stored.
ALTER TABLE desk.summaries
    ADD COLUMN version integer,
    ADD COLUMN refused text[] NOT NULL DEFAULT '{}';

UPDATE desk.summaries s SET version = n.version
FROM (SELECT ticket_id, upto, source_hash, row_number() OVER (PARTITION BY ticket_id ORDER BY created_at, upto) AS version
      FROM desk.summaries) n
WHERE (n.ticket_id, n.upto, n.source_hash) = (s.ticket_id, s.upto, s.source_hash);

ALTER TABLE desk.summaries
    ALTER COLUMN version SET NOT NULL,
    ADD CONSTRAINT summaries_version_key UNIQUE (ticket_id, version);

-- What a chunk of a long conversation says in short, by the hash of its entries: a fold reads only what is new.
CREATE TABLE desk.summary_notes (
    ticket_id   text NOT NULL REFERENCES biz.tickets,
    source_hash text NOT NULL,
    note        text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (ticket_id, source_hash)
);
