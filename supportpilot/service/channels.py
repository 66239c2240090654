"""What a helpdesk tells us: a customer's words, a colleague's, a conversation that changes hands, or nothing for us."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from supportpilot.channels.port import OWN, Event, Heard, Ignored, Moved
from supportpilot.channels.wording import is_echo
from supportpilot.config import Settings
from supportpilot.db import audit, channels, erasures, inbox, outbox, tickets
from supportpilot.db.pool import Connection, Database, Row
from supportpilot.db.tickets import TicketRow
from supportpilot.desk.mailbox import AlreadyStored
from supportpilot.desk.takeover import assign, take_over
from supportpilot.errors import Refused
from supportpilot.service import intake
from supportpilot.service import ticket as tickets_service
from supportpilot.types import InboundMessage, Ports, Received

log = logging.getLogger(__name__)

NO_TICKET = "conversation without a ticket"


@dataclass(frozen=True)
class Done:
    """A conversation's change, carried over to its ticket."""

    ticket_id: str
    kind: str


def take(db: Database, settings: Settings, ports: Ports, channel: str, event: Event, *,
         quarantine_id: str | None = None) -> Received | Done | Ignored:
    """Act on an event; what is ignored is counted. `quarantine_id`: the row that it was read from, marked with it.

    Raises:
        NotFound: that row was erased meanwhile.
        Unavailable: the database is away; nothing is stored, the sender should try again.
    """
    taken = _take(db, settings, ports, event, quarantine_id)
    if isinstance(taken, Ignored):
        with db.transaction() as conn:
            channels.count(conn, channel, "ignored", taken.reason)
        log.info("webhook %s ignored: %s", channel, taken.reason)
    return taken


def _take(db: Database, settings: Settings, ports: Ports, event: Event, quarantine_id: str | None) -> Received | Done | Ignored:
    if isinstance(event, Ignored):
        return event
    if isinstance(event, Moved):
        return _move(db, ports, event)
    if event.message.author == "human":
        return _keep_human_words(db, event.message, quarantine_id)
    return _hear_customer(db, settings, ports, event, quarantine_id)


def _hear_customer(db: Database, settings: Settings, ports: Ports, event: Heard, quarantine_id: str | None) -> Received | Ignored:
    with db.connection() as conn:
        if _is_ours(conn, event.message):
            return Ignored(OWN)
    return intake.receive(db, settings, ports, event.message, held_by=event.held_by, quarantine_id=quarantine_id)


def _is_ours(conn: Connection, message: InboundMessage) -> bool:
    """Say whether a helpdesk sends us what we sent it: under the id that it gave our reply, or in the same words."""
    if not message.conversation_id:
        return False
    said = outbox.sent_in_conversation(conn, message.channel, message.conversation_id)
    return any(row["provider_id"] == message.external_id for row in said) or is_echo(
        (row["body"] for row in said), message.body)


def _keep_human_words(db: Database, message: InboundMessage, quarantine_id: str | None) -> Received | Ignored:
    """Keep what a colleague wrote at the helpdesk as theirs: the ticket is theirs from then on, nothing is answered."""
    try:
        with db.transaction() as conn:
            known = inbox.find_known(conn, message)
            if known is not None:
                return Received(known.ticket_id, known.id, duplicate=True)
            if erasures.was_erased(conn, message):
                return intake.ERASED
            ticket = _locked_ticket(conn, message.channel, message.conversation_id or "")
            if ticket is None:
                return Ignored(NO_TICKET)
            if _is_ours(conn, message):
                return Ignored(OWN)
            filed = intake.file_human_reply(conn, ticket, replace(message, contact=ticket.contact))
            if quarantine_id is not None:
                intake.accept_held(conn, quarantine_id, filed.message_id)
            take_over(conn, ticket, filed.status, filed.seq, message.contact_name)
            audit.record(conn, message.contact_name, "ticket.reply", ticket_id=ticket.id, subject=filed.message_id,
                         detail={"seen_at": message.channel})
    except AlreadyStored:
        return Ignored("stored at this moment by another delivery")
    return Received(ticket.id, filed.message_id, duplicate=False)


def _locked_ticket(conn: Connection, channel: str, conversation_id: str) -> TicketRow | None:
    found = tickets.of_conversation(conn, channel, conversation_id, "")
    return None if found is None else tickets.lock(conn, found.id)


def _move(db: Database, ports: Ports, moved: Moved) -> Done | Ignored:
    with db.transaction() as conn:
        ticket = _locked_ticket(conn, moved.channel, moved.conversation_id)
        if ticket is None:
            return Ignored(NO_TICKET)
        if moved.kind in {"taken over", "opened"}:
            if ticket.status == "resolved":
                return Ignored("assigned after it was resolved")
            if moved.kind == "opened" and ticket.status == "escalated":
                return Ignored("opened after it was handed over")
            if ticket.status == "escalated" and ticket.taken_over_seq:
                return Ignored("a human has it already")
            assign(conn, ticket, moved.by)
            audit.record(conn, moved.by, "ticket.taken_over", ticket_id=ticket.id, detail={"seen_at": moved.channel})
            return Done(ticket.id, "taken over")
    try:
        if moved.kind == "given back":
            tickets_service.release(db, ports, ticket.id, moved.by)
        else:
            tickets_service.resolve(db, ports, ticket.id, moved.by)
    except Refused as error:
        log.info("ticket %s %s at %s: %s", ticket.id, moved.kind, moved.channel, error)
        return Ignored(f"{moved.kind}, but not possible now")
    return Done(ticket.id, moved.kind)


def note_refused(db: Database, channel: str, n: int) -> None:
    """Count requests whose signature did not fit.

    Raises:
        Unavailable: the database is away.
    """
    with db.transaction() as conn:
        channels.count(conn, channel, "refused", "signature", n)


def overview(db: Database, days: int = 7) -> dict[str, list[Row]]:
    """Return what each channel stored and turned away lately, and how far helpdesks were asked."""
    with db.connection() as conn:
        return {"counts": channels.stored(conn, days) + channels.counts(conn, days), "asked": channels.cursors(conn)}
