"""Ask Chatwoot what was written since a moment: its account hooks are sent once, and lost if we were away for 5 s."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx

from supportpilot.channels import reading
from supportpilot.channels.api import Answered, Api, NoAnswer, NotSent
from supportpilot.channels.chatwoot import CHANNEL, headers, read_message, writer_of
from supportpilot.channels.port import Heard
from supportpilot.config import Settings
from supportpilot.errors import Unusable

SECONDS_LISTING = 120.0         # 25 conversations a page
SECONDS_CONVERSATION = 60.0     # 20 messages a page

T = TypeVar("T")


@dataclass(frozen=True)
class Listed:
    """Conversations with something new, the one that is quiet the longest first; `error`: why they are not all."""

    conversations: list[dict[str, Any]]
    error: str = ""


@dataclass(frozen=True)
class Unread:
    """A message that cannot be read, in the form in which its hook would have brought it."""

    id: str
    sender: str
    raw: bytes
    why: str


@dataclass(frozen=True)
class Written:
    """What a conversation has new, in order."""

    messages: list[Heard]
    unread: list[Unread]


def listed_since(settings: Settings, since: datetime) -> Listed:
    """Return the conversations that had activity since, as far as Chatwoot lists them.

    Raises:
        Misconfigured: its address or token is not set.
    """
    found: dict[str, dict[str, Any]] = {}
    error = ""
    try:
        _run(settings, SECONDS_LISTING, lambda api: _list(api, settings.chatwoot_account_id, since, found))
    except (Answered, NotSent, NoAnswer) as failed:
        error = str(failed)
    return Listed(sorted(found.values(), key=active_at), error)


def written_in(settings: Settings, conversation: dict[str, Any], since: datetime) -> Written:
    """Return what customers and colleagues wrote in a conversation since, whether its hook came or not.

    Raises:
        NotSent, NoAnswer, Answered: Chatwoot cannot be asked.
        Misconfigured: its address or token is not set.
        Unusable: the conversation has no number.
    """
    account = settings.chatwoot_account_id
    messages: list[Heard] = []
    unread: list[Unread] = []
    for message in _run(settings, SECONDS_CONVERSATION, lambda api: _messages(api, account, conversation, since)):
        try:
            read = read_message(message, conversation, account, settings)
        except Unusable as error:
            hook = {**message, "event": "message_created", "account": {"id": account}, "conversation": conversation}
            unread.append(Unread(str(message["id"]), writer_of(message), json.dumps(hook).encode(), str(error)))
            continue
        if isinstance(read, Heard):
            messages.append(read)
    return Written(messages, unread)


def active_at(conversation: dict[str, Any]) -> datetime:
    """Return when a conversation was last active, by Chatwoot's clock."""
    return _at(conversation, "last_activity_at")


def _run(settings: Settings, seconds: float, ask: Callable[[Api], Awaitable[T]]) -> T:
    base, token = settings.helpdesk_api(CHANNEL)

    async def run() -> T:
        try:
            async with (asyncio.timeout(seconds),
                        httpx.AsyncClient(timeout=settings.reply_timeout_seconds, follow_redirects=False) as client):
                return await ask(Api(CHANNEL, base.rstrip("/"), headers(token), client))
        except TimeoutError:
            raise NoAnswer(f"no answer from {CHANNEL} within {seconds:g} s") from None
    return asyncio.run(run())


async def _list(api: Api, account: int | None, since: datetime, found: dict[str, dict[str, Any]]) -> None:
    """Fill `found`, the latest first: what moves meanwhile moves to the front, so that none is missed between two pages."""
    page = 0
    while True:
        page += 1
        answer = await api.call("GET", f"/api/v1/accounts/{account}/conversations", params={
            "status": "all", "assignee_type": "all", "sort_by": "last_activity_at_desc", "page": str(page)})
        part = reading.items(reading.inner(answer, "data").get("payload"))
        new = {str(c.get("id")): c for c in part if str(c.get("id")) not in found and active_at(c) >= since}
        found |= new
        if not new or active_at(part[-1]) < since:
            return


async def _messages(api: Api, account: int | None, conversation: dict[str, Any], since: datetime) -> list[dict[str, Any]]:
    """Return a conversation's messages since, oldest first; one that is deleted meanwhile has none."""
    found: dict[int, dict[str, Any]] = {}
    number = reading.number("id", conversation.get("id"))
    path = f"/api/v1/accounts/{account}/conversations/{number}/messages"
    params: dict[str, str] = {}
    while True:
        try:
            part = reading.items(reading.inner(await api.call("GET", path, params=params)).get("payload"))
        except Answered as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise
            break
        new = {m["id"]: m for m in part if isinstance(m.get("id"), int) and m["id"] not in found}
        found |= new
        if not new or min(_at(m, "created_at") for m in new.values()) < since:
            break
        params = {"before": str(min(new))}
    return [found[number] for number in sorted(found) if _at(found[number], "created_at") >= since]


def _at(thing: dict[str, Any], field: str) -> datetime:
    return reading.moment(thing.get(field)) or datetime.fromtimestamp(0, UTC)
