"""Zammad's webhooks: HMAC-SHA1 of the body with the webhook's token; the default payload, a ticket and its article."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from producer.channels import port
from producer.channels.port import Headers
from supportpilot.channels import reading
from supportpilot.channels.port import OWN, Event, Heard, Ignored
from supportpilot.channels.wording import to_text
from supportpilot.channels.zammad import CHANNEL
from supportpilot.config import Settings
from supportpilot.errors import Unusable
from supportpilot.types import InboundMessage

NOBODY = "1"        # the id of Zammad's user "-": a ticket without an owner is owned by it


def verify(headers: Headers, body: bytes, secrets: list[str], now: datetime) -> str:
    """Check the signature and return the delivery's id; no time is signed.

    Raises:
        Unsigned: it does not fit.
    """
    del now
    port.check_hub_signature(headers, body, secrets, CHANNEL)
    return port.delivery_id(headers, "x-zammad-delivery")


def parse(raw: bytes, delivery: str, settings: Settings) -> Event:
    """Turn a ticket and its article into what they mean.

    Raises:
        Unusable: it is a message, but cannot be read.
    """
    event = reading.object_of(raw)
    ticket, article = reading.inner(event, "ticket"), reading.inner(event, "article")
    if not article:
        return Ignored("ticket changed, no article")
    sender = article.get("sender")
    if article.get("internal") is not False:
        return Ignored("private note")
    if sender not in {"Customer", "Agent"}:
        return Ignored("system")
    if reading.inner(article, "preferences").get("is-auto-response"):
        return Ignored("automatic reply")
    if sender == "Agent" and settings.zammad_user_id and str(article.get("created_by_id")) == settings.zammad_user_id:
        return Ignored(OWN)
    return _heard(ticket, article, delivery, settings)


def _heard(ticket: dict[str, Any], article: dict[str, Any], delivery: str, settings: Settings) -> Heard:
    account = port.account_of(settings, CHANNEL)
    number = reading.number("ticket.id", ticket.get("id") or article.get("ticket_id"))
    is_customer = article["sender"] == "Customer"
    person, known_by = _writer(ticket, article) if is_customer else (reading.inner(article, "created_by"), "")
    words = reading.text("article.body", article.get("body"))
    if "html" in str(article.get("content_type")):
        words = to_text(words)
    return Heard(InboundMessage(
        channel=CHANNEL, external_id=f"{CHANNEL}:{account}:{reading.number('article.id', article.get('id'))}",
        delivery_id=f"{CHANNEL}:{delivery}" if delivery else None, conversation_id=f"{account}/{number}",
        contact=reading.contact("article.created_by.email", person.get("email") if is_customer else None,
                                f"{CHANNEL}:{account}:ticket:{number}{known_by}"),
        contact_name=_name(person) or ("" if is_customer else "agent"),
        subject=reading.line("ticket.title", ticket.get("title"), reading.MAX_SUBJECT_CHARS),
        body=reading.body(words, reading.items(article.get("attachments")), settings.max_message_chars),
        sent_at=reading.moment(article.get("created_at")), author="customer" if is_customer else "human",
        verified=CHANNEL in settings.trusted_addresses.split() and bool(person.get("email") or not known_by)),
        held_by=_owner(ticket, settings))


def _writer(ticket: dict[str, Any], article: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return who wrote a customer's article, and what tells them from the ticket's customer ("" if they are it).

    A ticket has one customer, but whoever is copied in, or shares the organisation, writes into it too.
    """
    customer, creator = reading.inner(ticket, "customer"), reading.inner(article, "created_by")
    customer_id = str(customer.get("id") or ticket.get("customer_id") or "")
    writer_id = str(article.get("created_by_id") or creator.get("id") or "")
    if "Agent" in _roles(creator) and article.get("origin_by_id"):
        writer_id = str(article["origin_by_id"])        # a call that an agent wrote down
        creator = {}
    if customer_id and writer_id == customer_id:
        return customer if customer.get("email") else {**customer, "email": creator.get("email")}, ""
    return creator, f":user:{reading.identifier('article.created_by_id', writer_id or 'unknown')}"


def _roles(person: dict[str, Any]) -> list[object]:
    roles = person.get("roles")
    return roles if isinstance(roles, list) else []


def _name(person: dict[str, Any]) -> str:
    parts = (reading.line(field, person.get(field), reading.MAX_NAME_CHARS) for field in ("firstname", "lastname"))
    return " ".join(part for part in parts if part)[:reading.MAX_NAME_CHARS]


def _owner(ticket: dict[str, Any], settings: Settings) -> str:
    owner = reading.inner(ticket, "owner")
    owner_id = str(ticket.get("owner_id") or owner.get("id") or NOBODY)
    return "" if owner_id in {NOBODY, settings.zammad_user_id} else _name(owner) or "an agent"


def sender_of(raw: bytes) -> str:
    """Return the address in a body that could not be used; "" if there is none."""
    try:
        event = reading.inner(reading.json_of(raw))
        person, _known_by = _writer(reading.inner(event, "ticket"), reading.inner(event, "article"))
        return reading.line("email", person.get("email"), 200)
    except Unusable:
        return ""
