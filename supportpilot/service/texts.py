"""The few fixed sentences that the service itself sends, in the customer's language."""

from __future__ import annotations

from typing import Any

from supportpilot.agent.context import reply_language
from supportpilot.db import inbox, tickets
from supportpilot.db.pool import Connection
from supportpilot.prompts.loader import prompt


def customer_language(conn: Connection, ticket_id: str) -> str:
    """Return the language (`zh` or `en`) of the customer's last message, else of the ticket."""
    pending = [m.body for m in inbox.pending(conn, ticket_id) if m.author == "customer"]
    ticket = tickets.get(conn, ticket_id)
    return reply_language(pending[-1] if pending else (ticket.body if ticket else ""))


def handoff_notice(conn: Connection, ticket_id: str) -> str:
    """Return what a customer is told when a human takes the ticket over."""
    return prompt("handoff", customer_language(conn, ticket_id), ticket_id=ticket_id)


def approval_notice(conn: Connection, ticket_id: str, request: dict[str, Any]) -> str:
    """Return what a customer is told while a colleague checks the refund that `request` asks for."""
    values = {name: str(request.get(name, "")) for name in ("invoice_number", "amount", "currency")}
    return prompt("refund_pending_notice", customer_language(conn, ticket_id), **values)


def waiting_ack(text: str) -> str:
    """Return the acknowledgement of a message that came while a refund waits."""
    return prompt("waiting_ack", reply_language(text))
