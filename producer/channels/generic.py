"""The generic channel: JSON as `interfaces.md` writes it, from anybody who can sign Standard Webhooks.

Signed means known, not careful: every field is checked, and what cannot be a message is refused as a whole, so that
it is kept raw in quarantine. Only what the customer would not miss is forgiven: an unreadable `sent_at`, an
over-long subject or name. Attachments are not fetched; each becomes a line at the end of the text (name, and
address if it is a web address), so that the agent and the colleague know that there is one, and a message that is
only a picture is still a message.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from supportpilot.channels import reading
from supportpilot.channels.port import Heard
from supportpilot.channels.reading import MAX_NAME_CHARS, MAX_SUBJECT_CHARS
from supportpilot.config import Settings
from supportpilot.errors import Unusable
from supportpilot.types import InboundMessage

CHANNEL = "generic"


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


def parse(raw: bytes, delivery_id: str | None, settings: Settings) -> Heard:
    """Turn a signed request's body into a message.

    Raises:
        Unusable: it cannot be one; the text says why.
    """
    payload = _payload(raw)
    message_id = reading.identifier("message_id", payload.message_id)
    return Heard(InboundMessage(
        channel=CHANNEL,
        external_id=f"{CHANNEL}:{message_id}",
        contact=reading.address("from.email", payload.sender.email),
        contact_name=reading.line("from.name", payload.sender.name, MAX_NAME_CHARS),
        subject=reading.line("subject", payload.subject, MAX_SUBJECT_CHARS),
        body=reading.body(payload.body, payload.attachments or [], settings.max_message_chars),
        delivery_id=f"{CHANNEL}:{delivery_id}" if delivery_id else None,
        ticket_id=_optional("ticket_id", payload.ticket_id),
        conversation_id=_optional("conversation_id", payload.conversation_id),
        sent_at=reading.moment(payload.sent_at) if isinstance(payload.sent_at, str) else None,
    ))


def sender_of(raw: bytes) -> str:
    """Return the address in a body that could not be used, for the operator's list; "" if there is none."""
    try:
        return reading.address("from.email", reading.json_of(raw)["from"]["email"])
    except (Unusable, KeyError, TypeError, IndexError):
        return ""


def _payload(raw: bytes) -> _Payload:
    value = reading.object_of(raw)
    try:
        return _Payload.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Unusable(f"{where}: {first['msg']}") from None


def _optional(name: str, value: str | None) -> str | None:
    return reading.identifier(name, value) if value else None
