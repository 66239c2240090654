-- A message on a resolved ticket opens it; if it turns out to be thanks and nothing else, the ticket is as resolved as before.
ALTER TABLE desk.inbox ADD COLUMN ticket_resolved_at timestamptz;    -- since when the ticket was, that this message opened
