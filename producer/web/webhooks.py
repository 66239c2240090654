"""The door for messages: read bounded, verify, parse, store, answer. Nothing unsigned is parsed or kept."""

from __future__ import annotations

import asyncio
import hashlib
import logging

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from producer.channels.port import RawChannel
from producer.channels.registry import CHANNELS
from producer.signatures import Unsigned
from producer.web.body import read_body
from producer.web.errors import answer
from producer.web.state import Site, SiteOf
from supportpilot.channels.port import Ignored
from supportpilot.errors import Unusable
from supportpilot.service import channels, intake
from supportpilot.service.channels import Done

log = logging.getLogger(__name__)
router = APIRouter()

BODY_SECONDS = 10.0
# A delivery that was erased comes again: as good as a duplicate for the sender, and nothing more to say.
ERASED = {"duplicate": True, "ignored": "erased"}


@router.head("/webhooks/{channel}")
async def knock(channel: str) -> JSONResponse:
    """Answer senders that look whether there is a door before they save its address."""
    return JSONResponse({}, status_code=200 if channel in CHANNELS else 404)


@router.post("/webhooks/{channel}")
async def receive_webhook(channel: str, request: Request, site: SiteOf) -> JSONResponse:
    """Store a message: 202 new, 200 known, ignored or erased, 202 quarantined, 401, 404, 413, 503 (raised, see `errors.py`)."""
    if channel not in CHANNELS:
        return answer(404, f"unknown channel; there are: {', '.join(CHANNELS)}")
    door = CHANNELS[channel]
    limit = door.limit(site.settings) if isinstance(door, RawChannel) else site.settings.max_body_bytes
    try:
        body = await asyncio.wait_for(read_body(request, limit), BODY_SECONDS)
    except TimeoutError:
        return answer(408, f"the request's body did not arrive within {BODY_SECONDS:.0f} s")
    if body is None:
        return answer(413, f"the body is larger than {limit} bytes")
    try:
        delivery_id = door.verify(request.headers, body, site.settings.webhook_secrets(channel), site.clock())
    except Unsigned as error:
        log.warning("webhook %s refused: %s", channel, error)
        await run_in_threadpool(site.refusals.note, site.db, channel)
        raise
    return await run_in_threadpool(store, site, channel, body, delivery_id)


def store(site: Site, channel: str, body: bytes, delivery_id: str) -> JSONResponse:
    """Parse and store a verified request's body.

    Raises:
        Unavailable: the database is away; nothing is stored and the sender has to try again.
    """
    door = CHANNELS[channel]
    if isinstance(door, RawChannel):
        status, said = door.receive(site.db, site.settings, site.ports, body)
        return JSONResponse(said, status_code=status)
    try:
        event = door.parse(body, delivery_id, site.settings)
    except Unusable as error:
        known_by = f"{channel}:{delivery_id}" if delivery_id else f"{channel}:sha256:{hashlib.sha256(body).hexdigest()}"
        kept = intake.keep_unusable(site.db, channel, door.sender_of(body), body, str(error), delivery_id=known_by)
        if kept is None:
            return JSONResponse(ERASED, status_code=200)
        log.warning("webhook %s: %s in quarantine: %s", channel, kept, error)
        return JSONResponse({"quarantined": kept, "reason": str(error)}, status_code=202)
    got = channels.take(site.db, site.settings, site.ports, channel, event)
    if isinstance(got, Ignored):
        return JSONResponse({"ignored": got.reason})
    if isinstance(got, Done):
        return JSONResponse({"ticket_id": got.ticket_id, "conversation": got.kind})
    if got.erased:
        return JSONResponse(ERASED, status_code=200)
    shown = {"ticket_id": got.ticket_id, "message_id": got.message_id, "duplicate": got.duplicate}
    return JSONResponse(shown, status_code=200 if got.duplicate else 202)
