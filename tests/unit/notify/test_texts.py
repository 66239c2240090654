"""What colleagues read: short, in their language, with nothing in it that a customer wrote."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from supportpilot.notify import texts

NOW = datetime(2026, 12, 2, 12, 0, tzinfo=UTC)
VALUES = {"ticket": "T000153", "amount": "300.00 CNY", "age": "36 小时", "left": "36 小时"}


def test_both_languages_have_the_same_texts():
    assert texts._TEXTS["zh"].keys() == texts._TEXTS["en"].keys()


def test_a_text_is_short_and_its_link_stands_on_a_line_of_its_own():
    found = texts.message("zh", "approval", "A000001", VALUES, "https://desk.example.com/approvals/A000001?s=1.x")
    assert found.title == "退款待审批 A000001"
    assert found.body.splitlines() == ["工单 T000153，300.00 CNY，36 小时前提出，36 小时后过期。",
                                       "https://desk.example.com/approvals/A000001?s=1.x"]


@pytest.mark.parametrize(("request_", "said"), [
    ({"request": {"amount": "300.00", "currency": "CNY", "reason": "我的卡号 6222"}}, "300.00 CNY"),
    ({"request": {"amount": "1e3", "currency": "CNY"}}, "1000.00 CNY"),
    ({"request": {"amount": "call me", "currency": "CNY"}}, "amount on the page"),
    ({"request": {"amount": "NaN", "currency": "CNY"}}, "amount on the page"),
    ({"request": {"amount": "5", "currency": "http://evil"}}, "amount on the page"),
    ({"request": None}, "amount on the page"), ({}, "amount on the page"),
])
def test_what_is_no_amount_of_money_is_not_passed_on(request_, said):
    assert texts.amount("en", request_) == said


@pytest.mark.parametrize(("minutes", "zh", "en"), [
    (-5, "不到 1 分钟", "less than 1 minute"), (0.9, "不到 1 分钟", "less than 1 minute"), (1, "1 分钟", "1 min"),
    (119, "119 分钟", "119 min"), (120, "2 小时", "2 h"), (36 * 60, "36 小时", "36 h"), (72 * 60, "3 天", "3 days"),
])
def test_a_time_is_said_as_people_say_it(minutes, zh, en):
    end = NOW + timedelta(minutes=minutes)
    assert (texts.span("zh", NOW, end), texts.span("en", NOW, end)) == (zh, en)
