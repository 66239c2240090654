from __future__ import annotations

from fakes import FakeLLM, FakeTools, make_deps

from supportpilot.agent.graph import build_graph

TRIAGE = {"category": "technical", "needs_account_data": True, "needs_human": False, "summary": "E3001",
          "search_query": "E3001"}


def test_graph_smoke():
    tools = FakeTools(customer={"id": "C0010"}, results={"list_bank_connections": [{"bank": "招商银行", "status": "expired"}]})
    llm = FakeLLM(TRIAGE, [("list_bank_connections", {})], "请重新授权 [KB-bank-001]。")
    ticket = {"id": "T000001", "customer_email": "wugang@example.com", "subject": "同步", "body": "E3001"}

    end = build_graph(make_deps(llm, tools)).invoke({"ticket": ticket})

    assert end["outcome"] == "resolved"
    assert end["reply"] == '请重新授权 [银行流水同步失败 E3001](http://127.0.0.1:8000/kb/KB-bank-001 "KB-bank-001")。'
    assert tools.finished == [("T000001", "technical", "KB-bank-001", end["reply"])]
    assert [call["name"] for call in end["tool_log"]] == ["list_bank_connections"]
