"""Freshdesk: replies by its API. It keeps no field of ours with a reply, so one is found again by its words."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from supportpilot.channels import api, reading
from supportpilot.channels.api import Api, Desk, Sent, target
from supportpilot.channels.wording import to_html
from supportpilot.config import Settings
from supportpilot.db.outbox import OutboxRow
from supportpilot.desk.outbox import SendResult

CHANNEL = "freshdesk"
PAGE = 100
MOST_PAGES = 10     # of the API, oldest first; a longer conversation's end is not seen


def deliver(settings: Settings, row: OutboxRow, _now: int) -> SendResult:
    """Send a public reply in the ticket."""
    return api.send(DESK, settings, row)


def headers(token: str) -> dict[str, str]:
    """Return the login: the key is the user's name, the password means nothing."""
    return {"authorization": "Basic " + base64.b64encode(f"{token}:X".encode()).decode()}


async def _look(api: Api, settings: Settings, row: OutboxRow) -> Iterable[Sent]:
    account, number = target(row, 2)
    found: list[Sent] = []
    for page in range(1, MOST_PAGES + 1):
        part = reading.items(await api.call("GET", f"/api/v2/tickets/{number}/conversations",
                                            params={"per_page": str(PAGE), "page": str(page)}))
        found += [Sent(id=f"{CHANNEL}:{account}:{item.get('id')}", markup=str(item.get("body") or item.get("body_text") or ""),
                       ours=settings.freshdesk_user_id is None or str(item.get("user_id")) == settings.freshdesk_user_id)
                  for item in part if not item.get("incoming") and not item.get("private")]
        if len(part) < PAGE:
            break
    return found


async def _post(api: Api, _settings: Settings, row: OutboxRow) -> str:
    account, number = target(row, 2)
    answer = await api.call("POST", f"/api/v2/tickets/{number}/reply", body={"body": to_html(row.body)})
    found = reading.inner(answer).get("id")
    return f"{CHANNEL}:{account}:{found}" if isinstance(found, int) else ""


DESK = Desk(CHANNEL, headers, _look, _post)
