"""Zendesk: a trigger's webhook, whose body is the template of docs/howto/connect-a-helpdesk.md.

Signed is base64 HMAC-SHA256 of timestamp and body, without anything between them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from datetime import datetime
from typing import Any

from producer.channels import port
from producer.channels.port import Headers
from producer.signatures import Unsigned
from supportpilot.channels import reading
from supportpilot.channels.port import OWN, Event, Heard, Ignored
from supportpilot.channels.wording import to_text
from supportpilot.channels.zendesk import CHANNEL
from supportpilot.config import Settings
from supportpilot.errors import Unusable
from supportpilot.types import InboundMessage

CUSTOMERS = frozenset({"end-user", "end user", "end_user", "enduser"})
COLLEAGUES = frozenset({"agent", "admin", "administrator", "owner", "light agent", "team member"})
SYSTEM_AUTHOR = "-1"


def verify(headers: Headers, body: bytes, secrets: list[str], now: datetime) -> str:
    """Check the signature and return the invocation's id, the same at every retry.

    Raises:
        Unsigned: it does not fit, or is too old.
    """
    port.need(secrets, CHANNEL)
    stamp = port.header(headers, "x-zendesk-webhook-signature-timestamp")
    try:
        given = base64.b64decode(port.header(headers, "x-zendesk-webhook-signature"), validate=True)
        signed = stamp.encode("ascii") + body
    except (binascii.Error, ValueError):
        raise Unsigned("the signature is malformed") from None
    port.check_mac(secrets, "sha256", signed, given)
    at = reading.moment(stamp)
    if at is None:
        raise Unsigned("the signed time is malformed")
    port.check_age(at.timestamp(), now)
    return port.delivery_id(headers, "x-zendesk-webhook-invocation-id")


def parse(raw: bytes, delivery: str, settings: Settings) -> Event:
    """Turn the template's fields into what they mean.

    Raises:
        Unusable: a field is missing or the trigger's author wrote another template.
    """
    fields = reading.object_of(raw)
    author = reading.line("author_role", fields.get("author_role"), 60).lower()
    author_id = str(fields.get("author_id") or "")
    if not is_true("public", fields.get("public")):
        return Ignored("private note")
    if author_id == SYSTEM_AUTHOR:
        return Ignored("system")
    if settings.zendesk_user_id and author_id == settings.zendesk_user_id:
        return Ignored(OWN)
    if author not in CUSTOMERS | COLLEAGUES:
        raise Unusable("author_role is neither an end user's nor an agent's")
    return _heard(fields, delivery, settings, is_customer=author in CUSTOMERS)


def is_true(name: str, value: object) -> bool:
    """Return a flag that a template may write as text.

    Raises:
        Unusable: it is none.
    """
    found = {"true": True, "false": False, "1": True, "0": False}.get(str(value).strip().lower())
    if found is None:
        raise Unusable(f"{name} is neither true nor false")
    return found


def _heard(fields: dict[str, Any], delivery: str, settings: Settings, *, is_customer: bool) -> Heard:
    account, number = port.account_of(settings, CHANNEL), reading.number("ticket_id", fields.get("ticket_id"))
    html = reading.text("text_html", fields.get("text_html"))
    body = reading.body(to_text(html) if html else reading.text("text", fields.get("text")), [], settings.max_message_chars)
    contact = (fields.get("author_email") or fields.get("requester_email")) if is_customer else None
    name = fields.get("author_name") or (fields.get("requester_name") if is_customer else "agent")
    return Heard(InboundMessage(
        channel=CHANNEL, external_id=f"{CHANNEL}:{account}:{comment_id(fields, number, body)}",
        conversation_id=f"{account}/{number}", delivery_id=f"{CHANNEL}:{delivery}" if delivery else None,
        contact=reading.contact("author_email", contact, f"{CHANNEL}:{account}:ticket:{number}"), body=body,
        contact_name=reading.line("author_name", name, reading.MAX_NAME_CHARS),
        subject=reading.line("subject", fields.get("subject"), reading.MAX_SUBJECT_CHARS),
        sent_at=reading.moment(fields.get("at")), author="customer" if is_customer else "human",
        verified=CHANNEL in settings.trusted_addresses.split()))


def comment_id(fields: dict[str, Any], ticket: str, body: str) -> str:
    """Return the comment's own id, else one made of all that tells it from others: retries have the same."""
    if fields.get("comment_id"):
        return reading.identifier("comment_id", fields["comment_id"])
    parts = (ticket, *(str(fields.get(name) or "") for name in ("author", "author_id", "at")), body)
    return f"{ticket}-{hashlib.sha256(chr(10).join(parts).encode(errors='backslashreplace')).hexdigest()[:32]}"


def sender_of(raw: bytes) -> str:
    """Return the address in a body that could not be used; "" if there is none."""
    try:
        fields = reading.inner(reading.json_of(raw))
        return reading.line("sender", fields.get("author_email") or fields.get("requester_email"), 200)
    except Unusable:
        return ""
