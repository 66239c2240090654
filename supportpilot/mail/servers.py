"""The server that takes our mails, as the configuration writes it: `smtps://user:password@host:465`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

from typing_extensions import override

from supportpilot.errors import Misconfigured

PORTS = {"smtps": 465, "smtp": 587}
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
FORM = "must be an address such as smtps://user:password@host:465 or smtp://host:587?starttls=required"

Security = Literal["tls", "starttls", "none"]


@dataclass(frozen=True)
class Server:
    """Where mails are handed in; the password is never shown."""

    host: str
    port: int
    security: Security
    user: str = ""
    password: str = field(default="", repr=False)

    @override
    def __str__(self) -> str:
        """Say which server it is, without its login."""
        return f"{self.host}:{self.port}"


def read_server(url: str) -> Server:
    """Return the server of SMTP_URL.

    Raises:
        Misconfigured: it is no such address, or would send a password in the clear; the text shows none of it.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port or PORTS[parts.scheme]
        options = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
    except (ValueError, KeyError):
        raise Misconfigured(f"SMTP_URL: {FORM}") from None
    starttls = options.pop("starttls", ["required"])[-1]
    if not parts.hostname or options or parts.path.strip("/") or bool(user) != bool(password):
        raise Misconfigured(f"SMTP_URL: {FORM}")
    if not (user + password).isascii():
        raise Misconfigured("SMTP_URL: user and password must be ASCII: SMTP servers disagree about the rest")
    security = _security(parts.scheme, starttls)
    if user and security == "none" and parts.hostname not in LOOPBACK:
        raise Misconfigured("SMTP_URL: a password is not sent without TLS: use smtps:// or starttls=required")
    return Server(parts.hostname, port, security, user, password)


def _security(scheme: str, starttls: str) -> Security:
    if starttls not in {"required", "off"}:
        raise Misconfigured("SMTP_URL: starttls must be required or off")
    if scheme == "smtps":
        return "tls"
    return "starttls" if starttls == "required" else "none"
