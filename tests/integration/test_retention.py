"""Snapshots that nobody needs go after each turn, and nothing else: beside running turns, waiting ones and killed ones."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fixtures.crash.scenarios import ScriptedLLM
from fixtures.office import CONTACT, Office, give_paid_invoice
from fixtures.process import process
from fixtures.pruning import deleted, harm, watch
from fixtures.worker import wait_for

from supportpilot.db import retention as tables
from supportpilot.db.pool import Database
from supportpilot.errors import Busy, NotFound
from supportpilot.memory.checkpoint import checkpointer_over
from supportpilot.service import approval, history, retention, turn
from supportpilot.service.approval import Verdict

pytestmark = pytest.mark.integration
TESTS = Path(__file__).parents[1]
BYTES = """SELECT (SELECT coalesce(sum(octet_length(checkpoint::text) + octet_length(metadata::text)), 0) FROM checkpoints)
                + (SELECT coalesce(sum(octet_length(blob)), 0) FROM checkpoint_blobs)
                + (SELECT coalesce(sum(octet_length(blob)), 0) FROM checkpoint_writes) AS n"""


def converse(office: Office, turns: int, ticket_id: str | None = None, contact: str = CONTACT) -> str:
    """Have the ticket answered so many times more."""
    for _ in range(turns):
        ticket_id = office.write("E3001 还是不行,怎么办?", ticket_id=ticket_id, contact=contact).ticket_id
        office.work(ticket_id)
    assert ticket_id is not None
    return ticket_id


def prune(office: Office, ticket_id: str) -> retention.Pruned:
    return retention.prune(office.db, office.settings, ticket_id)


def where(ticket_id: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": ticket_id}}


def stored(office: Office, ticket_id: str) -> dict[str, Any]:
    """Return the thread's snapshots by id, each with all that it holds."""
    return {found.checkpoint["id"]: found for found in checkpointer_over(office.db).list(where(ticket_id))}


def count(office: Office, table: str, ticket_id: str) -> int:
    return int(office.one(f"SELECT count(*) AS n FROM {table} WHERE thread_id = %s", ticket_id)["n"])


def customers(office: Office, ticket_id: str) -> list[str]:
    return [entry["id"] for entry in office.thread(ticket_id)["turns"] if entry["role"] == "customer"]


def failures(office: Office) -> int:
    return int(office.one("SELECT coalesce(sum(attempts + crashes + setbacks), 0) AS n FROM desk.turns")["n"])


# how much is left -----------------------------------------------------------------------------------

def look_back(monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    """Let the view, and the advice to fold, read only the last entries: reading all 400 at each turn takes its time."""
    node = importlib.import_module("supportpilot.agent.nodes.prepare_context")
    real = node.remember

    def remember(turns: Any, _stored: Any, newest: Any, room: Any) -> Any:
        left_out = max(0, len(turns) - entries)
        found = real(turns[left_out:], None, newest, room)
        return replace(found, upto=found.upto + left_out, recalled=tuple(i + left_out for i in found.recalled))

    monkeypatch.setattr(node, "remember", remember)
    monkeypatch.setattr(turn, "ask_for_compression", lambda *_: None)


def test_a_ticket_of_two_hundred_turns_keeps_twenty_snapshots_and_a_twentieth_of_the_bytes(
        db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stock saver writes the same rows and deletes none: its bytes are what is left and what was deleted."""
    look_back(monkeypatch, 20)
    office, ticket_id, most, gone = Office(db), None, 0, 0
    for number in range(1, 201):
        ticket_id = office.write(f"第 {number} 条,还是不行?", ticket_id=ticket_id).ticket_id
        office.work(ticket_id)
        before = office.one(BYTES)["n"]
        prune(office, ticket_id)
        gone += before - office.one(BYTES)["n"]
        most = max(most, count(office, "checkpoints", ticket_id))
    left = office.one(BYTES)["n"]
    print(f"most snapshots {most}; bytes left {left} of {left + gone}: {left / (left + gone):.1%}")
    assert most <= 20
    assert left <= 0.05 * float(left + gone)
    assert len(customers(office, ticket_id)) == 200
    lines = history.history(office.db, office.deps, ticket_id)
    assert sorted({line["turn"] for line in lines}) == [128, 160, 176, 192, 197, 198, 199, 200]
    ends = {line["turn"]: line["checkpoint_id"] for line in reversed(lines)}
    for number, snapshot_id in ends.items():
        values = office.rt.graph.get_state({"configurable": {"thread_id": ticket_id, "checkpoint_id": snapshot_id}}).values
        assert len(values["turns"]) == 2 * number
    assert failures(office) == 0


def test_a_second_pruning_finds_nothing_and_says_nothing(office: Office) -> None:
    ticket_id = converse(office, 6)
    first = prune(office, ticket_id)
    assert (first.left, first.deleted.snapshots) == (9 + 3, 54 - 12)
    assert first.said.startswith("deleted 42 of 54 snapshots, ")
    again = prune(office, ticket_id)
    assert (again.left, again.deleted, again.said) == (12, tables.ThreadSize(), "")
    with pytest.raises(NotFound, match="T999999"):
        prune(office, "T999999")


# what is left is whole ------------------------------------------------------------------------------

def test_what_is_kept_is_what_it_was_and_the_ticket_goes_on(office: Office) -> None:
    watch(office.db)
    ticket_id = converse(office, 20)
    before = stored(office, ticket_id)
    prune(office, ticket_id)
    after = stored(office, ticket_id)
    for snapshot_id, found in after.items():
        parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
        assert found._replace(parent_config=None) == before[snapshot_id]._replace(parent_config=None)
        assert parent is None or parent in after
    assert list(office.rt.graph.get_state_history(where(ticket_id)))
    assert harm(office.db) == {}
    assert converse(office, 2, ticket_id) == ticket_id
    assert len(customers(office, ticket_id)) == 22
    assert failures(office) == 0


def test_the_newest_turn_can_still_be_replayed_and_a_pruned_snapshot_is_refused(office: Office) -> None:
    ticket_id = converse(office, 5)
    lines = history.history(office.db, office.deps, ticket_id)
    prune(office, ticket_id)
    start = next(line for line in lines if line["turn"] == 5 and line["next"] == ["draft"])
    replayed = history.replay(office.db, office.deps, ticket_id, start["checkpoint_id"])
    assert (replayed["same"], replayed["steps"]) == (True, ["draft", "check", "finalize"])
    gone = next(line for line in lines if line["turn"] == 3 and line["next"] == ["draft"])
    with pytest.raises(NotFound, match="unknown or pruned"):
        history.replay(office.db, office.deps, ticket_id, gone["checkpoint_id"])
    left = history.history(office.db, office.deps, ticket_id)
    assert [line["turn"] for line in left] == [5] * 9 + [4, 3, 2]
    assert [line["written_by"] for line in left[9:]] == [None] * 3


def test_every_release_asks_for_a_pruning(office: Office) -> None:
    ticket_id = converse(office, 2)
    assert office.wakeups.prunes == [ticket_id] * 2


# beside a ticket that waits -------------------------------------------------------------------------

def waiting(office: Office, turns: int = 5) -> tuple[str, approval.Approval]:
    """Bring a ticket with some turns behind it to its approval."""
    give_paid_invoice(office)
    ticket_id = converse(office, turns)
    office.write("请退 INV-1 的退款", ticket_id=ticket_id)
    assert office.work(ticket_id).startswith("waits for approval")
    return ticket_id, approval.list_approvals(office.db, "pending")[0]


def test_a_ticket_that_waits_for_an_approval_is_pruned_a_hundred_times_by_two_and_pays_once(db: Database) -> None:
    office = Office(db, ScriptedLLM())
    ticket_id, asked = waiting(office)
    watch(db)
    turn_id = asked.turn_id
    whole = "SELECT * FROM checkpoints WHERE thread_id = %s AND metadata ->> 'turn_id' = %s ORDER BY checkpoint_id"
    held = "SELECT * FROM checkpoint_writes w JOIN checkpoints c USING (thread_id, checkpoint_id) WHERE thread_id = %s AND c.metadata ->> 'turn_id' = %s ORDER BY checkpoint_id, task_id, idx"
    before = [office.rows(query, ticket_id, turn_id) for query in (whole, held, "SELECT * FROM desk.approvals WHERE ticket_id = %s AND turn_id = %s")]
    assert any(row["channel"] == "__interrupt__" for row in before[1])
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: prune(office, ticket_id), range(100)))
    assert [office.rows(query, ticket_id, turn_id) for query in (whole, held, "SELECT * FROM desk.approvals WHERE ticket_id = %s AND turn_id = %s")] == before
    assert (deleted(db) > 30, harm(db)) == (True, {})
    approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li"))
    assert office.work(ticket_id) == "resolved"
    prune(office, ticket_id)
    assert office.rows("SELECT amount FROM biz.refunds") == [{"amount": Decimal("300.00")}]
    assert office.status(ticket_id) == "answered"
    assert (harm(db), failures(office)) == ({}, 0)


# beside turns that run ------------------------------------------------------------------------------

@contextmanager
def pruners(office: Office, tickets: list[str], number: int = 2) -> Iterator[list[int]]:
    """Prune these tickets all the time from some threads; the list grows by one with each pruning."""
    stop, done = threading.Event(), []

    def work() -> None:
        while not stop.is_set():
            for ticket_id in list(tickets):
                done.append(prune(office, ticket_id).deleted.snapshots)

    with ThreadPoolExecutor(number) as pool:
        running = [pool.submit(work) for _ in range(number)]
        try:
            yield done
        finally:
            stop.set()
        for one in running:
            one.result()


def test_pruned_all_the_time_turns_approvals_and_replays_run_as_ever(db: Database) -> None:
    db.pool.resize(4, 12)
    watch(db)
    keeper = Office(db, ScriptedLLM())
    tickets: list[str] = []

    def live(number: int) -> None:
        office, contact = Office(db, ScriptedLLM()), f"c{number}@example.com"
        office.execute("INSERT INTO biz.customers (id, email, name) VALUES (%s, %s, '王敏')", f"C{number}", contact)
        ticket_id = None
        for step in range(12):
            if step % 4 == 3:
                invoice = f"INV-{number}{step}"
                office.execute("INSERT INTO biz.invoices (id, customer_id, number, amount, status, issued_at, paid_at) "
                               "VALUES (%s, %s, %s, 300, 'paid', '2026-11-01', '2026-11-01T00:00:00Z')", invoice, f"C{number}", invoice)
                office.write(f"请退 {invoice} 的退款", ticket_id=ticket_id, contact=contact)
                assert office.work(ticket_id).startswith("waits for approval")
                asked = next(a for a in approval.list_approvals(db, "pending") if a.ticket_id == ticket_id)
                approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li"))
            else:
                ticket_id = office.write(f"第 {step} 条,还是不行?", ticket_id=ticket_id, contact=contact).ticket_id
                tickets.extend(set() if step else {ticket_id})
            assert office.work(ticket_id) == "resolved"
            newest = history.history(db, office.deps, ticket_id)[0]
            assert history.replay(db, office.deps, ticket_id, newest["checkpoint_id"])["same"]

    with pruners(keeper, tickets) as done, ThreadPoolExecutor(3) as pool:
        list(pool.map(live, range(1, 4)))
    print(f"{len(done)} prunings deleted {sum(done)} snapshots")
    assert sum(done) == deleted(db) > 200
    assert (harm(db), failures(keeper)) == ({}, 0)
    for ticket_id in tickets:
        said = [row["id"] for row in keeper.rows("SELECT id FROM desk.inbox WHERE ticket_id = %s ORDER BY seq", ticket_id)]
        assert (customers(keeper, ticket_id), len(said)) == (said, 12)
    assert keeper.one("SELECT count(*) AS n, sum(amount) AS sum FROM biz.refunds") == {"n": 9, "sum": Decimal(2700)}


@pytest.mark.parametrize("where_to", ["hang", "put"])
def test_a_turn_whose_worker_is_killed_or_frozen_goes_on_from_a_pruned_thread(db: Database, where_to: str) -> None:
    office = Office(db, ScriptedLLM())
    ticket_id = converse(office, 6)
    watch(db)
    office.write("第七次了,还是不行?", ticket_id=ticket_id)
    order = {"hang": "chat"} if where_to == "hang" else {"freeze": where_to}
    with process(url=db.url, ticket=ticket_id, lease_seconds=1, **order) as worker:
        if where_to == "hang":
            worker.read("hangs")
            prune(office, ticket_id)
            worker.kill()
        else:
            wait_for(worker.frozen, 30, "the process to be frozen")
            prune(office, ticket_id)
        office.execute("UPDATE desk.leases SET expires_at = clock_timestamp() - interval '1 second'")
        with pruners(office, [ticket_id], 1):
            assert wait_for(lambda: office.work(ticket_id) == "resolved", 60, "another worker to take over")
        prune(office, ticket_id)
        before = stored(office, ticket_id)
        if where_to != "hang":
            worker.wake()
            assert "lease lost" in worker.read()
            prune(office, ticket_id)
    assert stored(office, ticket_id) == before
    assert (len(customers(office, ticket_id)), harm(db)) == (7, {})
    assert len(office.outbox(ticket_id)) == 7
    assert converse(office, 1, ticket_id) == ticket_id


def test_a_pruner_killed_before_any_of_its_statements_has_deleted_nothing_yet_or_all_that_it_should(db: Database) -> None:
    office = Office(db)
    ticket_id = converse(office, 8)
    watch(db)
    before = stored(office, ticket_id)
    done = subprocess.run([sys.executable, "-m", "fixtures.pruning", json.dumps({"url": db.url, "ticket": ticket_id})],
                          cwd=TESTS, capture_output=True, text=True, check=True, timeout=100)
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(runs) > 9
    assert [r["left"] for r in runs[:-1]] == [len(before)] * (len(runs) - 1)
    assert all(r["killed"] for r in runs[:-1])
    assert runs[-1] == {"killed": False, "exit": 0, "left": 12}
    after = stored(office, ticket_id)
    assert all(found.checkpoint == before[snapshot_id].checkpoint for snapshot_id, found in after.items())
    assert harm(db) == {}
    converse(office, 1, ticket_id)
    assert len(customers(office, ticket_id)) == 9


def test_two_prunings_of_one_thread_at_once_both_come_to_an_end(db: Database) -> None:
    office = Office(db)
    watch(db)
    for number in range(3):
        ticket_id = converse(office, 3, contact=f"c{number}@example.com")
        both = threading.Barrier(2)

        def one(ticket_id: str, both: threading.Barrier = both) -> int:
            both.wait(10)
            return prune(office, ticket_id).left

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(one, [ticket_id] * 2)) == [9 + 2] * 2
    assert harm(db) == {}


def test_a_pruning_that_somebody_holds_up_says_so(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket_id = converse(office, 2)
    monkeypatch.setattr(retention, "ATTEMPTS", 1)
    with tables.pruning(office.db, ticket_id), pytest.raises(Busy):
        prune(office, ticket_id)


def test_writes_whose_snapshot_was_never_stored_go_with_the_rest(office: Office) -> None:
    ticket_id = converse(office, 2)
    saver, head = checkpointer_over(office.db), max(stored(office, ticket_id))
    for lost in ("0" + head[1:], "f" + head[1:]):       # behind the newest snapshot, and of one that may still come
        saver.put_writes({"configurable": {"thread_id": ticket_id, "checkpoint_ns": "", "checkpoint_id": lost}}, [("turns", ["x"])], "task")
    prune(office, ticket_id)
    assert office.rows("SELECT checkpoint_id FROM checkpoint_writes WHERE task_id = 'task'") == [{"checkpoint_id": "f" + head[1:]}]
