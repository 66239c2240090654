"""Intercom's notifications: HMAC-SHA1 of the body with the app's client secret; the delivery's id is in the body."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from producer.channels import port
from producer.channels.port import Headers
from supportpilot.channels import reading
from supportpilot.channels.intercom import CHANNEL
from supportpilot.channels.port import OWN, Event, Heard, Ignored, Moved
from supportpilot.channels.wording import to_text
from supportpilot.config import Settings
from supportpilot.errors import Unusable
from supportpilot.types import InboundMessage

CUSTOMERS = frozenset({"user", "lead", "contact"})


def verify(headers: Headers, body: bytes, secrets: list[str], now: datetime) -> str:
    """Check the signature; no time is signed, and the delivery's id is in the body.

    Raises:
        Unsigned: it does not fit.
    """
    del now
    port.check_hub_signature(headers, body, secrets, CHANNEL)
    return ""


def parse(raw: bytes, delivery: str, settings: Settings) -> Event:
    """Turn a notification into what it means.

    Raises:
        Unusable: it is a message, but cannot be read.
    """
    del delivery
    event = reading.object_of(raw)
    topic = event.get("topic")
    read = TOPICS.get(topic) if isinstance(topic, str) else None
    if read is None:
        return Ignored("ping" if topic == "ping" else "topic of no message")
    return read(event, reading.inner(event, "data", "item"), settings)


def _created(event: dict[str, Any], item: dict[str, Any], settings: Settings) -> Event:
    return _said(event, item, reading.inner(item, "source"), settings)


def _replied(event: dict[str, Any], item: dict[str, Any], settings: Settings) -> Event:
    parts = reading.items(reading.inner(item, "conversation_parts").get("conversation_parts"))
    if not parts:
        raise Unusable("the conversation has no part")
    return _said(event, item, parts[-1], settings)


def _said(event: dict[str, Any], item: dict[str, Any], part: dict[str, Any], settings: Settings) -> Event:
    author = reading.inner(part, "author")
    kind = author.get("type")
    if part.get("part_type") == "note":
        return Ignored("private note")
    if kind in CUSTOMERS:
        return _heard(event, item, part, settings, is_customer=True)
    if kind != "admin":
        return Ignored("bot")
    if str(author.get("id")) == settings.intercom_user_id:
        return Ignored(OWN)
    return _heard(event, item, part, settings, is_customer=False)


def _heard(event: dict[str, Any], item: dict[str, Any], part: dict[str, Any], settings: Settings, *,
           is_customer: bool) -> Heard:
    author, app = reading.inner(part, "author"), reading.identifier("app_id", event.get("app_id"))
    source = reading.inner(item, "source")
    known_by = f"{CHANNEL}:{app}:contact:{reading.identifier('author.id', author.get('id'))}"
    body = to_text(reading.text("body", part.get("body")))
    return Heard(InboundMessage(
        channel=CHANNEL, external_id=f"{CHANNEL}:{app}:{reading.identifier('id', part.get('id'))}",
        delivery_id=f"{CHANNEL}:{reading.identifier('id', event['id'])}" if event.get("id") else None,
        conversation_id=_conversation(event, item), contact=reading.contact("author.email", author.get("email"), known_by),
        contact_name=reading.line("author.name", author.get("name"), reading.MAX_NAME_CHARS) or ("" if is_customer else "admin"),
        subject=reading.line("subject", to_text(reading.text("subject", source.get("subject"))), reading.MAX_SUBJECT_CHARS),
        body=reading.body(body, reading.items(part.get("attachments")), settings.max_message_chars),
        sent_at=reading.moment(part.get("created_at") or item.get("created_at")),
        author="customer" if is_customer else "human",
        verified=author.get("type") == "user" and CHANNEL in settings.trusted_addresses.split()),
        held_by=_holder(item, settings))


def _conversation(event: dict[str, Any], item: dict[str, Any]) -> str:
    return f"{reading.identifier('app_id', event.get('app_id'))}/{reading.number('item.id', item.get('id'))}"


def _holder(item: dict[str, Any], settings: Settings) -> str:
    """Return who has a conversation, "" if nobody or ourselves; a team without one of its people has it too."""
    admin, team = (str(item.get(field) or "0") for field in ("admin_assignee_id", "team_assignee_id"))
    if admin == "0":
        return "" if team == "0" else "a team"
    return "" if admin == settings.intercom_user_id else "an admin"


def _assigned(event: dict[str, Any], item: dict[str, Any], settings: Settings) -> Event:
    held_by = _holder(item, settings)
    return Moved(CHANNEL, _conversation(event, item), "taken over" if held_by else "given back", held_by or CHANNEL)


def _closed(event: dict[str, Any], item: dict[str, Any], _settings: Settings) -> Event:
    return Moved(CHANNEL, _conversation(event, item), "resolved", CHANNEL)


TOPICS: dict[str, Callable[[dict[str, Any], dict[str, Any], Settings], Event]] = {
    "conversation.user.created": _created, "conversation.user.replied": _replied,
    "conversation.admin.replied": _replied, "conversation.admin.assigned": _assigned,
    "conversation.admin.closed": _closed,
}


def sender_of(raw: bytes) -> str:
    """Return the address in a body that could not be used; "" if there is none."""
    try:
        author = reading.inner(reading.json_of(raw), "data", "item", "source", "author")
        return reading.line("author.email", author.get("email"), 200)
    except Unusable:
        return ""
