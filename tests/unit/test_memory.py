"""The document's own tests of the three memories, with its facts."""

from __future__ import annotations

from fakes import FakeLLM, FakeTools, make_deps
from langgraph.checkpoint.memory import InMemorySaver

from supportpilot.agent.graph import build_graph
from supportpilot.memory.compress import estimate_tokens, maybe_compress

TRIAGE = {"category": "technical", "needs_account_data": False, "needs_human": False, "urgency": "normal",
          "summary": "银行流水断了", "search_query": "E3001 银行 同步"}
TICKET = {"id": "T000901", "customer_email": "wugang@example.com", "subject": "流水不同步", "body": "又是 E3001"}
DRAFT = "您好,E3001 通常说明银行授权到期,重新授权即可 [KB-refund-002]。"


def test_second_message_on_the_same_ticket_sees_the_first():
    deps = make_deps(FakeLLM(TRIAGE, [], DRAFT), FakeTools(customer={"id": "C0010"}))
    deps.profile_for = lambda customer_id: "专业版年付 VIP;E3001 出现过三次"
    graph = build_graph(deps, checkpointer=InMemorySaver())
    cfg = {"configurable": {"thread_id": TICKET["id"]}}

    first = graph.invoke({"ticket": TICKET}, cfg)
    second = graph.invoke({"turns": [{"role": "customer", "content": "照做了,还是不行"}]}, cfg)

    assert [turn["role"] for turn in first["turns"]] == ["customer", "agent"]
    assert [turn["role"] for turn in second["turns"]] == ["customer", "agent", "customer", "agent"]
    assert second["profile"].startswith("专业版")


def test_only_a_conversation_over_budget_is_folded_and_the_last_four_stay():
    llm = FakeLLM(TRIAGE, [], DRAFT)
    short = [{"role": "customer", "content": "在吗"}] * 6
    assert maybe_compress(llm, short, "", 0) == ("", 0)
    assert llm.ledger.calls == 0

    long = [{"role": "customer", "content": "账单金额不对" * 90}] * 8
    summary, upto = maybe_compress(llm, long, "", 0, budget=500, keep_last=4)

    assert summary
    assert upto == 4
    assert llm.ledger.calls == 1


def test_hundred_han_characters_cost_about_seventy_tokens():
    assert 60 <= estimate_tokens("中" * 100) <= 80
