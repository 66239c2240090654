"""A ticket live: the steps, tools and tokens of the turn that runs, as server-sent events for the staff.

`streams.py` watches for all pages with one connection; here only what was missed is read, and the events get their ids.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from producer.web.auth import staff
from producer.web.ids import plain_ids
from producer.web.session import secret_of
from producer.web.state import Site, SiteOf
from producer.web.streams import News, Pulse, sse, stream
from supportpilot.db.events import Event
from supportpilot.service import approvers, ticket_page
from supportpilot.service.approvers import Approver

router = APIRouter(dependencies=[Depends(plain_ids)])

HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
MOST_DIGITS = 18


@router.get("/tickets/{ticket_id}/live")
async def follow(ticket_id: str, request: Request, site: SiteOf, _: Annotated[Approver, Depends(staff)],
                 last_event_id: Annotated[str, Header()] = "") -> StreamingResponse:
    """Tell what happens on the ticket: `turn`, `step`, `tool`, `token`, `end`; `changed` when anything else has; `gone`."""
    await run_in_threadpool(ticket_page.exists, site.db, ticket_id)
    known = int(last_event_id) if last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) <= MOST_DIGITS else None
    secret = secret_of(request)
    news = followed(site, ticket_id, known, lambda: approvers.by_session(site.db, secret) is not None)
    return StreamingResponse(news, media_type="text/event-stream", headers=HEADERS)


async def followed(site: Site, ticket_id: str, known: int | None, allowed: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield what was missed since `known` (None: of the turn that runs), then the news, none of it twice.

    Until `allowed` says no.

    The first pulse comes when the ticket is watched, so what was missed is read then and nothing falls between the two;
    what came before that is among it.
    """
    newest, watched, asked = known or 0, False, False

    def shown(news: News) -> bytes | None:
        nonlocal newest, watched
        if isinstance(news, Pulse):
            watched = True
            return sse("gone", "{}") if news.mark is None else sse("changed", _json({"pulse": news.mark}))
        if not watched or news.id <= newest:
            return None
        newest = news.id
        return told(news)

    async for chunk in stream(site.streams, ticket_id, shown, allowed):
        yield chunk
        if watched and not asked:
            asked = True
            for event in await run_in_threadpool(ticket_page.missed, site.db, ticket_id, known):
                again = shown(event)
                if again is not None:
                    yield again


def told(event: Event) -> bytes:
    """Return a live event with its id, by which the browser asks for what came after it."""
    return f"id: {event.id}\n".encode() + sse(event.type, _json({**event.data, "turn": event.turn_id}))


def _json(data: Any) -> str:  # noqa: ANN401 -- JSON is any
    return json.dumps(data, ensure_ascii=False)
