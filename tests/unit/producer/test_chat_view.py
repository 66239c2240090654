"""What `chat` prints of a reply: not twice what was streamed a moment ago."""

from __future__ import annotations

import pytest

from producer.cli.chat_view import reply_lines

BANK = '[银行流水同步失败,提示 E3001](http://127.0.0.1:8000/kb/KB-bank-001 "KB-bank-001")'
REFUND = '[Refunds \\[2026\\]](https://help.example.com/refunds "KB-refund-101")'


def test_a_reply_that_was_streamed_is_not_repeated_only_its_source_is_named():
    assert reply_lines("reply", f"请重新授权。{BANK}", "请重新授权。[KB-bank-001]") == (
        "reply: as above\n  银行流水同步失败,提示 E3001  http://127.0.0.1:8000/kb/KB-bank-001")


def test_each_source_has_one_line_however_its_marks_are_written_and_repeated():
    streamed = "One [KB-bank-001, KB-refund-101]. Two 【KB-bank-001】.\n"
    assert reply_lines("reply", f"One {BANK} {REFUND}. Two {BANK}.", streamed).splitlines() == [
        "reply: as above",
        "  银行流水同步失败,提示 E3001  http://127.0.0.1:8000/kb/KB-bank-001",
        "  Refunds [2026]  https://help.example.com/refunds",
    ]


def test_a_reply_without_sources_is_printed_whole():
    assert reply_lines("reply", "不客气。", "不客气。") == "reply: 不客气。"


@pytest.mark.parametrize("streamed", [
    "",                                                    # nothing was seen: a terminal that came later
    "重新授权。[KB-bank-001]",                               # only the end was seen
    "请重新授权。[KB-bank-001] 退款 100 元已批准。",            # the reply says less
    "请重新授权。",                                          # the reply cites more
    "请重新授权。[KB-bank-001][KB-bank-999]",                # a made-up source was taken out
])
def test_a_reply_that_is_another_text_is_printed_whole(streamed):
    body = f"请重新授权。{BANK}"
    assert reply_lines("handoff", body, streamed) == f"handoff: {body}"
