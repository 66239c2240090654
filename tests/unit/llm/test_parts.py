"""What a call's tokens came from: nothing counted twice, nothing lost."""

from __future__ import annotations

from decimal import Decimal

import pytest

from supportpilot.llm.usage import apportion, parts_of

TOOL = {"type": "function", "function": {"name": "list_invoices", "description": "The customer's invoices."}}
CALL = {"id": "c1", "type": "function", "function": {"name": "list_invoices", "arguments": "{}"}}


def test_each_section_of_a_prompt_is_a_part_of_its_own():
    user = '<section name="profile">\n专业版年付\n</section>\n<section name="newest">\n同步失败\n</section>'
    parts = parts_of([{"role": "system", "content": "Answer."}, {"role": "user", "content": user}])
    assert set(parts) == {"instructions", "profile", "newest"}


def test_tools_on_offer_calls_and_results_are_the_tools_part():
    ask = [{"role": "system", "content": "Look up."}, {"role": "user", "content": "hello"}]
    offered = parts_of(ask, {"tools": [TOOL]})["tools"]
    called = parts_of([*ask, {"role": "assistant", "content": "", "tool_calls": [CALL]}], {"tools": [TOOL]})["tools"]
    told = parts_of([{"role": "tool", "tool_call_id": "c1", "content": '{"invoices": []}'}])
    assert 0 < offered < called
    assert set(told) == {"tools"}


def test_an_answer_schema_counts_as_instructions_and_a_bad_answer_as_other():
    plain = [{"role": "system", "content": "Decide."}]
    assert parts_of(plain, {"response_format": {"type": "json_object"}})["instructions"] > parts_of(plain)["instructions"]
    assert set(parts_of([{"role": "assistant", "content": "not JSON"}])) == {"other"}


@pytest.mark.parametrize(("weights", "total"), [
    ({"a": 1, "b": 1, "c": 1}, 100), ({"a": 7, "b": 0}, 3), ({"a": Decimal("0.3"), "b": Decimal("0.6")}, 1),
    ({}, 5), ({"a": 0}, 5), ({"a": 3}, 0), ({}, 0),
])
def test_shares_sum_to_the_total(weights, total):
    shares = apportion(weights, total)
    assert sum(shares.values()) == total
    assert all(share >= 0 for share in shares.values())
