"""Which ticket a message joins, and its place in it.

Without the contact's lock two messages 200 ms apart would open two tickets; without the roll-back of `seq` each retried webhook would make an approval stale.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from supportpilot.db import erasures, inbox, leases, tickets
from supportpilot.db.inbox import Known
from supportpilot.db.pool import Connection
from supportpilot.db.tickets import TicketRow
from supportpilot.desk import rules
from supportpilot.types import InboundMessage

Thanks: TypeAlias = Callable[[Connection, TicketRow], bool]    # asked under the ticket's lock


class AlreadyStored(Exception):
    """The message was stored before (by a racing delivery); the transaction must roll back."""


class WasErased(Exception):
    """The message was stored before and erased since; the transaction must roll back."""


@dataclass(frozen=True)
class Filed:
    """Where a new message went."""

    ticket: TicketRow
    message_id: str
    seq: int
    status: str


def content_hash(message: InboundMessage) -> str:
    """Return a hash of what makes two deliveries the same message."""
    text = "\n".join((message.contact, message.subject, message.body))
    return hashlib.sha256(text.encode()).hexdigest()


def find_known(conn: Connection, message: InboundMessage) -> Known | None:
    """Return the stored message if this one, or this delivery, came before."""
    return inbox.find_known(conn, message)


def file_message(conn: Connection, message: InboundMessage, *, idle_minutes: float, debounce: tuple[float, float],
                 ticket: TicketRow | None = None, is_thanks: Thanks = lambda _conn, _ticket: False) -> Filed:
    """Store a new message on the ticket that it joins (or on `ticket`, if the caller holds its lock).

    One that `is_thanks` opens no ticket again.

    Raises:
        AlreadyStored: a racing delivery was first.
        NotFound: it may join only its ticket, and that was erased meanwhile.
        WasErased: it came before, and was erased.
    """
    quiet, longest = debounce
    if ticket is None:
        tickets.lock_contact(conn, message.contact, message.channel)
        if find_known(conn, message) is not None:
            raise AlreadyStored
        if erasures.was_erased(conn, message):
            raise WasErased
        ticket = _locked(conn, choose_ticket(conn, message, idle_minutes))
    seq = ticket.last_seq + 1
    message_id = inbox.insert(conn, ticket.id, seq, message, content_hash(message), quiet)
    if message_id is None:
        raise AlreadyStored
    inbox.restart_quiet_window(conn, ticket.id, quiet, longest)
    status = rules.ticket_after(ticket.status, "thanks" if is_thanks(conn, ticket) else "message")
    if ticket.status == "resolved" and status == "open":
        inbox.note_reopening(conn, message_id)
    tickets.take_message(conn, ticket.id, seq, status)
    return Filed(ticket, message_id, seq, status)


def _locked(conn: Connection, ticket: TicketRow) -> TicketRow:
    return tickets.lock(conn, ticket.id) or ticket


def choose_ticket(conn: Connection, message: InboundMessage, idle_minutes: float) -> TicketRow:
    """Return the ticket that a message joins: the first rule of `ingest.md` section 3 that fits.

    A ticket or conversation is joined only by its own contact; anybody else gets a new, linked ticket.

    Raises:
        NotFound: the message may join only its ticket, and that was erased meanwhile.
    """
    joined = tickets.get(conn, message.joins) if message.joins else None
    if joined is not None:
        return joined
    if message.ticket_id:
        named = tickets.get(conn, message.ticket_id)
        if named is not None and named.contact == message.contact:
            return named
        if message.ticket_only:
            raise erasures.absent(conn, message.ticket_id)
        return _open(conn, message, linked_to=message.ticket_id[:64])
    if message.conversation_id:
        found = tickets.of_conversation(conn, message.channel, message.conversation_id, message.contact)
        if found is None:
            return _open(conn, message)
        if found.contact == message.contact:
            return found
        return _open(conn, message, linked_to=found.id)
    current = tickets.current_of_contact(conn, message, idle_minutes)
    return current or _open(conn, message)


def _open(conn: Connection, message: InboundMessage, linked_to: str | None = None) -> TicketRow:
    ticket = tickets.create(conn, message, linked_to=linked_to)
    leases.create(conn, ticket.id)
    return ticket
