"""The port of a channel: who sent this, and what does it mean? One small module per sender stands behind it."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from producer.signatures import Unsigned
from supportpilot.channels.port import Event
from supportpilot.config import Settings
from supportpilot.db.pool import Database
from supportpilot.desk.signing import TOLERANCE_SECONDS
from supportpilot.types import Ports

Headers: TypeAlias = Mapping[str, str]      # by lower-case name
_DELIVERY = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True)
class Channel:
    """How a channel's requests become messages.

    Args:
        verify: (headers, body as it came, secrets, the receiver's clock) -> the delivery's id, "" if the sender gives
            none outside its body; raises Unsigned.
        parse: (body, delivery id, settings) -> what it means; raises Unusable.
        sender_of: the sender in a body that could not be used, for the operator's list.
        standard: its secrets are Standard Webhooks secrets, base64.
    """

    verify: Callable[[Headers, bytes, list[str], datetime], str]
    parse: Callable[[bytes, str, Settings], Event]
    sender_of: Callable[[bytes], str]
    standard: bool = False


@dataclass(frozen=True)
class RawChannel:
    """A channel whose requests are stored as they come, then read; signed by the Standard Webhooks headers.

    Args:
        verify: as `Channel.verify`.
        receive: (database, settings, ports, body) -> status and answer.
        limit: the largest body, in bytes.
    """

    verify: Callable[[Headers, bytes, list[str], datetime], str]
    receive: Callable[[Database, Settings, Ports, bytes], tuple[int, dict[str, Any]]]
    limit: Callable[[Settings], int]
    standard: bool = True


def need(secrets: list[str], channel: str) -> None:
    """Raise Unsigned where nobody could sign."""
    if not secrets:
        raise Unsigned(f"no secret is configured for this channel: set WEBHOOK_SECRET_{channel.upper()}")


def header(headers: Headers, name: str) -> str:
    """Return a header.

    Raises:
        Unsigned: it is missing.
    """
    value = headers.get(name, "")
    if not value:
        raise Unsigned(f"header {name} is missing")
    return value


def check_mac(secrets: Iterable[str], algorithm: str, signed: bytes, given: bytes) -> None:
    """Raise Unsigned unless one of the secrets made this MAC; every secret is tried, in constant time."""
    ours = [hmac.digest(secret.encode(), signed, algorithm) for secret in secrets]
    if not any([hmac.compare_digest(own, given) for own in ours]):  # noqa: C419 -- all are compared
        raise Unsigned("no signature fits")


def hex_after(prefix: str, value: str) -> bytes:
    """Return the bytes of `prefix<hex>`.

    Raises:
        Unsigned: it has another form.
    """
    digits = value.removeprefix(prefix)
    if not value.startswith(prefix) or not re.fullmatch(r"(?:[0-9a-fA-F]{2}){1,64}", digits):
        raise Unsigned("the signature is malformed")
    return bytes.fromhex(digits)


def check_hub_signature(headers: Headers, body: bytes, secrets: list[str], channel: str) -> None:
    """Raise Unsigned unless `X-Hub-Signature: sha1=<hex>` is of this body; senders of this kind sign no time."""
    need(secrets, channel)
    check_mac(secrets, "sha1", body, hex_after("sha1=", header(headers, "x-hub-signature")))


def check_age(signed_at: float, now: datetime) -> None:
    """Raise Unsigned for a signed time (Unix seconds) too far from our clock."""
    age = now.timestamp() - signed_at
    if abs(age) > TOLERANCE_SECONDS:
        raise Unsigned(f"signed {abs(age):.0f} s {'ago' if age > 0 else 'ahead'}; at most {TOLERANCE_SECONDS} are allowed")


def delivery_id(headers: Headers, name: str) -> str:
    """Return the sender's id of this delivery, "" if there is none that can be kept."""
    value = headers.get(name, "")
    return value if _DELIVERY.fullmatch(value) else ""


def account_of(settings: Settings, channel: str) -> str:
    """Return the name of the helpdesk's installation, for senders that do not say it: the host of its address."""
    address = getattr(settings, f"{channel}_url") or ""
    return (urlsplit(address).hostname or "default").lower()
