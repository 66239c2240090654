"""Every table, and what an erasure does to a customer's rows in it: the only place.

A table that is not named here would keep what was to be erased; a test compares this list with the database.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

By = Literal["ticket", "thread", "customer", "quarantine", "mail", "message", "address"]


@dataclass(frozen=True)
class Deleted:
    """A table whose rows go: those whose `column` holds one of the person's ids.

    by: which ids. `thread`: tickets and the replays of them. `quarantine`, `mail`: rows by their
        sender's address. `message`: those of the tickets, and what the person's mails
        left as notes on tickets of others. `address`: the addresses themselves.
    exported: whether `customer export` shows the rows (snapshots are shown as conversations instead).
    """

    table: str
    column: str
    by: By
    exported: bool = True


# In the order of the deletes: the lock order of durability.md, and nothing before what refers to it. Live events come
# after all that the sweeper locks, since it waits for them while it holds those.
DELETED = (
    Deleted("desk.quarantine", "id", "quarantine"),
    Deleted("desk.attachments", "mail_id", "mail"),
    Deleted("desk.mails", "id", "mail"),
    Deleted("desk.suppressions", "address", "address"),
    Deleted("desk.inbox", "id", "message"),
    Deleted("desk.commitments", "ticket_id", "ticket"),
    Deleted("desk.approvals", "ticket_id", "ticket"),
    Deleted("desk.turns", "ticket_id", "ticket"),
    Deleted("desk.outbox", "ticket_id", "ticket"),
    Deleted("desk.notifications", "ticket_id", "ticket"),
    Deleted("desk.summaries", "ticket_id", "ticket"),
    Deleted("desk.summary_notes", "ticket_id", "ticket"),
    Deleted("desk.llm_calls", "ticket_id", "thread"),
    Deleted("desk.events", "ticket_id", "ticket"),
    Deleted("desk.watchers", "ticket_id", "ticket", exported=False),
    Deleted("public.checkpoint_writes", "thread_id", "thread", exported=False),
    Deleted("public.checkpoint_blobs", "thread_id", "thread", exported=False),
    Deleted("public.checkpoints", "thread_id", "thread", exported=False),
    Deleted("desk.forks", "ticket_id", "ticket"),
    Deleted("desk.leases", "ticket_id", "ticket", exported=False),
    Deleted("biz.tickets", "id", "ticket"),
    Deleted("biz.customer_profiles", "customer_id", "customer"),
    Deleted("biz.profile_overrides", "customer_id", "customer"),
    Deleted("desk.profile_rebuilds", "customer_id", "customer", exported=False),
    Deleted("biz.subscriptions", "customer_id", "customer"),
    Deleted("biz.bank_connections", "customer_id", "customer"),
    Deleted("biz.customers", "id", "customer"),
)

# Kept for the books and for whoever has to show who did what.
KEPT = {
    "biz.invoices": "a pseudonym in the place of the customer; subscription and description removed",
    "biz.refunds": "reason, message ids and turn removed; the ticket's number says nothing any more",
    "desk.audit": "a pseudonym where the customer or an address stood; of the details only numbers",
}

# Written by the erasure itself: no name, no address, no word of the customer.
OWN = {
    "desk.erasures": "receipt: counts, times, who asked",
    "desk.erased_tickets": "numbers of erased tickets",
    "desk.erased_hashes": "keyed hashes of ids",
    "desk.erasure_key": "their key",
}

# No row of these is about a customer.
UNRELATED = {
    "desk.channel_counts": "how often a door turned something away", "desk.channel_cursors": "how far a helpdesk was asked",
    "desk.mailboxes": "how far a mailbox was read", "desk.delivery_rates": "how fast a channel is written to",
    "kb.articles": "help centre", "kb.chunks": "help centre", "kb.embeddings": "help centre",
    "desk.notify_key": "signs links to colleagues",
    "desk.approvers": "staff", "desk.sessions": "staff", "desk.form_keys": "hashes of sent forms",
    "desk.demo_data": "mark of `seed`", "public.checkpoint_migrations": "schema version of the saver",
    "public._yoyo_log": "migrations", "public._yoyo_migration": "migrations", "public._yoyo_version": "migrations",
    "public.yoyo_lock": "migrations",
}


def named() -> set[str]:
    """Return every table that this list knows."""
    return {rule.table for rule in DELETED} | {*KEPT, *OWN, *UNRELATED}
