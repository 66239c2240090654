"""Intercom: replies by its API. It keeps no field of ours with a reply, so one is found again by its words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from supportpilot.channels import api, reading
from supportpilot.channels.api import Api, Desk, Sent, target
from supportpilot.channels.wording import essences_of_reply, same_words, to_html
from supportpilot.config import Settings
from supportpilot.db.outbox import OutboxRow
from supportpilot.desk.outbox import SendResult
from supportpilot.errors import Misconfigured

CHANNEL = "intercom"
API_VERSION = "2.11"


def deliver(settings: Settings, row: OutboxRow, _now: int) -> SendResult:
    """Reply in the conversation as INTERCOM_USER_ID."""
    return api.send(DESK, settings, row)


def headers(token: str) -> dict[str, str]:
    """Return the login and the API's version."""
    return {"authorization": f"Bearer {token}", "intercom-version": API_VERSION}


async def _look(api: Api, settings: Settings, row: OutboxRow) -> Iterable[Sent]:
    account, number = target(row, 2)
    return _parts(await api.call("GET", f"/conversations/{number}"), account, settings)


async def _post(api: Api, settings: Settings, row: OutboxRow) -> str:
    account, number = target(row, 2)
    if not settings.intercom_user_id:
        raise Misconfigured("set INTERCOM_USER_ID: a reply needs an admin who says it")
    answer = await api.call("POST", f"/conversations/{number}/reply", body={
        "message_type": "comment", "type": "admin", "admin_id": settings.intercom_user_id, "body": to_html(row.body)})
    ours = essences_of_reply(row.body)
    said = [part.id for part in _parts(answer, account, settings) if part.ours and same_words(ours, part.markup)]
    return said[-1] if said else ""


def _parts(conversation: object, account: str, settings: Settings) -> list[Sent]:
    parts = reading.items(reading.inner(conversation, "conversation_parts").get("conversation_parts"))
    return [Sent(id=f"{CHANNEL}:{account}:{part.get('id')}", markup=str(part.get("body") or ""), ours=_ours(part, settings))
            for part in parts if part.get("part_type") == "comment"]


def _ours(part: dict[str, Any], settings: Settings) -> bool:
    author = reading.inner(part, "author")
    return author.get("type") == "admin" and str(author.get("id")) == settings.intercom_user_id


DESK = Desk(CHANNEL, headers, _look, _post)
