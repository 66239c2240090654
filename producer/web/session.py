"""What ties a form to the session that it was shown in: a token made from the session's secret."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from starlette.requests import Request

COOKIE = "sp_session"
SECRET_CHARS = 200


def secret_of(request: Request) -> str:
    """Return the session's secret as the browser sent it, "" without one."""
    return request.cookies.get(COOKIE, "")[:SECRET_CHARS]


def csrf_of(request: Request) -> str:
    """Return the token of the session's forms: whoever cannot read the cookie cannot make it. "" without a session."""
    secret = secret_of(request)
    return hmac.new(secret.encode("utf-8", "surrogatepass"), b"csrf", hashlib.sha256).hexdigest() if secret else ""


def new_form_key() -> str:
    """Return a key for one form, so that sending it twice does the thing once."""
    return secrets.token_urlsafe(18)
