"""Is the process alive, and can it take messages? Two questions, two answers."""

from __future__ import annotations

import logging
import socket
from urllib.parse import urlsplit

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from producer.web.errors import RETRY_AFTER_SECONDS
from producer.web.state import Site, SiteOf
from supportpilot.db.leases import clock
from supportpilot.db.migrate import pending
from supportpilot.errors import SupportPilotError

log = logging.getLogger(__name__)

router = APIRouter()

BROKER_SECONDS = 1.0
DEFAULT_PORTS = {"redis": 6379, "rediss": 6379, "amqp": 5672, "amqps": 5671}


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the process lives, whatever is missing around it."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(site: SiteOf) -> JSONResponse:
    """Say whether messages can be taken (200, else 503), and name what is missing.

    An absent broker is named but does not count: messages are stored without it, and the sweeper sends them on.
    """
    missing = _database(site)
    shown = {"ready": not missing, "missing": missing, "broker": _broker(site.settings.broker)}
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if missing else None
    return JSONResponse(shown, status_code=503 if missing else 200, headers=headers)


def _database(site: Site) -> list[str]:
    try:
        with site.db.connection() as conn:
            clock(conn)
        waiting = pending(site.settings.database_url or site.db.url)
    except SupportPilotError as error:     # asked by anybody: the error names hosts, users and databases
        log.warning("not ready: %s", error)
        return ["database away"]
    return [f"migration {name} (run `supportpilot migrate`)" for name in waiting]


def _broker(url: str | None) -> str:
    if url is None:
        return "not configured"
    try:
        parts = urlsplit(url)
        address = (parts.hostname or "127.0.0.1", parts.port or DEFAULT_PORTS.get(parts.scheme, 0))
        with socket.create_connection(address, timeout=BROKER_SECONDS):
            return "ok"
    except (OSError, ValueError):
        return "away: messages are stored and sent on when it is back"
