"""Dead letters and what was not understood: an operator can see all of it and try each again."""

from __future__ import annotations

from collections.abc import Callable

from supportpilot.channels.port import Event, Heard, Ignored
from supportpilot.config import Settings
from supportpilot.db import audit, inbox, outbox, quarantine, tickets
from supportpilot.db.pool import Database, Row
from supportpilot.desk import rules
from supportpilot.errors import NotFound, Refused, Unusable
from supportpilot.service import channels, intake
from supportpilot.types import Ports, Received


def list_inbox(db: Database, *, dead: bool = False) -> list[Row]:
    """Return messages, newest first; `dead`: only those whose turn was given up."""
    with db.connection() as conn:
        return inbox.rows(conn, dead=dead)


def list_outbox(db: Database, *, dead: bool = False) -> list[Row]:
    """Return replies, newest first; `dead`: only those that failed for good."""
    with db.connection() as conn:
        return outbox.rows(conn, dead=dead)


def list_quarantine(db: Database) -> list[Row]:
    """Return signed but unusable input, newest first."""
    with db.connection() as conn:
        return quarantine.rows(conn)


def retry_inbox(db: Database, ports: Ports, message_id: str, by: str = "operator") -> str:
    """Give a dead message to the agent again (its ticket with it) and return the ticket's id.

    Raises:
        NotFound: no such message.
        Refused: the message is not dead.
    """
    with db.transaction() as conn:
        row = inbox.get(conn, message_id)
        if row is None:
            raise NotFound(f"no message {message_id}; see `supportpilot inbox list`")
        ticket = tickets.lock(conn, row["ticket_id"])
        if ticket is None or row["state"] != "dead":
            raise Refused(f"{message_id} is {row['state']}, not dead; nothing to retry")
        inbox.revive(conn, ticket.id, message_id)
        if ticket.status == "escalated":
            tickets.set_status(conn, ticket.id, rules.ticket_after("escalated", "release"))
        audit.record(conn, by, "inbox.retry", ticket_id=ticket.id, subject=message_id)
    ports.schedule_turn(ticket.id, message_id, 0.0)
    return ticket.id


def retry_outbox(db: Database, ports: Ports, reply_id: str, by: str = "operator") -> str:
    """Send a failed or withheld row again with new attempts and return the ticket's id.

    Raises:
        NotFound: no such row.
        Refused: the row has not failed.
    """
    with db.transaction() as conn:
        ticket_id = outbox.ticket_of(conn, reply_id)
        if ticket_id is None:
            raise NotFound(f"no reply {reply_id}; see `supportpilot outbox list`")
        tickets.lock(conn, ticket_id)
        row = outbox.lock(conn, reply_id)
        if row is None or rules.outbox_after(row.status, "requeue") is None:
            raise Refused(f"{reply_id} is {row.status if row else 'gone'}; only failed or withheld replies are retried")
        outbox.requeue(conn, reply_id)
        audit.record(conn, by, "outbox.retry", ticket_id=ticket_id, subject=reply_id)
    ports.schedule_delivery(reply_id)
    return ticket_id


def retry_quarantine(db: Database, settings: Settings, ports: Ports, quarantine_id: str,
                     parse: Callable[[str, bytes], Event]) -> Received:
    """Try again to make a message of quarantined input; `parse` gets the channel's name and the raw bytes.

    It is treated as if it came now: a colleague's words are a colleague's, who has the conversation keeps it.

    Raises:
        NotFound: no such id, or it was erased.
        Refused: it was accepted before, is still unusable, or is no message.
    """
    with db.transaction() as conn:
        row = intake.held_row(conn, quarantine_id)
    channel = str(row["channel"])
    try:
        event = parse(channel, bytes(row["raw"]))
    except Unusable as error:
        raise Refused(f"{quarantine_id} is still unusable: {error}") from None
    if not isinstance(event, Heard):
        why = event.reason if isinstance(event, Ignored) else f"the conversation was {event.kind} then"
        raise Refused(f"{quarantine_id} is no message: {why}")
    got = channels.take(db, settings, ports, channel, event, quarantine_id=quarantine_id)
    if not isinstance(got, Received):
        raise Refused(f"{quarantine_id} is no message: {got.reason if isinstance(got, Ignored) else got.kind}")
    if got.erased:
        raise Refused(f"the message of {quarantine_id} was erased at its sender's request")
    if got.duplicate:
        with db.transaction() as conn:
            quarantine.accept(conn, quarantine_id, got.message_id)
    return got
