"""Zendesk: replies by its API. A ticket's update keeps fields of ours (`metadata.custom`), so a reply is found by its key."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from supportpilot.channels import api, reading
from supportpilot.channels.api import Api, Desk, Sent, target
from supportpilot.channels.port import MARKER
from supportpilot.channels.wording import to_html
from supportpilot.config import Settings
from supportpilot.db.outbox import OutboxRow
from supportpilot.desk.outbox import SendResult

CHANNEL = "zendesk"


def deliver(settings: Settings, row: OutboxRow, _now: int) -> SendResult:
    """Add a public comment to the ticket."""
    return api.send(DESK, settings, row)


def headers(token: str) -> dict[str, str]:
    """Return the login: `address/token:key` is for basic auth, anything else is an OAuth token."""
    if ":" in token:
        return {"authorization": "Basic " + base64.b64encode(token.encode()).decode()}
    return {"authorization": f"Bearer {token}"}


async def _look(api: Api, settings: Settings, row: OutboxRow) -> Iterable[Sent]:
    account, number = target(row, 2)
    answer = await api.call("GET", f"/api/v2/tickets/{number}/comments.json",
                            params={"sort_order": "desc", "per_page": "100"})
    return [_sent(comment, account, settings) for comment in reading.items(reading.inner(answer).get("comments"))
            if comment.get("public") is not False]


def _sent(comment: dict[str, Any], account: str, settings: Settings) -> Sent:
    ours = settings.zendesk_user_id is None or str(comment.get("author_id")) == settings.zendesk_user_id
    return Sent(id=f"{CHANNEL}:{account}:{comment.get('id')}", markup=str(comment.get("html_body") or comment.get("body") or ""),
                marker=str(reading.inner(comment, "metadata", "custom").get(MARKER) or ""), ours=ours)


async def _post(api: Api, _settings: Settings, row: OutboxRow) -> str:
    account, number = target(row, 2)
    answer = await api.call("PUT", f"/api/v2/tickets/{number}.json", body={"ticket": {
        "comment": {"html_body": to_html(row.body), "public": True}, "metadata": {MARKER: row.idempotency_key}}})
    events = reading.items(reading.inner(answer, "audit").get("events"))
    found = next((event.get("id") for event in events if event.get("type") == "Comment"), None)
    return f"{CHANNEL}:{account}:{found}" if isinstance(found, int) else ""


DESK = Desk(CHANNEL, headers, _look, _post)
