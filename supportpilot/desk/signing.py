"""Standard Webhooks signatures, made and checked on bytes; pure.

Own code beside the `standardwebhooks` package (the tests compare the two): the package raises `ValueError` or
`UnicodeDecodeError` on malformed input, knows one secret only, and decodes the body before it has checked it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable

from supportpilot.errors import Misconfigured

PREFIX = "whsec_"
TOLERANCE_SECONDS = 300
MAX_SIGNATURES = 20


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`, `v1,<base64>`.

    Raises:
        Misconfigured: the secret is not base64, or empty.
    """
    return "v1," + base64.b64encode(_mac(_key(secret), message_id, str(timestamp), body)).decode()


def check_secret(secret: str) -> None:
    """Raise Misconfigured if the secret cannot be used."""
    _key(secret)


def is_signed(secrets: Iterable[str], message_id: str, timestamp: str, body: bytes, signatures: str) -> bool:
    """Say whether one of the space-separated `v1` signatures is that of one of the secrets, in constant time.

    Raises:
        Misconfigured: a secret is not base64, or empty.
    """
    given = [mac for mac in map(_decoded, signatures.split(" ")[:MAX_SIGNATURES]) if mac is not None]
    ours = [_mac(_key(secret), message_id, timestamp, body) for secret in secrets]
    return any([hmac.compare_digest(own, mac) for own in ours for mac in given])  # noqa: C419 -- every pair is compared


def _key(secret: str) -> bytes:
    encoded = secret.removeprefix(PREFIX)
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4))
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise Misconfigured("a webhook secret must be base64, with or without whsec_ in front")
    return key


def _mac(key: bytes, message_id: str, timestamp: str, body: bytes) -> bytes:
    return hmac.new(key, b".".join((message_id.encode(), timestamp.encode(), body)), hashlib.sha256).digest()


def _decoded(signature: str) -> bytes | None:
    version, _, encoded = signature.partition(",")
    if version != "v1":
        return None
    try:
        return base64.b64decode(encoded)
    except (binascii.Error, ValueError):
        return None
