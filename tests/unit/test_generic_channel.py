"""The generic channel's parser: a message, or `Unusable` with a reason, never anything else."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer.channels.generic import parse, sender_of
from supportpilot.config import Settings
from supportpilot.errors import Unusable
from supportpilot.types import InboundMessage

SETTINGS = Settings(max_message_chars=200)
GOOD: dict[str, Any] = {"message_id": "m-1", "from": {"email": "WuGang@Example.com", "name": "吴刚"}, "body": "流水又同步失败了"}


def read(**changes: object) -> InboundMessage:
    return parse(json.dumps({**GOOD, **changes}).encode(), "d-1", SETTINGS).message


def test_a_full_message_is_read_field_by_field() -> None:
    message = read(ticket_id="T000153", conversation_id="c/9", subject=" E3001\r\n 又来了 ",
                   sent_at="2026-12-01T20:15:00+08:00")
    assert message == InboundMessage(
        channel="generic", external_id="generic:m-1", contact="wugang@example.com", contact_name="吴刚",
        body="流水又同步失败了", subject="E3001 又来了", delivery_id="generic:d-1", ticket_id="T000153",
        conversation_id="c/9", sent_at=datetime(2026, 12, 1, 12, 15, tzinfo=UTC))


def test_the_smallest_message_needs_an_id_an_address_and_a_text() -> None:
    message = parse(b'{"message_id": "1", "from": {"email": "a@example.com"}, "body": "hi"}', None, SETTINGS).message
    assert (message.subject, message.contact_name, message.delivery_id, message.ticket_id) == ("", "", None, None)


@pytest.mark.parametrize("changes", [
    {"message_id": None}, {"message_id": 17}, {"message_id": ""}, {"message_id": "a b"}, {"message_id": "x" * 300},
    {"from": None}, {"from": "a@example.com"}, {"from": {}}, {"from": {"email": 1}}, {"from": {"email": "nobody"}},
    {"from": {"email": "a@b"}}, {"from": {"email": "a@exa mple.com"}}, {"from": {"email": "a@example.com, b@example.com"}},
    {"from": {"email": "İ@example.com"}}, {"from": {"email": "a" * 300 + "@example.com"}},
    {"body": None}, {"body": ["x"]}, {"body": ""}, {"body": " \n\t\u200b\u3000"}, {"body": "x" * 201},
    {"body": "a\x00b"}, {"body": "a\ud800b"}, {"subject": "a\x00b"}, {"subject": 5}, {"subject": "\udfff"},
    {"ticket_id": 153}, {"ticket_id": "T 1"}, {"conversation_id": {}}, {"conversation_id": "a\x00"},
    {"attachments": "a.png"}, {"attachments": [{"name": "a\x00.png"}]}, {"from": {"email": "a@example.com", "name": "\x00"}},
])
def test_what_cannot_be_a_message_is_refused_with_a_reason(changes: dict[str, Any]) -> None:
    with pytest.raises(Unusable, match=r"\w") as refused:
        read(**changes)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("missing", ["message_id", "from", "body"])
def test_a_missing_field_is_named(missing: str) -> None:
    raw = json.dumps({name: value for name, value in GOOD.items() if name != missing}).encode()
    with pytest.raises(Unusable, match=missing):
        parse(raw, None, SETTINGS)


@pytest.mark.parametrize("raw", [
    b"", b"null", b"[]", b"17", b"{", b"\xff\xfe{}", b'{"a": NaN}', b'{"a": -Infinity}', b"[" * 100_000,
    b'{"a":' * 100_000, b"1" * 100_000, "内容".encode("gb18030"),
])
def test_what_is_not_json_is_refused(raw: bytes) -> None:
    with pytest.raises(Unusable):
        parse(raw, None, SETTINGS)


def test_a_byte_order_mark_is_forgiven() -> None:
    assert parse(b"\xef\xbb\xbf" + json.dumps(GOOD).encode(), None, SETTINGS).message.external_id == "generic:m-1"


@pytest.mark.parametrize("value", ["soon", 17, None, "0001-01-01T00:00:00+14:00", {"at": 1}])
def test_an_unreadable_time_of_sending_costs_nobody_the_answer(value: object) -> None:
    assert read(sent_at=value).sent_at is None


def test_an_over_long_subject_is_cut_instead_of_losing_the_message() -> None:
    assert len(read(subject="发票" * 1000).subject) == 300


def test_attachments_become_lines_so_that_a_picture_alone_is_a_message() -> None:
    files = [{"name": "截图\n.png", "url": "https://files.example.com/1.png"}, {"name": "x", "url": "javascript:alert(1)"}, 7, {}]
    assert read(body="", attachments=files).body == "📎 截图 .png https://files.example.com/1.png\n📎 x"


def test_the_sender_of_an_unusable_message_is_found_where_there_is_one() -> None:
    assert sender_of(b'{"from": {"email": "A@example.com"}}') == "a@example.com"
    assert [sender_of(raw) for raw in (b"\xff", b"[]", b'{"from": 1}', b'{"from": {"email": []}}')] == [""] * 4


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=8)
FIELDS = ["message_id", "from", "body", "subject", "ticket_id", "conversation_id", "sent_at", "attachments"]


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_message_or_unusable(raw: bytes) -> None:
    with contextlib.suppress(Unusable):
        parse(raw, None, SETTINGS)
    assert isinstance(sender_of(raw), str)


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_arbitrary_json_in_any_field_is_a_message_that_postgres_can_store_or_unusable(changes: dict[str, Any]) -> None:
    try:
        message = read(**changes)
    except Unusable:
        return
    for text in (message.body, message.subject, message.contact_name, message.external_id, message.ticket_id or "",
                 message.conversation_id or ""):
        assert "\x00" not in text
        text.encode()
    assert message.body.strip()
    assert message.contact == message.contact.lower()
