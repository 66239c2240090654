"""Zammad: replies by its API, in the form in which the customer wrote; one is found again by its words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from supportpilot.channels import api, reading
from supportpilot.channels.api import Api, Desk, Sent, target
from supportpilot.channels.wording import to_html
from supportpilot.config import Settings
from supportpilot.db.outbox import OutboxRow
from supportpilot.desk.outbox import SendResult

CHANNEL = "zammad"


def deliver(settings: Settings, row: OutboxRow, _now: int) -> SendResult:
    """Add an article that the customer sees: a mail where the customer wrote mail, else an article of the ticket."""
    return api.send(DESK, settings, row)


def headers(token: str) -> dict[str, str]:
    """Return the login."""
    return {"authorization": f"Token token={token}"}


async def _articles(api: Api, number: str) -> list[dict[str, Any]]:
    return reading.items(await api.call("GET", f"/api/v1/ticket_articles/by_ticket/{number}"))


async def _look(api: Api, settings: Settings, row: OutboxRow) -> Iterable[Sent]:
    account, number = target(row, 2)
    return [Sent(id=f"{CHANNEL}:{account}:{article.get('id')}", markup=str(article.get("body") or ""),
                 ours=settings.zammad_user_id is None or str(article.get("created_by_id")) == settings.zammad_user_id)
            for article in await _articles(api, number)
            if article.get("sender") == "Agent" and not article.get("internal")]


async def _post(api: Api, _settings: Settings, row: OutboxRow) -> str:
    account, number = target(row, 2)
    article = {"ticket_id": int(number), "body": to_html(row.body), "content_type": "text/html", "internal": False,
               "sender": "Agent", **_form(await _articles(api, number))}
    answer = await api.call("POST", "/api/v1/ticket_articles", body=article)
    found = reading.inner(answer).get("id")
    return f"{CHANNEL}:{account}:{found}" if isinstance(found, int) else ""


def _form(articles: list[dict[str, Any]]) -> dict[str, str]:
    """Return type, addressee and thread of a reply to the customer's last article."""
    last: dict[str, Any] = next((a for a in reversed(articles) if a.get("sender") == "Customer" and not a.get("internal")), {})
    if last.get("type") != "email":
        return {"type": "note"}
    to = str(last.get("reply_to") or last.get("from") or "")
    return {"type": "email", "to": to, "subject": str(last.get("subject") or ""),
            "in_reply_to": str(last.get("message_id") or "")}


DESK = Desk(CHANNEL, headers, _look, _post)
