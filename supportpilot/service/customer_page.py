"""The customer's own page: their conversation as they may see it, and a message written on it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from supportpilot.config import Settings
from supportpilot.db import inbox, links
from supportpilot.db.events import Event
from supportpilot.db.pool import Connection, Database
from supportpilot.errors import NotFound, Refused, Unusable
from supportpilot.memory.entries import language_of_text
from supportpilot.service import intake
from supportpilot.service.links import Opened, open_link
from supportpilot.types import InboundMessage, Ports, Received

State = Literal["working", "refund", "human", "answered", "closed"]
Step = Literal["reading", "searching", "account", "writing", "checking", "approval", "sending", "handing_over"]

CHANNEL = "page"
SHOWN_LINES = 200
RATES = ((6, 60.0), (40, 3600.0))       # messages per page and seconds

_FORM_KEY = re.compile(r"[A-Za-z0-9_-]{16,64}")
_STATES: Mapping[str, State] = {"waiting_approval": "refund", "escalated": "human", "resolved": "closed"}
_STEPS: Mapping[str, Step] = {
    "load_customer": "reading", "prepare_context": "reading", "classify": "reading", "retrieve": "searching",
    "act": "account", "draft": "writing", "check": "checking", "approval": "approval", "finalize": "sending",
    "handoff": "handing_over",
}


class TooMany(Refused):
    """More was written on one page than a person writes."""


@dataclass(frozen=True)
class Line:
    """One text of the conversation; `speaker` is customer, agent or human, `author` a colleague's name, or that of a Cc."""

    id: str
    speaker: str
    author: str
    body: str
    at: datetime
    citations: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Page:
    """What a customer sees of their ticket; `pulse` is another one as soon as any of it is. `cut`: older lines are left out."""

    opened: Opened
    lang: str
    subject: str
    state: State
    lines: list[Line]
    pulse: str
    cut: bool


def look(db: Database, settings: Settings, token: str) -> Page:
    """Return what a token's page shows.

    Raises:
        NotFound: the token opens nothing.
    """
    with db.snapshot() as conn:
        opened = open_link(conn, settings, token)
        face = links.face(conn, opened.ticket_id)
        assert face is not None  # noqa: S101 -- the snapshot that opened it has it
        lines = [_line(row, face["contact_name"]) for row in links.conversation(conn, opened.ticket_id, SHOWN_LINES + 1)]
        lines = lines or [_first_words(face)]
        own_words = "\n".join(line.body for line in lines if line.speaker == "customer")
        pulse = links.pulses(conn, [opened.ticket_id])[opened.ticket_id]
        return Page(opened, language_of_text(own_words), face["subject"], _state(face), lines[-SHOWN_LINES:], pulse,
                    cut=len(lines) > SHOWN_LINES)


def still_opens(db: Database, settings: Settings, token: str) -> bool:
    """Say whether a token opens its page at this moment."""
    with db.connection() as conn:
        try:
            open_link(conn, settings, token)
        except NotFound:
            return False
    return True


def _line(row: Mapping[str, Any], own_name: str) -> Line:
    """Return a row as a line; a customer's is theirs without a name, but for what somebody else in the mail's Cc wrote."""
    line = Line(**row)
    return replace(line, author="") if line.speaker == "customer" and line.author == own_name else line


def _first_words(face: Mapping[str, Any]) -> Line:
    """A ticket from before the inbox has no messages, only its first text."""
    return Line(face["id"], "customer", "", face["body"] or face["subject"], face["created_at"])


def _state(face: Mapping[str, Any]) -> State:
    status = str(face["status"])
    if status == "answered" and (face["sending"] or face["working"]):
        return "working"
    return _STATES.get(status, "answered" if status == "answered" else "working")


def step_of(event: Event) -> Step | None:
    """Return what a live event means in plain words, None for what is not a customer's business.

    Tokens are none: the check may still refuse the draft. Tools and their arguments are none either.
    """
    return _STEPS.get(str(event.data.get("node"))) if event.type == "step" else None


def write(db: Database, settings: Settings, ports: Ports, token: str, form: Mapping[str, str]) -> Received:
    """Store what a customer wrote on their page; the same form with the same words again changes nothing.

    form: `key`, the form's one-time key, and `body`.

    Raises:
        NotFound: the token opens nothing.
        Unusable: the text is empty or too long, or the key is none; the text is `empty`, `long` or `form`.
        TooMany: more than a person writes.
        Unavailable: the database is away.
    """
    key, text = form.get("key", ""), clean(form.get("body", ""), settings.max_message_chars)
    if not _FORM_KEY.fullmatch(key):
        raise Unusable("form")
    with db.connection() as conn:
        opened = open_link(conn, settings, token)
        message = _message(opened, key, text)
        _within_rates(conn, opened.ticket_id, message)
    return intake.receive(db, settings, ports, message)


def clean(body: str, limit: int) -> str:
    """Return a text that can be stored, lines ended as everywhere else.

    Raises:
        Unusable: it is empty or longer than `limit`; the text is `empty` or `long`.
    """
    text = re.sub("[\x00\ud800-\udfff]", "", body.replace("\r\n", "\n").replace("\r", "\n")).strip()
    if not text:
        raise Unusable("empty")
    if len(text) > limit:
        raise Unusable("long")
    return text


def _message(opened: Opened, key: str, text: str) -> InboundMessage:
    """The words are part of the id: whoever goes back, changes them and sends the old form again has written anew."""
    words = hashlib.sha256(text.encode()).hexdigest()[:16]
    return InboundMessage(channel=CHANNEL, external_id=f"{CHANNEL}:{opened.ticket_id}:{key}:{words}",
                          contact=opened.contact, body=text, ticket_id=opened.ticket_id, ticket_only=True)


def _within_rates(conn: Connection, ticket_id: str, message: InboundMessage) -> None:
    if inbox.find_known(conn, message) is not None:
        return
    for most, seconds in RATES:
        if links.messages_since(conn, ticket_id, seconds) >= most:
            raise TooMany(f"more than {most} messages in {seconds:.0f} s")
