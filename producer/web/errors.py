"""The error tree as HTTP: one table; one line of JSON, or a page for whoever came with a browser; never a traceback."""

from __future__ import annotations

import logging
import traceback

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from producer.signatures import Unsigned
from producer.web.forms import FormRefused
from producer.web.i18n import texts
from producer.web.pages import page
from supportpilot.errors import Erased, Forbidden, NotFound, Refused, SupportPilotError, Transient, Unusable

log = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 5
# The first class that fits counts, so the special ones stand first; what is not listed is our own fault: 500.
STATUS: dict[type[SupportPilotError], int] = {
    Unsigned: 401,
    Erased: 410,
    NotFound: 404,
    Forbidden: 403,
    Refused: 409,
    Unusable: 422,
    Transient: 503,
}
MACHINES = ("/api/", "/webhooks/", "/healthz", "/readyz", "/metrics", "/static/", "/kb/")
INTERNAL = "internal error; the server's log says more"
AWAY = "not available right now; try again later"     # the error's own text names hosts and users of ours


def status_of(error: SupportPilotError) -> int:
    """Return the HTTP status of an error of the tree."""
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)


def answer(status: int, text: str) -> JSONResponse:
    """Return an error as JSON; a 503 says when to come back."""
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if status == 503 else None
    return JSONResponse({"error": text}, status_code=status, headers=headers)


def respond(request: Request, status: int, text: str, key: str = "") -> Response:
    """Return an error as the asker can read it: a page for a browser, else JSON."""
    if not wants_page(request):
        return answer(status, text)
    name = str(status) if f"error.{status}" in texts(request) else "500" if status >= 500 else "422"
    shown = page(request, "error.html", status, name=name, key=key or f"error.{name}", text="" if status >= 500 else text)
    if status == 503:
        shown.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return shown


def wants_page(request: Request) -> bool:
    """Say whether a browser asks for one of the pages."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(MACHINES)


def install(app: FastAPI) -> None:
    """Make the app answer errors by the table."""
    app.add_exception_handler(SupportPilotError, _ours)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _gone)


async def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, SupportPilotError)  # noqa: S101 -- registered for that class
    status = status_of(error)
    if status >= 500:
        log.error("%s %s: %s: %s", request.method, shown_path(request.url.path), type(error).__name__, error)
    key = "error.403.form" if isinstance(error, FormRefused) else ""
    return respond(request, status, {500: INTERNAL, 503: AWAY}.get(status) or str(error), key)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 -- registered for that class
    shown = respond(request, error.status_code, str(error.detail))
    shown.headers.update(error.headers or {})
    return shown


async def _gone(request: Request, _: Exception) -> JSONResponse:
    log.info("%s %s: the client went away before the end of its request", request.method, shown_path(request.url.path))
    return answer(400, "the request ended early")


def shown_path(path: str) -> str:
    """Return a path for the log: the token of a customer's page opens it, so it stays out."""
    return "/t/..." if path.startswith("/t/") else path


class LastResort:
    """Answer 500 for what nobody expected, and log where it came from in one line.

    Outside the framework: its own handler raises the error again after answering, and the server prints it all.
    The error's text is left out of the log, since it may quote the customer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watching(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watching)
        except Exception as error:  # noqa: BLE001 -- the last line of defence; it is logged and answered
            where = traceback.extract_tb(error.__traceback__)[-1]
            log.error("%s: unexpected %s at %s:%s", shown_path(str(scope.get("path"))), type(error).__name__, where.filename,  # noqa: TRY400 -- one line, not a traceback
                      where.lineno)
            if scope["type"] == "http" and not started:
                await respond(Request(scope), 500, INTERNAL)(scope, receive, send)
