"""Read what a sender wrote: signed means known, not careful, so every field is checked before it is believed."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NoReturn

from supportpilot.errors import Unusable

MAX_SUBJECT_CHARS = 300
MAX_NAME_CHARS = 120
MAX_ATTACHMENTS = 20
MAX_URL_CHARS = 500
MAX_ADDRESS_CHARS = 254
MAX_EPOCH_SECONDS = 10**11      # above it a number of seconds is milliseconds
INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})

# ASCII only: Postgres and Python disagree on the lower case of some other letters, and the address is a key.
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+")
_ID = re.compile(r"[^\x00-\x20\x7f]{1,200}")
_NUMBER = re.compile(r"[0-9]{1,18}")
_WEB = re.compile(r"https?://[^\s<>\"]+")


def json_of(raw: bytes) -> Any:  # noqa: ANN401 -- whatever the sender wrote
    """Parse JSON.

    Raises:
        Unusable: it is none.
    """
    try:
        return json.loads(raw.decode("utf-8-sig"), parse_constant=_no_number)
    except UnicodeDecodeError:
        raise Unusable("the body is not UTF-8") from None
    except RecursionError:
        raise Unusable("the JSON is nested too deeply") from None
    except ValueError:
        raise Unusable("the body is not JSON") from None


def _no_number(name: str) -> NoReturn:
    raise Unusable(f"{name} is not JSON")


def object_of(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        Unusable: it is none.
    """
    value = json_of(raw)
    if not isinstance(value, dict):
        raise Unusable("the JSON is not an object")
    return value


def inner(value: object, *names: str) -> dict[str, Any]:
    """Return the object under a path of names; {} where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list; [] where there is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(name: str, value: object) -> str:
    """Return text that Postgres can store; "" for null.

    Raises:
        Unusable: it is no text, or holds a NUL or half a character.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Unusable(f"{name} is not text")
    if "\x00" in value:
        raise Unusable(f"{name} contains a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unusable(f"{name} contains half a character (a lone surrogate)") from None
    return value


def line(name: str, value: object, limit: int) -> str:
    """Return one line of at most `limit` characters.

    Raises:
        Unusable: see `text`.
    """
    shown = "".join(" " if unicodedata.category(c) in {"Cc", "Zl", "Zp"} else c for c in text(name, value))
    return " ".join(shown.split())[:limit].rstrip()


def identifier(name: str, value: object) -> str:
    """Return an opaque id; a number counts as its digits.

    Raises:
        Unusable: it is missing, too long or has spaces.
    """
    given = str(value) if isinstance(value, int) and not isinstance(value, bool) else text(name, value)
    if not _ID.fullmatch(given):
        raise Unusable(f"{name} must be 1 to 200 characters without spaces")
    return given


def number(name: str, value: object) -> str:
    """Return an id that is a number, as its digits: it becomes part of an address that we call.

    Raises:
        Unusable: it is none.
    """
    given = identifier(name, value)
    if not (_NUMBER.fullmatch(given) and given.isascii()):
        raise Unusable(f"{name} is not a number")
    return given


def address(name: str, value: object) -> str:
    """Return an e-mail address in lower case.

    Raises:
        Unusable: it is none.
    """
    if not isinstance(value, str):
        raise Unusable(f"{name} is not text")
    stripped = value.strip()
    if len(stripped) > MAX_ADDRESS_CHARS or not _ADDRESS.fullmatch(stripped):
        raise Unusable(f"{name} is not an e-mail address")
    return stripped.lower()


def contact(name: str, value: object, otherwise: str) -> str:
    """Return an e-mail address, or `otherwise` where the sender gives none: chat visitors have only a number.

    Raises:
        Unusable: what it gives is no address.
    """
    return address(name, value) if value else otherwise.lower()


def body(given: str, attachments: Iterable[object], limit: int) -> str:
    """Return a message's text with a line for each attachment, so that a picture alone is a message too.

    Raises:
        Unusable: nothing visible is in it, or it is too long.
    """
    lines = [attachment(item) for item in list(attachments)[:MAX_ATTACHMENTS]]
    found = "\n".join([text("body", given).strip(), *(shown for shown in lines if shown)]).strip()
    if all(unicodedata.category(c) in INVISIBLE for c in found):
        raise Unusable("body is empty")
    if len(found) > limit:
        raise Unusable(f"body has {len(found)} characters; at most {limit} are allowed")
    return found


def attachment(item: object) -> str:
    """Return an attachment's line: its name, and its address if that is one of the web."""
    given = item if isinstance(item, dict) else {"name": item}
    name = next((given[key] for key in ("name", "filename", "file_name", "file_type") if given.get(key) and isinstance(given[key], str)), None)
    url: Any = next((given[key] for key in ("url", "data_url", "attachment_url") if given.get(key) and isinstance(given[key], str)), None)
    shown = line("attachment", name, MAX_NAME_CHARS)
    if url is not None and len(url) <= MAX_URL_CHARS and _WEB.fullmatch(text("attachment", url)):
        shown = f"{shown} {url}".strip()
    return f"📎 {shown}" if shown else ""


def moment(value: object) -> datetime | None:
    """Return the sender's time in UTC (without a zone it is UTC, a number is seconds), None if it is unreadable."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value if value < MAX_EPOCH_SECONDS else value / 1000, UTC)
        if not isinstance(value, str):
            return None
        at = datetime.fromisoformat(value.replace(" UTC", "+00:00"))
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
