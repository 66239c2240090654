"""What the protocol is for: the same interleavings lose messages as soon as one of its checks is taken out.

Each scenario runs on the real saver (nothing is found) and on savers that lack one check (the loss is found).
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeLLM
from fixtures.office import REFUND_TRIAGE, TRIAGE, Office, give_paid_invoice
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.base import id as id_clock
from langgraph.checkpoint.postgres import PostgresSaver

from chaos.checker import Findings, check
from chaos.small import SmallRun
from supportpilot.agent.graph import build_graph
from supportpilot.db import inbox, turns
from supportpilot.db.pool import Database
from supportpilot.memory import fenced
from supportpilot.memory.fenced import CLOCK, FencedSaver
from supportpilot.service.turn import Work, _input

pytestmark = pytest.mark.integration

SECOND = 10**9


class Weakened(FencedSaver):
    """A fenced saver of whose conditions `taken_out` always holds."""

    taken_out = ""

    def _one(self, statement: str, values: dict[str, Any]) -> Any:
        return super()._one(statement.replace(self.taken_out, "true"), values)


class WithoutFence(Weakened):
    taken_out = "EXISTS (SELECT 1 FROM lease)"


class WithoutParent(Weakened):
    taken_out = "EXISTS (SELECT 1 FROM tail)"


class WithoutLift(FencedSaver):
    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return PostgresSaver.get_tuple(self, config)


class WithoutClock(WithoutLift, Weakened):
    taken_out = '%(id)s::text > %(parent)s::text COLLATE "C"'


def with_saver(office: Office, saver: type[PostgresSaver]) -> Office:
    office.rt = replace(office.rt, graph=build_graph(office.deps, saver(office.db.pool)))
    return office


def torn(run: SmallRun) -> list[str]:
    """Return what is wrong with the thread."""
    return [f.what for f in judged(run).found if "thread" in f.what]


def judged(run: SmallRun) -> Findings:
    run.deliver()
    return check(run.snapshot())


@pytest.mark.parametrize("saver", [WithoutFence, WithoutParent, WithoutClock])
def test_what_is_taken_out_of_the_saver_is_there(saver: type[Weakened]) -> None:
    """Else the broken variants below would be the real one, and prove nothing."""
    assert saver.taken_out in fenced.PUT


class Frozen(FakeLLM):
    """A model whose first draft comes when `woken` is set: its worker stands still meanwhile."""

    def __init__(self, hook: Callable[[], None], *script: Any) -> None:
        super().__init__(*(script or (TRIAGE, [], "醒来之后的答复 [KB-bank-001]。")))
        self._hook, self._times = hook, itertools.count()

    def chat(self, messages: list[dict[str, Any]], **kw: Any) -> Any:
        if "[task:draft]" in messages[0]["content"] and next(self._times) == 0:
            self._hook()
        return super().chat(messages, **kw)


def zombie_wakes_behind_its_successor(db: Database, saver: type[PostgresSaver]) -> SmallRun:
    """A worker freezes in its first turn; another one finishes that turn and a second; then the first wakes up."""
    frozen, woken = threading.Event(), threading.Event()

    def hook() -> None:
        frozen.set()
        assert woken.wait(30)

    zombie, successor = with_saver(Office(db, Frozen(hook)), saver), with_saver(Office(db), saver)
    run = SmallRun(successor)
    ticket_id = run.write(1, "同步失败 E3001")
    running = threading.Thread(target=zombie.work, args=(ticket_id,))
    running.start()
    assert frozen.wait(30)
    zombie.execute("UPDATE desk.leases SET expires_at = clock_timestamp() - interval '1 second'")
    assert successor.work(ticket_id) == "resolved"
    run.write(2, "第二条", ticket_id)
    assert successor.work(ticket_id) == "resolved"
    woken.set()
    running.join(30)
    assert not running.is_alive()
    return run


def test_a_zombie_loses_nothing_against_the_fence(db: Database) -> None:
    assert judged(zombie_wakes_behind_its_successor(db, FencedSaver)).found == ()


@pytest.mark.parametrize("saver", [WithoutFence, PostgresSaver])
def test_without_the_fence_a_zombie_takes_its_successors_turn_out_of_the_thread(
    db: Database, saver: type[PostgresSaver],
) -> None:
    run = zombie_wakes_behind_its_successor(db, saver)
    assert any(f"message {run.accepted[1].message_id}" in what and "0 times" in what for what in torn(run))


def tail_is_lost_in_mid_turn(db: Database, saver: type[PostgresSaver]) -> SmallRun:
    """The commits of a refund's turn so far are lost under the living worker, as in a failover to a replica."""
    office = Office(db)
    give_paid_invoice(office)
    run = SmallRun(with_saver(office, saver))
    ticket_id = run.write(1, "同步失败 E3001")
    assert office.work(ticket_id) == "resolved"
    tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
    for table in tables:
        office.execute(f"CREATE TABLE kept_{table} AS SELECT * FROM {table}")

    def lose() -> None:
        for table in tables:
            office.execute(f"DELETE FROM {table}")
            office.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}")

    wish = ("request_refund", {"invoice_number": "INV-1", "reason": "重复扣款"})
    office.deps.llm = office.deps.small_llm = Frozen(lose, REFUND_TRIAGE, [wish], "账单 INV-1 的退款已交给同事审核。")
    run.write(2, "账单 INV-1 重复扣款,请退款", ticket_id)
    office.work(ticket_id)
    office.execute("UPDATE desk.turns SET next_attempt_at = clock_timestamp() WHERE status = 'running'")
    office.work(ticket_id)
    run.decide()
    office.work(ticket_id)
    return run


def test_a_lost_tail_is_noticed_and_the_turn_run_again(db: Database) -> None:
    run = tail_is_lost_in_mid_turn(db, FencedSaver)
    assert judged(run).found == ()
    assert [t["crashes"] for t in run.office.rows("SELECT crashes FROM desk.turns ORDER BY created_at")] == [0, 1]


@pytest.mark.parametrize("saver", [WithoutParent, PostgresSaver])
def test_without_the_parent_check_a_lost_tail_empties_the_thread(db: Database, saver: type[PostgresSaver]) -> None:
    run = tail_is_lost_in_mid_turn(db, saver)
    assert run.office.thread(run.accepted[0].ticket_id)["turns"] == []
    assert sum("0 times in the thread" in what for what in torn(run)) == 3


class Clocks:
    """One clock for each machine, moved by the test alone, so that no machine's speed decides."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = time.time_ns()
        self._offset = 0
        monkeypatch.setattr(time, "time_ns", self._read)

    def _read(self) -> int:
        self._now += 1_000
        return self._now + self._offset

    def of_machine(self, offset: int) -> None:
        """Be another process: its own clock, and nothing remembered of ids drawn elsewhere."""
        self._offset = offset
        setattr(id_clock, CLOCK, None)


def clocks_apart(db: Database, saver: type[PostgresSaver], clocks: Clocks, apart: int) -> SmallRun:
    """Two workers, one of them `apart` nanoseconds ahead, answer six messages in turns."""
    ahead, behind = with_saver(Office(db), saver), with_saver(Office(db, turn_deadline_seconds=2), saver)
    run = SmallRun(behind)
    ticket_id = ""
    for number in range(1, 7):
        office, offset = (ahead, apart) if number % 2 else (behind, 0)
        clocks.of_machine(offset)
        ticket_id = run.write(number, f"第 {number} 条", ticket_id or None)
        office.work(ticket_id)
    return run


def clocks_apart_and_no_protocol(db: Database, saver: type[PostgresSaver], clocks: Clocks, apart: int) -> SmallRun:
    """The same by LangGraph alone: invoke, and believe what comes back."""
    offices = [with_saver(Office(db), saver) for _ in range(2)]
    run = SmallRun(offices[0])
    ticket_id = ""
    for number in range(1, 7):
        ticket_id = run.write(number, f"第 {number} 条", ticket_id or None)
        clocks.of_machine(apart if number % 2 else 0)
        office = offices[number % 2]
        office.rt.graph.invoke(_input(office.rt, taken(office, ticket_id, number - 1)), plain_config(ticket_id))
    return run


APART = pytest.mark.parametrize("apart", [SECOND // 10, 60 * SECOND], ids=["100 ms", "60 s"])


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    monkeypatch.setattr(id_clock, CLOCK, getattr(id_clock, CLOCK))      # put back afterwards
    return Clocks(monkeypatch)


@APART
def test_clocks_apart_lose_nothing(db: Database, clocks: Clocks, apart: int) -> None:
    assert judged(clocks_apart(db, FencedSaver, clocks, apart)).found == ()


@APART
def test_the_lift_alone_keeps_every_message_in_the_thread(db: Database, clocks: Clocks, apart: int) -> None:
    run = clocks_apart_and_no_protocol(db, FencedSaver, clocks, apart)
    assert [what for what in torn(run) if "0 times" in what] == []


@APART
@pytest.mark.parametrize("saver", [WithoutClock, PostgresSaver])
def test_without_the_clocks_lift_the_slow_workers_messages_are_lost(
    db: Database, clocks: Clocks, saver: type[PostgresSaver], apart: int,
) -> None:
    run = clocks_apart_and_no_protocol(db, saver, clocks, apart)
    lost = [a.number for a in run.accepted if any(f"message {a.message_id} " in w and "0 times" in w for w in torn(run))]
    assert lost == [2, 4, 6]


def test_without_lift_and_check_the_worker_does_not_believe_that_its_turn_is_done(db: Database, clocks: Clocks) -> None:
    """What `get_state` says is the second line: the turn is put down after one round, and nothing is called done."""
    run = clocks_apart(db, WithoutClock, clocks, 60 * SECOND)
    assert [t["status"] for t in run.office.rows("SELECT status FROM desk.turns ORDER BY created_at")] == ["done", "running"]
    left = run.office.one("SELECT last_error, crashes, attempts FROM desk.turns WHERE status = 'running'")
    assert "does not show in its thread" in left["last_error"]
    assert left["crashes"] >= 1, "it has a bound"
    assert left["attempts"] == 0


def test_without_the_lift_alone_the_slow_worker_loses_nothing_and_gets_nowhere(db: Database, clocks: Clocks) -> None:
    run = clocks_apart(db, WithoutLift, clocks, 60 * SECOND)
    assert run.office.rows("SELECT 1 FROM desk.turns WHERE status = 'done'") == [{"?column?": 1}]
    assert "clock is behind" in run.office.one("SELECT last_error FROM desk.turns WHERE status = 'running'")["last_error"]


def test_two_workers_on_one_thread_without_a_lease_lose_a_message(db: Database) -> None:
    """Plain LangGraph: both read the same head, the second writes over the first; nobody hears of it."""
    both = threading.Barrier(2, timeout=30)
    offices = [with_saver(Office(db, Frozen(lambda: both.wait() and None)), PostgresSaver) for _ in range(2)]
    run = SmallRun(offices[0])
    ticket_id = run.write(1, "第一条")
    run.write(2, "第二条", ticket_id)
    work = [taken(offices[0], ticket_id, n) for n in (0, 1)]
    threads = [threading.Thread(target=o.rt.graph.invoke, args=(_input(o.rt, w), plain_config(ticket_id)))
               for o, w in zip(offices, work, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len([e for e in offices[0].thread(ticket_id)["turns"] if e["role"] == "customer"]) == 1


def taken(office: Office, ticket_id: str, place: int) -> Work:
    """Return a turn of one message that nobody has leased."""
    with office.db.connection() as conn:
        message = inbox.pending(conn, ticket_id)[place]
        given = {"turn_id": f"t{place}", "ticket_id": ticket_id, "message_ids": [message.id], "highest_seq": message.seq}
        row = turns.TurnRow(**{name: given.get(name, 0) for name in turns.TurnRow.__dataclass_fields__})
    return Work(ticket_id, "", row)


def plain_config(ticket_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": ticket_id}}


def test_the_storms_workers_have_another_clock_where_langgraph_reads_it() -> None:
    """Else the storm would prove nothing about clocks."""
    code = ("import time; from langgraph.checkpoint.base.id import uuid6; "
            "print(uuid6().time / 1e7 - 12219292800, time.time())")
    skew = str(Path(__file__).parent / "skew")
    environment = {**os.environ, "PYTHONPATH": skew, "CHAOS_CLOCK_OFFSET": "-3600"}
    said = subprocess.run([sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=True)
    drawn, shown = map(float, said.stdout.split())
    assert 3500 < time.time() - drawn < 3700
    assert 3500 < time.time() - shown < 3700
