"""The web application; `python -m producer.web` serves it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from fastapi import FastAPI

from producer.channels.registry import STANDARD
from producer.signatures import check_secrets
from producer.web import (
    api,
    approvals,
    auth,
    customer,
    customers,
    errors,
    health,
    home,
    kb,
    live,
    static,
    tickets,
    webhooks,
)
from producer.web.headers import SecurityHeaders
from producer.web.state import Site
from producer.web.streams import Streams
from supportpilot.config import Settings
from supportpilot.db.pool import Database
from supportpilot.types import Ports


def _utc_now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 -- a sender's signed time is compared before the database is asked


def create_app(settings: Settings, db: Database, ports: Ports, *,
               clock: Callable[[], datetime] = _utc_now) -> FastAPI:
    """Build the app over an open database; whoever opened that closes it.

    Raises:
        Misconfigured: a secret is not base64.
    """
    check_secrets(settings, STANDARD)
    app = FastAPI(title="SupportPilot", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.site = Site(settings, db, ports, clock, Streams(db.url))
    errors.install(app)
    auth.install(app)
    for part in (webhooks, kb, health, static, auth, home, approvals, api, customer, live, tickets, customers):
        app.include_router(part.router)
    app.add_middleware(errors.LastResort)
    app.add_middleware(SecurityHeaders)
    return app
