"""A message in: stored with its place in its ticket before anybody is told, once however often it comes."""

from __future__ import annotations

import logging

from supportpilot.agent.courtesy import ends_with_question, is_bare_thanks
from supportpilot.config import Settings
from supportpilot.db import approvals, audit, commitments, erasures, outbox, quarantine, tickets
from supportpilot.db.inbox import Known
from supportpilot.db.outbox import OutboxEntry
from supportpilot.db.pool import Connection, Database, Row
from supportpilot.db.tickets import TicketRow
from supportpilot.desk import mailbox
from supportpilot.desk.mailbox import AlreadyStored, Filed, WasErased
from supportpilot.desk.takeover import hand_up, take_over
from supportpilot.errors import NotFound, Refused, Unavailable
from supportpilot.service.texts import waiting_ack
from supportpilot.types import InboundMessage, Ports, Received

log = logging.getLogger(__name__)

WAKE_MARGIN_SECONDS = 0.05
ERASED = Received("", "", duplicate=True, erased=True)
UNLIMITED = frozenset({"terminal"})     # a person at the keyboard of this machine, no machine that could go on for ever


def receive(db: Database, settings: Settings, ports: Ports, message: InboundMessage, *, held_by: str = "",
            quarantine_id: str | None = None) -> Received:
    """Store a message and wake a worker; the same message or delivery again changes nothing.

    One that was erased stays erased. `held_by` names the person who has the conversation where the message comes from:
    then the ticket is theirs. `quarantine_id`: the row that it was read from, marked in the same transaction.

    Raises:
        NotFound: that row, or the only ticket that the message may join, was erased meanwhile.
        Unavailable: the database is away; nothing is stored, the sender should try again.
    """
    debounce = settings.debounce(message.channel)
    try:
        with db.transaction() as conn:
            known = mailbox.find_known(conn, message)
            if known is not None:
                return _again(conn, message, known)
            filed = mailbox.file_message(conn, message, idle_minutes=settings.conversation_idle_minutes,
                                         debounce=debounce, is_thanks=_thanks_of(message))
            if quarantine_id is not None:
                accept_held(conn, quarantine_id, filed.message_id)
            if not _goes_to_a_human(conn, settings, filed, message, held_by):
                _acknowledge_while_waiting(conn, filed, message)
            reply_id = outbox.next_unsent(conn, filed.ticket.id)
    except AlreadyStored:
        return _after_race(db, message)
    except WasErased:
        return ERASED
    wait = debounce[0] + WAKE_MARGIN_SECONDS if debounce[0] else 0.0
    ports.schedule_turn(filed.ticket.id, filed.message_id, wait)
    if reply_id:
        ports.schedule_delivery(reply_id)
    log.info("message stored ticket=%s message=%s seq=%d", filed.ticket.id, filed.message_id, filed.seq)
    return Received(filed.ticket.id, filed.message_id, duplicate=False, wait_seconds=wait)


def _thanks_of(message: InboundMessage) -> mailbox.Thanks:
    """Whether a message only acknowledges what the customer was told last, if that asked nothing."""
    def is_thanks(conn: Connection, ticket: TicketRow) -> bool:
        if message.author != "customer" or ticket.status not in {"answered", "resolved"} or not is_bare_thanks(message.body):
            return False
        said = outbox.last_said(conn, ticket.id)
        return bool(said) and not ends_with_question(said)
    return is_thanks


def accept_held(conn: Connection, quarantine_id: str, message_id: str) -> None:
    """Mark a row as filed, under its contact's or ticket's lock: what is erased meanwhile must not come back.

    Raises:
        NotFound: it was.
    """
    if quarantine.get(conn, quarantine_id) is None:
        raise NotFound(f"{quarantine_id} was erased at its sender's request")
    quarantine.accept(conn, quarantine_id, message_id)


def _again(conn: Connection, message: InboundMessage, known: Known) -> Received:
    """Answer as the first time; other content under a known id is kept and reported, never answered."""
    content = mailbox.content_hash(message)
    if known.content_hash != content:
        tickets.lock_contact(conn, message.contact, message.channel)
        if mailbox.find_known(conn, message) is None:   # erased between the two readings
            return ERASED
        quarantine.keep(conn, message.channel, message.contact, message.body.encode(),
                        f"conflict: the id of {known.id} came again with other content",
                        f"conflict:{known.id}:{content}")    # however often it is retried it is one row
        log.warning("conflict: %s came again with other content", known.id)
    return Received(known.ticket_id, known.id, duplicate=True)


def _after_race(db: Database, message: InboundMessage) -> Received:
    with db.transaction() as conn:
        known = mailbox.find_known(conn, message)
        if known is None:
            raise Unavailable("the same message is being stored by another request; send it again")
        return _again(conn, message, known)


def _goes_to_a_human(conn: Connection, settings: Settings, filed: Filed, message: InboundMessage, held_by: str) -> bool:
    """Give the ticket to a human who has the conversation already, or because too much was said lately.

    Two machines that answer each other stop here; nothing is said about it, since that would be one answer more.
    """
    if message.author != "customer" or filed.status == "escalated":
        return False
    if held_by:
        take_over(conn, filed.ticket, filed.status, filed.seq, held_by)
        audit.record(conn, held_by, "ticket.taken_over", ticket_id=filed.ticket.id, subject=filed.message_id)
        return True
    reached = None if message.channel in UNLIMITED else _reached(conn, settings, filed.ticket.id)
    if reached is None:
        return False
    hand_up(conn, filed.ticket.id, filed.status, f"rate limit: {reached}", f"rate:{filed.message_id}")
    audit.record(conn, "desk", "ticket.rate_limited", ticket_id=filed.ticket.id, detail={"limit": reached})
    log.warning("ticket %s goes to a human: rate limit, %s", filed.ticket.id, reached)
    return True


def _reached(conn: Connection, settings: Settings, ticket_id: str) -> str | None:
    for most, seconds in settings.rate_limits():
        counts = dict(zip(("ticket", "contact"), outbox.answers_since(conn, ticket_id, seconds), strict=True))
        over = next((whom for whom, count in counts.items() if count >= most), None)
        if over is not None:
            return f"{counts[over]} answers to this {over} within {seconds / 60:.0f} min"
    return None


def _acknowledge_while_waiting(conn: Connection, filed: Filed, message: InboundMessage) -> None:
    """Tell the customer once that the message is kept until the refund is decided."""
    if filed.status != "waiting_approval" or message.author != "customer" or is_bare_thanks(message.body):
        return
    approval = approvals.pending_of_ticket(conn, filed.ticket.id)
    if approval is not None:
        outbox.put(conn, OutboxEntry(filed.ticket.id, approval.turn_id, f"approval:{approval.id}:ack", "ack",
                                     waiting_ack(message.body)))


def keep_unusable(db: Database, channel: str, sender: str, raw: bytes, reason: str,
                  delivery_id: str | None = None) -> str | None:
    """Keep signed but unusable input raw and return its quarantine id, None if this delivery was erased before.

    Raises:
        Unavailable: the database is away.
    """
    with db.transaction() as conn:
        tickets.lock_contact(conn, sender, channel)
        if erasures.delivery_was_erased(conn, channel, delivery_id):
            return None
        found = quarantine.keep(conn, channel, sender[:200], raw, reason[:500], delivery_id)
    log.warning("quarantined %s channel=%s reason=%s", found, channel, reason)
    return found


def held_row(conn: Connection, quarantine_id: str) -> Row:
    """Return a quarantined row that nothing has become of yet.

    Raises:
        NotFound: no such id.
        Refused: it was accepted before.
    """
    row = quarantine.get(conn, quarantine_id)
    if row is None:
        raise NotFound(f"no quarantined input {quarantine_id}; see `supportpilot quarantine list`")
    if row["state"] == "accepted":
        raise Refused(f"{quarantine_id} became message {row['message_id']} already")
    return row


def file_human_reply(conn: Connection, ticket: TicketRow, message: InboundMessage) -> Filed:
    """Store a human colleague's words on a ticket whose row the caller holds; the handoff notice promised just that."""
    commitments.keep_handed_over(conn, ticket.id, message.contact_name or "colleague")
    return mailbox.file_message(conn, message, idle_minutes=1, debounce=(0.0, 0.0), ticket=ticket)
