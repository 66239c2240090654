"""Live view: steps and tokens for whoever watches, and not one statement for a ticket that nobody watches."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fakes import FakeLLM
from fixtures.office import DRAFT, REFUND_TRIAGE, TRIAGE, Office, give_paid_invoice, refund_llm

from supportpilot.config import Settings
from supportpilot.db.pool import Database
from supportpilot.llm.client import LLMClient
from supportpilot.service.live import LiveBoard, Watcher

pytestmark = pytest.mark.integration


@pytest.fixture
def board(db: Database) -> Iterator[LiveBoard]:
    running = LiveBoard(db)
    running.start()
    yield running
    running.stop()


def live_office(db: Database, board: LiveBoard, llm: FakeLLM | None = None) -> Office:
    office = Office(db, llm)
    object.__setattr__(office.rt, "live", board)
    return office


def until(condition: Any, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.02)


def types_of(watcher: Watcher) -> list[str]:
    return [e.type for e in watcher.poll(1.0)]


def test_a_watcher_sees_the_turns_steps_in_order(db: Database, board: LiveBoard) -> None:
    office = live_office(db, board)
    received = office.write("同步失败")
    with Watcher(db.url, received.ticket_id) as watcher:
        until(lambda: board.watched(received.ticket_id))
        office.work(received.ticket_id)
        seen = watcher.poll(1.0)
    assert [e.type for e in seen] == ["turn", *["step"] * 7, "end"]
    assert [e.data["node"] for e in seen if e.type == "step"] == [
        "load_customer", "prepare_context", "classify", "retrieve", "draft", "check", "finalize"]
    assert seen[-1].data == {"said": "resolved"}


def test_tool_calls_are_shown_with_their_arguments(db: Database, board: LiveBoard) -> None:
    office = live_office(db, board, FakeLLM(REFUND_TRIAGE, [("list_invoices", {})], DRAFT))
    give_paid_invoice(office)
    received = office.write("账单")
    with Watcher(db.url, received.ticket_id) as watcher:
        until(lambda: board.watched(received.ticket_id))
        office.work(received.ticket_id)
        tools = [e.data for e in watcher.poll(1.0) if e.type == "tool"]
    assert tools == [{"name": "list_invoices", "args": {}, "is_error": False}]


def test_two_watchers_of_one_ticket_see_the_same(db: Database, board: LiveBoard) -> None:
    office = live_office(db, board)
    received = office.write("同步失败")
    with Watcher(db.url, received.ticket_id) as one, Watcher(db.url, received.ticket_id) as two:
        until(lambda: board.watched(received.ticket_id))
        office.work(received.ticket_id)
        assert types_of(one) == types_of(two) != []


def test_a_watcher_of_another_ticket_sees_nothing(db: Database, board: LiveBoard) -> None:
    office = live_office(db, board)
    mine = office.write("同步失败").ticket_id
    other = office.write("发票", contact="b@example.com").ticket_id
    with Watcher(db.url, mine) as watcher:
        until(lambda: board.watched(mine))
        office.work(other)
        assert watcher.poll(0.3) == []


def test_a_parked_turn_ends_for_its_watcher_with_the_approvals_id(db: Database, board: LiveBoard) -> None:
    office = live_office(db, board, refund_llm())
    give_paid_invoice(office)
    received = office.write("请退款 INV-1")
    with Watcher(db.url, received.ticket_id) as watcher:
        until(lambda: board.watched(received.ticket_id))
        office.work(received.ticket_id)
        assert watcher.poll(1.0)[-1].data["said"].startswith("waits for approval A0")


def test_a_ticket_that_nobody_watches_costs_no_statement(db: Database, board: LiveBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, live = Office(db), live_office(db, board)
    counts = []
    for office, contact in ((plain, "a@example.com"), (live, "b@example.com")):
        ticket_id = office.write("同步失败", contact=contact).ticket_id
        with counted(monkeypatch) as statements:
            office.work(ticket_id)
        counts.append(len(statements))
    assert counts[0] == counts[1] > 10
    assert plain.rows("SELECT 1 FROM desk.events") == []


class counted:
    """Counts the statements that psycopg sends in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def __enter__(self) -> list[str]:
        import psycopg  # noqa: PLC0415

        statements: list[str] = []
        real = psycopg.Cursor.execute

        def execute(cursor: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
            opening = str(query).startswith(("SET ", "Composed([SQL('SET "))     # the pool may open a connection meanwhile and configure it
            if threading.current_thread().name != "live-board" and not opening:
                statements.append(str(query))
            return real(cursor, query, *args, **kwargs)

        self.monkeypatch.setattr(psycopg.Cursor, "execute", execute)
        return statements

    def __exit__(self, *_: object) -> None:
        self.monkeypatch.undo()


def test_a_live_view_that_fails_does_not_fail_the_turn(db: Database, board: LiveBoard) -> None:
    office = live_office(db, board)
    received = office.write("同步失败")
    with Watcher(db.url, received.ticket_id):
        until(lambda: board.watched(received.ticket_id))
        office.execute("DROP TABLE desk.events")
        assert office.work(received.ticket_id) == "resolved"
        office.execute("CREATE TABLE desk.events (id bigint)")


def test_a_mark_that_is_not_renewed_ends_by_itself(db: Database, board: LiveBoard) -> None:
    board.note("T1", 0.05)
    assert board.watched("T1")
    until(lambda: not board.watched("T1"))


def test_tokens_of_the_draft_come_before_the_turn_ends(db: Database, board: LiveBoard, offline_llm: Any) -> None:
    office = live_office(db, board)
    office.deps.llm = LLMClient(Settings(openai_base_url=offline_llm.url))
    office.llm = FakeLLM(TRIAGE, [], DRAFT)
    received = office.write("银行流水同步失败,提示 E3001")
    with Watcher(db.url, received.ticket_id) as watcher:
        until(lambda: board.watched(received.ticket_id))
        office.work(received.ticket_id)
        seen = watcher.poll(1.0)
    office.deps.llm.close()
    order = [e.type for e in seen]
    assert order.index("token") < order.index("end")
    text = "".join(e.data["text"] for e in seen if e.type == "token")
    assert "KB-bank-001" in text
    assert office.thread(received.ticket_id)["draft"] == text
