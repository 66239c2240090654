"""Summaries and profiles."""

from __future__ import annotations

import json
import re
from typing import Any

from fixtures.prompts import prompt

from supportpilot.llm.offline import rules

TRANSCRIPT = ("客户:账单 INV-202611-0044 多扣了 299 元,请退给我\n客服:您好,已查到账单,会在 3 个工作日内回复您。\n"
              "客户:另外银行流水也不同步了,E3001\n客服:请重新授权。\n客户:那退款什么时候能到?")


def summarised(transcript: str, previous: str = "", note: str = "") -> str:
    extra = {"previous_summary": previous} if previous else {}
    return rules.answer(prompt("summary", note=note, **extra, transcript=transcript)).content


def profiled(**facts: Any) -> str:
    return rules.answer(prompt("profile", facts=json.dumps(facts, ensure_ascii=False))).content


def ticket(month: str, **more: Any) -> dict[str, Any]:
    return {"id": "T1", "subject": "流水不同步", "status": "resolved", "category": "technical", "error_code": "E3001",
            "resolution": "客户重新授权后恢复", "promise": None, "wish": None, "created_at": f"{month}-01T00:00:00+00:00", **more}


PLAN = [{"plan": "专业版", "billing_cycle": "yearly", "status": "active", "seats": 5, "period_end": "2027-01-14"}]


def test_a_summary_keeps_asks_figures_promises_and_what_is_open() -> None:
    text = summarised(TRANSCRIPT)
    for kept in ("INV-202611-0044", "299 元", "E3001", "3 个工作日", "什么时候能到"):
        assert kept in text
    assert len(text) <= 150


def test_a_summary_has_no_figure_that_its_source_lacks() -> None:
    assert set(re.findall(r"\d+", summarised(TRANSCRIPT))) <= set(re.findall(r"\d+", TRANSCRIPT))


def test_figures_and_promises_of_the_last_summary_live_on() -> None:
    text = summarised("客户:好的\n客服:好的。", previous=summarised(TRANSCRIPT))
    assert "INV-202611-0044" in text
    assert len(text) <= 150


def test_the_limit_of_the_instructions_is_kept() -> None:
    assert len(summarised(TRANSCRIPT * 5, note="总共不超过 80 字")) <= 80


def test_a_profile_counts_what_came_back_and_keeps_the_wish() -> None:
    text = profiled(customer={"name": "吴刚", "company": "x", "is_vip": True}, subscriptions=PLAN, past_tickets=[
        ticket("2026-09", wish="银行授权到期前能收到提醒"), ticket("2026-07"), ticket("2026-04")])
    for kept in ("专业版年付", "VIP", "E3001", "3 次", "2026年4月、7月、9月", "重新授权", "提醒"):
        assert kept in text
    assert len(text) <= 100


def test_without_tickets_a_profile_is_the_subscription_alone() -> None:
    text = profiled(customer={"name": "x", "company": "y", "is_vip": False}, subscriptions=PLAN, past_tickets=[])
    assert text == "专业版年付客户。"


def test_a_long_history_drops_whole_sentences() -> None:
    tickets = [ticket("2026-01", error_code=f"E10{n:02}", promise="三个工作日内回电" * 3) for n in range(20)]
    text = profiled(customer={"is_vip": False}, subscriptions=PLAN, past_tickets=tickets)
    assert len(text) <= 100
    assert text.endswith("。")


def test_facts_that_are_no_json_give_a_profile_without_claims() -> None:
    assert "VIP" not in rules.answer(prompt("profile", facts="{broken")).content


def test_an_english_summary_keeps_the_amount_and_the_whole_promise() -> None:
    text = summarised("Customer: I was charged twice, invoice INV-202611-0044, please refund CNY 299.00\n"
                      "Agent: Hello. We will answer within 3 working days.\nCustomer: when will it arrive?")
    for kept in ("INV-202611-0044", "CNY 299.00", "3 working days", "when will it arrive"):
        assert kept in text
