"""The whole agent over the demo data and the offline model: real tools, real knowledge base, real checkpoints."""

from __future__ import annotations

import pytest
from langgraph.types import Command

from supportpilot.agent.deps import Deps
from supportpilot.agent.graph import build_graph
from supportpilot.memory.checkpoint import checkpointer_over
from supportpilot.tools.business import create_ticket

pytestmark = pytest.mark.integration


@pytest.fixture
def talk(seeded_db, seeded_conn, offline_llm):
    """Send the lines of one customer as one turn each, as the document's script does; return the last state."""
    deps = Deps.over(seeded_db, offline_llm.settings())
    graph = build_graph(deps, checkpointer_over(seeded_db))

    def run(email, *lines, decision=None):
        ticket_id = create_ticket(seeded_conn, email, lines[0], lines[0])
        config = {"configurable": {"thread_id": ticket_id}}
        ticket = {"id": ticket_id, "customer_email": email, "subject": lines[0], "body": lines[0]}
        end = graph.invoke({"ticket": ticket}, config)
        for line in lines[1:]:
            end = graph.invoke({"turns": [{"role": "customer", "content": line}]}, config)
        for interrupt in end.get("__interrupt__", ()) if decision else ():
            end = graph.invoke(Command(resume={interrupt.id: decision}), config)
        return end

    yield run
    deps.close()


def test_wu_gang_s_fourth_e3001_is_answered_with_his_history_in_sight(talk, seeded_conn):
    end = talk("wugang@example.com", "银行流水又同步失败了,提示E3001", "重新授权之后多久恢复")
    assert "3 次" in end["profile"]
    assert end["outcome"] == "resolved"
    assert '"KB-' in end["reply"]
    assert [turn["role"] for turn in end["turns"]] == ["customer", "agent", "customer", "agent"]
    sent = seeded_conn.execute("SELECT body FROM desk.outbox WHERE ticket_id = %s ORDER BY position",
                               (end["ticket"]["id"],)).fetchall()
    assert [row["body"] for row in sent] == [turn["content"] for turn in end["turns"] if turn["role"] == "agent"]
    paid = seeded_conn.execute("SELECT sum(cost_cny) AS n FROM desk.llm_calls WHERE ticket_id = %s",
                               (end["ticket"]["id"],)).fetchone()["n"]
    assert end["cost_cny"] == pytest.approx(float(paid))


def test_a_refund_is_paid_only_after_the_approval(talk, seeded_conn):
    decision = {"approved": True, "approver": "lin", "reason": "ok", "amount": None, "approval_id": "A000001"}
    line = "我要退款,账单 INV-202603-0006"
    assert talk("wugang@example.com", line)["__interrupt__"]
    assert seeded_conn.execute("SELECT count(*) AS n FROM biz.refunds WHERE approval_id = 'A000001'").fetchone()["n"] == 0

    end = talk("wugang@example.com", line, decision=decision)
    assert "INV-202603-0006" in end["reply"]
    row = seeded_conn.execute("SELECT amount FROM biz.refunds WHERE approval_id = 'A000001'").fetchone()
    assert f"{row['amount']} CNY" in end["reply"]


def test_an_english_question_gets_an_english_answer(talk):
    end = talk("wugang@example.com", "My bank feed fails with error E3001, what can I do?")
    assert end["outcome"] == "resolved"
    assert "authori" in end["reply"].lower()


def test_a_stranger_gets_the_general_answer_and_no_account_data(talk):
    end = talk("stranger@example.com", "银行流水同步失败,提示E3001")
    assert end["customer"] is None
    assert end["profile"] == ""
    assert end["tool_log"] == []
    assert "8821" not in end["reply"]


def test_a_wish_for_a_person_brings_one(talk, seeded_conn):
    end = talk("wugang@example.com", "别跟机器人说了,我要转人工")
    assert end["outcome"] == "escalated"
    status = seeded_conn.execute("SELECT status FROM biz.tickets WHERE id = %s", (end["ticket"]["id"],)).fetchone()
    assert status["status"] == "escalated"
