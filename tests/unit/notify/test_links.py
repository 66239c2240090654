"""The signature of a link says one thing: we made this address, and it is (not) too old."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from supportpilot.notify import links

KEY = b"k" * 32
NOW = datetime(2026, 12, 2, 12, 0, tzinfo=UTC)
PATH = "/approvals/A000001"


def signature(path: str = PATH, key: bytes = KEY, hours: float = 1) -> str:
    url = urlsplit(links.signed(key, "https://desk.example.com/", path, NOW + timedelta(hours=hours)))
    assert (url.scheme, url.netloc, url.path) == ("https", "desk.example.com", path)
    return parse_qs(url.query)["s"][0]


def test_a_link_is_valid_until_its_end_and_expired_from_then_on():
    s = signature()
    assert links.judge(KEY, PATH, s, NOW) == "valid"
    assert links.judge(KEY, PATH, s, NOW + timedelta(minutes=59, seconds=59)) == "valid"
    assert links.judge(KEY, PATH, s, NOW + timedelta(hours=1)) == "expired"


def test_a_signature_is_for_one_page_one_end_and_one_key():
    until, mac = signature().split(".")
    later = f"{int(until) + 3600}.{mac}"
    assert links.judge(KEY, "/approvals/A000002", signature(), NOW) == "unsigned"
    assert links.judge(KEY, "/tickets/A000001", signature(), NOW) == "unsigned"
    assert links.judge(KEY, PATH, later, NOW) == "unsigned"
    assert links.judge(b"other" * 8, PATH, signature(), NOW) == "unsigned"
    assert links.judge(None, PATH, signature(), NOW) == "unsigned"


@pytest.mark.parametrize("s", ["", ".", "1.", "x", "9" * 40 + "." + "a" * 22, "１." + "a" * 22, "1." + "a" * 23, "1." + "é" * 22, "1.a\n"])
def test_whatever_else_somebody_types_is_unsigned_and_raises_nothing(s):
    assert links.judge(KEY, PATH, s, NOW) == "unsigned"
