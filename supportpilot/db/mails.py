"""`desk.mails`: every mail in (raw, then what it became) and out (its Message-ID, so that answers find the ticket)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from supportpilot.db.pool import Connection, Row


@dataclass(frozen=True)
class RawMail:
    """A mail as a door took it; `size` is larger than the bytes if only its head was taken."""

    door: str
    raw: bytes
    mailbox: str = ""
    size: int | None = None
    envelope_from: str | None = None
    envelope_to: str = ""
    sender: str = ""


@dataclass(frozen=True)
class Facts:
    """What the parser found in a mail; the columns of the same names."""

    external_id: str
    content_hash: str
    message_id: str | None
    references: tuple[str, ...]
    subject: str
    sender: str
    recipients: tuple[str, ...]
    verified: bool
    full_text: str
    visible: str
    quoted: str
    sent_at: datetime | None


@dataclass(frozen=True)
class End:
    """What became of a mail."""

    state: str
    reason: str = ""
    ticket_id: str | None = None
    inbox_id: str | None = None
    quarantine_id: str | None = None


@dataclass(frozen=True)
class SentMail:
    """A mail of ours, as the delivery side reports it."""

    outbox_id: str
    ticket_id: str
    message_id: str
    sender: str
    recipients: tuple[str, ...]
    subject: str
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class Thread:
    """What an answer to a ticket's last mail has to say; `references` are oldest first, as the field wants them."""

    references: tuple[str, ...]
    subject: str
    sender: str
    recipients: tuple[str, ...] = ()


def digest_of(raw: bytes) -> str:
    """Return a hash that does not depend on how a door ends lines."""
    return hashlib.sha256(raw.replace(b"\r\n", b"\n").rstrip(b"\n")).hexdigest()


def store(conn: Connection, mail: RawMail) -> str:
    """Keep a raw mail and return its id; the same bytes again return the first id."""
    row = conn.execute(
        """
        INSERT INTO desk.mails (direction, mailbox, door, digest, raw, size, envelope_from, envelope_to, sender)
        VALUES ('in', %s, %s, %s, %s, %s, %s, %s, %s)
        ON CONFLICT (digest) DO UPDATE SET digest = EXCLUDED.digest
        RETURNING id
        """, (mail.mailbox, mail.door, digest_of(mail.raw), mail.raw, mail.size or len(mail.raw),
              mail.envelope_from, mail.envelope_to, mail.sender)).fetchone()
    assert row is not None  # noqa: S101 -- an upsert returns its row
    return str(row["id"])


def get(conn: Connection, mail_id: str) -> Row | None:
    """Return a mail's row."""
    return conn.execute("SELECT * FROM desk.mails WHERE id = %s", (mail_id,)).fetchone()


def exists(conn: Connection, mail_id: str) -> bool:
    """Say whether a mail is still there; asked under its sender's lock, so that an erasure has come before or comes after."""
    return conn.execute("SELECT 1 FROM desk.mails WHERE id = %s", (mail_id,)).fetchone() is not None


def begin(conn: Connection, mail_id: str) -> Row | None:
    """Count an attempt at a stored mail and return its row; None if there is no such mail."""
    conn.execute("UPDATE desk.mails SET attempts = attempts + 1 WHERE id = %s AND state = 'stored'", (mail_id,))
    return get(conn, mail_id)


def lock_id(conn: Connection, external_id: str) -> None:
    """Keep two copies of one mail apart until the transaction ends."""
    conn.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))", (external_id,))


def first_copy(conn: Connection, mail_id: str, external_id: str) -> Row | None:
    """Return the row of the same mail that was finished before, if there is one."""
    return conn.execute(
        """
        SELECT id, state, reason, ticket_id, inbox_id, quarantine_id, content_hash FROM desk.mails
        WHERE external_id = %s AND id <> %s AND state IN ('filed', 'note', 'ignored', 'quarantined')
        ORDER BY done_at LIMIT 1
        """, (external_id, mail_id)).fetchone()


def note_facts(conn: Connection, mail_id: str, facts: Facts) -> None:
    """Write down what the parser found."""
    conn.execute(
        """
        UPDATE desk.mails
        SET external_id = %s, content_hash = %s, message_id = %s, "references" = %s, subject = %s,
            sender = %s, recipients = %s, verified = %s, full_text = %s, visible = %s, quoted = %s, sent_at = %s
        WHERE id = %s
        """, (facts.external_id, facts.content_hash, facts.message_id, list(facts.references), facts.subject, facts.sender, list(facts.recipients), facts.verified,
              facts.full_text, facts.visible, facts.quoted, facts.sent_at, mail_id))


def finish(conn: Connection, mail_id: str, end: End) -> str | None:
    """Close a stored mail and return the quarantine row that it was read from again, if there is one.

    The raw bytes of one that is in quarantine, or a repetition, are kept there.
    """
    row = conn.execute(
        """
        WITH before AS (SELECT id, quarantine_id FROM desk.mails WHERE id = %(id)s AND state = 'stored' FOR UPDATE)
        UPDATE desk.mails m
        SET state = %(state)s, reason = %(reason)s, ticket_id = %(ticket)s, inbox_id = %(inbox)s,
            quarantine_id = %(quarantine)s, done_at = clock_timestamp(),
            raw = CASE WHEN %(state)s IN ('quarantined', 'duplicate') THEN NULL ELSE raw END
        FROM before WHERE m.id = before.id
        RETURNING before.quarantine_id AS held
        """, {"state": end.state, "reason": end.reason[:500], "ticket": end.ticket_id, "inbox": end.inbox_id,
              "quarantine": end.quarantine_id, "id": mail_id}).fetchone()
    return None if row is None or row["held"] is None else str(row["held"])


def reopen(conn: Connection, quarantine_id: str, raw: bytes) -> str | None:
    """Give a quarantined mail its bytes back, to be read again, and return its id; None if it is gone."""
    row = conn.execute("UPDATE desk.mails SET state = 'stored', attempts = 0, reason = '', raw = %s "
                       "WHERE quarantine_id = %s AND state = 'quarantined' RETURNING id", (raw, quarantine_id)).fetchone()
    return None if row is None else str(row["id"])


def forget(conn: Connection, mail_id: str) -> None:
    """Delete a mail whose message was erased before."""
    conn.execute("DELETE FROM desk.mails WHERE id = %s", (mail_id,))


def ticket_of_ids(conn: Connection, message_ids: Sequence[str], *, sent_only: bool = False) -> str | None:
    """Return the ticket of the first of these ids that we sent or filed."""
    row = conn.execute(
        """
        SELECT m.ticket_id FROM unnest(%s::text[]) WITH ORDINALITY AS given(id, place)
        JOIN desk.mails m ON m.message_id = given.id
        WHERE m.ticket_id IS NOT NULL AND (m.state = 'sent' OR (m.state = 'filed' AND NOT %s))
        ORDER BY given.place, m.state = 'sent' DESC, m.received_at LIMIT 1
        """, (list(message_ids), sent_only)).fetchone()
    return None if row is None else str(row["ticket_id"])


def was_sent_by_us(conn: Connection, message_id: str) -> bool:
    """Say whether a Message-ID is one of ours."""
    return conn.execute("SELECT 1 FROM desk.mails WHERE message_id = %s AND direction = 'out'",
                        (message_id,)).fetchone() is not None


def sent_to(conn: Connection, message_ids: Sequence[str]) -> set[str]:
    """Return whom we sent the mails with these ids to."""
    found = conn.execute("SELECT DISTINCT unnest(recipients) AS address FROM desk.mails "
                         "WHERE direction = 'out' AND message_id = ANY(%s)", (list(message_ids),)).fetchall()
    return {str(row["address"]) for row in found}


def is_listed(conn: Connection, ticket_id: str, contact: str, address: str) -> bool:
    """Say whether the ticket's own, verified customer named an address in To or Cc."""
    return conn.execute(
        "SELECT 1 FROM desk.mails WHERE ticket_id = %s AND state = 'filed' AND sender = %s AND verified "
        "AND %s = ANY(recipients) LIMIT 1", (ticket_id, contact, address)).fetchone() is not None


def wake_due(conn: Connection, grace_seconds: float, limit: int) -> list[str]:
    """Return mails that were stored and not finished, each with a growing grace."""
    found = conn.execute(
        """
        WITH due AS (
            SELECT id FROM desk.mails
            WHERE state = 'stored' AND coalesce(woken_at, received_at) <= clock_timestamp()
                  - make_interval(secs => %(grace)s * power(2, least(wakes, 6)) - %(grace)s * 0.5)
            ORDER BY received_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
        UPDATE desk.mails m SET woken_at = clock_timestamp(), wakes = wakes + 1
        FROM due WHERE m.id = due.id RETURNING m.id
        """, {"grace": grace_seconds, "limit": limit}).fetchall()
    return [str(row["id"]) for row in found]


def record_sent(conn: Connection, sent: SentMail) -> None:
    """Note a mail of ours before it leaves, so that no answer and no bounce is faster; the same again changes nothing."""
    conn.execute(
        """
        INSERT INTO desk.mails (direction, door, state, message_id, "references", subject, sender, recipients,
                                ticket_id, outbox_id, digest, sent_at)
        VALUES ('out', 'outbox', 'sent', %s, %s, %s, %s, %s, %s, %s, %s, clock_timestamp())
        ON CONFLICT (digest) DO NOTHING
        """, (sent.message_id, list(sent.references), sent.subject, sent.sender,
              list(sent.recipients), sent.ticket_id, sent.outbox_id, f"out:{sent.message_id}"))


def last_incoming(conn: Connection, ticket_id: str) -> Thread | None:
    """Return what an answer to the ticket's last mail has to refer to, None if nobody wrote by mail."""
    row = conn.execute(
        """
        SELECT message_id, "references", subject, sender, recipients FROM desk.mails
        WHERE ticket_id = %s AND state = 'filed' AND message_id IS NOT NULL ORDER BY received_at DESC, id DESC LIMIT 1
        """, (ticket_id,)).fetchone()
    return _thread(row)


def answered(conn: Connection, ticket_id: str, external_id: str | None) -> Thread | None:
    """Return the same of one mail of the ticket, None if it is not there or has no id."""
    return _thread(conn.execute(
        """
        SELECT message_id, "references", subject, sender, recipients FROM desk.mails
        WHERE external_id = %s AND ticket_id = %s AND state = 'filed' AND message_id IS NOT NULL LIMIT 1
        """, (external_id, ticket_id)).fetchone())


def _thread(row: Row | None) -> Thread | None:
    if row is None:
        return None
    return Thread((*reversed(row["references"]), row["message_id"]), row["subject"], row["sender"], tuple(row["recipients"]))


def id_of_reply(conn: Connection, outbox_id: str) -> str | None:
    """Return the Message-ID under which a reply left before, None if it did not."""
    row = conn.execute("SELECT message_id FROM desk.mails WHERE outbox_id = %s AND direction = 'out' ORDER BY id LIMIT 1",
                       (outbox_id,)).fetchone()
    return None if row is None else str(row["message_id"])


def forget_unsent(conn: Connection, outbox_id: str) -> None:
    """Take back the note of a reply that surely did not arrive."""
    conn.execute("DELETE FROM desk.mails WHERE outbox_id = %s AND direction = 'out'", (outbox_id,))
