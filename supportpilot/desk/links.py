"""The customer's link to their ticket: a keyed hash of the ticket's number and its own random key. Pure.

Nothing that opens a ticket is stored: who reads the database without the secret can make no link, and a link can be
made again for every mail. `docs/decisions/0013-customer-links.md` says why.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

from supportpilot.config import Settings

# Letters and digits only: mail programs leave other signs at the end of an address out of the link.
_TOKEN = re.compile(r"([A-Za-z0-9]{1,64})-([a-z2-7]{32})")
_MAC_BYTES = 20
_PAGE, _FORM = b"supportpilot customer page 1", b"supportpilot customer form 1"


def page_url(settings: Settings, ticket_id: str, link_key: str | None) -> str | None:
    """Return the address of the customer's page of a ticket, None where pages are off.

    `link_key` is `biz.tickets.link_key`, in `OutboxRow.link_key` at hand for whoever sends.
    """
    secrets = settings.link_secrets()
    if not secrets:
        return None
    return f"{settings.public_url.rstrip('/')}/t/{token_for(secrets[0], ticket_id, link_key)}"


def token_for(secret: str, ticket_id: str, link_key: str | None) -> str:
    """Return the token that opens a ticket's page."""
    return f"{ticket_id}-{_mac(secret, _PAGE, ticket_id, link_key or '')}"


def ticket_in(token: str) -> str | None:
    """Return the ticket that a token names, None if it is no token; whether it fits says `opens`."""
    found = _TOKEN.fullmatch(token)
    return found[1] if found else None


def opens(secrets: list[str], token: str, ticket_id: str, link_key: str | None) -> bool:
    """Say whether a token opens this ticket's page, in constant time."""
    fits = [hmac.compare_digest(token.encode(), token_for(secret, ticket_id, link_key).encode()) for secret in secrets]
    return any(fits)


def form_seal(secret: str, token: str, form_key: str) -> str:
    """Return what proves that a form with this one-time key was made by us for this page."""
    return _mac(secret, _FORM, token, form_key)


def sealed(secrets: list[str], token: str, form_key: str, seal: str) -> bool:
    """Say whether a form's seal is one of ours, in constant time."""
    fits = [hmac.compare_digest(seal.encode(), form_seal(secret, token, form_key).encode()) for secret in secrets]
    return any(fits)


def _mac(secret: str, purpose: bytes, *parts: str) -> str:
    text = b"\x00".join([purpose, *(part.encode() for part in parts)])
    digest = hmac.new(secret.encode(), text, hashlib.sha256).digest()[:_MAC_BYTES]
    return base64.b32encode(digest).decode().lower()
