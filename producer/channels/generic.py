"""The generic channel: JSON as `interfaces.md` writes it, from anybody who can sign Standard Webhooks.

Signed means known, not careful: every field is checked, and what cannot be a message is refused as a whole, so that
it is kept raw in quarantine. Only what the customer would not miss is forgiven: an unreadable `sent_at`, an
over-long subject or name. Attachments are not fetched; each becomes a line at the end of the text (name, and
address if it is a web address), so that the agent and the colleague know that there is one, and a message that is
only a picture is still a message.
"""

from __future__ import annotations

import json
import re
import unicodedata
from datetime import UTC, datetime
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from supportpilot.config import Settings
from supportpilot.errors import Unusable
from supportpilot.types import InboundMessage

CHANNEL = "generic"
MAX_SUBJECT_CHARS = 300
MAX_NAME_CHARS = 120
MAX_ATTACHMENTS = 20
MAX_URL_CHARS = 500
MAX_ADDRESS_CHARS = 254
INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})

# ASCII only: Postgres and Python disagree on the lower case of some other letters, and the address is a key.
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+")
_ID = re.compile(r"[^\x00-\x20\x7f]{1,200}")
_WEB = re.compile(r"https?://[^\s<>\"]+")


class _Sender(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    email: str
    name: str | None = None


class _Payload(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    message_id: str
    sender: Annotated[_Sender, Field(alias="from")]
    body: str
    ticket_id: str | None = None
    conversation_id: str | None = None
    subject: str | None = None
    sent_at: Any = None
    attachments: list[Any] | None = None


def parse(raw: bytes, delivery_id: str | None, settings: Settings) -> InboundMessage:
    """Turn a signed request's body into a message.

    Raises:
        Unusable: it cannot be one; the text says why.
    """
    payload = _payload(raw)
    message_id = _identifier("message_id", payload.message_id)
    return InboundMessage(
        channel=CHANNEL,
        external_id=f"{CHANNEL}:{message_id}",
        contact=_address(payload.sender.email),
        contact_name=_line("from.name", payload.sender.name, MAX_NAME_CHARS),
        subject=_line("subject", payload.subject, MAX_SUBJECT_CHARS),
        body=_body(payload, settings.max_message_chars),
        delivery_id=None if delivery_id is None else f"{CHANNEL}:{delivery_id}",
        ticket_id=_optional("ticket_id", payload.ticket_id),
        conversation_id=_optional("conversation_id", payload.conversation_id),
        sent_at=_time(payload.sent_at),
    )


def sender_of(raw: bytes) -> str:
    """Return the address in a body that could not be used, for the operator's list; "" if there is none."""
    try:
        return _address(_json(raw)["from"]["email"])
    except (Unusable, KeyError, TypeError, IndexError):
        return ""


def _json(raw: bytes) -> Any:  # noqa: ANN401 -- whatever the sender wrote
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


def _payload(raw: bytes) -> _Payload:
    value = _json(raw)
    if not isinstance(value, dict):
        raise Unusable("the JSON is not an object")
    try:
        return _Payload.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Unusable(f"{where}: {first['msg']}") from None


def _text(name: str, value: str) -> str:
    if "\x00" in value:
        raise Unusable(f"{name} contains a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unusable(f"{name} contains half a character (a lone surrogate)") from None
    return value


def _line(name: str, value: str | None, limit: int) -> str:
    """Return one line of at most `limit` characters."""
    shown = "".join(" " if unicodedata.category(c) in {"Cc", "Zl", "Zp"} else c for c in _text(name, value or ""))
    return " ".join(shown.split())[:limit].rstrip()


def _identifier(name: str, value: str) -> str:
    if not _ID.fullmatch(_text(name, value)):
        raise Unusable(f"{name} must be 1 to 200 characters without spaces")
    return value


def _optional(name: str, value: str | None) -> str | None:
    return _identifier(name, value) if value else None


def _address(value: object) -> str:
    if not isinstance(value, str):
        raise Unusable("from.email is not text")
    stripped = value.strip()
    if len(stripped) > MAX_ADDRESS_CHARS or not _ADDRESS.fullmatch(stripped):
        raise Unusable("from.email is not an e-mail address")
    return stripped.lower()


def _body(payload: _Payload, limit: int) -> str:
    lines = [_attachment(item) for item in (payload.attachments or [])[:MAX_ATTACHMENTS]]
    text = "\n".join([_text("body", payload.body).strip(), *(line for line in lines if line)]).strip()
    if all(unicodedata.category(c) in INVISIBLE for c in text):
        raise Unusable("body is empty")
    if len(text) > limit:
        raise Unusable(f"body has {len(text)} characters; at most {limit} are allowed")
    return text


def _attachment(item: object) -> str:
    given = item if isinstance(item, dict) else {"name": item}
    name = given.get("name") or given.get("filename")
    url = given.get("url")
    shown = _line("attachment", name, MAX_NAME_CHARS) if isinstance(name, str) else ""
    if isinstance(url, str) and len(url) <= MAX_URL_CHARS and _WEB.fullmatch(_text("attachment", url)):
        shown = f"{shown} {url}".strip()
    return f"📎 {shown}" if shown else ""


def _time(value: object) -> datetime | None:
    """Return the sender's time in UTC (a time without a zone is taken as UTC), or None if it is unreadable."""
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
