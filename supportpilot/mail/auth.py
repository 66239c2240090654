"""Is the sender who the mail says? Only our own MTA knows; everything else in a mail was written by its sender."""

from __future__ import annotations

import re
from email.message import Message

from supportpilot.mail.headers import fields

# A quoted string, a bracket, or anything else; what stands in quotes may have been written by the mail's sender.
_PIECE = re.compile(r'"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bracket>[()])|(?P<other>\\.|[^"()\\]+)', re.DOTALL)
_HARMLESS = re.compile(r"[A-Za-z0-9.@_+-]+")
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
    name, *found = _plain(results[0]).split(";")
    if (name.split() or [""])[0].lower() != authserv_id.strip().lower():
        return False
    verdicts = [(match.group(1).lower(), match.group(2).lower(), _properties(text))
                for text in found if (match := _RESULT.match(text))]
    dmarc = [(verdict, said) for method, verdict, said in verdicts if method == "dmarc"]
    if any(verdict not in {PASS, "none", "temperror", "permerror"} for verdict, _ in dmarc):
        return False
    if any(verdict == PASS for verdict, _ in dmarc):
        return all(said.get("header.from", domain) == domain for verdict, said in dmarc if verdict == PASS)
    return any(verdict == PASS and _aligned(domain, _domain(method, said)) for method, verdict, said in verdicts)


def _plain(text: str) -> str:
    """Return a field without comments, and with a mark for each quoted string that could be taken for something else.

    A server copies the envelope's sender into its result, and there a local part may be any quoted text: results,
    properties and brackets in it are the sender's words. Of a field that does not end as it should nothing is believed.
    """
    depth, at, kept = 0, 0, []
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            return ""
        at = piece.end()
        if piece["bracket"]:
            depth += 1 if piece["bracket"] == "(" else -1
            if depth < 0:
                return ""
        elif depth == 0:
            quoted = piece["quoted"]
            kept.append(piece["other"] if quoted is None else quoted if _HARMLESS.fullmatch(quoted) else "?")
    return "".join(kept) if depth == 0 else ""


def _properties(text: str) -> dict[str, str]:
    """The first value of a property is the server's; one that comes again is not."""
    found: dict[str, str] = {}
    for name, value in _PROPERTY.findall(text):
        found.setdefault(name.lower(), value.lower())
    return found


def _domain(method: str, said: dict[str, str]) -> str:
    if method == "spf":
        return said.get("smtp.mailfrom", "").rpartition("@")[2]
    if method == "dkim":
        return said.get("header.d", "") or said.get("header.i", "").rpartition("@")[2]
    return ""


def _aligned(domain: str, vouched: str) -> bool:
    """The parent speaks for its children, never a child for its parent (anybody may own a child of a shared host)."""
    return bool(vouched) and (domain == vouched or ("." in vouched and domain.endswith(f".{vouched}")))
