"""The mail door of the webhooks: the body is the raw mail (RFC 5322), signed by the Standard Webhooks headers."""

from __future__ import annotations

from typing import Any

from supportpilot.config import Settings
from supportpilot.db.mails import RawMail
from supportpilot.db.pool import Database
from supportpilot.errors import SupportPilotError
from supportpilot.service import mail_in
from supportpilot.service.mail_in import Outcome
from supportpilot.types import Ports

CHANNEL = mail_in.CHANNEL


def receive(db: Database, settings: Settings, ports: Ports, raw: bytes) -> tuple[int, dict[str, Any]]:
    """Store a verified mail raw, then file it; return status and answer.

    Raises:
        Unavailable: the database is away; nothing is stored and the sender has to try again.
    """
    mail_id = mail_in.store(db, RawMail("webhook", raw))
    try:
        return shown(mail_in.file(db, settings, ports, mail_id))
    except SupportPilotError:
        return 202, {"stored": mail_id}     # the sweeper files it


def shown(got: Outcome) -> tuple[int, dict[str, Any]]:
    """Return an outcome as HTTP."""
    if got.state == "quarantined":
        return 202, {"quarantined": got.quarantine_id, "reason": got.reason}
    if got.state in {"filed", "duplicate"}:
        answer = {"ticket_id": got.ticket_id, "message_id": got.message_id, "duplicate": got.duplicate}
        return (200 if got.duplicate else 202), answer
    if got.state == "note" and not got.duplicate:
        return 202, {"ticket_id": got.ticket_id, "message_id": got.message_id, "note": got.reason, "duplicate": False}
    return 200, {"ignored": got.reason}
