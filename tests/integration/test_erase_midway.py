"""Erasure at awkward moments: inside every transaction of a turn, against a channel that hangs, killed half-way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fixtures.canary import (
    ADDRESS,
    CANARY,
    CUSTOMER,
    canary_office,
    decided,
    left,
    plant,
    waits_for_a_lock,
    wants_refund,
    write,
)
from fixtures.eraser import COMMITTED, POINTS
from fixtures.office import Office
from fixtures.postgres import PostgresServer

from supportpilot.db import approvals, business, events, inbox, outbox, personal, pool, profiles, summaries
from supportpilot.db.pool import Connection, Database, connect
from supportpilot.desk import mailbox, turns
from supportpilot.errors import Erased, Gone, LeaseLost, NotFound, SupportPilotError
from supportpilot.memory.fenced import FencedSaver
from supportpilot.service import customer, delivery, history, memory, profile, ticket, upkeep

pytestmark = pytest.mark.integration

TESTS = Path(__file__).parent.parent
SECONDS = 30.0


class Gate:
    """Whoever comes through first says so and waits until it is opened."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def hold(self) -> None:
        if not self.reached.is_set():
            self.reached.set()
            assert self.open.wait(SECONDS)


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch, owner: Any, function: str) -> Iterator[Gate]:
    """Hold the first caller of a function behind its work, inside whatever transaction it has open."""
    gate, original = Gate(), getattr(owner, function)

    def slow(*args: Any, **kwargs: Any) -> Any:
        done = original(*args, **kwargs)
        gate.hold()
        return done

    with monkeypatch.context() as patched:
        patched.setattr(owner, function, slow)
        try:
            yield gate
        finally:
            gate.open.set()


def answers(office: Office, planted: dict[str, str]) -> Any:
    return office.work(write(office, message_id="canary-9", conversation_id="conversation-9").ticket_id)


def parks(office: Office, planted: dict[str, str]) -> Any:
    wants_refund(office)
    return answers(office, planted)


def pays(office: Office, planted: dict[str, str]) -> Any:
    return office.work(decided(office, planted["waiting"]))


def writes(office: Office, planted: dict[str, str]) -> Any:
    return write(office, message_id="canary-9", ticket_id=planted["waiting"])


def folds(office: Office, planted: dict[str, str]) -> Any:
    return memory.compress(office.db, office.llm, office.settings, planted["answered"])


def rewords(office: Office, planted: dict[str, str]) -> Any:
    return profile.rebuild_profile(office.db, office.llm, office.ports, CUSTOMER)


def replies(office: Office, planted: dict[str, str]) -> Any:
    return ticket.reply(office.db, office.ports, planted["answered"], CANARY, "小王")


def decides(office: Office, planted: dict[str, str]) -> Any:
    decided(office, planted["waiting"])


def replays(office: Office, planted: dict[str, str]) -> Any:
    snapshot = office.one("SELECT checkpoint_id AS id FROM checkpoints WHERE thread_id = %s ORDER BY 1 LIMIT 1", planted["answered"])
    return history.replay(office.db, office.deps, planted["answered"], snapshot["id"])


def delivers(office: Office, planted: dict[str, str]) -> Any:
    queued = office.one("SELECT id FROM desk.outbox WHERE status = 'queued' ORDER BY position LIMIT 1")["id"]
    return delivery.deliver(office.db, office.settings, office.ports, queued)


# Where a transaction is open and has written: what is done, and the function behind which it is held.
INSIDE: dict[str, tuple[Callable[[Office, dict[str, str]], Any], Any, str]] = {
    "a message is filed": (writes, mailbox, "file_message"),
    "a turn is taken": (answers, turns, "take"),
    "a reply stands in the outbox": (answers, outbox, "put"),
    "a turn is released": (answers, turns, "release"),
    "an approval is asked for": (parks, turns, "park"),
    "a refund is paid": (pays, business, "insert_refund"),
    "a summary is stored": (folds, summaries, "put"),
    "a profile is stored": (rewords, profiles, "put"),
    "a human answers": (replies, inbox, "insert"),
    "a refund is decided": (decides, approvals, "decide"),
    "a replay is noted": (replays, history.forks, "create"),
    "a delivery is claimed": (delivers, outbox, "claim"),
}


# What CI leaves out, to end in its time; `make test` without CI runs all.
NOT_IN_CI = {"a turn is taken", "an approval is asked for", "a human answers", "a refund is decided", "a replay is noted",
             "a delivery is claimed"}


@pytest.mark.parametrize("moment", [
    pytest.param(moment, marks=pytest.mark.skipif(moment in NOT_IN_CI and bool(os.environ.get("CI")), reason="not in CI: time"))
    for moment in INSIDE])
def test_an_erasure_waits_for_the_transaction_in_which(moment, db, monkeypatch):
    work, owner, function = INSIDE[moment]
    office = canary_office(db, context_budget_tokens=1, context_keep_last=1)
    planted = plant(office)
    with ThreadPoolExecutor(2) as threads:
        with held(monkeypatch, owner, function) as gate:
            working = threads.submit(work, office, planted)
            assert gate.reached.wait(SECONDS), working.exception(1)
            erased = threads.submit(customer.erase, db, CUSTOMER, "小王")
            waits_for_a_lock(db)
            assert not erased.done()
        assert erased.result(SECONDS).done_at
        ended(working)
    upkeep.sweep(db, office.ports, office.settings)
    assert left(db) == set()
    assert office.rows("SELECT 1 FROM biz.tickets UNION ALL SELECT 1 FROM checkpoints UNION ALL SELECT 1 FROM desk.outbox") == []
    assert {row["reason"] for row in office.rows("SELECT reason FROM biz.refunds")} == {""}


def test_an_erasure_by_address_waits_for_a_ticket_that_is_being_opened_and_takes_it_too(db, monkeypatch):
    office = canary_office(db)
    write(office, conversation_id="one")
    with ThreadPoolExecutor(2) as threads:
        with held(monkeypatch, mailbox, "file_message") as gate:
            opening = threads.submit(write, office, conversation_id="two")
            assert gate.reached.wait(SECONDS), opening.exception(1)
            erased = threads.submit(customer.erase, db, ADDRESS, "小王")
            waits_for_a_lock(db)
        assert (erased.result(SECONDS).counts or {})["biz.tickets"] == 2
        assert not opening.result(SECONDS).erased
    assert left(db) == set()
    assert office.rows("SELECT 1 FROM biz.tickets") == []


def ended(working: Future[Any]) -> Any:
    """Return what came of a job that an erasure overtook: words or one of the product's own errors, no crash."""
    error = working.exception(SECONDS)
    assert error is None or isinstance(error, SupportPilotError), error
    return error or working.result()


def test_whoever_comes_while_an_erasure_holds_its_locks_waits_and_finds_nothing(database_url, monkeypatch):
    monkeypatch.setattr(pool, "LOCK_TIMEOUT_MS", 20_000)        # all have to wait at once, on a machine that is busy too
    monkeypatch.setattr(pool, "TRANSACTION_TIMEOUT_MS", 40_000)
    with Database(database_url, max_size=12) as db, ThreadPoolExecutor(8) as threads:
        office = canary_office(db, context_budget_tokens=1, context_keep_last=1)
        planted = plant(office)
        said = write(office, message_id="canary-5", conversation_id="conversation-5").ticket_id
        jobs: list[Callable[[Office, dict[str, str]], Any]] = [
            lambda it, _: it.work(said), writes, folds, rewords, replies, decides, replays]
        with held(monkeypatch, personal, "lock_rows") as gate:
            erased = threads.submit(customer.erase, db, CUSTOMER, "小王")
            assert gate.reached.wait(SECONDS), erased.exception(1)
            working = [threads.submit(job, office, planted) for job in jobs]
            waits_for_a_lock(db, len(jobs))
        assert erased.result(SECONDS).done_at
        turned, written, folded, worded, replied, *others = [ended(job) for job in working]
        assert turned.startswith(f"{said} was erased")
        assert folded == "" or isinstance(folded, Gone)
        assert isinstance(worded, NotFound)
        assert isinstance(replied, Erased)
        assert {type(other) for other in others} <= {NotFound, Erased, Gone}
        assert written.ticket_id not in planted.values(), "a message never seen before is a new sender's"
        assert [row["id"] for row in office.rows("SELECT id FROM biz.tickets")] == [written.ticket_id]
        customer.erase(db, ADDRESS, "小王")
        assert left(db) == set()


@pytest.mark.parametrize("when", ["waits for an erasure's locks", "comes behind its commit"])
def test_a_graph_step_is_refused_that(when, db, monkeypatch):
    office, gate = canary_office(db), Gate()
    said, original = write(office).ticket_id, FencedSaver._one

    def slow(self: FencedSaver, statement: str, values: dict[str, Any]) -> Any:
        gate.hold()
        return original(self, statement, values)

    monkeypatch.setattr(FencedSaver, "_one", slow)
    with ThreadPoolExecutor(2) as threads:
        working = threads.submit(office.work, said)
        assert gate.reached.wait(SECONDS)
        if when == "comes behind its commit":
            assert customer.erase(db, ADDRESS, "小王").done_at
            gate.open.set()
        else:
            with held(monkeypatch, personal, "lock_rows") as locked:
                erased = threads.submit(customer.erase, db, ADDRESS, "小王")
                assert locked.reached.wait(SECONDS)
                gate.open.set()
                waits_for_a_lock(db)
            assert erased.result(SECONDS).done_at
        assert working.result(SECONDS).endswith("lease lost")
    assert left(db) == set()
    assert office.rows("SELECT 1 FROM checkpoints UNION ALL SELECT 1 FROM checkpoint_writes") == []


def test_a_step_of_a_replay_waits_for_an_erasure_that_has_deleted_the_snapshots_already_and_is_refused(db, monkeypatch):
    office, step, deletes = canary_office(db), Gate(), Gate()
    planted = plant(office)
    original, delete = FencedSaver._one, personal.delete

    def slow(self: FencedSaver, statement: str, values: dict[str, Any]) -> Any:
        if values.get("fork"):
            step.hold()
        return original(self, statement, values)

    def slow_delete(conn: Connection, table: str, *args: Any) -> int:
        gone = delete(conn, table, *args)
        if table == "public.checkpoints":
            deletes.hold()
        return gone

    monkeypatch.setattr(FencedSaver, "_one", slow)
    monkeypatch.setattr(personal, "delete", slow_delete)
    with ThreadPoolExecutor(2) as threads:
        try:
            working = threads.submit(replays, office, planted)
            assert step.reached.wait(SECONDS), working.exception(1)
            erased = threads.submit(customer.erase, db, CUSTOMER, "小王")
            assert deletes.reached.wait(SECONDS), erased.exception(1)
            step.open.set()
            waits_for_a_lock(db)
        finally:
            step.open.set()
            deletes.open.set()
        assert erased.result(SECONDS).done_at
        assert isinstance(ended(working), LeaseLost)
    assert left(db) == set()
    assert office.rows("SELECT 1 FROM checkpoints UNION ALL SELECT 1 FROM checkpoint_writes") == []


# a channel that hangs -------------------------------------------------------------------------------

@contextmanager
def hanging_sink() -> Iterator[tuple[str, Gate]]:
    """Listen on a port, read what is posted, and answer only when the gate is opened."""
    gate = Gate()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            gate.hold()
            self.send_response(200)
            self.send_header("x-message-id", f"provider-{CANARY}")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/callback", gate
    finally:
        gate.open.set()
        server.shutdown()
        serving.join(SECONDS)
        server.server_close()


def test_an_erasure_does_not_wait_for_a_channel_that_hangs_and_its_late_answer_writes_nothing(db):
    with hanging_sink() as (url, gate), ThreadPoolExecutor(1) as threads:
        office = canary_office(db, reply_callback_url=url, reply_timeout_seconds=20)
        office.work(write(office).ticket_id)
        [reply] = office.rows("SELECT id FROM desk.outbox")
        sending = threads.submit(delivery.deliver, db, office.settings, office.ports, reply["id"])
        assert gate.reached.wait(SECONDS), sending.exception(1)
        assert office.one("SELECT status FROM desk.outbox")["status"] == "sending"
        done = customer.erase(db, ADDRESS, "小王")
        assert left(db) == set(), "while it hangs"
        assert not sending.done()
        gate.open.set()
        assert sending.result(SECONDS) == "claimed by somebody else"
        assert delivery.deliver(db, office.settings, office.ports, reply["id"]) == "no such row"
    assert (done.counts or {})["desk.outbox"] == 1
    assert left(db) == set()


# the eraser dies ------------------------------------------------------------------------------------

def killed_at(url: str, point: str) -> None:
    done = subprocess.run([sys.executable, "-m", "fixtures.eraser", url, CUSTOMER, point], cwd=TESTS, check=False,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]


@pytest.mark.timeout(300)
def test_an_eraser_that_is_killed_anywhere_has_erased_nothing_or_everything_and_the_sweeper_ends_it(db):
    office = canary_office(db)
    asked: list[str] = []
    ports = type(office.ports)(schedule_erase=asked.append)
    plant(office)
    before = left(db)
    for point in [*POINTS][::4 if os.environ.get("CI") else 1]:
        killed_at(db.url, point)
        assert left(db) - {"desk.erasures"} == before, point
        assert office.rows("SELECT 1 FROM desk.erased_tickets UNION ALL SELECT 1 FROM desk.erased_hashes") == [], point
        [request] = office.rows("SELECT * FROM desk.erasures")
        assert (request["customer_id"], request["done_at"]) == (CUSTOMER, None), point
    office.execute("UPDATE desk.erasures SET asked_at = now() - interval '1 minute'")
    upkeep.sweep(db, ports, office.settings)
    assert asked == [request["id"]]
    assert customer.erase_requested(db, asked[0]) == f"erased: {request['id']}"
    assert left(db) == set()
    [receipt] = office.rows("SELECT * FROM desk.erasures")
    assert (receipt["customer_id"], receipt["contact"], receipt["asked_by"]) == (None, None, "小王")


def test_an_eraser_that_is_killed_behind_its_commit_has_erased_and_its_receipt_is_found(db):
    office = canary_office(db)
    plant(office)
    killed_at(db.url, COMMITTED)
    assert left(db) == set()
    found = customer.receipt(db, CUSTOMER)
    assert found is not None
    assert customer.erase_requested(db, found.id) == f"erased: {found.id}"
    assert customer.erase(db, CUSTOMER, "somebody else") == found


# what passes by -------------------------------------------------------------------------------------

def test_the_databases_own_log_and_its_notifications_have_no_word_of_a_customer(db, postgres_server: PostgresServer):
    log = postgres_server.handle.log
    start = log.stat().st_size
    office = canary_office(db)
    with connect(db.url) as listener:
        listener.execute("LISTEN supportpilot_live")
        listener.execute("LISTEN supportpilot_watch")
        planted = plant(office)
        with db.transaction() as conn:
            events.write(conn, planted["answered"], "u", [("token", {"text": CANARY})])
            events.mark_watched(conn, f"watcher-{CANARY}", planted["answered"], 30)
        customer.erase(db, CUSTOMER, "小王")
        late_rows(db, planted["answered"])
        heard = [(note.channel, note.payload) for note in listener.notifies(timeout=0.2)]
    assert {channel for channel, _ in heard} == {"supportpilot_live", "supportpilot_watch"}
    assert {payload for _, payload in heard} <= set(planted.values())
    written = log.read_bytes()[start:].decode("utf-8", "replace")
    assert "violates foreign key constraint" in written, "the late writers are in this log"
    assert CANARY not in written


def late_rows(db: Database, ticket_id: str) -> None:
    """Write what a late fold and a late profile write; the database refuses it."""
    for statement in ("INSERT INTO desk.summary_notes (ticket_id, source_hash, note) VALUES (%(id)s, 'late', %(text)s)",
                      "INSERT INTO biz.customer_profiles (customer_id, summary, source_ticket_count) VALUES (%(id)s, %(text)s, 0)"):
        with pytest.raises(Gone) as refused, db.transaction() as conn:
            conn.execute(statement, {"id": ticket_id, "text": f"late {CANARY}"})
        assert CANARY not in str(refused.value)


def test_a_receipt_does_not_name_a_customer_who_asked_in_person(db):
    office = canary_office(db)
    write(office)
    done = customer.erase(db, ADDRESS, f" {ADDRESS.upper()} ")
    assert done.asked_by == "the customer"
    assert left(db) == set()
