"""Summaries and profiles."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from fixtures.prompts import prompt

from supportpilot.llm.offline import rules

TRANSCRIPT = ("客户:账单 INV-202611-0044 多扣了 299 元,请退给我\n客服:您好,已查到账单,会在 3 个工作日内回复您。\n"
              "客户:另外银行流水也不同步了,E3001\n客服:请重新授权。\n客户:那退款什么时候能到?")


def summarised(transcript: str, previous: str = "", note: str = "") -> str:
    extra = {"previous_summary": previous} if previous else {}
    return rules.answer(prompt("summary", note=note, **extra, transcript=transcript)).content


def profiled(**facts: Any) -> str:
    return rules.answer(prompt("profile", facts=json.dumps(facts, ensure_ascii=False))).content


def problem(times: int = 3, code: str = "E3001", **more: Any) -> dict[str, Any]:
    return {"error_code": code, "times": times, "months": ["2026-04", "2026-07", "2026-09"][-times:],
            "resolutions": ["客户重新授权后恢复"], "open_ended": 0, "articles": ["KB-bank-001"], **more}


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


def test_a_profile_counts_what_came_back_says_how_it_ended_and_keeps_the_wish() -> None:
    text = profiled(customer={"is_vip": True}, subscriptions=PLAN, problems=[problem()], wishes=[{"text": "授权到期前能收到提醒"}],
                    bank_connections=[{"bank": "招商银行", "state": "expired", "on": "2026-11-30"}])
    assert text == ("专业版年付 VIP 客户。E3001 已出现 3 次(2026年4月、7月、9月),均通过重新授权恢复。"
                    "希望授权到期前能收到提醒。招商银行授权已于 2026-11-30 到期。")
    assert len(text) <= 100


@pytest.mark.parametrize(("found", "said"), [
    (problem(4, months=["2026-04"], open_ended=1), "均通过重新授权恢复"),
    (problem(4, open_ended=1, articles=["KB-bank-001", "KB-bank-002"]), "。"),
    (problem(2, resolutions=["客户重新授权后恢复", "银行维护后恢复"]), "。"), (problem(1), "通过重新授权恢复"), (problem(1, resolutions=[]), "。")])
def test_how_it_ended_is_said_only_if_it_ended_alike_each_time(found: dict[str, Any], said: str) -> None:
    text = profiled(customer={}, subscriptions=PLAN, problems=[found])
    assert ("授权" in text) == (said != "。")
    assert said in text


def test_an_english_customer_s_profile_is_english() -> None:
    facts = {"customer": {"is_vip": False}, "subscriptions": [{**PLAN[0], "plan": "Pro"}], "problems": [problem(2)],
             "topics": [{"category": "invoice", "times": 2}]}
    text = rules.answer(prompt("profile", note="at most 300 characters", facts=json.dumps(facts, ensure_ascii=False))).content
    assert text == "Pro yearly. E3001 2 times (2026-07, 2026-09), solved by re-authorising each time. Also asked about: invoice 2."


def test_without_tickets_a_profile_is_the_subscription_alone() -> None:
    assert profiled(customer={"is_vip": False}, subscriptions=PLAN) == "专业版年付客户。"


def test_a_long_history_drops_whole_sentences() -> None:
    problems = [problem(1, f"E10{n:02}") for n in range(20)]
    text = profiled(customer={"is_vip": False}, subscriptions=PLAN, problems=problems, promises=[{"text": "三个工作日内回电" * 3}])
    assert len(text) <= 100
    assert text.endswith("。")


def test_facts_that_are_no_json_give_a_profile_without_claims() -> None:
    assert "VIP" not in rules.answer(prompt("profile", facts="{broken")).content


def test_an_english_summary_keeps_the_amount_and_the_whole_promise() -> None:
    text = summarised("Customer: I was charged twice, invoice INV-202611-0044, please refund CNY 299.00\n"
                      "Agent: Hello. We will answer within 3 working days.\nCustomer: when will it arrive?")
    for kept in ("INV-202611-0044", "CNY 299.00", "3 working days", "when will it arrive"):
        assert kept in text
