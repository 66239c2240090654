"""Who sent this request? Checked before a single byte of it is parsed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

from supportpilot.config import Settings
from supportpilot.desk import signing
from supportpilot.desk.signing import sign
from supportpilot.errors import Misconfigured, SupportPilotError

__all__ = ["Unsigned", "check_secrets", "sign", "verify"]

_ID = re.compile(r"[\x21-\x7e]{1,255}")
_TIMESTAMP = re.compile(r"[0-9]{1,12}")


class Unsigned(SupportPilotError):
    """The request is not signed by somebody we know, or too long ago (HTTP 401)."""


def check_secrets(settings: Settings, channels: Iterable[str]) -> None:
    """Look at every secret before the first request needs it.

    Raises:
        Misconfigured: one is not base64; the text names its variable.
    """
    found = [(f"WEBHOOK_SECRET or WEBHOOK_SECRET_{channel.upper()}", secret)
             for channel in channels for secret in settings.webhook_secrets(channel)]
    for variable, secret in [*found, ("REPLY_CALLBACK_SECRET", settings.reply_callback_secret)]:
        if secret is not None:
            try:
                signing.check_secret(secret)
            except Misconfigured as error:
                raise Misconfigured(f"{variable}: {error}") from None


def verify(headers: Mapping[str, str], body: bytes, secrets: list[str], now: datetime) -> str:
    """Check the Standard Webhooks headers over the raw body and return the delivery's id.

    Args:
        headers: by lower-case name.
        body: as it came.
        secrets: any of them may have signed (more than one while a secret is being replaced).
        now: the receiver's clock; the signed time may be five minutes from it.

    Raises:
        Unsigned: header missing or garbled, too old or too new, or no signature fits.
        Misconfigured: one of our secrets is not base64.
    """
    if not secrets:
        raise Unsigned("no secret is configured for this channel: set WEBHOOK_SECRET")
    message_id, timestamp = _header(headers, "webhook-id", _ID), _header(headers, "webhook-timestamp", _TIMESTAMP)
    signatures = headers.get("webhook-signature", "")
    if not signatures:
        raise Unsigned("header webhook-signature is missing")
    if not signing.is_signed(secrets, message_id, timestamp, body, signatures):
        raise Unsigned("no signature fits")
    age = now.timestamp() - int(timestamp)
    if abs(age) > signing.TOLERANCE_SECONDS:
        raise Unsigned(f"webhook-timestamp is {abs(age):.0f} s {'old' if age > 0 else 'ahead'}; "
                       f"at most {signing.TOLERANCE_SECONDS} are allowed")
    return message_id


def _header(headers: Mapping[str, str], name: str, form: re.Pattern[str]) -> str:
    value = headers.get(name, "")
    if not value:
        raise Unsigned(f"header {name} is missing")
    if not form.fullmatch(value):
        raise Unsigned(f"header {name} is malformed")
    return value
