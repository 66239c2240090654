"""Erasure: after it a dump of the whole database has no canary, whatever was running, and nothing brings one back."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from fixtures.canary import (
    ADDRESS,
    CANARY,
    CUSTOMER,
    Latch,
    SlowSender,
    canary_office,
    decided,
    deliver,
    give_account,
    left,
    pg_dump,
    plant,
    tables_with,
    waits_for_a_lock,
    wants_refund,
    write,
)
from fixtures.office import Office
from fixtures.postgres import PostgresServer

from supportpilot.channels.port import Heard
from supportpilot.db import personal
from supportpilot.db.pool import Database, connect
from supportpilot.errors import Busy, Erased, Gone, LeaseLost, NotFound, Transient
from supportpilot.memory import erase
from supportpilot.service import (
    approval,
    commitments,
    customer,
    history,
    intake,
    letters,
    memory,
    profile,
    ticket,
    turn,
    upkeep,
)
from supportpilot.service.approval import Verdict
from supportpilot.types import InboundMessage

pytestmark = pytest.mark.integration

ROUNDS = int(os.environ.get("ERASE_ROUNDS", "10"))
HELD_AT = ("triage", "act", "draft", "check", "resume")
# Named before their migration was there, or made on demand: a database may lack them.
OPTIONAL = {"kb.embeddings"}
# Where no text of a customer can stand, or (unlogged) none that a dump shows.
WITHOUT_TEXT = {"desk.leases", "desk.watchers", "desk.events", "desk.forks", "desk.profile_rebuilds"}


def test_every_table_is_named_with_what_an_erasure_does_to_it(db):
    with db.connection() as conn:
        found = conn.execute(
            "SELECT table_schema || '.' || table_name AS name FROM information_schema.tables "
            "WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')").fetchall()
        hanging = conn.execute(HANGING).fetchall()
    tables = {row["name"] for row in found}
    assert tables - erase.named() == set(), "name it in memory/erase.py"
    assert {"public.checkpoints", "public.checkpoint_blobs", "public.checkpoint_writes", "public.checkpoint_migrations"} <= tables
    assert erase.named() - tables <= OPTIONAL, "there is none"
    deleted = [rule.table for rule in erase.DELETED]
    hanging = [row for row in hanging if row["parent"] not in erase.UNRELATED]
    assert {row["child"] for row in hanging} <= {*deleted, *erase.OWN}, "what is kept hangs on nothing that goes"
    assert [row for row in hanging if row["parent"] in deleted
            and deleted.index(row["child"]) > deleted.index(row["parent"])] == [], "delete what refers to it first"


# Every table that hangs by a foreign key on another one of the customer's.
HANGING = """
SELECT DISTINCT c.conrelid::regclass::text AS child, c.confrelid::regclass::text AS parent FROM pg_constraint c
WHERE c.contype = 'f' AND c.confrelid::regclass::text NOT LIKE 'kb.%' AND c.confrelid::regclass::text <> 'biz.invoices'
"""


def test_a_table_that_nobody_named_is_found(db):
    with db.transaction() as conn:
        conn.execute("CREATE TABLE desk.forgotten (ticket_id text)")
    with pytest.raises(AssertionError, match="name it"):
        test_every_table_is_named_with_what_an_erasure_does_to_it(db)


def test_after_an_erasure_no_table_holds_a_canary_and_the_books_are_kept(db):
    office = canary_office(db)
    planted = plant(office)
    missing = {rule.table for rule in erase.DELETED} | set(erase.KEPT)
    missing -= left(db) | WITHOUT_TEXT
    assert missing == set(), "plant one there too"
    done = customer.erase(db, CUSTOMER, "小王")
    assert left(db) == set()
    assert done.counts
    assert {"desk.inbox", "public.checkpoints", "biz.customers", "desk.quarantine", "biz.refunds"} <= set(done.counts)
    [invoice] = office.rows("SELECT * FROM biz.invoices")
    assert re.fullmatch("erased-[0-9a-f]{12}", invoice["customer_id"])
    assert (invoice["amount"], invoice["description"], invoice["subscription_id"]) == (900, "", None)
    [refund] = office.rows("SELECT * FROM biz.refunds")
    assert (refund["ticket_id"], refund["amount"], refund["reason"], refund["decided_by"]) == (planted["paid"], 300, "", "小王")
    [decision] = office.rows("SELECT * FROM desk.audit WHERE action = 'approval.approved'")
    assert decision["detail"] == {"amount": "300.00", "seen_version": 1}
    assert office.rows("SELECT 1 FROM biz.tickets UNION ALL SELECT 1 FROM desk.llm_calls UNION ALL SELECT 1 FROM checkpoints") == []


def test_the_receipt_has_counts_times_and_who_asked_and_names_nobody(db):
    office = canary_office(db)
    plant(office)
    done = customer.erase(db, ADDRESS, "小王")
    [row] = office.rows("SELECT * FROM desk.erasures")
    assert (row["customer_id"], row["contact"], row["asked_by"], row["id"]) == (None, None, "小王", done.id)
    assert row["asked_at"] < row["done_at"]
    assert row["counts"] == done.counts
    assert all(isinstance(n, int) for n in row["counts"].values())
    assert CUSTOMER not in pg_dump(db.url)


def test_a_second_erasure_is_no_new_one_and_shows_the_same_receipt(db):
    plant(canary_office(db))
    first = customer.erase(db, CUSTOMER, "小王")
    assert customer.erase(db, CUSTOMER, "somebody else") == first
    assert customer.erase(db, ADDRESS.upper(), "somebody else") == first
    assert customer.erase_requested(db, first.id) == customer.erase_requested(db, CUSTOMER) == f"erased: {first.id}"
    with pytest.raises(NotFound, match="nothing is held of C9999"):
        customer.erase(db, "C9999", "小王")


def test_a_sender_without_an_account_is_erased_by_address_and_others_stay(db):
    office = canary_office(db)
    other = office.write("无关", contact="other@example.com").ticket_id
    mine = write(office).ticket_id
    office.work(mine)
    Office(db).work(other)
    intake.keep_unusable(db, "generic", ADDRESS, CANARY.encode(), "unusable", "generic:d-1")
    intake.keep_unusable(db, "generic", "other@example.com", f"about {ADDRESS}".encode(), "unusable", "generic:d-2")
    done = customer.erase(db, ADDRESS, "小王")
    assert left(db) == {"desk.quarantine"}     # somebody else's letter that speaks of the address is theirs
    assert [row["id"] for row in office.rows("SELECT id FROM biz.tickets")] == [other]
    assert ticket.show(db, office.settings, other)["turns"]
    assert (done.counts or {})["desk.quarantine"] == 1


def test_an_address_that_has_a_new_owner_is_left_to_them(db):
    office = canary_office(db)
    give_account(office)
    write(office)
    office.execute("UPDATE biz.customers SET email = 'moved@example.com' WHERE id = %s", CUSTOMER)
    office.execute("INSERT INTO biz.customers (id, email, name) VALUES ('C0778', %s, 'new owner')", ADDRESS)
    theirs = write(office, conversation_id="theirs").ticket_id
    customer.erase(db, CUSTOMER, "小王")
    assert [row["id"] for row in office.rows("SELECT id FROM biz.tickets")] == [theirs]
    customer.erase(db, ADDRESS, "小王")
    assert left(db) == set()


@pytest.mark.parametrize(("raw", "theirs"), [
    ('{"from": "li@x.com"', True), ("li@x.com", True), ("Mail: LI@X.COM.", True), ("邮箱li@x.com,谢谢", True), ('"a\\nli@x.com"', True),
    ('"\\u003cli@x.com\\u003e"', True), ("from=a%20li@x.com", True),
    ("wuli@x.com", False), ("a.li@x.com", False), ("li@x.com.cn", False), ("li@x.community", False), ("li@xxcom", False),
])
def test_input_without_a_sender_is_theirs_whose_whole_address_stands_in_it(db, raw, theirs):
    office = canary_office(db)
    office.write("hello", contact="li@x.com")
    kept = intake.keep_unusable(db, "generic", "", raw.encode(), "unusable", "generic:d-1")
    held = customer.export(db, "li@x.com")["tables"].get("desk.quarantine", [])
    assert [row["id"] for row in held] == ([kept] if theirs else [])


def test_who_drops_a_promise_or_takes_a_correction_back_waits_for_an_erasure(db):
    office = canary_office(db)
    plant(office)
    [promise] = office.rows("SELECT id FROM desk.commitments WHERE closed_at IS NULL LIMIT 1")
    [correction] = office.rows("SELECT id FROM biz.profile_overrides LIMIT 1")
    with connect(db.url) as conn, conn.transaction():
        personal.lock_rows(conn, personal.find(conn, CUSTOMER, None))
        with pytest.raises(Busy):
            commitments.drop(db, promise["id"], "小王", "its words would stay in the audit")
        with pytest.raises(Busy):
            profile.withdraw(db, office.ports, CUSTOMER, correction["id"], "小王")


# what is erased stays erased ------------------------------------------------------------------------

def test_an_erased_messages_webhook_sent_again_opens_nothing_but_a_new_message_does(db):
    office = canary_office(db)
    planted = plant(office)
    customer.erase(db, CUSTOMER, "小王")
    again = write(office, message_id="canary-1", delivery_id="generic:d-1")
    assert (again.ticket_id, again.message_id, again.duplicate, again.erased) == ("", "", True, True)
    assert write(office, message_id="canary-3b").erased
    assert write(office, message_id="another id", delivery_id="generic:d-1").erased
    assert intake.keep_unusable(db, "generic", ADDRESS, CANARY.encode(), CANARY, "generic:d-9") is None
    assert intake.keep_unusable(db, "generic", "", CANARY.encode(), CANARY, "generic:d-10") is None
    assert left(db) == set()
    assert office.rows("SELECT 1 FROM biz.tickets") == []
    new = office.write("新的问题", contact=ADDRESS, ticket_id=planted["answered"])
    assert new.ticket_id not in planted.values()
    row = office.one("SELECT customer_id, linked_to FROM biz.tickets WHERE id = %s", new.ticket_id)
    assert row == {"customer_id": None, "linked_to": planted["answered"]}
    stranger = office.write("别人的号", contact="other@example.com", ticket_id=planted["answered"])
    assert stranger.ticket_id not in {new.ticket_id, *planted.values()}


def test_the_hashes_are_hmac_sha256_and_are_forgotten_after_their_time(db):
    import hashlib  # noqa: PLC0415
    import hmac  # noqa: PLC0415

    office = canary_office(db)
    write(office, message_id="canary-1")
    customer.erase(db, ADDRESS, "小王")
    key = bytes(b ^ 0x36 for b in office.one("SELECT inner_pad FROM desk.erasure_key")["inner_pad"])
    wanted = hmac.new(key, b"message\ngeneric\ngeneric:canary-1", hashlib.sha256).digest()
    assert [bytes(row["hash"]) for row in office.rows("SELECT hash FROM desk.erased_hashes WHERE erasure_id IS NULL")] == [wanted]
    office.execute("UPDATE desk.erased_hashes SET erased_at = now() - interval '366 days'")
    upkeep.sweep(db, office.ports, office.settings)
    assert not write(office, message_id="canary-1").erased
    assert customer.receipt(db, ADDRESS) is not None, "the receipt is found for ever"


def test_an_erased_ticket_says_so_wherever_it_is_asked_for(db):
    office = canary_office(db)
    planted = plant(office)
    [pending] = [a.id for a in approval.list_approvals(db, "pending")]
    customer.erase(db, CUSTOMER, "小王")
    gone = planted["waiting"]
    for ask in (lambda: ticket.show(db, office.settings, gone), lambda: ticket.reply(db, office.ports, gone, CANARY, "小王"),
                lambda: ticket.release(db, office.ports, gone), lambda: ticket.resolve(db, office.ports, gone),
                lambda: history.history(db, office.deps, gone), lambda: history.replay(db, office.deps, gone, "x")):
        with pytest.raises(Erased, match=f"{gone} was erased on 20"):
            ask()
    with pytest.raises(NotFound):
        approval.decide(db, office.ports, pending, Verdict(approved=True, by="小王", reason=CANARY))
    assert turn.resume(office.rt, gone, pending) == f"no approval {pending} on {gone}"
    assert turn.handle_message(office.rt, gone, "M000001").startswith(f"{gone} was erased")
    assert left(db) == set()


def test_an_approval_decided_while_the_erasure_runs_leaves_no_word(db):
    office = canary_office(db)
    plant(office)
    [pending] = [a.id for a in approval.list_approvals(db, "pending")]
    with connect(db.url) as conn, ThreadPoolExecutor(1) as pool:
        with conn.transaction():
            conn.execute("SELECT 1 FROM biz.tickets ORDER BY id FOR UPDATE")    # as an erasure in progress
            late = pool.submit(approval.decide, db, office.ports, pending, Verdict(approved=True, by="小王", reason=f"late {CANARY}"))
            waits_for_a_lock(db)
            conn.execute("DELETE FROM desk.approvals")
        with pytest.raises(NotFound, match="erased"):
            late.result(30)
    assert tables_with(pg_dump(db.url), f"late {CANARY}") == set()


# everything at once ---------------------------------------------------------------------------------

@contextmanager
def under_way(pool: ThreadPoolExecutor, latch: Latch | SlowSender, work: Callable[..., Any], *args: Any) -> Iterator[Future[Any]]:
    """Run something that is held at the latch inside the block, and let it go on after it."""
    running = pool.submit(work, *args)
    try:
        assert latch.reached.wait(30), running.exception(1) or "never reached"
        yield running
    finally:
        latch.go.set()


@pytest.mark.timeout(60 + 30 * ROUNDS)
@pytest.mark.parametrize("number", range(ROUNDS))
def test_erased_in_the_middle_of_everything_nothing_comes_back(number, postgres_server: PostgresServer, migrated_template):
    """A running turn, a replay, a delivery, a fold and a profile are all held in mid-air while the erasure runs.

    An approval waits, a ticket is opened behind its back. Then all are let go.
    """
    with postgres_server.clone(migrated_template) as url, Database(url, max_size=12) as db, ThreadPoolExecutor(8) as pool:
        office = canary_office(db)
        planted = plant(office)
        at = HELD_AT[number % len(HELD_AT)]
        running, replaying, folding, wording = (
            canary_office(db, hold, context_budget_tokens=1, context_keep_last=1)
            for hold in ("draft" if at == "resume" else at, "draft", "summary", "profile"))
        sender, said = SlowSender(), write(office, message_id="canary-4", conversation_id="conversation-4").ticket_id
        if at == "act":
            wants_refund(running)
        elif at == "resume":
            said = decided(office, planted["waiting"])
        snapshot = office.one("SELECT checkpoint_id AS id FROM checkpoints WHERE thread_id = %s ORDER BY 1 LIMIT 1", planted["answered"])["id"]
        long = planted["paid"]
        for i in range(3):
            write(office, message_id=f"long-{i}", ticket_id=long)
            office.work(long)
        office.execute("UPDATE biz.customer_profiles SET source_ticket_count = 99")
        reply = office.one("SELECT id FROM desk.outbox WHERE status = 'queued' ORDER BY position LIMIT 1")["id"]
        with (under_way(pool, running.llm, running.work, said) as turned,
              under_way(pool, replaying.llm, history.replay, db, replaying.deps, planted["answered"], snapshot) as replayed,
              under_way(pool, folding.llm, memory.compress, db, folding.llm, folding.settings, long) as folded,
              under_way(pool, wording.llm, profile.rebuild_profile, db, wording.llm, wording.ports, CUSTOMER) as worded,
              under_way(pool, sender, deliver, office, reply, sender) as sent):
            with opened_meanwhile(db):
                erased = pool.submit(customer.erase, db, CUSTOMER, "小王")
                waits_for_a_lock(db)
            done = erased.result(60)
            assert left(db) == set(), "while they are held"
        assert turned.result(30).split("; ")[-1] == "lease lost"
        assert isinstance(replayed.exception(30), LeaseLost)
        for late in (folded, worded):       # refused by the database, or said in words
            assert late.exception(30) is None or isinstance(late.exception(), Gone | NotFound)
        assert sent.result(30) == "claimed by somebody else"
        upkeep.sweep(db, office.ports, office.settings)
        assert left(db) == set()
        assert office.rows("SELECT 1 FROM biz.tickets UNION ALL SELECT 1 FROM desk.llm_calls WHERE ticket_id <> '' "
                           "UNION ALL SELECT 1 FROM checkpoints UNION ALL SELECT 1 FROM checkpoint_writes "
                           "UNION ALL SELECT 1 FROM checkpoint_blobs") == []
        assert (done.counts or {})["biz.tickets"] == 5
        for message_id in ("canary-1", "canary-2", "canary-3", "canary-3b", "canary-4", "long-0"):
            assert write(office, message_id=message_id).erased


@contextmanager
def opened_meanwhile(db: Database) -> Iterator[None]:
    """Open a ticket by a door that knows no contact's lock, and commit it at the end of the block."""
    with connect(db.url) as conn, conn.transaction():
        conn.execute("INSERT INTO biz.tickets (id, customer_id, contact, channel, subject, body) VALUES ('T900000', %s, %s, 'old', %s, %s)",
                     (CUSTOMER, ADDRESS, CANARY, CANARY))
        conn.execute("INSERT INTO desk.leases (ticket_id) VALUES ('T900000')")
        yield


def test_a_live_view_and_a_cost_report_that_come_late_vanish(db):
    from supportpilot.db import events  # noqa: PLC0415
    from supportpilot.db.llm_calls import record_call  # noqa: PLC0415
    from supportpilot.types import LLMCall  # noqa: PLC0415

    office = canary_office(db)
    ticket_id = write(office).ticket_id
    with connect(db.url) as conn, ThreadPoolExecutor(4) as pool:
        def late(number: int) -> None:
            with db.transaction() as mine:
                if number == 0:
                    events.write(mine, ticket_id, "u", [("token", {"text": CANARY})])
                elif number == 1:
                    events.mark_watched(mine, CANARY, ticket_id, 30)
                else:
                    record_call(mine, LLMCall("fake", 1, 1, 0, 1, 1, ticket_id, CANARY))  # type: ignore[arg-type]

        with conn.transaction():
            conn.execute("SELECT 1 FROM biz.tickets FOR UPDATE")        # as an erasure in progress
            racing = [pool.submit(late, number) for number in range(3)]
            waits_for_a_lock(db, 3)
            for table in ("desk.inbox", "desk.leases", "biz.tickets"):
                conn.execute(f"DELETE FROM {table}")
        for number, running in enumerate(racing):
            running.result(30)
            late(number) if number < 2 else None
    assert left(db) == set()
    assert office.rows("SELECT 1 FROM desk.llm_calls") == []


def test_an_erasure_and_new_messages_of_the_same_customer_race_and_no_half_ticket_is_left(db):
    office = canary_office(db)
    plant(office)
    stop = threading.Event()

    def keep_writing(lane: int) -> int:
        number = 0
        while not stop.is_set():
            channel = f"lane{lane}"
            intake.receive(db, office.settings, office.ports, InboundMessage(
                channel=channel, external_id=f"{channel}:{number}", contact=ADDRESS, body=f"{CANARY} {number}",
                conversation_id=f"{lane}-{number // 5}"))
            number += 1
        return number

    with ThreadPoolExecutor(3) as pool:
        writing = [pool.submit(keep_writing, lane) for lane in range(3)]
        time.sleep(0.3)
        first = customer.erase(db, CUSTOMER, "小王")
        time.sleep(0.3)
        stop.set()
        assert all(lane.result(30) > 10 for lane in writing)
    assert (first.counts or {})["biz.tickets"] > 3
    after = office.rows("SELECT t.id, t.customer_id, l.ticket_id AS lease, (SELECT min(seq) FROM desk.inbox i WHERE i.ticket_id = t.id) AS first "
                        "FROM biz.tickets t LEFT JOIN desk.leases l ON l.ticket_id = t.id")
    assert after, "who writes after the erasure is a new sender"
    assert {(row["customer_id"], row["lease"] == row["id"], row["first"]) for row in after} == {(None, True, 1)}
    second = customer.erase(db, ADDRESS, "小王")
    assert second.id != first.id
    assert customer.receipt(db, CUSTOMER) == first
    assert left(db) == set()


def test_erasures_beside_sweeps_and_beside_each_other_all_succeed(db):
    office = canary_office(db, sweep_seconds=0.1)
    plant(office)
    stop, swept = threading.Event(), []

    def keep_sweeping() -> None:
        while not stop.is_set():
            swept.append(upkeep.sweep(db, office.ports, office.settings))
            upkeep.settle(db, office.ports, office.settings)
            approval.expire_due(db, office.ports)

    with ThreadPoolExecutor(4) as pool:
        sweeping = pool.submit(keep_sweeping)
        receipts = [pool.submit(customer.erase, db, who, "小王") for who in (CUSTOMER, CUSTOMER, ADDRESS)]
        done = [receipt.result(60) for receipt in receipts]
        stop.set()
        sweeping.result(30)
    assert swept
    full = [receipt for receipt in done if "biz.customers" in (receipt.counts or {})]
    assert {receipt.id for receipt in full}
    assert left(db) == set()


# the request ----------------------------------------------------------------------------------------

def test_a_request_whose_erasure_broke_off_is_sent_again_by_the_sweeper_under_its_own_number(db, monkeypatch):
    office = canary_office(db)
    asked: list[str] = []
    plant(office)
    monkeypatch.setattr(customer, "ATTEMPTS", 1)
    monkeypatch.setattr(customer.personal, "LOCK_TIMEOUT_MS", 100)
    with connect(db.url) as conn, conn.transaction():
        conn.execute("SELECT 1 FROM desk.leases FOR UPDATE")
        with pytest.raises(Transient):
            customer.erase(db, ADDRESS, "小王")
    ports = type(office.ports)(schedule_erase=asked.append)
    office.execute("UPDATE desk.erasures SET asked_at = now() - interval '1 minute'")
    upkeep.sweep(db, ports, office.settings)
    upkeep.sweep(db, ports, office.settings)
    [request] = office.rows("SELECT id, asked_by FROM desk.erasures")
    assert asked == [request["id"]], "no address in the broker"
    assert customer.erase_requested(db, asked[0]) == f"erased: {request['id']}"
    assert left(db) == set()
    office.execute("UPDATE desk.erasures SET woken_at = NULL")
    upkeep.sweep(db, ports, office.settings)
    assert asked == [request["id"]], "done is done"


def test_a_quarantined_input_that_is_retried_while_its_sender_is_erased_does_not_come_back(db):
    office = canary_office(db)
    kept = intake.keep_unusable(db, "generic", ADDRESS, CANARY.encode(), "unusable", "generic:d-1")
    assert kept

    def parse(channel: str, raw: bytes) -> Heard:
        customer.erase(db, ADDRESS, "小王")      # between the reading and the filing
        return Heard(InboundMessage(channel=channel, external_id="generic:m", contact=ADDRESS, body=raw.decode()))

    with pytest.raises(NotFound, match="erased"):
        letters.retry_quarantine(db, office.settings, office.ports, kept, parse)
    assert left(db) == set()
    assert office.rows("SELECT 1 FROM biz.tickets") == []


def test_everything_held_is_in_the_export(db):
    office: Office = canary_office(db)
    planted = plant(office)
    found = customer.export(db, ADDRESS)
    assert found["customer_id"] == CUSTOMER
    assert found["addresses"] == [ADDRESS]
    held = {rule.table for rule in erase.DELETED if rule.exported} | set(erase.KEPT)
    assert held == set(found["tables"])
    assert set(found["conversations"]) == set(planted.values())
    assert found["conversations"][planted["answered"]]["turns"][0]["content"] == f"text {CANARY} E3001"
    assert customer.export(db, CUSTOMER)["tables"] == found["tables"]
    done = customer.erase(db, CUSTOMER, "小王")
    with pytest.raises(NotFound, match=f"nothing is held of {CUSTOMER}; erased, receipt {done.id}"):
        customer.export(db, CUSTOMER)
