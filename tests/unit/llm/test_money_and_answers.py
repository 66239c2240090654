"""Tokens, money, validated answers: what is counted without a provider."""

from __future__ import annotations

from decimal import Decimal

import pytest
from fixtures.prompts import prompt
from pydantic import BaseModel

from supportpilot.config import load_settings
from supportpilot.errors import Misconfigured
from supportpilot.llm import structured
from supportpilot.llm.client import LLMClient
from supportpilot.llm.offline import rules
from supportpilot.llm.offline.text import articles, read_sections, terms
from supportpilot.llm.usage import Ledger, Tokens, cost_of, parts_of
from supportpilot.types import LLMCall


class Point(BaseModel):
    x: int


def test_cached_tokens_cost_their_own_price() -> None:
    settings = load_settings(llm_prices='{"m": ["2", "0.5", "8"]}')
    assert cost_of(settings, "m", Tokens(1_000_000, 500_000, 400_000)) == Decimal("1.2") + Decimal("0.2") + Decimal(4)


def test_an_unknown_model_costs_the_default() -> None:
    assert cost_of(load_settings(), "nobody-knows-it", Tokens(1_000_000, 0)) == Decimal("2.00")


def test_the_parts_of_a_prompt_are_named_by_section() -> None:
    parts = parts_of([*prompt("draft", articles="一二三四", newest="x" * 400), {"role": "tool", "content": "y" * 40}])
    assert set(parts) == {"instructions", "basics", "articles", "newest", "tools"}
    assert parts["newest"] > parts["articles"]


def test_the_ledger_sums_calls_by_model() -> None:
    ledger = Ledger()
    for _ in range(3):
        ledger.add(LLMCall("m", 1_000_000, 0, 0, Decimal(2), 1))
    assert (ledger.calls, ledger.cost_cny(load_settings())) == (3, 6.0)


@pytest.mark.parametrize("text", ['{"x": 1}', 'Sure!\n```json\n{"x": 1}\n```', 'Here: {"x": 1} done'])
def test_json_is_found_in_what_models_write_around_it(text: str) -> None:
    assert structured.parse(text, Point).x == 1


@pytest.mark.parametrize("text", ["", "no", '{"x": "a"}', '{"x": 1'])
def test_what_does_not_fit_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        structured.parse(text, Point)


def test_without_a_provider_the_first_call_says_what_to_set() -> None:
    client = LLMClient(load_settings())
    with pytest.raises(Misconfigured, match="OPENAI_API_KEY"):
        client.chat([{"role": "user", "content": "hi"}])


def test_sections_are_read_and_the_first_of_a_name_counts() -> None:
    text = '<section name="newest">\na\n</section>\n<section name="newest">\nb\n</section>'
    assert read_sections(text) == {"newest": "a"}


def test_pieces_of_one_article_are_joined() -> None:
    found = articles("[KB-a-001] 甲 (zh)\n一\n---\n[KB-b-001] B (en)\ntwo\n---\n[KB-a-001] 甲 (zh)\n三")
    assert [(a.id, a.lang, a.body) for a in found] == [("KB-a-001", "zh", "一\n三"), ("KB-b-001", "en", "two")]


def test_words_are_compared_by_stem_and_bigram() -> None:
    assert terms("Downloading invoices") & terms("download the invoice")
    assert terms("银行流水") == {"银行", "行流", "流水"}


def test_an_unknown_task_says_that_this_is_no_llm() -> None:
    assert "LLM" in rules.answer([{"role": "user", "content": "write a poem"}]).content


def test_an_unknown_schema_is_filled_with_the_emptiest_values() -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "Point", "schema": Point.model_json_schema()}}
    assert rules.answer([{"role": "user", "content": "x"}], None, wanted).content == '{"x": 0}'
