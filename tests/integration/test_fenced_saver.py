"""The fenced checkpointer: conformant to the public suite, and not to be fooled by zombies, lost tails or slow clocks."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fakes import FakeLLM
from fixtures.office import DRAFT, TRIAGE, Office
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base import id as id_clock
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.postgres import PostgresSaver

from supportpilot.db import leases
from supportpilot.db.pool import Database
from supportpilot.errors import ClockBehind, LeaseLost, TailLost
from supportpilot.memory.checkpoint import checkpointer_over
from supportpilot.memory.fenced import CLOCK, FencedSaver, lift_clock

pytestmark = pytest.mark.integration


class AsyncFace(FencedSaver):
    """The suite calls the async methods; each runs the real one in a thread."""

    async def aput(self, *args: Any, **kw: Any) -> Any:
        return await asyncio.to_thread(self.put, *args, **kw)

    async def aput_writes(self, *args: Any, **kw: Any) -> Any:
        return await asyncio.to_thread(self.put_writes, *args, **kw)

    async def aget_tuple(self, *args: Any, **kw: Any) -> Any:
        return await asyncio.to_thread(self.get_tuple, *args, **kw)

    async def alist(self, *args: Any, **kw: Any) -> Any:
        for found in await asyncio.to_thread(lambda: list(self.list(*args, **kw))):
            yield found

    async def adelete_thread(self, *args: Any, **kw: Any) -> Any:
        return await asyncio.to_thread(self.delete_thread, *args, **kw)

    async def adelete_for_runs(self, *args: Any, **kw: Any) -> Any:
        return await asyncio.to_thread(self.delete_for_runs, *args, **kw)

    async def acopy_thread(self, *args: Any, **kw: Any) -> Any:
        return await asyncio.to_thread(self.copy_thread, *args, **kw)

    async def aprune(self, *args: Any, **kw: Any) -> Any:
        return await asyncio.to_thread(self.prune, *args, **kw)


@pytest.mark.enable_socket
def test_it_passes_the_public_conformance_suite(db: Database) -> None:
    @checkpointer_test(name="FencedSaver")
    async def factory() -> AsyncGenerator[Any, None]:
        yield AsyncFace(db.pool)

    report = asyncio.run(validate(factory))
    failures = {name: result.failures for name, result in report.results.items() if not result.passed}
    assert failures == {}
    assert sum(result.tests_passed for result in report.results.values()) > 50


def lease(db: Database, office: Office | None = None) -> tuple[str, str]:
    """Make a ticket with a live lease; return (ticket, token)."""
    made = (office or Office(db)).write("x", contact=f"{uuid.uuid4().hex[:8]}@example.com").ticket_id
    with db.transaction() as conn:
        return made, leases.grant(conn, made, "test", 60, 60)


def config(thread: str, token: str | None = None, parent: str | None = None) -> dict[str, Any]:
    given = {"thread_id": thread, "checkpoint_ns": ""}
    if parent:
        given["checkpoint_id"] = parent
    return {"configurable": {**given, "__lease_token": token}}


def put(saver: PostgresSaver, where: dict[str, Any], value: str = "a") -> str:
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"turns": [value]}
    checkpoint["channel_versions"] = {"turns": f"1.{uuid.uuid4().hex}"}
    saver.put(where, checkpoint, {"source": "loop", "step": 0, "parents": {}}, checkpoint["channel_versions"])  # type: ignore[typeddict-item]
    return str(checkpoint["id"])


def head(saver: PostgresSaver, thread: str) -> str | None:
    found = saver.get_tuple(config(thread))
    return None if found is None else found.checkpoint["id"]


def test_a_write_without_the_lease_is_refused_and_leaves_nothing(db: Database) -> None:
    saver, (thread, token) = checkpointer_over(db), lease(db)
    first = put(saver, config(thread, token))
    with pytest.raises(LeaseLost):
        put(saver, config(thread, str(uuid.uuid4()), first))
    with pytest.raises(LeaseLost):
        saver.put_writes(config(thread, str(uuid.uuid4()), first), [("turns", ["z"])], "task")
    assert head(saver, thread) == first
    with db.connection() as conn:
        assert conn.execute("SELECT count(*) AS n FROM checkpoint_blobs WHERE thread_id = %s", (thread,)).fetchone() == {"n": 1}
        assert conn.execute("SELECT count(*) AS n FROM checkpoint_writes WHERE thread_id = %s", (thread,)).fetchone() == {"n": 0}


def test_a_head_on_a_lost_tail_is_refused(db: Database) -> None:
    saver, (thread, token) = checkpointer_over(db), lease(db)
    first = put(saver, config(thread, token))
    lost = put(saver, config(thread, token, first))
    with db.transaction() as conn:
        conn.execute("DELETE FROM checkpoints WHERE checkpoint_id = %s", (lost,))
    with pytest.raises(TailLost):
        put(saver, config(thread, token, lost))
    assert head(saver, thread) == first


def test_an_interrupt_of_a_lost_checkpoint_is_refused_but_a_first_write_is_not(db: Database) -> None:
    saver, (thread, token) = checkpointer_over(db), lease(db)
    nowhere = str(id_clock.uuid6())
    with pytest.raises(TailLost):
        saver.put_writes(config(thread, token, nowhere), [("__interrupt__", ["?"])], "task")
    saver.put_writes(config(thread, token, nowhere), [("turns", ["x"])], "task")


def test_a_slow_clock_is_lifted_on_reading_and_refused_on_writing(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    saver, (thread, token) = checkpointer_over(db), lease(db)
    first = put(saver, config(thread, token))
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 60 * 10**9)
    setattr(id_clock, CLOCK, None)
    with pytest.raises(ClockBehind):
        put(saver, config(thread, token, first))
    setattr(id_clock, CLOCK, None)
    saver.get_tuple(config(thread))
    assert put(saver, config(thread, token, first)) > first


def test_langgraph_still_keeps_its_id_clock_where_the_lift_reaches_it() -> None:
    high = id_clock.uuid6()
    future = str(id_clock.UUID(int=high.int + (1 << 100)))
    before = getattr(id_clock, CLOCK)
    try:
        lift_clock(future)
        assert str(id_clock.uuid6()) > future
    finally:
        setattr(id_clock, CLOCK, before)


def test_a_thread_without_a_token_behaves_as_the_stock_saver_does(db: Database) -> None:
    saver = checkpointer_over(db)
    first = put(saver, config("free"))
    assert put(saver, config("free", None, str(id_clock.uuid6()))) != first
    assert len(list(saver.list(config("free")))) == 2


def test_the_stock_saver_reads_what_the_fenced_one_wrote(db: Database) -> None:
    office = Office(db)
    received = office.write("同步失败")
    office.work(received.ticket_id)
    where = {"configurable": {"thread_id": received.ticket_id}}
    ours, stock = checkpointer_over(db).get_tuple(where), PostgresSaver(db.pool).get_tuple(where)
    assert ours == stock


def test_calls_of_threads_do_not_wait_for_each_other(db: Database) -> None:
    db.pool.resize(1, 4)
    saver, all_inside = checkpointer_over(db), threading.Barrier(4)

    def call(_number: int) -> int:
        with saver._cursor() as cur:
            all_inside.wait(60)     # who had to wait for another would never come, and break it
            return cur.execute("SELECT 1").rowcount

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(call, range(4))) == [1] * 4


def test_a_zombie_that_wakes_in_mid_turn_cannot_write_over_its_successor(db: Database) -> None:
    frozen, woken = threading.Event(), threading.Event()

    class Slow(FakeLLM):
        def chat(self, *args: Any, **kw: Any) -> Any:
            frozen.set()
            assert woken.wait(20)
            return super().chat(*args, **kw)

    zombie = Office(db, Slow(TRIAGE, [], "僵尸的答案 [KB-bank-001]"))
    received = zombie.write("同步失败 E3001")
    said: list[str] = []
    running = threading.Thread(target=lambda: said.append(zombie.work(received.ticket_id)))
    running.start()
    assert frozen.wait(20)
    zombie.execute("UPDATE desk.leases SET expires_at = clock_timestamp() - interval '1 second'")
    successor = Office(db, FakeLLM(TRIAGE, [], DRAFT))
    assert successor.work(received.ticket_id) == "resolved"
    before = list(checkpointer_over(db).list({"configurable": {"thread_id": received.ticket_id}}))
    woken.set()
    running.join(20)
    assert said == ["lease lost"]
    assert list(checkpointer_over(db).list({"configurable": {"thread_id": received.ticket_id}})) == before
    assert "僵尸" not in successor.thread(received.ticket_id)["turns"][-1]["content"]
    assert len(successor.outbox(received.ticket_id)) == 1


def test_two_workers_with_clocks_a_minute_apart_lose_nothing(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    fast, slow = Office(db), Office(db)
    ticket_id = fast.write("第 0 条").ticket_id
    real, offset = time.time_ns, [0]
    monkeypatch.setattr(time, "time_ns", lambda: real() + offset[0])
    for number in range(6):
        office, offset[0] = (fast, 60 * 10**9) if number % 2 == 0 else (slow, 0)
        setattr(id_clock, CLOCK, None)   # each "machine" starts from its own clock
        office.write(f"第 {number} 条", ticket_id=ticket_id)
        assert office.work(ticket_id) == "resolved"
    entries = [e["id"] for e in fast.thread(ticket_id)["turns"] if e["role"] == "customer"]
    assert entries == [r["id"] for r in fast.rows("SELECT id FROM desk.inbox ORDER BY seq")]
    assert len(entries) == 7
