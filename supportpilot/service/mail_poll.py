"""Read an IMAP folder: by UID and UIDVALIDITY, size before body, cursor and mail in one transaction, marked after it.

The cursor stands in Postgres, so a killed reader goes on where the last stored mail was; a mail that is fetched twice
is one row. Not UNSEEN (people read in the same mailbox) and not dates (they lie).
"""

from __future__ import annotations

import imaplib
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from imap_tools.errors import ImapToolsError

from supportpilot.channels.imap import opened
from supportpilot.config import Settings
from supportpilot.db import mailboxes
from supportpilot.db.mailboxes import Cursor
from supportpilot.db.mails import RawMail
from supportpilot.db.pool import Database
from supportpilot.errors import SupportPilotError, Unavailable
from supportpilot.mail.folders import Folder, find_folder
from supportpilot.service import mail_in
from supportpilot.types import Ports

log = logging.getLogger(__name__)

BATCH = 100                 # mails whose sizes are asked at once
HEAD_BYTES = 65_536         # what is taken of a mail that is too large
CLAIM_MARGIN_SECONDS = 5.0
_SIZE = re.compile(rb"RFC822\.SIZE (\d+)")
_UID = re.compile(rb"UID (\d+)")


@dataclass(frozen=True)
class Polled:
    """What one look into a folder brought: mails stored, and how many of them are not filed yet."""

    mailbox_id: str
    taken: int = 0
    left: int = 0
    busy: bool = False


@dataclass(frozen=True)
class _Reader:
    """One look into one folder."""

    db: Database
    settings: Settings
    ports: Ports
    folder: Folder
    box: Any            # imap_tools.BaseMailBox
    cursor: Cursor


def poll_by_id(db: Database, settings: Settings, ports: Ports, mailbox_id: str) -> str:
    """Look into a folder unless another process does; return what came of it, for the log.

    Raises:
        Misconfigured: there is no such mailbox.
        Unavailable: database or mail server are away; the next look goes on.
    """
    got = poll(db, settings, ports, find_folder(settings.imap_urls, mailbox_id))
    return "another process reads it" if got.busy else f"taken {got.taken}, not filed yet {got.left}"


def poll(db: Database, settings: Settings, ports: Ports, folder: Folder) -> Polled:
    """Take every mail of a folder that came after the last one taken.

    Raises:
        Unavailable: database or mail server are away; what was taken stays taken.
    """
    with db.transaction() as conn:
        if not mailboxes.claim(conn, folder.id, _claim_seconds(settings)):
            return Polled(folder.id, busy=True)
    error: str | None = "broke off"
    try:
        with _translated(folder), opened(folder, settings.imap_timeout_seconds) as box:
            found = _read(db, settings, ports, folder, box)
        error = None
    except SupportPilotError as failed:
        error = str(failed)[:300]
        raise
    finally:
        with db.transaction() as conn:
            mailboxes.done(conn, folder.id, error)
    return found


def _claim_seconds(settings: Settings) -> float:
    """A killed reader holds the folder for so long; it is prolonged with each mail."""
    return settings.imap_timeout_seconds + CLAIM_MARGIN_SECONDS


@contextmanager
def _translated(folder: Folder) -> Iterator[None]:
    try:
        yield
    except (imaplib.IMAP4.error, ImapToolsError, OSError) as error:
        said = " ".join(str(error).split())[:200].replace(folder.password, "***")
        raise Unavailable(f"mailbox {folder.id}: {type(error).__name__}: {said}") from None


def _read(db: Database, settings: Settings, ports: Ports, folder: Folder, box: Any) -> Polled:  # noqa: ANN401 -- a union of four classes
    box.folder.set(folder.name)
    validity = int((box.client.response("UIDVALIDITY")[1] or [b"0"])[0] or 0)
    with db.transaction() as conn:
        cursor = mailboxes.cursor(conn, folder.id, validity, settings.imap_first_days)
    reader = _Reader(db, settings, ports, folder, box, cursor)
    taken = left = 0
    uids = _new_uids(reader)
    for start in range(0, len(uids), BATCH):
        for uid, size in _sizes(reader, uids[start:start + BATCH]):
            mail_id = _take(reader, uid, size)
            if mail_id is not None:
                taken += 1
                left += not _filed(reader, mail_id)
        log.info("mailbox %s: %d of %d mails taken", folder.id, taken, len(uids))
    return Polled(folder.id, taken, left)


def _new_uids(reader: _Reader) -> list[int]:
    """Return what came after the cursor, in order; of a folder that is new to us, or numbered anew, only recent ones."""
    last = reader.cursor.last_uid
    criteria = f"UID {last + 1}:*" if last else f"SINCE {_imap_day(reader.cursor.since)}"
    return sorted(uid for uid in map(int, reader.box.uids(criteria, charset=None)) if uid > last)


def _imap_day(at: datetime) -> str:
    """IMAP knows days only and its months are English whatever the locale is."""
    months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    return f"{at.day:02d}-{months[at.month - 1]}-{at.year}"


def _sizes(reader: _Reader, uids: list[int]) -> list[tuple[int, int]]:
    """Return (uid, bytes) of mails that are still there, in order."""
    status, data = reader.box.client.uid("FETCH", ",".join(map(str, uids)), "(UID RFC822.SIZE)")
    if status != "OK":
        raise imaplib.IMAP4.error("the server does not tell sizes")
    found: dict[int, int] = {}
    for line in data:
        uid, size = (pattern.search(line if isinstance(line, bytes) else b"") for pattern in (_UID, _SIZE))
        if uid and size:
            found[int(uid.group(1))] = int(size.group(1))
    return [(uid, found[uid]) for uid in uids if uid in found]


def _take(reader: _Reader, uid: int, size: int) -> str | None:
    """Store one mail and move the cursor in one transaction, then mark it as seen; None if it vanished meanwhile."""
    whole = size <= reader.settings.mail_max_bytes
    raw = _fetch(reader, uid, "BODY.PEEK[]" if whole else f"BODY.PEEK[HEADER]<0.{HEAD_BYTES}>")
    if raw is None:
        return None
    mail = RawMail("imap", raw, mailbox=reader.folder.id, size=None if whole else size)
    with reader.db.transaction() as conn:
        mail_id = mail_in.store_in(conn, mail)
        mailboxes.advance(conn, reader.folder.id, reader.cursor.uid_validity, uid, _claim_seconds(reader.settings))
    reader.box.client.uid("STORE", str(uid), "+FLAGS.SILENT", r"(\Seen)")    # for people; the cursor is the truth
    return mail_id


def _fetch(reader: _Reader, uid: int, part: str) -> bytes | None:
    status, data = reader.box.client.uid("FETCH", str(uid), f"({part})")
    if status != "OK":
        raise imaplib.IMAP4.error(f"the server does not give mail {uid}")
    return next((bytes(item[1]) for item in data if isinstance(item, tuple)), None)


def _filed(reader: _Reader, mail_id: str) -> bool:
    """File a stored mail now; what goes wrong is left to the sweeper, and the folder is read on."""
    try:
        mail_in.file(reader.db, reader.settings, reader.ports, mail_id)
    except SupportPilotError as error:
        log.warning("mail %s is stored, not filed yet: %s", mail_id, error)
        return False
    return True
