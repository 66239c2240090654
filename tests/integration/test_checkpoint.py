"""The conversation in Postgres: it outlives the process, it can be emptied, and its early part is folded."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from fakes import FakeLLM, FakeTools, make_deps
from fixtures.office import Office, give_paid_invoice, refund_llm
from langgraph.types import Command

from supportpilot.agent.graph import build_graph
from supportpilot.db.pool import Database
from supportpilot.errors import Unavailable
from supportpilot.memory.checkpoint import (
    CHECKPOINT_TABLES,
    checkpointer_over,
    make_checkpointer,
    reset_checkpoints,
    truncate_checkpoints,
)
from supportpilot.service import approval
from supportpilot.service import ticket as tickets_service
from supportpilot.service.approval import Verdict

pytestmark = pytest.mark.integration

TRIAGE = {"category": "technical", "needs_account_data": False, "needs_human": False, "summary": "E3001",
          "search_query": "E3001"}
TICKET = {"id": "T000153", "customer_email": "a@example.com", "subject": "同步", "body": "银行流水同步失败"}
CONFIG = {"configurable": {"thread_id": "T000153"}}
REQUEST = {"status": "pending", "invoice_id": "I1", "invoice_number": "INV-1", "amount": "100.00", "currency": "CNY"}


@contextmanager
def fresh_process(url, llm=None, tools=None, **settings):
    """Build everything anew, as a new process would, and close it again."""
    saver = make_checkpointer(url)
    try:
        yield build_graph(make_deps(llm or FakeLLM(TRIAGE), tools or FakeTools(), **settings), saver)
    finally:
        saver.conn.close()


def customer(text):
    return {"turns": [{"role": "customer", "content": text}]}


def run_module(url):
    env = {**os.environ, "DATABASE_URL": url} if url else dict(os.environ)
    return subprocess.run([sys.executable, "-m", "supportpilot.memory.checkpoint"], env=env, capture_output=True,
                          text=True, timeout=60, check=False)


def test_a_conversation_goes_on_in_a_new_process(database_url):
    llm = FakeLLM(TRIAGE)
    with fresh_process(database_url) as graph:
        graph.invoke({"ticket": TICKET}, CONFIG)
    with fresh_process(database_url, llm) as graph:
        end = graph.invoke(customer("还是不行"), CONFIG)
    assert [turn["role"] for turn in end["turns"]] == ["customer", "agent", "customer", "agent"]
    assert "银行流水同步失败" in llm.asked("draft")[0]


def test_an_approval_given_to_a_new_process_is_carried_out_there(database_url):
    tools = FakeTools(customer={"id": "C1"}, results={"request_refund": REQUEST})
    llm = FakeLLM({**TRIAGE, "needs_account_data": True}, [("request_refund", {})], "已提交审核。")
    with fresh_process(database_url, llm, tools) as graph:
        (interrupt,) = graph.invoke({"ticket": TICKET}, CONFIG)["__interrupt__"]
    with fresh_process(database_url, FakeLLM(TRIAGE), tools) as graph:
        assert graph.get_state(CONFIG).interrupts == (interrupt,)
        end = graph.invoke(Command(resume={interrupt.id: {"approved": True, "approver": "lin"}}), CONFIG)
    assert [refund["approved"] for refund in tools.refunds] == [True]
    assert "已审核通过" in end["reply"]


def test_after_a_reset_a_ticket_with_an_old_number_starts_clean(database_url, conn):
    with fresh_process(database_url) as graph:
        graph.invoke({"ticket": TICKET}, CONFIG)
    stored = conn.execute("SELECT count(*) AS n FROM checkpoints").fetchone()["n"]
    assert stored > 0

    assert reset_checkpoints(database_url) == stored
    assert reset_checkpoints(database_url) == 0

    with fresh_process(database_url) as graph:
        end = graph.invoke({"ticket": {**TICKET, "body": "发票抬头写错了"}}, CONFIG)
    assert [turn["content"] for turn in end["turns"]] == ["发票抬头写错了", "您好。"]


def test_a_reset_inside_a_transaction_that_fails_drops_nothing(database_url, db, conn):
    with fresh_process(database_url) as graph:
        graph.invoke({"ticket": TICKET}, CONFIG)

    class RollbackError(Exception):
        pass

    with pytest.raises(RollbackError), db.transaction() as inner:  # noqa: PT012 -- the block is the transaction
        assert truncate_checkpoints(inner) > 0
        raise RollbackError
    assert conn.execute("SELECT count(*) AS n FROM checkpoints").fetchone()["n"] > 0


def test_the_schema_version_of_the_saver_is_not_emptied(database_url, conn):
    reset_checkpoints(database_url)
    assert "checkpoint_migrations" not in CHECKPOINT_TABLES
    assert conn.execute("SELECT count(*) AS n FROM checkpoint_migrations").fetchone()["n"] > 0


def test_the_module_prints_what_it_cleared(database_url):
    with fresh_process(database_url) as graph:
        graph.invoke({"ticket": TICKET}, CONFIG)
    done = run_module(database_url)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("cleared ")
    assert done.stdout.endswith(" checkpoints\n")
    assert int(done.stdout.split()[1]) > 0
    assert run_module(database_url).stdout == "cleared 0 checkpoints\n"


def test_the_module_says_in_one_line_what_is_missing():
    done = run_module(None)
    assert done.returncode == 2
    assert "DATABASE_URL" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_empty_database_gets_its_tables(postgres_server):
    with postgres_server.clone("template0") as url:
        assert reset_checkpoints(url) == 0
        with fresh_process(url) as graph:
            assert graph.invoke({"ticket": TICKET}, CONFIG)["outcome"] == "resolved"


def test_the_saver_survives_that_its_connections_are_cut(database_url, conn):
    with fresh_process(database_url) as graph:
        graph.invoke({"ticket": TICKET}, CONFIG)
        conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                     " WHERE datname = current_database() AND pid <> pg_backend_pid()")
        assert graph.invoke(customer("还在吗"), CONFIG)["outcome"] == "resolved"


def test_a_saver_can_stand_on_the_process_own_pool(db):
    graph = build_graph(make_deps(FakeLLM(TRIAGE), FakeTools()), checkpointer_over(db))
    graph.invoke({"ticket": TICKET}, CONFIG)
    assert graph.invoke(customer("还是不行"), CONFIG)["outcome"] == "resolved"


def test_a_small_budget_folds_the_early_part_and_leaves_the_last_four_word_for_word(database_url):
    llm = FakeLLM(TRIAGE, draft="答复,请照步骤操作后再看。")
    with fresh_process(database_url, llm, context_budget_tokens=60) as graph:
        graph.invoke({"ticket": TICKET}, CONFIG)
        for number in range(6):
            end = graph.invoke(customer(f"第{number}次追问,账单号 2026{number}"), CONFIG)
    assert end["summary"].startswith("- 诉求:")
    assert llm.asked("summary") == []    # a turn asks no model for it
    assert 0 < end["summarized_upto"] <= len(end["turns"]) - 4
    view = end["context"]
    seen = end["turns"][:-1]
    assert all(turn["content"] in view for turn in seen[-4:])
    assert all(turn["content"] not in view for turn in seen[:end["summarized_upto"]] if turn["role"] == "customer")
    assert len(end["turns"]) == 14


def test_a_reset_hands_waiting_tickets_to_a_human_and_their_messages_can_be_brought_back(db: Database) -> None:
    office = Office(db, refund_llm())
    give_paid_invoice(office)
    received = office.write("账单 INV-1 重复扣款,请退款")
    office.work(received.ticket_id)
    assert reset_checkpoints(db.url) > 0
    assert office.status(received.ticket_id) == "escalated"
    assert [r["status"] for r in office.rows("SELECT status FROM desk.approvals")] == ["withdrawn"]
    tickets_service.release(db, office.ports, received.ticket_id)
    assert Office(db, refund_llm()).work(received.ticket_id).startswith("waits for approval")


def test_a_reset_takes_the_lease_from_a_running_turn(db: Database) -> None:
    office = Office(db)
    received = office.write("同步失败")
    real = office.deps.finish_ticket

    def reset_meanwhile(*args: object, **more: object) -> str:
        reset_checkpoints(db.url)
        return real(*args, **more)  # type: ignore[arg-type]

    office.deps.finish_ticket = reset_meanwhile
    assert office.work(received.ticket_id) == "lease lost"
    office.deps.finish_ticket = real
    assert office.work(received.ticket_id) == "resolved"
    assert len(office.outbox(received.ticket_id)) == 1


def test_a_reset_withdraws_a_decision_that_a_begun_turn_had_not_applied(db: Database) -> None:
    office = Office(db, refund_llm())
    give_paid_invoice(office)
    ticket_id = office.write("账单 INV-1 重复扣款,请退款").ticket_id
    office.work(ticket_id)
    first = approval.list_approvals(db, "pending")[0]
    approval.decide(db, office.ports, first.id, Verdict(approved=True, by="li"))

    def killed(*_args: object, **_kw: object) -> None:
        raise Unavailable("away")

    office.deps.decide_refund = killed
    assert "away" in office.work(ticket_id)
    reset_checkpoints(db.url)
    office.execute("UPDATE desk.turns SET next_attempt_at = clock_timestamp()")
    again = Office(db, refund_llm())
    assert again.work(ticket_id).startswith("waits for approval")
    assert approval.get_approval(db, first.id).status == "withdrawn"
    assert again.work(ticket_id) == "nothing due, or somebody has it"
