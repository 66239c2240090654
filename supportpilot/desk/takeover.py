"""A human has the ticket: from this `seq` on the agent stays silent, whoever noticed it."""

from __future__ import annotations

from supportpilot.db import notifications, tickets
from supportpilot.db.pool import Connection
from supportpilot.db.tickets import TicketRow
from supportpilot.desk import rules


def take_over(conn: Connection, ticket: TicketRow, status: str, seq: int, by: str) -> None:
    """Make the locked ticket a human's; `status` is what it has become since the row was read."""
    tickets.set_status(conn, ticket.id, rules.ticket_after(status, "escalate"))
    tickets.take_over(conn, ticket.id, seq)
    if ticket.handoff_reason is None:
        tickets.set_handoff_reason(conn, ticket.id, f"{by} took the ticket over")


def assign(conn: Connection, ticket: TicketRow, by: str) -> None:
    """Take the locked ticket over without a word; that uses up a `seq`, so that a turn made before it is known as such."""
    seq = ticket.last_seq + 1
    tickets.take_message(conn, ticket.id, seq, ticket.status)
    take_over(conn, ticket, ticket.status, seq, by)


def hand_up(conn: Connection, ticket_id: str, status: str, reason: str, cause: str) -> None:
    """Give a locked ticket to the humans without one having asked for it; `cause` names the event."""
    tickets.set_status(conn, ticket_id, rules.ticket_after(status, "escalate"))
    tickets.set_handoff_reason(conn, ticket_id, reason)
    notifications.put_handoff(conn, ticket_id, cause)
