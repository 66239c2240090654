"""Time travel: snapshots of a ticket, and replays that nobody but the asker notices."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from fakes import FakeLLM
from fixtures.llm import OfflineLLM
from fixtures.office import CONTACT, DRAFT, TRIAGE, Office, give_paid_invoice, refund_llm

from producer.cli.main import run
from supportpilot.agent.deps import Deps
from supportpilot.config import get_settings
from supportpilot.db import forks
from supportpilot.db.pool import Database
from supportpilot.errors import NotFound, Permanent, Transient, Unavailable
from supportpilot.service import approval, history
from supportpilot.service.approval import Verdict

pytestmark = pytest.mark.integration
LOOKUP_TRIAGE = {**TRIAGE, "needs_account_data": True}
WAY = ["load_customer", "prepare_context", "classify", "retrieve", "draft", "check", "finalize"]


def answered(office: Office, *messages: str) -> str:
    """Let the agent answer each message on one ticket; return the ticket."""
    ticket_id = ""
    for message in messages:
        ticket_id = office.write(message, ticket_id=ticket_id or None).ticket_id
        office.work(ticket_id)
    return ticket_id


def snapshots(office: Office, ticket_id: str) -> list[dict[str, Any]]:
    return history.history(office.db, office.deps, ticket_id)


def before(office: Office, ticket_id: str, node: str, turn: int = 1) -> str:
    """Return the newest snapshot of a turn from which a node comes next."""
    found = [s for s in snapshots(office, ticket_id) if s["next"] == [node] and s["turn"] == turn]
    return str(found[0]["checkpoint_id"])


def replay(office: Office, ticket_id: str, checkpoint_id: str) -> dict[str, Any]:
    return history.replay(office.db, office.deps, ticket_id, checkpoint_id)


def world(office: Office, ticket_id: str) -> dict[str, Any]:
    """Return all that a replay must leave as it is."""
    tables = ("desk.outbox", "desk.approvals", "desk.turns", "desk.inbox", "desk.audit", "desk.leases", "biz.refunds",
              "biz.invoices", "biz.tickets", "biz.customer_profiles", "desk.summaries")
    rows = {table: office.rows(f"SELECT * FROM {table} ORDER BY 1") for table in tables}
    threads = {table: sorted(map(repr, office.rows(f"SELECT * FROM {table} WHERE thread_id = %s", ticket_id)))
               for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes")}
    return {**rows, **threads, "wakeups": dataclasses.asdict(office.wakeups)}


def rest_of_the_way(following: list[str]) -> list[str]:
    if not following:
        return []
    return WAY if following == ["__start__"] else WAY[WAY.index(following[0]):]


# history

def test_the_snapshots_of_two_turns_are_listed_newest_first(office: Office) -> None:
    ticket_id = answered(office, "E3001", "还是不行,怎么办?")
    found = snapshots(office, ticket_id)
    turn_ids = [r["turn_id"] for r in office.rows("SELECT turn_id FROM desk.turns ORDER BY created_at")]
    assert [s["checkpoint_id"] for s in found] == sorted((s["checkpoint_id"] for s in found), reverse=True)
    assert [s["turn"] for s in found] == [2] * 9 + [1] * 9
    assert {(s["turn"], s["turn_id"]) for s in found} == {(1, turn_ids[0]), (2, turn_ids[1])}
    assert [s["written_by"] for s in reversed(found[9:])] == ["input", "__start__", *WAY]
    assert [s["next"] for s in reversed(found[9:])] == [["__start__"], *([node] for node in WAY), []]
    assert [s["step"] for s in found] == list(range(16, -2, -1))
    assert all(s["bytes"] > 0 and s["at"] for s in found)


def test_a_snapshot_s_size_counts_all_that_it_holds_not_only_what_is_new(office: Office) -> None:
    ticket_id = answered(office, "E3001")
    small = snapshots(office, ticket_id)[0]["bytes"]
    answered_again = office.write("还是不行," + "银" * 5000 + "?", ticket_id=ticket_id)
    office.work(answered_again.ticket_id)
    assert snapshots(office, ticket_id)[0]["bytes"] > small + 3 * 5000


def test_a_parked_ticket_s_newest_snapshot_waits_before_the_approval(db: Database) -> None:
    office = Office(db, refund_llm())
    give_paid_invoice(office)
    assert snapshots(office, answered(office, "请退 INV-1"))[0]["next"] == ["approval"]


def test_turns_of_a_thread_driven_by_hand_are_numbered_too(office: Office) -> None:
    ticket_id = office.write("E3001").ticket_id
    ticket = {"id": ticket_id, "customer_email": CONTACT, "subject": "", "body": "E3001"}
    config = {"configurable": {"thread_id": ticket_id}}
    office.rt.graph.invoke({"ticket": ticket}, config)
    office.rt.graph.invoke({"turns": [{"role": "customer", "content": "还是不行?"}]}, config)
    assert [s["turn"] for s in snapshots(office, ticket_id)] == [2] * 9 + [1] * 9


def test_a_ticket_that_has_not_run_has_no_snapshots_and_an_unknown_one_is_refused(office: Office) -> None:
    assert snapshots(office, office.write("E3001").ticket_id) == []
    with pytest.raises(NotFound, match="T999999"):
        snapshots(office, "T999999")


# replay: nothing but the fork changes

def test_a_replay_from_any_snapshot_answers_the_same_and_changes_nothing(office: Office) -> None:
    ticket_id = answered(office, "E3001", "还是不行,怎么办?")
    then = world(office, ticket_id)
    for snapshot in snapshots(office, ticket_id):
        found = replay(office, ticket_id, snapshot["checkpoint_id"])
        assert (found["same"], found["outcome"], found["turn_id"]) == (True, "resolved", snapshot["turn_id"])
        assert found["steps"] == rest_of_the_way(snapshot["next"])
    assert world(office, ticket_id) == then
    answered_again = office.write("谢谢,再问一下?", ticket_id=ticket_id)
    office.work(answered_again.ticket_id)
    assert office.roles(ticket_id) == ["customer", "agent"] * 3


def test_what_comes_out_differently_is_shown_sentence_by_sentence(db: Database) -> None:
    office = Office(db, FakeLLM(TRIAGE, [], ["您好。请重新授权。", "您好。请联系银行。"]))
    ticket_id = answered(office, "E3001")
    found = replay(office, ticket_id, before(office, ticket_id, "draft"))
    assert found["steps"] == ["draft", "check", "finalize"]
    assert (found["same"], found["reply"], found["original"]["reply"]) == (False, "您好。请联系银行。", "您好。请重新授权。")
    assert found["diff"] == ["  您好。", "- 请重新授权。", "+ 请联系银行。"]
    assert office.outbox(ticket_id) == [("reply", "您好。请重新授权。")]


def test_a_replay_of_an_early_turn_is_compared_with_that_turn(db: Database) -> None:
    office = Office(db, FakeLLM(TRIAGE, [], ["第一次的回答。", "第二次的回答。", "重放的回答。"]))
    ticket_id = answered(office, "E3001", "然后呢?")
    found = replay(office, ticket_id, before(office, ticket_id, "load_customer", turn=1))
    assert found["original"] == {"outcome": "resolved", "reply": "第一次的回答。"}
    asked = office.llm.requests[-1][-1]["content"]
    assert "E3001" in asked
    assert "然后呢" not in asked


def test_a_replay_that_wants_a_human_leaves_the_ticket_with_the_agent(db: Database) -> None:
    office = Office(db, FakeLLM([TRIAGE, {**TRIAGE, "needs_human": True}], [], DRAFT))
    ticket_id = answered(office, "E3001")
    then = world(office, ticket_id)
    found = replay(office, ticket_id, before(office, ticket_id, "classify"))
    assert (found["outcome"], found["steps"]) == ("escalated", ["classify", "handoff"])
    assert found["original"]["outcome"] == "resolved"
    assert office.status(ticket_id) == "answered"
    assert world(office, ticket_id) == then


def test_a_replay_stops_where_a_human_is_asked_and_asks_nobody(db: Database) -> None:
    office = Office(db, refund_llm())
    give_paid_invoice(office)
    ticket_id = answered(office, "重复扣款,请退 INV-1")
    then = world(office, ticket_id)
    parked = replay(office, ticket_id, snapshots(office, ticket_id)[0]["checkpoint_id"])
    assert (parked["outcome"], parked["steps"], parked["request"]["invoice_number"]) == ("waiting_approval", [], "INV-1")
    assert parked["same"]
    whole = replay(office, ticket_id, before(office, ticket_id, "act"))
    assert (whole["outcome"], whole["request"]["amount"]) == ("waiting_approval", "300.00")
    assert world(office, ticket_id) == then


def test_a_replay_of_a_paid_refund_pays_nothing(db: Database) -> None:
    office = Office(db, refund_llm())
    give_paid_invoice(office)
    ticket_id = answered(office, "重复扣款,请退 INV-1")
    approval.decide(db, office.ports, "A000001", Verdict(approved=True, by="Chen"))
    office.work(ticket_id)
    then = world(office, ticket_id)
    assert len(then["biz.refunds"]) == 1
    assert replay(office, ticket_id, before(office, ticket_id, "approval"))["outcome"] == "waiting_approval"
    replay(office, ticket_id, before(office, ticket_id, "load_customer"))
    assert world(office, ticket_id) == then


def test_tools_of_a_replay_read_the_ticket_s_own_customer(db: Database) -> None:
    office = Office(db, FakeLLM(LOOKUP_TRIAGE, [("list_invoices", {})], DRAFT))
    give_paid_invoice(office)
    office.execute("INSERT INTO biz.customers (id, email, name) VALUES ('C2', 'li@example.com', '李雷')")
    office.execute("INSERT INTO biz.invoices (id, customer_id, number, amount, status, issued_at) "
                   "VALUES ('INV-9', 'C2', 'INV-9', '1.00', 'open', '2026-11-01')")
    ticket_id = answered(office, "E3001")
    fork = replay(office, ticket_id, before(office, ticket_id, "act"))["fork"]
    asked = office.thread(fork)["tool_log"][-1]
    assert asked["is_error"] is False
    assert "INV-1" in asked["result"]
    assert "INV-9" not in asked["result"]


def test_a_replay_keeps_its_fork_and_the_ticket_cannot_go_without_it(office: Office) -> None:
    ticket_id = answered(office, "E3001")
    start = before(office, ticket_id, "draft")
    found = replay(office, ticket_id, start)
    row = office.one("SELECT * FROM desk.forks")
    assert (row["thread_id"], row["ticket_id"], row["from_checkpoint"]) == (found["fork"], ticket_id, start)
    assert (row["outcome"], row["reply"]) == ("resolved", found["reply"])
    assert office.one("SELECT confrelid::regclass::text AS target FROM pg_constraint "
                      "WHERE conrelid = 'desk.forks'::regclass AND contype = 'f'")["target"] == "biz.tickets"


def test_a_replay_that_breaks_off_leaves_the_ticket_and_an_open_fork(office: Office) -> None:
    ticket_id = answered(office, "E3001")
    start, then = before(office, ticket_id, "draft"), world(office, ticket_id)
    office.llm.fail["draft"] = Transient("the model is away")
    with pytest.raises(Transient, match="the model is away"):
        replay(office, ticket_id, start)
    assert office.one("SELECT outcome, reply FROM desk.forks") == {"outcome": None, "reply": None}
    assert world(office, ticket_id) == then


# replay: what it refuses

def test_an_unknown_snapshot_is_refused_with_those_that_exist(office: Office) -> None:
    ticket_id = answered(office, "E3001")
    newest = snapshots(office, ticket_id)[0]["checkpoint_id"]
    with pytest.raises(NotFound, match=newest):
        replay(office, ticket_id, "1f000000-0000-6000-8000-000000000000")
    with pytest.raises(NotFound, match="no ticket T999999"):
        replay(office, "T999999", newest)
    assert office.rows("SELECT * FROM desk.forks") == []


def test_another_ticket_s_snapshot_is_unknown_here(office: Office) -> None:
    mine = answered(office, "E3001")
    theirs = office.write("E3001", contact="li@example.com").ticket_id
    office.work(theirs)
    with pytest.raises(NotFound, match=f"{mine} has no snapshot"):
        replay(office, mine, snapshots(office, theirs)[0]["checkpoint_id"])


def test_a_pruned_snapshot_is_refused_and_history_goes_on_without_it(office: Office) -> None:
    ticket_id = answered(office, "E3001")
    first = snapshots(office, ticket_id)[-1]["checkpoint_id"]
    office.execute("DELETE FROM checkpoints WHERE thread_id = %s AND checkpoint_id = %s", ticket_id, first)
    with pytest.raises(NotFound, match="unknown or pruned"):
        replay(office, ticket_id, first)
    assert snapshots(office, ticket_id)[-1]["written_by"] is None
    office.execute("DELETE FROM checkpoints")
    with pytest.raises(NotFound, match="has no snapshots"):
        replay(office, ticket_id, first)


# the ports of a replay

READ_ONLY = {"llm", "small_llm", "retriever", "settings", "clock", "tool_schemas", "summary_for", "commitments_for"}


def test_every_port_of_the_agent_is_known_to_be_read_only_or_is_made_harmless(office: Office) -> None:
    tame = history.harmless(office.deps, office.db)
    for field in dataclasses.fields(Deps):
        kept = getattr(tame, field.name) is getattr(office.deps, field.name)
        assert kept == (field.name in READ_ONLY), field.name
    with pytest.raises(Permanent):
        tame.decide_refund("T000001", True, "Chen", "")


def test_tools_of_a_replay_run_in_a_transaction_that_can_write_nothing(db: Database) -> None:
    def write_after_all() -> None:
        with db.transaction() as conn:
            forks.make_read_only(conn)
            conn.execute("UPDATE biz.tickets SET subject = ''")

    with pytest.raises(Unavailable, match="read-only"):
        write_after_all()


# the command line, with a model that costs money

@pytest.fixture
def paid(seeded_db: Database, seeded_url: str, offline_llm: OfflineLLM, monkeypatch: pytest.MonkeyPatch) -> tuple[Office, str]:
    """An answered ticket of the demo data, its model calls paid for."""
    monkeypatch.setenv("DATABASE_URL", seeded_url)
    monkeypatch.setenv("OPENAI_BASE_URL", offline_llm.url)
    get_settings.cache_clear()
    office = Office(seeded_db, openai_base_url=offline_llm.url)
    real = Deps.over(seeded_db, office.settings)
    for port in ("llm", "small_llm", "retriever", "profile_for"):
        setattr(office.deps, port, getattr(real, port))
    ticket_id = office.write("银行流水又同步失败了,提示E3001", contact="wugang@example.com").ticket_id
    office.work(ticket_id)
    real.close()
    return office, ticket_id


def test_a_replay_on_the_command_line_is_charged_to_its_fork(paid: tuple[Office, str], capsys: pytest.CaptureFixture[str]) -> None:
    office, ticket_id = paid
    calls = office.rows("SELECT * FROM desk.llm_calls WHERE ticket_id = %s ORDER BY id", ticket_id)
    assert run(["ticket", "history", ticket_id, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)[-1]
    assert run(["ticket", "replay", ticket_id, "--checkpoint", first["checkpoint_id"], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["same"], found["outcome"]) == (True, "resolved")
    charged = office.one("SELECT sum(cost_cny) AS cost FROM desk.llm_calls WHERE ticket_id = %s", found["fork"])["cost"]
    assert charged > 0
    assert found["cost_cny"] == str(charged)
    assert office.rows("SELECT * FROM desk.llm_calls WHERE ticket_id = %s ORDER BY id", ticket_id) == calls
    assert run(["costs", "--json"]) == 0
    board = {row["key"]: row["fork_of"] for row in json.loads(capsys.readouterr().out)}
    assert board == {ticket_id: None, found["fork"]: ticket_id}
    assert run(["costs"]) == 0
    assert f"{ticket_id} fork {found['fork'][5:13]} " in capsys.readouterr().out


def test_history_and_replay_read_well_in_a_narrow_terminal(paid: tuple[Office, str], capsys: pytest.CaptureFixture[str]) -> None:
    office, ticket_id = paid
    newest = snapshots(office, ticket_id)[0]["checkpoint_id"]
    assert run(["ticket", "history", ticket_id]) == 0
    out = capsys.readouterr().out
    assert newest in out                    # in one piece, to be copied
    assert "turn 1" in out
    assert run(["ticket", "replay", ticket_id, "--checkpoint", before(office, ticket_id, "draft")]) == 0
    out = capsys.readouterr().out
    assert "the same as then" in out
    assert "draft > check > finalize" in out


@pytest.mark.parametrize(("arguments", "says"), [
    (["history", "T999999"], "no ticket T999999"),
    (["replay", "T999999", "--checkpoint", "x"], "no ticket T999999"),
    (["replay", "OWN", "--checkpoint", "x"], "newest of"),
])
def test_an_unknown_ticket_or_snapshot_is_one_line_and_exit_3(
        paid: tuple[Office, str], capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert run(["ticket", *(paid[1] if word == "OWN" else word for word in arguments)]) == 3
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
