"""Freshdesk: an automation rule's webhook, whose body is the template of docs/howto/connect-a-helpdesk.md.

Freshdesk signs nothing: the rule sends a secret in a header of ours, or as the password of basic auth.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from datetime import datetime
from typing import Any

from producer.channels import port
from producer.channels.port import Headers
from producer.channels.zendesk import comment_id, is_true, sender_of
from producer.signatures import Unsigned
from supportpilot.channels import reading
from supportpilot.channels.freshdesk import CHANNEL
from supportpilot.channels.port import Event, Heard, Ignored
from supportpilot.channels.wording import to_text
from supportpilot.config import Settings
from supportpilot.errors import Unusable
from supportpilot.types import InboundMessage

__all__ = ["HEADER", "parse", "sender_of", "verify"]

HEADER = "x-supportpilot-secret"


def verify(headers: Headers, body: bytes, secrets: list[str], now: datetime) -> str:
    """Compare the secret that came with one of ours; there is no id of a delivery.

    Raises:
        Unsigned: none fits.
    """
    del body, now       # nothing is signed
    port.need(secrets, CHANNEL)
    given = headers.get(HEADER, "") or _password(headers.get("authorization", ""))
    if not given:
        raise Unsigned(f"header {HEADER} is missing")
    fits = [hmac.compare_digest(secret.encode(), given.encode("utf-8", "replace")) for secret in secrets]
    if not any(fits):
        raise Unsigned("the secret does not fit")
    return ""


def _password(authorization: str) -> str:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(encoded, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def parse(raw: bytes, delivery: str, settings: Settings) -> Event:
    """Turn the template's fields into what they mean; which rule sent it says who wrote (`author`).

    Raises:
        Unusable: a field is missing or the rule's author wrote another template.
    """
    del delivery
    fields = reading.object_of(raw)
    if not is_true("public", fields.get("public", True)):
        return Ignored("private note")
    author = reading.line("author", fields.get("author"), 60).lower()
    if author == "system":
        return Ignored("system")
    if author not in {"customer", "agent"}:
        raise Unusable("author is neither customer nor agent")
    return _heard(fields, settings, is_customer=author == "customer")


def _heard(fields: dict[str, Any], settings: Settings, *, is_customer: bool) -> Heard:
    account, number = port.account_of(settings, CHANNEL), reading.number("ticket_id", fields.get("ticket_id"))
    body = reading.body(to_text(reading.text("comment", fields.get("comment"))), [], settings.max_message_chars)
    contact = fields.get("requester_email") if is_customer else None
    name = fields.get("requester_name") if is_customer else fields.get("agent_name") or "agent"
    return Heard(InboundMessage(
        channel=CHANNEL, external_id=f"{CHANNEL}:{account}:{comment_id(fields, number, body)}",
        conversation_id=f"{account}/{number}", body=body,
        contact=reading.contact("requester_email", contact, f"{CHANNEL}:{account}:ticket:{number}"),
        contact_name=reading.line("requester_name", name, reading.MAX_NAME_CHARS),
        subject=reading.line("subject", fields.get("subject"), reading.MAX_SUBJECT_CHARS),
        sent_at=reading.moment(fields.get("at")), author="customer" if is_customer else "human",
        verified=CHANNEL in settings.trusted_addresses.split()))
