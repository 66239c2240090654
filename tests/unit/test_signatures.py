"""Signatures: ours against the reference package, and everything a stranger may send."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from producer.signatures import Unsigned, sign, verify
from supportpilot.errors import Misconfigured

SECRET = "whsec_" + base64.b64encode(b"a secret of enough length").decode()
OTHER = "whsec_" + base64.b64encode(b"the secret that comes next").decode()
NOW = datetime(2026, 12, 2, 6, 0, tzinfo=UTC)
BODY = '{"body": "流水同步失败"}'.encode()


def signed(secret: str = SECRET, body: bytes = BODY, at: datetime = NOW, message_id: str = "msg_1") -> dict[str, str]:
    stamp = int(at.timestamp())
    return {"webhook-id": message_id, "webhook-timestamp": str(stamp),
            "webhook-signature": sign(secret, message_id, stamp, body)}


def test_a_signed_request_gives_the_id_of_its_delivery() -> None:
    assert verify(signed(), BODY, [SECRET], NOW) == "msg_1"


@given(st.text(st.characters(codec="utf-8"), max_size=200), st.integers(1, 2_000_000_000))
def test_our_signature_is_the_one_of_the_reference_package(text: str, stamp: int) -> None:
    reference = Webhook(SECRET).sign("msg_1", datetime.fromtimestamp(stamp, UTC), text)
    assert sign(SECRET, "msg_1", stamp, text.encode()) == reference


@pytest.mark.parametrize("secret", ["bXktc2VjcmV0", "whsec_bXktc2VjcmV0Cg", "plainsecret"])
def test_secrets_without_prefix_or_padding_are_read_as_the_reference_package_reads_them(secret: str) -> None:
    assert sign(secret, "m", 1_700_000_000, b"x") == Webhook(secret).sign("m", datetime.fromtimestamp(1_700_000_000, UTC), "x")


def test_while_a_secret_is_replaced_both_are_taken_and_a_sender_may_send_both_signatures() -> None:
    assert verify(signed(OTHER), BODY, [SECRET, OTHER], NOW)
    both = signed(OTHER)
    both["webhook-signature"] = "v1a,nonsense " + sign(SECRET, "x", 1, b"") + " " + both["webhook-signature"]
    assert verify(both, BODY, [OTHER], NOW)


@pytest.mark.parametrize("minutes", [-5, 5])
def test_five_minutes_off_are_allowed(minutes: int) -> None:
    assert verify(signed(at=NOW + timedelta(minutes=minutes)), BODY, [SECRET], NOW)


@pytest.mark.parametrize(("minutes", "word"), [(-6, "old"), (6, "ahead")])
def test_more_than_five_minutes_off_are_refused(minutes: int, word: str) -> None:
    with pytest.raises(Unsigned, match=word):
        verify(signed(at=NOW + timedelta(minutes=minutes)), BODY, [SECRET], NOW)


def test_a_changed_body_id_or_time_does_not_fit_the_signature() -> None:
    for headers, body in [
        (signed(), BODY + b" "),
        ({**signed(), "webhook-id": "msg_2"}, BODY),
        ({**signed(), "webhook-timestamp": str(int(NOW.timestamp()) + 1)}, BODY),
        (signed(OTHER), BODY),
    ]:
        with pytest.raises(Unsigned, match="no signature fits"):
            verify(headers, body, [SECRET], NOW)


@pytest.mark.parametrize("header", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_missing_header_is_named(header: str) -> None:
    headers = {name: value for name, value in signed().items() if name != header}
    with pytest.raises(Unsigned, match=header):
        verify(headers, BODY, [SECRET], NOW)


@pytest.mark.parametrize("changed", [
    {"webhook-timestamp": "yesterday"}, {"webhook-timestamp": "-1"}, {"webhook-timestamp": "1e9"},
    {"webhook-timestamp": "٣"}, {"webhook-timestamp": "9" * 400}, {"webhook-id": "a b"}, {"webhook-id": "x" * 300},
    {"webhook-signature": "v1"}, {"webhook-signature": "v1,é"}, {"webhook-signature": "v1,a"},
    {"webhook-signature": ",,,"}, {"webhook-signature": "v2,AAAA"}, {"webhook-signature": " "},
])
def test_garbled_headers_are_unsigned_and_nothing_else(changed: dict[str, str]) -> None:
    with pytest.raises(Unsigned):
        verify({**signed(), **changed}, BODY, [SECRET], NOW)


@given(st.dictionaries(st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]), st.text()), st.binary())
def test_no_stranger_gets_in_or_breaks_the_check(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(Unsigned):
        verify(headers, body, [SECRET], NOW)


def test_a_body_that_is_no_text_can_be_signed() -> None:
    body = b"\xff\x00\xfe"
    assert verify(signed(body=body), body, [SECRET], NOW)


def test_without_a_secret_nobody_is_believed_and_the_setting_is_named() -> None:
    with pytest.raises(Unsigned, match="WEBHOOK_SECRET"):
        verify(signed(), BODY, [], NOW)


@pytest.mark.parametrize("secret", ["whsec_", "", "a"])
def test_an_unusable_secret_is_our_mistake(secret: str) -> None:
    with pytest.raises(Misconfigured, match="base64"):
        sign(secret, "m", 1, b"")
