"""The parts of a mail: its text, and what hangs on it. Bounded, whatever the sender nested."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass, field
from email.message import Message

from supportpilot.mail.charsets import decode
from supportpilot.mail.headers import words

MAX_PARTS = 500
MAX_DEPTH = 30
MAX_TEXT_BYTES = 2_000_000
MAX_NAME_CHARS = 120
TEXTS = {"text/plain", "text/html"}
ENDINGS = {"application/ms-tnef": "winmail.dat", "message/rfc822": "mail.eml", "text/calendar": "invite.ics",
           "text/html": "text.html", "text/plain": "text.txt", "image/png": "image.png", "image/jpeg": "image.jpg"}
_BAD_IN_NAMES = re.compile(r"[\\/:*?\"<>|]+")


@dataclass(frozen=True)
class Attachment:
    """A file of a mail; `data` is None if a limit kept it out, then `skipped` says which."""

    name: str
    content_type: str
    size: int
    sha256: str
    inline: bool
    data: bytes | None
    skipped: str = ""


@dataclass(frozen=True)
class Limits:
    """How many files a mail may bring, and how large each may be."""

    count: int
    bytes_each: int


@dataclass
class Parts:
    """What was found."""

    plain: list[str] = field(default_factory=list)
    html: list[str] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)


def collect(message: Message, limits: Limits) -> Parts:
    """Walk through a mail's parts in order, without recursion."""
    found = Parts()
    waiting: list[tuple[Message, int]] = [(message, 0)]
    seen = 0
    while waiting and seen < MAX_PARTS:
        part, depth = waiting.pop(0)
        seen += 1
        inner = part.get_payload()
        if part.get_content_maintype() == "multipart" and isinstance(inner, list):
            if depth < MAX_DEPTH:
                waiting[:0] = [(child, depth + 1) for child in inner if isinstance(child, Message)]
            continue
        _take(found, part, limits)
    return found


def _take(found: Parts, part: Message, limits: Limits) -> None:
    kind = part.get_content_type()
    named = file_name(part)
    attached = str(part.get("Content-Disposition", "")).lower().strip().startswith("attachment")
    if kind in TEXTS and not attached and not named:
        text = decode(_bytes_of(part)[:MAX_TEXT_BYTES], _charset(part))
        if text.strip():
            (found.html if kind == "text/html" else found.plain).append(text)
        return
    raw = _bytes_of(part)
    if not raw and not named:
        return
    found.attachments.append(_file(found, part, raw, named or ENDINGS.get(kind, "file"), limits))


def _file(found: Parts, part: Message, raw: bytes, name: str, limits: Limits) -> Attachment:
    skipped = ""
    if len(found.attachments) >= limits.count:
        skipped = f"more than {limits.count} files"
    elif len(raw) > limits.bytes_each:
        skipped = f"larger than {limits.bytes_each} bytes"
    inline = bool(part.get("Content-ID")) or str(part.get("Content-Disposition", "")).lower().strip().startswith("inline")
    return Attachment(name, part.get_content_type(), len(raw), hashlib.sha256(raw).hexdigest(), inline,
                      None if skipped else raw, skipped)


def _bytes_of(part: Message) -> bytes:
    """Return a part's bytes; a mail inside a mail as it is written."""
    if part.is_multipart():
        inner = part.get_payload()
        return b"".join(one.as_bytes() for one in inner if isinstance(one, Message)) if isinstance(inner, list) else b""
    raw = part.get_payload(decode=True)
    return raw if isinstance(raw, bytes) else b""


def _charset(part: Message) -> str | None:
    label = part.get_param("charset")
    return str(label[2] if isinstance(label, tuple) else label) if label else None


def file_name(part: Message) -> str:
    """Return the file's name as people wrote it, without any folder; "" if it has none."""
    given = part.get_filename()
    shown = words(str(given)) if given else ""
    shown = "".join(c for c in shown if unicodedata.category(c) not in {"Cc", "Cf", "Cs"})
    bare = _BAD_IN_NAMES.sub("_", shown.replace("\\", "/").rpartition("/")[2]).strip(" .")
    stem, dot, ending = bare.rpartition(".")
    return bare if len(bare) <= MAX_NAME_CHARS else f"{stem[:MAX_NAME_CHARS - 12]}{dot}{ending[:10]}"
