"""Whole turns over fakes: what the customer reads, what a human is asked, what it costs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from fakes import FakeLLM, FakeTools, make_deps
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from supportpilot.agent.graph import build_graph
from supportpilot.errors import LeaseLost, ModelOutputUnusable, Transient

TRIAGE = {"category": "refund", "needs_account_data": True, "needs_human": False, "summary": "想退款",
          "search_query": "退款"}
REQUEST = {"status": "pending", "invoice_id": "I1", "invoice_number": "INV-1", "amount": "100.00", "currency": "CNY",
           "reason": "不用了"}
REFUND = [("request_refund", {"invoice_number": "INV-1", "reason": "不用了"})]
DRAFT = "退款申请已提交,同事审核后回复您 [KB-refund-002]。"


def ticket(number=1):
    return {"id": f"T{number:06}", "customer_email": "a@example.com", "subject": "退款", "body": "请退款"}


def turn(number, *entries, **more):
    return {"turn_id": f"t{number}", "turn_messages": [entry["id"] for entry in entries], "turns": list(entries),
            "silent": False, **more}


def said(number, content="请退款"):
    return {"id": f"M{number}", "role": "customer", "content": content}


def config(number=1, turn_number=1):
    return {"configurable": {"thread_id": f"T{number:06}", "turn_id": f"t{turn_number}"}}


def waiting(*, tools=None, llm=None):
    """Run a turn up to its interrupt; return (graph, tools, the interrupt)."""
    tools = tools or FakeTools(customer={"id": "C1", "name": "吴刚"}, results={"request_refund": REQUEST})
    graph = build_graph(make_deps(llm or FakeLLM(TRIAGE, REFUND, DRAFT), tools), InMemorySaver())
    result = graph.invoke({"ticket": ticket(), **turn(1, said(1))}, config())
    (interrupt,) = result["__interrupt__"]
    return graph, tools, interrupt


def decide(graph, interrupt, turn_number=1, **decision):
    return graph.invoke(Command(resume={interrupt.id: {"approver": "lin", "reason": "", **decision}}),
                        config(turn_number=turn_number))


def test_the_approver_sees_request_customer_draft_and_findings():
    _, tools, interrupt = waiting()
    assert interrupt.value["kind"] == "refund"
    assert interrupt.value["request"] == REQUEST
    assert interrupt.value["customer"]["name"] == "吴刚"
    assert interrupt.value["draft"] == DRAFT
    assert "refund_request:" in interrupt.value["findings"]
    assert tools.refunds == tools.finished == []


def test_an_approved_refund_is_carried_out_once_and_the_customer_is_told():
    graph, tools, interrupt = waiting()
    end = decide(graph, interrupt, approved=True, approval_id="A000001")
    assert tools.refunds == [{"ticket_id": "T000001", "approved": True, "approver": "lin", "reason": "",
                              "request": REQUEST, "approval_id": "A000001"}]
    assert "INV-1" in end["reply"]
    assert "100.00 CNY" in end["reply"]
    assert "已审核通过" in end["reply"]
    assert [entry["role"] for entry in end["turns"]] == ["customer", "agent"]


def test_the_approvers_amount_goes_before_the_requested_one():
    graph, tools, interrupt = waiting()
    end = decide(graph, interrupt, approved=True, amount="40.00")
    assert tools.refunds[0]["request"]["amount"] == "40.00"
    assert "40.00 CNY" in end["reply"]


def test_a_rejected_refund_is_told_without_the_internal_reason():
    graph, _, interrupt = waiting()
    end = decide(graph, interrupt, approved=False, reason="怀疑薅羊毛")
    assert end["outcome"] == "resolved"
    assert "没有通过" in end["reply"]
    assert "薅羊毛" not in end["reply"]


def test_an_expired_approval_becomes_a_handoff_and_nothing_is_decided():
    graph, tools, interrupt = waiting()
    end = decide(graph, interrupt, approved=False, expired=True)
    assert end["outcome"] == "escalated"
    assert tools.escalations[0][1] == "approval expired"
    assert tools.refunds == []


def test_a_refund_that_cannot_be_paid_any_more_goes_to_a_human():
    tools = FakeTools(customer={"id": "C1"}, results={"request_refund": REQUEST}, refund_status="refused")
    graph, _, interrupt = waiting(tools=tools)
    end = decide(graph, interrupt, approved=True)
    assert end["outcome"] == "escalated"
    assert end["handoff_reason"] == "refund refused: at most 10.00 CNY can be refunded"


def test_a_decision_for_the_first_refund_never_approves_the_second():
    graph, tools, first = waiting()
    decide(graph, first, approved=True, approval_id="A1")
    second = graph.invoke(turn(2, said(2, "另一张也退")), config(turn_number=2))["__interrupt__"][0]

    graph.invoke(Command(resume={first.id: {"approved": True, "approver": "lin"}}), config(turn_number=2))
    assert [refund["approval_id"] for refund in tools.refunds] == ["A1"]

    decide(graph, second, 2, approved=False, approval_id="A2")
    assert [(refund["approval_id"], refund["approved"]) for refund in tools.refunds] == [("A1", True), ("A2", False)]


def test_a_silent_turn_takes_the_message_in_and_says_nothing():
    tools, llm = FakeTools(), FakeLLM(TRIAGE)
    end = build_graph(make_deps(llm, tools), InMemorySaver()).invoke(
        {"ticket": ticket(), **turn(1, said(1), silent=True)}, config())
    assert (end["outcome"], end["reply"]) == ("resolved", "")
    assert [entry["id"] for entry in end["turns"]] == ["M1"]
    assert llm.ledger.calls == 0
    assert tools.finished == tools.escalations == []


def test_after_a_colleagues_stretch_only_the_new_question_is_answered():
    triages = [{**TRIAGE, "needs_human": True}, {**TRIAGE, "needs_account_data": False}]
    llm = FakeLLM(triages, draft="在设置里改抬头 [KB-refund-002]。")
    graph = build_graph(make_deps(llm, FakeTools()), InMemorySaver())
    graph.invoke({"ticket": ticket(), **turn(1, said(1, "我要找人工"))}, config())

    human = {"id": "M3", "role": "agent", "content": "已经处理好", "author": "小林"}
    end = graph.invoke(turn(2, said(2, "人呢"), human, said(4, "发票抬头怎么改")), config(turn_number=2))

    newest = llm.asked("triage")[1].split('<section name="newest">')[1]
    assert "发票抬头" in newest
    assert "人呢" not in newest
    assert "客服(小林):已经处理好" in llm.asked("triage")[1]
    assert end["outcome"] == "resolved"
    assert end["handoff_reason"] == ""


def test_a_colleagues_last_word_is_left_standing():
    llm, tools = FakeLLM({**TRIAGE, "needs_human": True}), FakeTools()
    graph = build_graph(make_deps(llm, tools), InMemorySaver())
    graph.invoke({"ticket": ticket(), **turn(1, said(1, "我要找人工"))}, config())
    human = {"id": "M3", "role": "agent", "content": "已经处理好", "author": "小林"}
    end = graph.invoke(turn(2, said(2, "人呢"), human), config(turn_number=2))
    assert (end["outcome"], end["reply"]) == ("resolved", "")
    assert len(tools.escalations) == 1


def test_a_draft_is_mended_after_its_review_and_the_next_turn_knows_nothing_of_it():
    llm = FakeLLM({**TRIAGE, "needs_account_data": False}, draft=["见 [KB-nowhere-1]", "见 [KB-bank-001]"])
    graph = build_graph(make_deps(llm, FakeTools()), InMemorySaver())
    end = graph.invoke({"ticket": ticket(), **turn(1, said(1))}, config())
    assert end["revisions"] == 1
    assert "KB-nowhere-1 is not among the given articles" in llm.asked("draft")[1]

    end = graph.invoke(turn(2, said(2, "还有呢")), config(turn_number=2))
    assert end["revisions"] == 0
    assert "problems" not in llm.asked("draft")[2]


def test_a_draft_that_never_passes_goes_to_a_human_after_the_allowed_revisions():
    llm = FakeLLM({**TRIAGE, "needs_account_data": False}, draft="见 [KB-nowhere-1]")
    tools = FakeTools()
    end = build_graph(make_deps(llm, tools, max_revisions=2)).invoke({"ticket": ticket()})
    assert len(llm.asked("draft")) == 3
    assert end["outcome"] == "escalated"
    assert "KB-nowhere-1" in tools.escalations[0][1]
    assert tools.finished == []


@pytest.mark.parametrize("task", ["triage", "act", "draft", "check"])
def test_an_unusable_answer_goes_to_a_human_and_is_never_replaced_by_an_invented_one(task):
    tools = FakeTools(customer={"id": "C1"})
    llm = FakeLLM(TRIAGE, fail={task: ModelOutputUnusable("garbage")})
    end = build_graph(make_deps(llm, tools)).invoke({"ticket": ticket()})
    assert end["outcome"] == "escalated"
    assert "garbage" in tools.escalations[0][1]
    assert tools.finished == []


def test_an_absent_model_stops_the_turn_and_the_same_turn_goes_on_later():
    llm, tools = FakeLLM({**TRIAGE, "needs_account_data": False}, fail={"draft": Transient("503")}), FakeTools()
    graph = build_graph(make_deps(llm, tools), InMemorySaver())
    with pytest.raises(Transient):
        graph.invoke({"ticket": ticket(), **turn(1, said(1))}, config())
    assert tools.escalations == []

    llm.fail.clear()
    end = graph.invoke(None, config())
    assert end["outcome"] == "resolved"
    assert len(llm.asked("triage")) == 1


def test_two_answers_that_did_not_help_bring_a_human_and_the_released_ticket_starts_anew():
    llm = FakeLLM({**TRIAGE, "needs_account_data": False, "still_unsolved": True})
    tools = FakeTools()
    graph = build_graph(make_deps(llm, tools), InMemorySaver())
    outcomes = [graph.invoke({"ticket": ticket(), **turn(n, said(n, "还是不行"))}, config(turn_number=n))["outcome"]
                for n in (1, 2, 3)]
    assert outcomes == ["resolved", "escalated", "resolved"]
    assert "2 times" in tools.escalations[0][1]


def test_the_lease_is_asked_before_each_node_and_a_lost_one_writes_nothing():
    tools, seen = FakeTools(), []
    deps = make_deps(FakeLLM({**TRIAGE, "needs_account_data": False}), tools)

    def check(token):
        seen.append(token)
        if len(seen) == 6:
            raise LeaseLost("another worker has it")
    deps.check_lease = check
    with pytest.raises(LeaseLost):
        build_graph(deps).invoke({"ticket": ticket()}, {"configurable": {"__lease_token": "token-1"}})
    assert seen == ["token-1"] * 6
    assert tools.finished == []


def test_each_ticket_pays_for_its_own_calls_when_two_run_side_by_side():
    llm = FakeLLM({**TRIAGE, "needs_account_data": False},
                  cost=lambda text: "0.5" if "email: dear@example.com" in text else "0.001")
    graph = build_graph(make_deps(llm, FakeTools(), ticket_cost_cap_cny=100), InMemorySaver())

    def run(number):
        mine = {**ticket(number), "customer_email": "dear@example.com" if number == 1 else "a@example.com"}
        for n in range(1, 6):
            end = graph.invoke({"ticket": mine, **turn(n, said(n))}, config(number, n))
        return end["cost_cny"]

    with ThreadPoolExecutor(2) as pool:
        dear, cheap = pool.map(run, (1, 2))
    assert dear == pytest.approx(5 * 3 * 0.5)
    assert cheap == pytest.approx(5 * 3 * 0.001)


def test_a_bare_thanks_is_not_answered_and_the_next_question_is():
    llm = FakeLLM({**TRIAGE, "needs_account_data": False}, draft="请重新授权。")
    graph = build_graph(make_deps(llm, FakeTools()), InMemorySaver())
    cfg = {"configurable": {"thread_id": "T000001"}}
    graph.invoke({"ticket": ticket()}, cfg)
    thanked = graph.invoke({"turns": [{"role": "customer", "content": "好的,谢谢!"}]}, cfg)
    assert (thanked["outcome"], thanked["reply"]) == ("resolved", "")
    asked = graph.invoke({"turns": [{"role": "customer", "content": "发票呢"}]}, cfg)
    assert asked["reply"] == "请重新授权。"
    assert [entry["role"] for entry in asked["turns"]] == ["customer", "agent", "customer", "customer", "agent"]


def test_a_reply_can_be_stored_whatever_the_model_put_into_it():
    llm = FakeLLM({**TRIAGE, "needs_account_data": False}, draft="您好\x00\ud800。")
    end = build_graph(make_deps(llm, FakeTools())).invoke({"ticket": ticket()})
    assert end["reply"] == "您好?。"


def test_steps_and_tool_calls_can_be_watched():
    tools = FakeTools(customer={"id": "C1"}, results={"list_invoices": []})
    graph = build_graph(make_deps(FakeLLM(TRIAGE, [("list_invoices", {})]), tools))
    seen = list(graph.stream({"ticket": ticket()}, stream_mode="custom"))
    assert {"type": "tool", "name": "list_invoices", "args": {}} in seen
    assert [event["node"] for event in seen if event["type"] == "step"] == [
        "load_customer", "prepare_context", "classify", "retrieve", "act", "draft", "check", "finalize"]
