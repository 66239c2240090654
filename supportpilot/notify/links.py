"""Links in notifications: signed, with an end. They open nothing: the page asks for a login, and only a POST decides.

The signature lets a page tell its own link that is too old from an address that somebody typed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import quote

LinkState = Literal["valid", "expired", "unsigned"]
_FORM = re.compile(r"([0-9]{1,12})\.([A-Za-z0-9_-]{22})")


def signed(key: bytes, public_url: str, path: str, expires_at: datetime) -> str:
    """Return the address of a path of ours, such as /approvals/A000001, with its signature."""
    until = str(int(expires_at.astimezone(UTC).timestamp()))
    return f"{public_url.rstrip('/')}{quote(path)}?s={until}.{_mac(key, path, until)}"


def judge(key: bytes | None, path: str, signature: str, now: datetime) -> LinkState:
    """Say what the `s` of an address is worth; `now` is Postgres' clock, `key` None if nothing was ever signed."""
    found = _FORM.fullmatch(signature)
    if key is None or found is None or not hmac.compare_digest(_mac(key, path, found[1]), found[2]):
        return "unsigned"
    return "valid" if int(found[1]) > now.timestamp() else "expired"


def _mac(key: bytes, path: str, until: str) -> str:
    made = hmac.new(key, f"link\n{path}\n{until}".encode(), hashlib.sha256).digest()[:16]
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()
