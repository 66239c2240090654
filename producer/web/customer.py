"""The customer's own page: a link with a token to their ticket, a box to write on, live progress in plain words.

The token in the address is all the right there is, so nothing here knows sessions or staff. GET and HEAD only show.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from producer.web import i18n, pages
from producer.web.forms import FormRefused, same_site
from producer.web.i18n import texts
from producer.web.state import Site, SiteOf
from producer.web.streams import News, Pulse, sse, stream
from supportpilot.desk.links import form_seal, sealed
from supportpilot.errors import NotFound, Transient, Unusable
from supportpilot.service import customer_page
from supportpilot.service.customer_page import TooMany

router = APIRouter()

PRIVATE = {"cache-control": "no-store", "referrer-policy": "no-referrer", "x-robots-tag": "noindex, nofollow, noarchive"}
RETRY_SECONDS = {429: "60", 503: "5"}
_TOKEN = re.compile(r"[A-Za-z0-9-]{1,100}")


@dataclass(frozen=True)
class Wrong:
    """Why a text was not stored: `problem` is empty, long, often or form; the text stays in the box."""

    status: int
    problem: str
    text: str = ""


@router.api_route("/t/{token}", methods=["GET", "HEAD"], response_class=HTMLResponse)
def show_page(token: str, request: Request, site: SiteOf) -> Response:
    """Return the page; 404, always the same one, for whatever token opens nothing."""
    return _shown(site, request, token)


@router.api_route("/t/{token}/conversation", methods=["GET", "HEAD"], response_class=HTMLResponse)
def show_conversation(token: str, request: Request, site: SiteOf) -> Response:
    """Return the state and the conversation alone, for a page that is open already."""
    return _shown(site, request, token, template="customer_conversation.html")


@router.get("/t/{token}/events")
async def follow(token: str, request: Request, site: SiteOf) -> Response:
    """Tell what happens on the ticket as server-sent events: `step` with its words, `changed`, `gone`."""
    try:
        page = await run_in_threadpool(customer_page.look, site.db, site.settings, token)
    except NotFound:
        return _missing(request)
    t = texts(request, page.lang)

    def shown(news: News) -> bytes | None:
        if isinstance(news, Pulse):
            return sse("gone", "{}") if news.mark is None else sse("changed", json.dumps({"pulse": news.mark}))
        step = customer_page.step_of(news)
        return None if step is None else sse("step", json.dumps({"text": t(f"customer.step.{step}")}, ensure_ascii=False))

    def allowed() -> bool:
        return customer_page.still_opens(site.db, site.settings, token)

    return StreamingResponse(stream(site.streams, page.opened.ticket_id, shown, allowed), media_type="text/event-stream",
                             headers={**PRIVATE, "x-accel-buffering": "no"})


@router.post("/t/{token}")
async def write(token: str, request: Request, site: SiteOf) -> Response:
    """Store a message and lead back to the page; what is wrong with it stands above the box, with the text kept."""
    try:
        form = (await same_site(request)).fields
    except FormRefused:
        return await run_in_threadpool(_shown, site, request, token, Wrong(403, "form"))
    except Unusable:        # no form, or one that is larger than any text may be
        return await run_in_threadpool(_shown, site, request, token, Wrong(413, "long"))
    return await run_in_threadpool(_take, site, request, token, form)


def _take(site: Site, request: Request, token: str, form: Mapping[str, str]) -> Response:
    text = form.get("body", "")
    if not sealed(site.settings.link_secrets(), token, form.get("key", ""), form.get("seal", "")):
        return _shown(site, request, token, Wrong(403, "form", text))
    try:
        customer_page.write(site.db, site.settings, site.ports, token, form)
    except NotFound:
        return _missing(request)
    except Unusable as error:
        return _shown(site, request, token, Wrong(422, str(error), text))
    except TooMany:
        return _shown(site, request, token, Wrong(429, "often", text))
    except Transient:
        return _away(request, token, form)
    # Relative, so that it also fits behind a proxy that serves us under a path.
    return RedirectResponse(f"{token}{_query(request)}#end", status_code=303, headers=PRIVATE)


def _shown(site: Site, request: Request, token: str, wrong: Wrong | None = None,
           template: str = "customer.html") -> Response:
    try:
        page = customer_page.look(site.db, site.settings, token)
    except NotFound:
        return _missing(request)
    except Transient:
        return _away(request, token, {})
    key = secrets.token_urlsafe(18)
    limit = site.settings.max_message_chars
    t = texts(request, page.lang)
    return _private(pages.page(
        request, template, wrong.status if wrong else 200, t=t, page=page, token=token, query=_query(request), limit=limit,
        text=wrong.text if wrong else "", problem=t(f"customer.problem.{wrong.problem}", n=limit) if wrong else "",
        key=key, seal=form_seal(site.settings.link_secrets()[0], token, key)))


def _away(request: Request, token: str, form: Mapping[str, str]) -> Response:
    """The database is away: keep the text and the form's key, so that sending again is the same message."""
    kept: dict[str, Any] = {name: form.get(name, "") for name in ("key", "seal")}
    if not _TOKEN.fullmatch(token):
        return _missing(request)
    return _private(pages.page(request, "customer_away.html", 503, token=token, query=_query(request),
                               text=form.get("body", ""), **kept))


def _missing(request: Request) -> Response:
    return _private(pages.page(request, "customer_missing.html", 404))


def _private(answer: Response) -> Response:
    answer.headers.update(PRIVATE)
    if answer.status_code in RETRY_SECONDS:
        answer.headers["retry-after"] = RETRY_SECONDS[answer.status_code]
    return answer


def _query(request: Request) -> str:
    """Return the part of the address that keeps a chosen language."""
    lang = i18n.asked(request)
    return f"?lang={lang}" if lang else ""
