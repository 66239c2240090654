"""Is the sender who the mail says? Only our own MTA knows; everything else in a mail was written by its sender."""

from __future__ import annotations

import re
from email.message import Message

from supportpilot.mail.headers import fields

_COMMENT = re.compile(r"\([^()]*\)")
_RESULT = re.compile(r"^\s*(dmarc|spf|dkim)\s*(?:/\s*\d+)?\s*=\s*(\w+)", re.IGNORECASE)
_PROPERTY = re.compile(r"\b((?:header|smtp)\.[a-z]+)\s*=\s*\"?([^\s\";]+)", re.IGNORECASE)
PASS = "pass"  # noqa: S105 -- a verdict


def is_authentic(message: Message, sender: str, authserv_id: str | None) -> bool:
    """Say whether our MTA vouches for the address in From.

    Only the topmost Authentication-Results counts, and only if it is ours: one below it may be the sender's own.
    DMARC pass, or (where DMARC did not fail) SPF or DKIM of the same domain or of its parent.
    """
    results = fields(message, "Authentication-Results")
    domain = sender.rpartition("@")[2]
    if not (authserv_id and results and domain):
        return False
    name, *found = _without_comments(results[0]).split(";")
    if (name.split() or [""])[0].lower() != authserv_id.strip().lower():
        return False
    verdicts = [(match.group(1).lower(), match.group(2).lower(), _properties(text))
                for text in found if (match := _RESULT.match(text))]
    dmarc = [(verdict, said) for method, verdict, said in verdicts if method == "dmarc"]
    if any(verdict == PASS and said.get("header.from", domain) == domain for verdict, said in dmarc):
        return True
    if any(verdict not in {"none", "temperror", "permerror"} for verdict, _ in dmarc):
        return False
    return any(verdict == PASS and _aligned(domain, _domain(method, said)) for method, verdict, said in verdicts)


def _without_comments(text: str) -> str:
    previous = ""
    while previous != text:
        previous, text = text, _COMMENT.sub(" ", text)
    return text


def _properties(text: str) -> dict[str, str]:
    return {name.lower(): value.lower() for name, value in _PROPERTY.findall(text)}


def _domain(method: str, said: dict[str, str]) -> str:
    if method == "spf":
        return said.get("smtp.mailfrom", "").rpartition("@")[2]
    if method == "dkim":
        return said.get("header.d", "") or said.get("header.i", "").rpartition("@")[2]
    return ""


def _aligned(domain: str, vouched: str) -> bool:
    """The parent speaks for its children, never a child for its parent (anybody may own a child of a shared host)."""
    return bool(vouched) and (domain == vouched or ("." in vouched and domain.endswith(f".{vouched}")))
