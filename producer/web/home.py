"""The first page after the login: what waits, and where it is."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from producer.web.auth import StaffOf
from producer.web.pages import page
from producer.web.state import SiteOf
from supportpilot.service import approval

router = APIRouter()


@router.api_route("/", methods=["GET", "HEAD"])
def home(request: Request, site: SiteOf, who: StaffOf) -> Response:
    """Return links to approvals and tickets, with how many wait."""
    return page(request, "home.html", name=who.name, waiting=approval.count_pending(site.db))
