"""What belongs to mail besides the mails: where each folder's reading stands, files, addresses that bounced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from supportpilot.db.pool import Connection


class File(Protocol):
    """A mail's file, as the parser found it."""

    @property
    def name(self) -> str: ...
    @property
    def content_type(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def sha256(self) -> str: ...
    @property
    def inline(self) -> bool: ...
    @property
    def data(self) -> bytes | None: ...
    @property
    def skipped(self) -> str: ...


@dataclass(frozen=True)
class Cursor:
    """The last mail taken; `since`: mails that came before this moment are old ones of a folder we were given."""

    uid_validity: int
    last_uid: int
    since: datetime


def cursor(conn: Connection, mailbox_id: str, uid_validity: int, first_days: float) -> Cursor:
    """Return where the reading stands; new numbering of the folder begins again at its first mail."""
    row = conn.execute(
        """
        INSERT INTO desk.mailboxes AS m (id, uid_validity) VALUES (%(id)s, %(validity)s)
        ON CONFLICT (id) DO UPDATE SET
            last_uid = CASE WHEN m.uid_validity = EXCLUDED.uid_validity THEN m.last_uid ELSE 0 END,
            uid_validity = EXCLUDED.uid_validity
        RETURNING uid_validity, last_uid, first_seen_at - make_interval(secs => %(days)s * 86400) AS since
        """, {"id": mailbox_id, "validity": uid_validity, "days": first_days}).fetchone()
    assert row is not None  # noqa: S101 -- an upsert returns its row
    return Cursor(int(row["uid_validity"]), int(row["last_uid"]), row["since"])


def advance(conn: Connection, mailbox_id: str, uid_validity: int, uid: int, claim_seconds: float) -> None:
    """Note a mail as taken, in the transaction that stores it, and prolong the claim."""
    conn.execute("UPDATE desk.mailboxes SET last_uid = greatest(last_uid, %s), "
                 "claimed_until = clock_timestamp() + make_interval(secs => %s) WHERE id = %s AND uid_validity = %s",
                 (uid, claim_seconds, mailbox_id, uid_validity))


def claim(conn: Connection, mailbox_id: str, seconds: float) -> bool:
    """Take the turn at a folder; False if another process has it (reading twice is waste, not harm)."""
    done = conn.execute(
        """
        INSERT INTO desk.mailboxes AS m (id, uid_validity, claimed_until)
        VALUES (%(id)s, 0, clock_timestamp() + make_interval(secs => %(s)s))
        ON CONFLICT (id) DO UPDATE SET claimed_until = EXCLUDED.claimed_until
        WHERE m.claimed_until IS NULL OR m.claimed_until <= clock_timestamp()
        """, {"id": mailbox_id, "s": seconds})
    return done.rowcount == 1


def done(conn: Connection, mailbox_id: str, error: str | None) -> None:
    """Give the folder free and note how it went."""
    conn.execute("UPDATE desk.mailboxes SET claimed_until = NULL, polled_at = clock_timestamp(), last_error = %s WHERE id = %s",
                 (error, mailbox_id))


def put_files(conn: Connection, mail_id: str, ticket_id: str | None, files: Sequence[File]) -> None:
    """Store a mail's files; a second time changes nothing."""
    for position, file in enumerate(files):
        conn.execute(
            """
            INSERT INTO desk.attachments (mail_id, ticket_id, position, name, content_type, size, sha256, inline, data, skipped)
            VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (mail_id, position) DO NOTHING
            """, (mail_id, ticket_id, position, file.name, file.content_type, file.size, file.sha256, file.inline,
                  file.data, file.skipped))


def suppress(conn: Connection, address: str, reason: str, mail_id: str) -> None:
    """Note an address that does not exist; the first reason stands."""
    conn.execute("INSERT INTO desk.suppressions (address, reason, mail_id) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                 (address, reason[:200], mail_id))


def suppressed(conn: Connection, address: str) -> str | None:
    """Return why nothing is sent to an address, None if nothing stands against it."""
    row = conn.execute("SELECT reason FROM desk.suppressions WHERE address = %s", (address.lower(),)).fetchone()
    return None if row is None else str(row["reason"])
