"""The model client against a provider over real HTTP that can be told to fail."""

from __future__ import annotations

import threading
from decimal import Decimal

import pytest
from fixtures.llm import OfflineLLM
from fixtures.prompts import SHELF, TOOLS, prompt

from supportpilot.agent.state import Review, Triage
from supportpilot.errors import ModelOutputUnusable, Permanent, Transient, Unavailable
from supportpilot.llm.client import LLMClient
from supportpilot.types import LLMCall, TurnScope, turn_scope

pytestmark = pytest.mark.integration

DRAFT = prompt("draft", articles=SHELF, newest="银行流水又同步失败了,提示E3001")
TRIAGE = prompt("triage", newest="银行流水又同步失败了,提示E3001")


@pytest.fixture
def client(offline_llm: OfflineLLM) -> LLMClient:
    return LLMClient(offline_llm.settings())


def test_an_answer_comes_with_its_usage_and_cost(client: LLMClient) -> None:
    result = client.chat(DRAFT)
    assert "[KB-bank-001]" in result.content
    assert result.tokens_in > result.tokens_out > 0
    assert result.cost_cny == (result.tokens_in * Decimal(2) + result.tokens_out * Decimal(8)) / 1_000_000
    assert client.ledger.calls == 1
    assert client.ledger.cost_cny(client._settings) == pytest.approx(float(result.cost_cny))


def test_a_stream_brings_the_same_text_in_pieces(client: LLMClient) -> None:
    pieces = list(client.stream(DRAFT))
    assert len(pieces) > 5
    assert "".join(pieces) == client.chat(DRAFT).content
    assert client.ledger.calls == 2


def test_a_stream_that_nobody_reads_to_its_end_is_still_counted(client: LLMClient) -> None:
    stream = client.stream(DRAFT)
    next(stream)
    stream.close()  # type: ignore[attr-defined] # it is a generator
    assert client.ledger.calls == 1


def test_tokens_are_shown_as_they_come(offline_llm: OfflineLLM) -> None:
    seen: list[str] = []
    client = LLMClient(offline_llm.settings(), on_token=seen.append)
    result = client.chat(DRAFT)
    assert "".join(seen) == result.content
    assert result.tokens_out > 0


def test_tools_are_called_with_parsed_arguments(client: LLMClient) -> None:
    result = client.chat(prompt("act", newest="银行流水同步失败 E3001"), tools=TOOLS)
    assert [(c.name, c.arguments) for c in result.tool_calls] == [("list_bank_connections", {})]
    assert result.tool_calls[0].id.startswith("call_")


def test_a_structured_answer_is_a_validated_record(client: LLMClient, offline_llm: OfflineLLM) -> None:
    found = client.structured(TRIAGE, Triage)
    assert (found.category, found.needs_account_data) == ("technical", True)
    assert offline_llm.requests("triage")[0]["response_format"]["type"] == "json_schema"


def test_one_bad_answer_is_repaired(client: LLMClient, offline_llm: OfflineLLM) -> None:
    offline_llm.control(error="malformed_json", task="triage")
    assert client.structured(TRIAGE, Triage).category == "technical"
    assert client.ledger.calls == 2
    repair = offline_llm.requests("triage")[-1]["messages"]
    assert repair[-1]["content"].startswith("[repair]")
    assert repair[-2]["role"] == "assistant"


def test_two_bad_answers_are_given_up_and_both_paid_for(client: LLMClient, offline_llm: OfflineLLM) -> None:
    offline_llm.control(error="malformed_json", task="triage", times=2)
    with pytest.raises(ModelOutputUnusable, match="Triage"):
        client.structured(TRIAGE, Triage)
    assert client.ledger.calls == 2


def test_a_provider_without_schemas_is_asked_for_plain_json(offline_llm: OfflineLLM) -> None:
    offline_llm.control(error="no_json_schema", times=None)
    client = LLMClient(offline_llm.settings())
    for _ in range(2):
        assert client.structured(prompt("check", articles=SHELF, draft="请重新授权 [KB-bank-001]。", newest="E3001"), Review).passed
    kinds = [r["response_format"]["type"] for r in offline_llm.requests("check")]
    assert kinds == ["json_schema", "json_object", "json_object"]
    assert '"passed"' in offline_llm.requests("check")[-1]["messages"][0]["content"]


@pytest.mark.parametrize("error", ["429", "500", "cut"])
def test_a_passing_trouble_is_not_seen_by_the_caller(client: LLMClient, offline_llm: OfflineLLM, error: str) -> None:
    offline_llm.control(error=error, times=2)
    assert "[KB-bank-001]" in client.chat(DRAFT).content
    assert len(offline_llm.requests("draft")) == 3


@pytest.mark.parametrize("error", ["429", "500", "cut"])
def test_a_lasting_trouble_is_transient_after_bounded_repeats(client: LLMClient, offline_llm: OfflineLLM, error: str) -> None:
    offline_llm.control(error=error, times=None)
    with pytest.raises(Transient) as caught:
        client.chat(DRAFT)
    assert not isinstance(caught.value, Unavailable)
    assert "\n" not in str(caught.value)
    assert len(offline_llm.requests("draft")) == 3


def test_a_silent_provider_runs_into_the_timeout(offline_llm: OfflineLLM) -> None:
    offline_llm.control(error="timeout", times=None)
    client = LLMClient(offline_llm.settings(llm_timeout_seconds=0.3, llm_max_retries=1))
    with pytest.raises(Transient, match="in time"):
        client.chat(DRAFT)
    assert len(offline_llm.requests("draft")) == 2


def test_a_dripping_stream_runs_into_the_timeout_too(offline_llm: OfflineLLM) -> None:
    offline_llm.control(token_ms=100, times=None)
    client = LLMClient(offline_llm.settings(llm_timeout_seconds=0.4, llm_max_retries=0))
    with pytest.raises(Transient, match="too long"):
        list(client.stream(DRAFT))


def test_a_cut_stream_goes_on_where_it_was_cut(client: LLMClient, offline_llm: OfflineLLM) -> None:
    whole = client.chat(DRAFT).content
    offline_llm.control(error="cut")
    assert "".join(client.stream(DRAFT)) == whole
    assert client.ledger.calls == 3, "the cut stream was paid for as well"


def test_a_stream_that_is_always_cut_is_transient(client: LLMClient, offline_llm: OfflineLLM) -> None:
    offline_llm.control(error="cut", times=None)
    with pytest.raises(Transient):
        list(client.stream(DRAFT))
    assert len(offline_llm.requests("draft")) == 3


def test_a_provider_that_is_away_is_unavailable(offline_llm: OfflineLLM) -> None:
    client = LLMClient(offline_llm.settings(openai_base_url="http://127.0.0.1:9/v1", llm_max_retries=1))
    with pytest.raises(Unavailable, match="cannot be reached"):
        client.chat(DRAFT)
    assert client.ledger.calls == 0


def test_a_wrong_address_says_what_to_check(offline_llm: OfflineLLM) -> None:
    client = LLMClient(offline_llm.settings(openai_base_url=offline_llm.url + "/nowhere"))
    with pytest.raises(Unavailable, match="OPENAI_BASE_URL"):
        client.chat(DRAFT)


def test_a_refused_request_is_permanent_and_asked_once(client: LLMClient, offline_llm: OfflineLLM) -> None:
    with pytest.raises(Permanent, match="rejects"):
        client.chat([{"role": "nobody", "content": "x"}])
    assert offline_llm.requests() == []


def test_each_call_is_charged_to_its_own_turn_however_many_run_at_once(offline_llm: OfflineLLM) -> None:
    calls: list[LLMCall] = []
    client = LLMClient(offline_llm.settings(), report=calls.append)
    scopes = {name: TurnScope(ticket_id=name, turn_id=f"turn-{name}", node="draft") for name in ("A", "B")}
    start = threading.Barrier(2)

    def turn(name: str, newest: str) -> None:
        with turn_scope(scopes[name]):
            start.wait()
            for _ in range(5):
                client.chat(prompt("draft", articles=SHELF, newest=newest))

    threads = [threading.Thread(target=turn, args=("A", "E3001")), threading.Thread(target=turn, args=("B", "发票抬头错了" * 40))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    own = {name: [c.cost_cny for c in calls if c.ticket_id == name] for name in scopes}
    for name, scope in scopes.items():
        assert sorted(scope.spent) == sorted(own[name])
        assert len(set(scope.spent)) == 1
        assert {(c.turn_id, c.node) for c in calls if c.ticket_id == name} == {(f"turn-{name}", "draft")}
    assert scopes["A"].spent[0] != scopes["B"].spent[0]
    assert client.ledger.calls == 10


def test_a_call_outside_a_turn_has_no_owner_and_says_where_its_tokens_went(offline_llm: OfflineLLM) -> None:
    calls: list[LLMCall] = []
    LLMClient(offline_llm.settings(), report=calls.append).chat(DRAFT)
    call = calls[0]
    assert (call.ticket_id, call.turn_id, call.node) == (None, None, None)
    assert set(call.parts) == {"instructions", "basics", "articles", "newest"}
    assert call.parts["articles"] > call.parts["newest"]


def test_a_dearer_model_costs_more_for_the_same_usage(offline_llm: OfflineLLM) -> None:
    prices = '{"gold": ["200", "50", "800"]}'
    cheap = LLMClient(offline_llm.settings(llm_prices=prices)).chat(DRAFT)
    dear = LLMClient(offline_llm.settings(llm_prices=prices), model="gold").chat(DRAFT)
    assert dear.cost_cny == cheap.cost_cny * 100


def test_usage_is_what_the_provider_says(client: LLMClient, offline_llm: OfflineLLM) -> None:
    plain = client.chat(DRAFT)
    offline_llm.control(usage_multiplier=10)
    assert client.chat(DRAFT).tokens_in == plain.tokens_in * 10


def test_a_report_that_fails_is_not_mistaken_for_the_provider(offline_llm: OfflineLLM) -> None:
    def away(_: LLMCall) -> None:
        raise Unavailable("database away")

    client = LLMClient(offline_llm.settings(), report=away)
    with pytest.raises(Unavailable, match="database"):
        client.chat(DRAFT)
    assert len(offline_llm.requests()) == 1
