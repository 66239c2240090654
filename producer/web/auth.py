"""Who is it? The staff by session cookie on pages and by bearer token on `/api`; what a role may do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated
from urllib.parse import parse_qs, quote, urlsplit

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from starlette.responses import Response

from producer.web.forms import Form, FormOf, same_site
from producer.web.i18n import texts
from producer.web.pages import page, see_other
from producer.web.session import COOKIE, secret_of
from producer.web.state import Site, SiteOf
from supportpilot.errors import Forbidden
from supportpilot.service import approvers, notices
from supportpilot.service.approvers import Approver, Role

router = APIRouter()

LOGIN = "/login"
TOKEN_CHARS = 200


class LoginNeeded(Exception):
    """Nobody is logged in, or the token is not known."""


def staff(request: Request, site: SiteOf) -> Approver:
    """Return who is logged in.

    Raises:
        LoginNeeded: nobody; a page sends the browser to the login, `/api` answers 401.
    """
    secret = secret_of(request)
    who = approvers.by_session(site.db, secret) if secret else None
    if who is None:
        raise LoginNeeded
    request.state.who = who
    return who


StaffOf = Annotated[Approver, Depends(staff)]


def need(role: Role) -> Callable[[Approver], Approver]:
    """Return a dependency: who is logged in, if the role allows it (`Depends(need("agent"))`).

    Raises:
        Forbidden: it does not (403).
    """
    def checked(who: StaffOf) -> Approver:
        require(who, role)
        return who
    return checked


def require(who: Approver, role: Role) -> None:
    """Raise Forbidden unless the person may do what a role may."""
    if not approvers.allows(who.role, role):
        raise Forbidden(f"{who.name} is {who.role}; this needs {role}")


def bearer(request: Request, site: SiteOf) -> Approver:
    """Return whose token the `Authorization: Bearer` header holds.

    Raises:
        LoginNeeded: nobody's (401).
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip()
    known = scheme.lower() == "bearer" and 0 < len(token) <= TOKEN_CHARS
    who = approvers.by_token(site.db, token) if known else None
    if who is None:
        raise LoginNeeded
    return who


BearerOf = Annotated[Approver, Depends(bearer)]


# login and logout -----------------------------------------------------------------------------------

@router.api_route(LOGIN, methods=["GET", "HEAD"])
def login_page(request: Request, site: SiteOf) -> Response:
    """Ask for the token; whoever is logged in goes on."""
    onward = local(request.query_params.get("next", ""))
    secret = secret_of(request)
    if secret and approvers.by_session(site.db, secret):
        return see_other(onward)
    return page(request, "login.html", onward=onward, wrong=False, expired=_came_late(site, onward))


def _came_late(site: Site, onward: str) -> bool:
    """Say whether it came by a link in a notification that is past its end: a sentence on the page, never a right."""
    parts = urlsplit(onward)
    signature = parse_qs(parts.query).get("s", [""])[0]
    return bool(signature) and notices.judge_link(site.db, parts.path, signature) == "expired"


@router.post(LOGIN)
def log_in(request: Request, site: SiteOf, form: Annotated[Form, Depends(same_site)]) -> Response:
    """Open a session for a token, and go where the browser wanted to go."""
    onward = local(form.text("next"))
    found = approvers.log_in(site.db, form.text("token", TOKEN_CHARS).strip(), site.settings.session_hours)
    if found is None:
        return page(request, "login.html", 403, onward=onward, wrong=True, expired=False)
    old = secret_of(request)
    if old:
        approvers.log_out(site.db, old)
    answer = see_other(onward)
    answer.set_cookie(COOKIE, found[1], max_age=int(site.settings.session_hours * 3600), path="/", httponly=True,
                      samesite="strict", secure=is_https(site))
    return answer


@router.post("/logout")
def log_out(request: Request, site: SiteOf, _: FormOf) -> Response:
    """End the session."""
    approvers.log_out(site.db, secret_of(request))
    answer = see_other(LOGIN)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict", secure=is_https(site))
    return answer


def is_https(site: Site) -> bool:
    """Say whether browsers reach us by https only."""
    return site.settings.public_url.lower().startswith("https:")


def local(path: str) -> str:
    """Return a path of ours, "/" for everything else: a second slash or a backslash would lead to another host."""
    try:
        parts = urlsplit(path[:500].replace("\\", "/")) if path.isprintable() else urlsplit("")
    except ValueError:      # what looks like a host and is none
        return "/"
    if parts.scheme or parts.netloc or not parts.path.startswith("/") or parts.path.startswith("//"):
        return "/"
    return parts.path + (f"?{parts.query}" if parts.query else "")


# nobody ---------------------------------------------------------------------------------------------

def install(app: FastAPI) -> None:
    """Make the app answer those who are not logged in."""
    app.add_exception_handler(LoginNeeded, _login_needed)


async def _login_needed(request: Request, _: Exception) -> Response:
    path = request.url.path
    if path.startswith("/api/"):
        return JSONResponse({"error": "a bearer token is needed: supportpilot approver add"}, status_code=401,
                            headers={"WWW-Authenticate": "Bearer"})
    if request.method not in {"GET", "HEAD"}:
        return RedirectResponse(LOGIN, status_code=303)
    if request.headers.get("sec-fetch-site") == "cross-site" and not secret_of(request):
        return _knock_again(request)
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{LOGIN}?next={quote(path + query, safe='/')}", status_code=303)


def _knock_again(request: Request) -> HTMLResponse:
    """A link in a mail comes without our cookie (SameSite=Strict): load the page once more, from our own site."""
    return page(request, "again.html", t=texts(request))
