"""What proves that somebody has a mail of ours: the signed reply address, and the same token in the body.

An id that can be guessed has let strangers write into other people's threads elsewhere, so the ticket's number alone
is only a hint.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

TOKEN_CHARS = 20
_TOKEN = re.compile(r"(t[0-9]{1,12})\.([a-z2-7]{20})")
_BODY = re.compile(r"supportpilot-ref:\s*(t[0-9]{1,12}\.[a-z2-7]{20})", re.IGNORECASE)
_SUBJECT = re.compile(r"[\[#(【](?:ticket\s*)?#?(T[0-9]{6,12})[\])】]?", re.IGNORECASE)


def make_token(secret: str, ticket_id: str) -> str:
    """Return the ticket's token; it survives a mail system that changes the case."""
    signed = hmac.new(secret.encode(), f"reply:{ticket_id}".encode(), hashlib.sha256).digest()
    return f"{ticket_id.lower()}.{base64.b32encode(signed).decode().lower()[:TOKEN_CHARS]}"


def ticket_of_token(secret: str | None, token: str) -> str | None:
    """Return the ticket that a token was made for, None if it was not made by us."""
    match = _TOKEN.fullmatch(token.lower())
    if not secret or match is None:
        return None
    ticket_id = match.group(1).upper()
    return ticket_id if hmac.compare_digest(make_token(secret, ticket_id), token.lower()) else None


def reply_address(secret: str, mailbox: str, ticket_id: str) -> str:
    """Return `support+<token>@...` for our mailbox `support@...`."""
    local, _, domain = mailbox.partition("@")
    return f"{local.partition('+')[0]}+{make_token(secret, ticket_id)}@{domain}"


def ticket_of_address(secret: str | None, address: str) -> str | None:
    """Return the ticket of a signed reply address."""
    return ticket_of_token(secret, address.partition("@")[0].partition("+")[2])


def body_marker(secret: str, ticket_id: str) -> str:
    """Return the text to hide in a mail's body."""
    return f"supportpilot-ref:{make_token(secret, ticket_id)}"


def ticket_of_body(secret: str | None, text: str) -> str | None:
    """Return the ticket of the first good marker in a body."""
    return next((found for token in _BODY.findall(text)[:20] if (found := ticket_of_token(secret, token))), None)


def ticket_of_subject(subject: str) -> str | None:
    """Return the ticket that a subject names: a hint, never a proof."""
    match = _SUBJECT.search(subject)
    return match.group(1).upper() if match else None


def plain_address(address: str) -> str:
    """Return an address without its `+detail`."""
    local, _, domain = address.partition("@")
    return f"{local.partition('+')[0]}@{domain}"
