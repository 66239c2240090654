"""Chatwoot's account hooks: HMAC-SHA256 of `timestamp.body`, five minutes; messages and conversations."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from producer.channels import port
from producer.channels.port import Headers
from producer.signatures import Unsigned
from supportpilot.channels import chatwoot, reading
from supportpilot.channels.chatwoot import CHANNEL
from supportpilot.channels.port import Event, Heard, Ignored
from supportpilot.config import Settings
from supportpilot.errors import Unusable


def verify(headers: Headers, body: bytes, secrets: list[str], now: datetime) -> str:
    """Check the signature and return the delivery's id.

    Raises:
        Unsigned: it does not fit, or is too old.
    """
    port.need(secrets, CHANNEL)
    stamp = port.header(headers, "x-chatwoot-timestamp")
    if not re.fullmatch(r"[0-9]{1,12}", stamp):
        raise Unsigned("header x-chatwoot-timestamp is malformed")
    given = port.hex_after("sha256=", port.header(headers, "x-chatwoot-signature"))
    port.check_mac(secrets, "sha256", stamp.encode() + b"." + body, given)
    port.check_age(int(stamp), now)
    return port.delivery_id(headers, "x-chatwoot-delivery")


def parse(raw: bytes, delivery: str, settings: Settings) -> Event:
    """Turn a hook's body into what it means.

    Raises:
        Unusable: it is a message, but cannot be read.
    """
    event = reading.object_of(raw)
    name = str(event.get("event"))
    account = reading.inner(event, "account").get("id")
    if settings.chatwoot_account_id is not None and account is not None and account != settings.chatwoot_account_id:
        return Ignored("another account")
    if name == "message_created":
        read = chatwoot.read_message(event, reading.inner(event, "conversation"), account, settings)
        if isinstance(read, Heard) and delivery:
            return replace(read, message=replace(read.message, delivery_id=f"{CHANNEL}:{delivery}"))
        return read
    if name in {"conversation_updated", "conversation_status_changed"}:
        return chatwoot.read_conversation(event, _account_of(event, settings), settings)
    return Ignored(f"event {name}"[:60] if name in KNOWN_EVENTS else "unknown event")


KNOWN_EVENTS = frozenset({"message_updated", "conversation_created", "webwidget_triggered", "contact_created",
                          "contact_updated", "inbox_created", "inbox_updated", "conversation_typing_on",
                          "conversation_typing_off"})


def _account_of(event: dict[str, object], settings: Settings) -> object:
    """A conversation's hook names its account only inside its messages, if it has any."""
    found = reading.inner(event, "account").get("id")
    inside = [message.get("account_id") for message in reading.items(event.get("messages"))]
    return found or next((account for account in inside if account), settings.chatwoot_account_id)


def sender_of(raw: bytes) -> str:
    """Return the address or name of a body that could not be used; "" if there is none."""
    try:
        return chatwoot.writer_of(reading.inner(reading.json_of(raw)))
    except Unusable:
        return ""
