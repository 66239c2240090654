"""Header fields as people would read them: encoded words, raw 8-bit names, addresses, message ids."""

from __future__ import annotations

import base64
import binascii
import quopri
import re
import unicodedata
from datetime import UTC, datetime
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from inspect import signature
from itertools import groupby
from typing import Any

from supportpilot.mail.charsets import decode

MAX_FIELD_CHARS = 10_000
MAX_IDS = 20
MAX_ADDRESSES = 100
MAX_ADDRESS_CHARS = 254
MAX_ID_CHARS = 998

# ASCII only: Postgres and Python disagree on the lower case of some other letters, and the address is a key.
ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+")
_ID = re.compile(r"<[^<>\s]+>")     # Foxmail separates references with commas
_WORD = re.compile(r"=\?([^?\s*]+)(?:\*[^?]*)?\?([bBqQ])\?([^?]*)\?=")
# Newer Pythons drop a whole field with one odd address in it; the form of each is checked here anyway.
_LENIENT: dict[str, Any] = {"strict": False} if "strict" in signature(getaddresses).parameters else {}
_BETWEEN_WORDS = re.compile(r"(\?=)\s+(=\?)")
# 回复：, 答复:, 转发：, Re[2]:, FW: ... in any number and order, half- or full-width colon.
_PREFIX = re.compile(r"^\s*(?:(?P<answer>回复|答复|回覆|答覆|re|aw|sv)|(?P<forward>转发|轉寄|轉發|fwd?|wg))\s*(?:[\[(]\d+[\])])?\s*[:：]\s*",
                     re.IGNORECASE)


def fields(message: Message, name: str) -> list[str]:
    """Return the decoded values of every field of that name, top first, each on one line."""
    return [one_line(words(str(value)[:MAX_FIELD_CHARS])) for key, value in message.raw_items()
            if key.lower() == name.lower()]


def field(message: Message, name: str) -> str:
    """Return the first field of that name, "" if there is none."""
    return next(iter(fields(message, name)), "")


def words(value: str) -> str:
    """Decode RFC 2047 words and raw bytes.

    Neighbouring words of one charset are joined as bytes first: Chinese clients split inside a character.
    """
    joined = _BETWEEN_WORDS.sub(r"\1\2", value)
    pieces: list[tuple[str | None, bytes]] = []
    end = 0
    for match in _WORD.finditer(joined):
        raw = _word_bytes(match.group(2), match.group(3))
        if raw is None:
            continue
        if match.start() > end:
            pieces.append((None, _bytes(joined[end:match.start()])))
        pieces.append((match.group(1).lower(), raw))
        end = match.end()
    pieces.append((None, _bytes(joined[end:])))
    return "".join(decode(b"".join(raw for _, raw in group), label)
                   for label, group in groupby(pieces, key=lambda piece: piece[0]))


def _word_bytes(kind: str, text: str) -> bytes | None:
    try:
        if kind in "bB":
            return base64.b64decode(text + "=" * (-len(text) % 4))
        return quopri.decodestring(text.replace("_", " ").encode("ascii", "surrogateescape"), header=True)
    except (binascii.Error, ValueError):
        return None


def _bytes(text: str) -> bytes:
    """The parser keeps raw 8-bit bytes as surrogates; give them back as they came."""
    return text.encode("utf-8", "surrogateescape")


def one_line(text: str) -> str:
    """Return text without line breaks and control characters, spaces folded."""
    shown = "".join(" " if unicodedata.category(c) in {"Cc", "Zl", "Zp"} else c for c in text)
    return " ".join(shown.split())


def addresses(values: list[str]) -> list[tuple[str, str]]:
    """Return (name, address in lower case) of every usable address in some fields, in order, each once."""
    found: dict[str, str] = {}
    for name, address in getaddresses([value.replace("＜", "<").replace("＞", ">") for value in values], **_LENIENT):
        text = address.strip().strip("'\"").lower()
        if len(text) <= MAX_ADDRESS_CHARS and ADDRESS.fullmatch(text):
            found.setdefault(text, one_line(name))
    return [(name, address) for address, name in found.items()][:MAX_ADDRESSES]


def sender(message: Message) -> tuple[str, str, bool]:
    """Return (name, address, whether it is the only one) of From, else of Sender, else of Return-Path."""
    names = message.get_all("From") or []
    for name in ("From", "Sender", "Return-Path"):
        found = addresses(_address_fields(message, name))
        if found:
            return (*found[0], len(found) == 1 and len(names) == 1)
    return "", "", False


def _address_fields(message: Message, name: str) -> list[str]:
    """A comma inside an encoded word is no separator: the addresses are split before the words are decoded."""
    raw = [str(value)[:MAX_FIELD_CHARS] for key, value in message.raw_items() if key.lower() == name.lower()]
    pairs = getaddresses(raw, **_LENIENT)
    return [f'"{quoted(words(shown))}" <{address}>' for shown, address in pairs if address]


def quoted(name: str) -> str:
    """Return a display name without what would end its quotes."""
    return one_line(name).replace("\\", "").replace('"', "")


def people(message: Message, *names: str) -> list[str]:
    """Return the addresses in the fields of these names, each once."""
    return [address for _, address in addresses([v for name in names for v in _address_fields(message, name)])]


def ids(message: Message, *names: str) -> list[str]:
    """Return the message ids in some fields, the strongest first: of each field the newest (the last) first."""
    found: list[str] = []
    for name in names:
        for value in fields(message, name):
            found += [one for one in reversed(_ID.findall(value)) if len(one) <= MAX_ID_CHARS]
    return list(dict.fromkeys(found))[:MAX_IDS]


def message_id(message: Message) -> str | None:
    """Return the mail's own id, None if it has none that can be one (`<>` exists)."""
    return next(iter(ids(message, "Message-ID")), None)


def sent_at(message: Message) -> datetime | None:
    """Return the sender's time in UTC, None if it is unreadable."""
    try:
        at = parsedate_to_datetime(field(message, "Date"))
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (TypeError, ValueError, OverflowError, IndexError):
        return None


def bare_subject(subject: str) -> tuple[str, bool]:
    """Return the subject without its prefixes, and whether the outermost one says "forwarded"."""
    rest, forwarded, first = subject, False, True
    while match := _PREFIX.match(rest):
        forwarded = forwarded or (first and match.group("forward") is not None)
        first, rest = False, rest[match.end():]
    return rest.strip(), forwarded

