"""What the routes share: settings, database, ports, clock; made once by `create_app`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Request

from producer.web.refusals import Refusals
from producer.web.streams import Streams
from supportpilot.config import Settings
from supportpilot.db.pool import Database
from supportpilot.types import Ports


@dataclass(frozen=True)
class Site:
    """The app's own things."""

    settings: Settings
    db: Database
    ports: Ports
    clock: Callable[[], datetime]
    streams: Streams
    refusals: Refusals = field(default_factory=Refusals)


def _site(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


SiteOf = Annotated[Site, Depends(_site)]
