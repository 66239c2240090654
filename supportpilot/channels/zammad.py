"""Zammad: replies by its API, in the form in which the customer wrote; one is found again by its words."""

from __future__ import annotations

from collections.abc import Iterable
from email.utils import parseaddr
from typing import Any

from supportpilot.channels import api, reading
from supportpilot.channels.api import Api, Desk, Sent, target
from supportpilot.channels.wording import to_html
from supportpilot.config import Settings
from supportpilot.db.outbox import OutboxRow
from supportpilot.desk.outbox import SendResult
from supportpilot.errors import Unusable

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
               "sender": "Agent", **_form(await _articles(api, number), row)}
    answer = await api.call("POST", "/api/v1/ticket_articles", body=article)
    found = reading.inner(answer).get("id")
    return f"{CHANNEL}:{account}:{found}" if isinstance(found, int) else ""


def _form(articles: list[dict[str, Any]], row: OutboxRow) -> dict[str, str]:
    """Return type, addressee and thread of a reply to the article that is answered.

    Others write into a ticket too, and a mail names whom it likes in Reply-To: neither may get the customer's answer.

    Raises:
        Unusable: the customers of the ticket write mail, and none of it is by the one who is answered.
    """
    said = [a for a in articles if a.get("sender") == "Customer" and not a.get("internal")]
    answered = (row.in_reply_to or "").rpartition(":")[2]
    theirs = [a for a in said if str(a.get("id")) == answered] or [a for a in said if _address(a) == row.contact]
    if not theirs and any(a.get("type") == "email" for a in said):
        raise Unusable("the customer's article is not in the ticket any more: to whom the mail should go is not known")
    if not theirs or theirs[-1].get("type") != "email":
        return {"type": "note"}
    return {"type": "email", "to": str(theirs[-1].get("from") or ""), "subject": str(theirs[-1].get("subject") or ""),
            "in_reply_to": str(theirs[-1].get("message_id") or "")}


def _address(article: dict[str, Any]) -> str:
    return parseaddr(str(article.get("from") or ""))[1].lower()


DESK = Desk(CHANNEL, headers, _look, _post)
