"""Mail in: stored raw before anything is asked of it, read in a second transaction, once however it came.

Whatever happens between the two leaves a row that the sweeper hands over again. A mail that cannot be read, or that
may not be written where it wants, waits in quarantine; a machine's mail is a note that makes no turn.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from supportpilot.config import Settings
from supportpilot.db import audit, erasures, inbox, mailboxes, mails, quarantine, tickets
from supportpilot.db.mails import End, Facts, RawMail
from supportpilot.db.pool import Connection, Database, Row
from supportpilot.desk import mailbox
from supportpilot.errors import NotFound, Refused, Unusable
from supportpilot.mail.parse import ParsedMail, Views, body_for_inbox, parse, sniff_sender
from supportpilot.mail.parts import Limits
from supportpilot.mail.threading import Claim, standing
from supportpilot.service import intake
from supportpilot.types import InboundMessage, Ports

CHANNEL = "email"
MAX_ATTEMPTS = 5            # of reading one mail: more mean that it kills whoever reads it
NOTE_CHARS = 4_000
UNVERIFIED = "unverified"


@dataclass(frozen=True)
class Outcome:
    """What became of a mail; `state` as in `desk.mails`, or `erased`."""

    mail_id: str
    state: str
    reason: str = ""
    ticket_id: str | None = None
    message_id: str | None = None
    quarantine_id: str | None = None
    duplicate: bool = False


@dataclass(frozen=True)
class _Desk:
    """What filing one mail needs."""

    db: Database
    settings: Settings
    ports: Ports
    mail_id: str
    raw: bytes
    digest: str


def store(db: Database, mail: RawMail) -> str:
    """Keep a mail raw and return its id; from here on it cannot be lost.

    Raises:
        Unavailable: the database is away; nothing is stored.
    """
    with db.transaction() as conn:
        return store_in(conn, mail)


def store_in(conn: Connection, mail: RawMail) -> str:
    """Keep a mail raw in the caller's transaction."""
    return mails.store(conn, RawMail(mail.door, mail.raw, mail.mailbox, mail.size, mail.envelope_from,
                                     mail.envelope_to, sniff_sender(mail.raw)))


def file(db: Database, settings: Settings, ports: Ports, mail_id: str) -> Outcome:
    """Read a stored mail and put it where it belongs; one that is done stays as it is.

    Raises:
        NotFound: no such mail.
        Unavailable: the database is away; the sweeper tries again.
    """
    with db.transaction() as conn:
        row = mails.begin(conn, mail_id)
    if row is None:
        raise NotFound(f"no mail {mail_id}")
    if row["state"] != "stored":
        return _done(row)
    desk = _Desk(db, settings, ports, mail_id, bytes(row["raw"] or b""), row["digest"])
    problem = _problem(row)
    if problem is not None:
        return _quarantine(desk, row["sender"], problem)
    try:
        mail = parse(desk.raw, views(settings, row))
        body = body_for_inbox(mail, settings.max_message_chars) if mail.bounce is None else ""
    except Unusable as error:
        return _quarantine(desk, row["sender"], str(error))
    return _file(desk, mail, body)


def _problem(row: Row) -> str | None:
    if row["size"] > len(row["raw"] or b""):
        return f"the mail has {row['size']} bytes: only its head was taken"
    if row["attempts"] > MAX_ATTEMPTS:
        return f"reading it was begun {MAX_ATTEMPTS} times and never finished"
    return None


def views(settings: Settings, row: Row | None = None) -> Views:
    """Return who we are, for the parser."""
    return Views(
        addresses=settings.own_addresses, secret=settings.mail_secret,
        authserv_id=settings.mail_authserv_id, trust_senders=settings.mail_trust_senders,
        limits=Limits(settings.mail_max_attachments, settings.mail_max_attachment_bytes),
        envelope_to=row["envelope_to"] if row else "", envelope_from=row["envelope_from"] if row else None)


def _done(row: Row) -> Outcome:
    return Outcome(row["id"], row["state"], row["reason"], row["ticket_id"], row["inbox_id"], row["quarantine_id"],
                   duplicate=True)


def _quarantine(desk: _Desk, sender: str, reason: str, mail: ParsedMail | None = None) -> Outcome:
    """Keep the mail where an operator sees it and can try again; the same mail by another door is the same row."""
    kept = intake.keep_unusable(desk.db, CHANNEL, sender, desk.raw, reason, delivery_id=f"{CHANNEL}:{desk.digest}")
    if not kept:
        return _forget(desk)
    with desk.db.transaction() as conn:
        if mail is not None:
            mails.note_facts(conn, desk.mail_id, _facts(mail))
        _finish(conn, desk.mail_id, End("quarantined", reason, quarantine_id=kept))
    return Outcome(desk.mail_id, "quarantined", reason, quarantine_id=kept)


def _forget(desk: _Desk) -> Outcome:
    """It was erased before: a mailbox that is read again brings nothing back."""
    with desk.db.transaction() as conn:
        mails.forget(conn, desk.mail_id)
    return _gone(desk)


def _gone(desk: _Desk) -> Outcome:
    return Outcome(desk.mail_id, "erased", "erased at its sender's request", duplicate=True)


def _file(desk: _Desk, mail: ParsedMail, body: str) -> Outcome:
    with desk.db.transaction() as conn:
        if erasures.mail_was_erased(conn, mail.external_id, desk.digest):
            mails.forget(conn, desk.mail_id)
            return _gone(desk)
        first = _first_copy(conn, desk, mail)
        if first is not None and first["content_hash"] == _content(mail):
            return _repeat(conn, desk, mail, first)
        own = mail.own or (mail.message_id is not None and mails.was_sent_by_us(conn, mail.message_id))
    if first is not None:
        return _conflict(desk, mail, first)
    if own:
        return _end(desk, mail, End("ignored", "our own mail"))
    if mail.bounce is not None:
        return _bounce(desk, mail)
    if mail.automatic is not None:
        return _automatic(desk, mail, body)
    return _letter(desk, mail, body)


def _first_copy(conn: Connection, desk: _Desk, mail: ParsedMail) -> Row | None:
    mails.lock_id(conn, mail.external_id)
    return mails.first_copy(conn, desk.mail_id, mail.external_id)


def _repeat(conn: Connection, desk: _Desk, mail: ParsedMail, first: Row) -> Outcome:
    """The same mail by another door (its head differs there): the first answer again."""
    mails.note_facts(conn, desk.mail_id, _facts(mail))
    _finish(conn, desk.mail_id, End("duplicate", f"the same as {first['id']}", first["ticket_id"], first["inbox_id"],
                                         first["quarantine_id"]))
    return Outcome(desk.mail_id, first["state"], first["reason"], first["ticket_id"], first["inbox_id"],
                   first["quarantine_id"], duplicate=True)


def _conflict(desk: _Desk, mail: ParsedMail, first: Row) -> Outcome:
    return _quarantine(desk, mail.sender, f"conflict: the Message-ID of {first['id']} came again with other content")


def _letter(desk: _Desk, mail: ParsedMail, body: str) -> Outcome:
    """A person's mail: to the ticket that it answers, if its sender may; else to the contact's own, or a new one."""
    with desk.db.connection() as conn:
        ticket = _threads_to(conn, mail)
        may = "append" if ticket is None else standing(_claim(conn, ticket, mail))
    if ticket is not None and may == "participant":
        return _note(desk, mail, ticket.id, body, f"{UNVERIFIED}: {mail.sender}")
    if ticket is not None and may == "refuse":
        return _quarantine(desk, mail.sender, f"{mail.sender} may not write into {ticket.id}: " + (
            "neither its customer nor named by them" if mail.verified else "nobody vouches for the address"), mail)
    hint = mail.keys.subject_ticket if ticket is None and mail.verified else None
    message = _message(mail, body, joins=ticket.id if ticket else None, hint=hint)
    got = intake.receive(desk.db, desk.settings, desk.ports, message)
    if not got.ticket_id:
        return _forget(desk)
    return _end(desk, mail, End("filed", "" if mail.verified else UNVERIFIED, got.ticket_id, got.message_id),
                duplicate=got.duplicate)


def _threads_to(conn: Connection, mail: ParsedMail) -> tickets.TicketRow | None:
    """Return the ticket that a mail answers, the strongest key first."""
    for ticket_id in (mail.keys.token_ticket, mails.ticket_of_ids(conn, mail.references), mail.keys.body_ticket):
        found = tickets.get(conn, ticket_id) if ticket_id else None
        if found is not None:
            return found
    return None


def _claim(conn: Connection, ticket: tickets.TicketRow, mail: ParsedMail) -> Claim:
    return Claim(verified=mail.verified, is_contact=mail.sender == ticket.contact,
                 is_listed=mails.is_listed(conn, ticket.id, ticket.contact, mail.sender),
                 ticket_verified=ticket.verified, has_token=ticket.id in (mail.keys.token_ticket, mail.keys.body_ticket))


def _message(mail: ParsedMail, body: str, *, joins: str | None = None, hint: str | None = None) -> InboundMessage:
    return InboundMessage(channel=CHANNEL, external_id=mail.external_id, contact=mail.sender, body=body,
                          subject=mail.subject, contact_name=mail.sender_name, ticket_id=hint, sent_at=mail.sent_at,
                          joins=joins, verified=mail.verified)


def _automatic(desk: _Desk, mail: ParsedMail, body: str) -> Outcome:
    with desk.db.connection() as conn:
        ticket = _threads_to(conn, mail)
    reason = f"automatic: {mail.automatic}"
    if ticket is None:
        return _end(desk, mail, End("ignored", reason))
    return _note(desk, mail, ticket.id, body, f"automatic: {mail.sender}", reason)


def _bounce(desk: _Desk, mail: ParsedMail) -> Outcome:
    """A mail came back. Only an address that we did write to under that id is suppressed: bounces can be forged."""
    bounce = mail.bounce
    assert bounce is not None  # noqa: S101 -- the caller asked
    with desk.db.transaction() as conn:
        ticket_id = mails.ticket_of_ids(conn, bounce.originals, sent_only=True)
        ours = mails.sent_to(conn, bounce.originals)
        for address in (a for a in bounce.hard if a in ours):
            mailboxes.suppress(conn, address, f"bounced: {bounce.status}", desk.mail_id)
    reason = f"bounce {bounce.status}".strip()
    if ticket_id is None:
        return _end(desk, mail, End("ignored", reason))
    said = f"could not be delivered to {', '.join(bounce.failed) or 'the recipient'} {f'({bounce.status})' if bounce.status else ''}"
    return _note(desk, mail, ticket_id, f"📭 {said.strip()}", "mail system", reason)


def _note(desk: _Desk, mail: ParsedMail, ticket_id: str, body: str, author: str, reason: str = "") -> Outcome:
    """Append to the ticket what makes no turn, opens nothing and is answered by nobody."""
    message = InboundMessage(channel=CHANNEL, external_id=mail.external_id, contact=mail.sender or "-",
                             body=body[:NOTE_CHARS], contact_name=author[:200], sent_at=mail.sent_at, author="automatic")
    with desk.db.transaction() as conn:
        tickets.lock_contact(conn, mail.sender, CHANNEL)
        if not mails.exists(conn, desk.mail_id):
            return _gone(desk)
        ticket = tickets.lock(conn, ticket_id)
        note_id = ticket and inbox.insert_note(conn, ticket_id, ticket.last_seq + 1, message, mailbox.content_hash(message))
        if ticket and note_id:
            tickets.take_note(conn, ticket_id, ticket.last_seq + 1)
            audit.record(conn, "mail", "mail.note", ticket_id=ticket_id, subject=note_id)
        note_id = note_id or inbox.id_of(conn, CHANNEL, mail.external_id)
    if ticket is None:
        return _end(desk, mail, End("ignored", reason or author))
    return _end(desk, mail, End("note", reason or author, ticket_id, note_id))


def _end(desk: _Desk, mail: ParsedMail, end: End, *, duplicate: bool = False) -> Outcome:
    """Write down what the mail was and what became of it, with its files."""
    with desk.db.transaction() as conn:
        first = _first_copy(conn, desk, mail)
        if first is not None:      # the other door was faster
            return _repeat(conn, desk, mail, first)
        tickets.lock_contact(conn, mail.sender, CHANNEL)
        if not mails.exists(conn, desk.mail_id):
            return _gone(desk)
        mails.note_facts(conn, desk.mail_id, _facts(mail))
        if end.state in {"filed", "note"}:
            mailboxes.put_files(conn, desk.mail_id, end.ticket_id, mail.attachments)
        _finish(conn, desk.mail_id, end)
    return Outcome(desk.mail_id, end.state, end.reason, end.ticket_id, end.inbox_id, duplicate=duplicate)


def _finish(conn: Connection, mail_id: str, end: End) -> None:
    """Close the mail, and the quarantine row that it was read from again: in one transaction, whoever does it."""
    held = mails.finish(conn, mail_id, end)
    if held is not None and end.state != "quarantined":
        quarantine.accept(conn, held, end.inbox_id or mail_id)


def _facts(mail: ParsedMail) -> Facts:
    return Facts(
        external_id=mail.external_id, content_hash=_content(mail), message_id=mail.message_id, references=mail.references,
        subject=mail.subject, sender=mail.sender, recipients=mail.recipients, verified=mail.verified,
        full_text=mail.text.full, visible=mail.text.visible, quoted=mail.text.quoted, sent_at=mail.sent_at)


def _content(mail: ParsedMail) -> str:
    """Return what makes two copies the same; doors and lists change the head and white space, not the words."""
    return hashlib.sha256(" ".join(f"{mail.subject}\n{mail.text.full}".split()).encode()).hexdigest()


def retry(db: Database, settings: Settings, ports: Ports, quarantine_id: str) -> Outcome:
    """Read a quarantined mail again (after a fix or another setting) and return what became of it.

    Raises:
        NotFound: no such row, or it was erased.
        Refused: it was accepted before, or is still unusable.
    """
    with db.transaction() as conn:
        row = intake.held_row(conn, quarantine_id)
        mail_id = mails.reopen(conn, quarantine_id, bytes(row["raw"]))
        if mail_id is None:
            raise Refused(f"{quarantine_id} cannot be read again: {row['reason']}")
    got = file(db, settings, ports, mail_id)
    if got.state == "quarantined":
        raise Refused(f"{quarantine_id} is still unusable: {got.reason}")
    return got


def channel_of_quarantined(db: Database, quarantine_id: str) -> str | None:
    """Return the channel of a quarantined row, None if there is none."""
    with db.transaction() as conn:
        row = quarantine.get(conn, quarantine_id)
    return None if row is None else str(row["channel"])
