"""The door for messages: read bounded, verify, parse, store, answer. Nothing unsigned is parsed or kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from producer.channels import email, generic
from producer.signatures import Unsigned, verify
from producer.web.errors import answer
from producer.web.state import Site, SiteOf
from supportpilot.config import Settings
from supportpilot.db.pool import Database
from supportpilot.errors import Unusable
from supportpilot.service import intake
from supportpilot.types import InboundMessage, Ports

log = logging.getLogger(__name__)
router = APIRouter()

BODY_SECONDS = 10.0
# What is too large is still read up to here, unkept: a sender that cannot finish writing never sees the 413.
DRAINED_BYTES = 4_194_304


@dataclass(frozen=True)
class Channel:
    """How a channel's requests become messages."""

    parse: Callable[[bytes, str | None, Settings], InboundMessage]
    sender_of: Callable[[bytes], str]


@dataclass(frozen=True)
class RawChannel:
    """A channel whose requests are stored as they come, then read."""

    receive: Callable[[Database, Settings, Ports, bytes], tuple[int, dict[str, Any]]]
    limit: Callable[[Settings], int]


CHANNELS: dict[str, Channel | RawChannel] = {
    generic.CHANNEL: Channel(generic.parse, generic.sender_of),
    email.CHANNEL: RawChannel(email.receive, lambda settings: settings.mail_max_bytes),
}


@router.post("/webhooks/{channel}")
async def receive_webhook(channel: str, request: Request, site: SiteOf) -> JSONResponse:
    """Store a message: 202 new, 200 known, 202 quarantined, 401, 404, 413, 503 (raised, see `errors.py`)."""
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
        delivery_id = verify(request.headers, body, site.settings.webhook_secrets(channel), site.clock())
    except Unsigned as error:
        log.warning("webhook %s refused: %s", channel, error)
        raise
    return await run_in_threadpool(store, site, channel, body, delivery_id)


async def read_body(request: Request, limit: int) -> bytes | None:
    """Return the body, or None if it is larger than `limit`; never holds more than that and one chunk."""
    kept, seen = bytearray(), 0
    async for chunk in request.stream():
        seen += len(chunk)
        if seen <= limit:
            kept += chunk
        elif seen > limit + DRAINED_BYTES:
            break
    return bytes(kept) if seen <= limit else None


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
        message = door.parse(body, delivery_id, site.settings)
    except Unusable as error:
        kept = intake.keep_unusable(
            site.db, channel, door.sender_of(body), body, str(error), delivery_id=f"{channel}:{delivery_id}")
        log.warning("webhook %s: %s in quarantine: %s", channel, kept, error)
        return JSONResponse({"quarantined": kept, "reason": str(error)}, status_code=202)
    got = intake.receive(site.db, site.settings, site.ports, message)
    shown = {"ticket_id": got.ticket_id, "message_id": got.message_id, "duplicate": got.duplicate}
    return JSONResponse(shown, status_code=200 if got.duplicate else 202)
