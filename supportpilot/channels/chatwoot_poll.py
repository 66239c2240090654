"""Ask Chatwoot what was written since a moment: its account hooks are sent once, and lost if we were away for 5 s."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx

from supportpilot.channels import reading
from supportpilot.channels.api import Answered, Api, NoAnswer
from supportpilot.channels.chatwoot import CHANNEL, headers, read_message
from supportpilot.channels.port import Heard
from supportpilot.config import Settings
from supportpilot.errors import Unusable

PAGES = 40              # of 25 conversations, the latest first
PAGES_OF_MESSAGES = 10  # of 20 messages, the latest first
SECONDS = 120.0


@dataclass(frozen=True)
class Written:
    """What was written since, in each conversation in order; `until` is the latest activity seen."""

    messages: list[Heard]
    unreadable: list[tuple[str, str]]   # (message id, why): the hook's quarantine has its raw form, if it came
    until: datetime | None


def written_since(settings: Settings, since: datetime) -> Written:
    """Return what customers and colleagues wrote since, whether its hook came or not.

    Raises:
        NotSent, NoAnswer, Answered: Chatwoot cannot be asked.
        Misconfigured: its address or token is not set.
    """
    base, token = settings.helpdesk_api(CHANNEL)
    return asyncio.run(_ask(settings, base.rstrip("/"), token, since))


async def _ask(settings: Settings, base: str, token: str, since: datetime) -> Written:
    seconds = settings.reply_timeout_seconds
    try:
        async with asyncio.timeout(SECONDS), httpx.AsyncClient(timeout=seconds, follow_redirects=False) as client:
            return await _collect(Api(CHANNEL, base, headers(token), client), settings, since)
    except TimeoutError:
        raise NoAnswer(f"no answer from {CHANNEL} within {SECONDS:g} s") from None


async def _collect(api: Api, settings: Settings, since: datetime) -> Written:
    account = settings.chatwoot_account_id
    messages: list[Heard] = []
    unreadable: list[tuple[str, str]] = []
    conversations = await _conversations(api, account, since)
    for conversation in conversations:
        for message in await _messages(api, account, conversation, since):
            try:
                read = read_message(message, conversation, account, settings)
            except Unusable as error:
                unreadable.append((str(message.get("id")), str(error)))
                continue
            if isinstance(read, Heard):
                messages.append(read)
    latest = [_at(conversation, "last_activity_at") for conversation in conversations]
    return Written(messages, unreadable, max(latest, default=None))


async def _conversations(api: Api, account: int | None, since: datetime) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for page in range(1, PAGES + 1):
        answer = await api.call("GET", f"/api/v1/accounts/{account}/conversations", params={
            "status": "all", "assignee_type": "all", "sort_by": "last_activity_at_desc", "page": str(page)})
        part = reading.items(reading.inner(answer, "data").get("payload"))
        found += [conversation for conversation in part if _at(conversation, "last_activity_at") >= since]
        if not part or _at(part[-1], "last_activity_at") < since:
            break
    return found


async def _messages(api: Api, account: int | None, conversation: dict[str, Any], since: datetime) -> list[dict[str, Any]]:
    """Return a conversation's messages since, oldest first; one that is deleted meanwhile has none."""
    found: dict[int, dict[str, Any]] = {}
    number = reading.number("id", conversation.get("id"))
    path = f"/api/v1/accounts/{account}/conversations/{number}/messages"
    params: dict[str, str] = {}
    for _ in range(PAGES_OF_MESSAGES):
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
