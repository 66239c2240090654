-- The customer's page: what a ticket's link is bound to. A new key makes every link that was given out worthless.
-- Random, not counted: ticket numbers start again after a `seed`, and may after a restore; an old link must not fit then.
-- Tickets from before have none until their link is first renewed; their links are bound to the number alone.
ALTER TABLE biz.tickets ADD COLUMN link_key uuid;
ALTER TABLE biz.tickets ALTER COLUMN link_key SET DEFAULT gen_random_uuid();
