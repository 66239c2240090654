"""The turn protocol on a real Postgres: taking, running, recovering, releasing, failing."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from fakes import FakeLLM
from fixtures.office import DRAFT, TRIAGE, Office, give_paid_invoice, refund_llm

from supportpilot.db.inbox import StoredMessage
from supportpilot.db.pool import Connection, Database
from supportpilot.desk import lease
from supportpilot.desk import turns as desk
from supportpilot.errors import LeaseLost, Transient, Unavailable
from supportpilot.service import approval, ticket, turn, upkeep
from supportpilot.service.approval import Verdict
from supportpilot.service.texts import handoff_notice

pytestmark = pytest.mark.integration


def test_a_message_becomes_one_answer_and_an_answered_ticket(office: Office) -> None:
    received = office.write("同步失败 E3001")
    assert office.work(received.ticket_id) == "resolved"
    assert office.status(received.ticket_id) == "answered"
    assert [kind for kind, _ in office.outbox(received.ticket_id)] == ["reply"]
    assert "KB-bank-001" in office.outbox(received.ticket_id)[0][1]
    assert office.roles(received.ticket_id) == ["customer", "agent"]
    assert office.one("SELECT token FROM desk.leases WHERE ticket_id = %s", received.ticket_id)["token"] is None


def test_three_lines_in_a_row_are_one_turn_in_order(office: Office) -> None:
    first = office.write("你好")
    for line in ("同步失败", "提示 E3001"):
        assert office.write(line).ticket_id == first.ticket_id
    office.work(first.ticket_id)
    entries = office.thread(first.ticket_id)["turns"]
    assert [e["content"] for e in entries[:3]] == ["你好", "同步失败", "提示 E3001"]
    assert [e["role"] for e in entries] == ["customer"] * 3 + ["agent"]
    assert len(office.outbox(first.ticket_id)) == 1


def test_a_second_worker_ends_at_once_while_the_first_has_the_ticket(office: Office, db: Database) -> None:
    received = office.write("同步失败")
    with db.transaction() as conn:
        work = desk.take(conn, office.settings, received.ticket_id, "first", handoff_notice)
    assert work is not None
    assert Office(db).work(received.ticket_id) == "nothing due, or somebody has it"
    assert office.outbox(received.ticket_id) == []


def test_messages_race_with_eight_workers_and_none_is_lost_doubled_or_out_of_order(db: Database) -> None:
    offices = [Office(db) for _ in range(4)]
    tickets = [offices[0].write("第 0 条", contact=f"c{i}@example.com").ticket_id for i in range(4)]

    def hammer(number: int) -> None:
        own, ticket_id = offices[number % 4], tickets[number % 4]
        for i in range(5):
            own.write(f"{number}-{i}", contact=f"c{number % 4}@example.com", ticket_id=ticket_id)
            own.work(ticket_id)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hammer, range(8)))
    for office, ticket_id in zip(offices, tickets, strict=True):
        office.work(ticket_id)
        stored = [r["id"] for r in office.rows("SELECT id FROM desk.inbox WHERE ticket_id = %s ORDER BY seq", ticket_id)]
        answered = [e["id"] for e in office.thread(ticket_id)["turns"] if e["role"] == "customer"]
        assert answered == stored
        assert len(stored) == 11
        assert office.rows("SELECT 1 FROM desk.inbox WHERE ticket_id = %s AND state <> 'done'", ticket_id) == []
        turns = office.one("SELECT count(*) AS n FROM desk.turns WHERE ticket_id = %s AND status = 'done'", ticket_id)["n"]
        assert turns == len(office.outbox(ticket_id))


@pytest.mark.parametrize("node", ["load_customer", "prepare_context", "classify", "retrieve", "draft", "check", "finalize"])
def test_a_worker_killed_in_a_node_is_continued_by_the_next_one(db: Database, node: str) -> None:
    dying = Office(db)
    killed = _die_before(dying, node)
    received = dying.write("同步失败 E3001")
    with pytest.raises(KeyboardInterrupt):
        dying.work(received.ticket_id)
    assert killed.is_set()
    dying.execute("UPDATE desk.leases SET expires_at = clock_timestamp() - interval '1 second'")
    assert Office(db).work(received.ticket_id) == "resolved"
    assert dying.roles(received.ticket_id) == ["customer", "agent"]
    assert len(dying.outbox(received.ticket_id)) == 1
    row = dying.one("SELECT status, crashes, attempts FROM desk.turns")
    assert (row["status"], row["crashes"], row["attempts"]) == ("done", 1, 0)


def test_a_worker_killed_between_the_outbox_row_and_its_checkpoint_answers_once(db: Database) -> None:
    dying = Office(db)
    real = dying.deps.finish_ticket

    def finish_and_die(*args: object, **more: object) -> str:
        real(*args, **more)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    dying.deps.finish_ticket = finish_and_die
    received = dying.write("同步失败 E3001")
    with pytest.raises(KeyboardInterrupt):
        dying.work(received.ticket_id)
    dying.execute("UPDATE desk.leases SET expires_at = clock_timestamp() - interval '1 second'")
    second = Office(db, FakeLLM(TRIAGE, [], "另一个答案 [KB-bank-001]"))
    assert second.work(received.ticket_id) == "resolved"
    assert len(second.outbox(received.ticket_id)) == 1
    assert second.thread(received.ticket_id)["turns"][-1]["content"] == second.outbox(received.ticket_id)[0][1]


def test_a_turn_killed_too_often_is_given_up_with_a_notice(db: Database) -> None:
    office = Office(db, max_crashes=2)
    received = office.write("毒消息")
    with db.transaction() as conn:
        desk.take(conn, office.settings, received.ticket_id, "x", handoff_notice)
    for _ in range(3):
        office.execute("UPDATE desk.leases SET expires_at = clock_timestamp() - interval '1 second'")
        with db.transaction() as conn:
            desk.take(conn, office.settings, received.ticket_id, "x", handoff_notice)
    assert office.status(received.ticket_id) == "escalated"
    assert [kind for kind, _ in office.outbox(received.ticket_id)] == ["handoff"]
    assert office.one("SELECT state FROM desk.inbox")["state"] == "dead"


def test_a_failing_model_is_tried_again_later_and_gives_up_at_the_bound(db: Database) -> None:
    office = Office(db, FakeLLM(TRIAGE, [], DRAFT, fail={"triage": Transient("model: 500")}), max_attempts=2)
    received = office.write("同步失败")
    assert "again in 5 s" in office.work(received.ticket_id)
    assert office.work(received.ticket_id) == "nothing due, or somebody has it"
    office.execute("UPDATE desk.turns SET next_attempt_at = clock_timestamp()")
    assert "given up" in office.work(received.ticket_id)
    assert office.status(received.ticket_id) == "escalated"
    assert office.one("SELECT handoff_reason FROM biz.tickets")["handoff_reason"].endswith("model: 500")
    assert [kind for kind, _ in office.outbox(received.ticket_id)] == ["handoff"]


def test_what_is_away_costs_no_attempt(db: Database) -> None:
    office = Office(db, FakeLLM(TRIAGE, [], DRAFT, fail={"triage": Unavailable("no model")}), max_attempts=1)
    received = office.write("同步失败")
    for _ in range(3):
        assert "failed: no model" in office.work(received.ticket_id)
        office.execute("UPDATE desk.turns SET next_attempt_at = clock_timestamp()")
    office.llm.fail.clear()
    assert office.work(received.ticket_id) == "resolved"


def test_a_bug_in_a_node_is_written_down_and_does_not_kill_the_worker(db: Database) -> None:
    office = Office(db)
    office.deps.retriever.search = lambda *_args, **_kw: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    received = office.write("同步失败")
    assert "ZeroDivisionError at " in office.work(received.ticket_id)
    assert office.one("SELECT attempts, last_error FROM desk.turns") == {
        "attempts": 1, "last_error": "ZeroDivisionError: division by zero"}


@pytest.mark.parametrize("attempts", [1, 5])
def test_what_a_foreign_error_quotes_is_in_postgres_only(
        db: Database, caplog: pytest.LogCaptureFixture, attempts: int) -> None:
    office = Office(db, max_attempts=attempts)

    def quotes(*_args: object, **_kw: object) -> None:
        raise ValueError("我的卡号 6222\x00\ud83d")

    office.deps.retriever.search = quotes  # type: ignore[method-assign, assignment]
    received = office.write("同步失败")
    said = office.work(received.ticket_id)
    assert "ValueError at " in said
    assert "6222" not in said + caplog.text
    assert "6222" in office.one("SELECT last_error FROM desk.turns")["last_error"]


def test_a_zombie_writes_nothing_once_its_lease_is_gone(db: Database) -> None:
    office = Office(db)
    received = office.write("同步失败")
    with db.transaction() as conn:
        work = desk.take(conn, office.settings, received.ticket_id, "zombie", handoff_notice)
    assert work is not None
    office.execute("UPDATE desk.leases SET expires_at = clock_timestamp() - interval '1 second'")
    assert Office(db).work(received.ticket_id) == "resolved"
    before = office.outbox(received.ticket_id)
    with pytest.raises(LeaseLost), db.transaction() as conn:
        desk.release(conn, work, office.settings, "resolved", set(work.turn.message_ids))
    with pytest.raises(LeaseLost), db.transaction() as conn:
        desk.fail(conn, work, office.settings, desk.Failure("x"), handoff_notice)
    assert office.outbox(received.ticket_id) == before


def test_the_effect_of_a_zombies_node_is_fenced(db: Database) -> None:
    office = Office(db)
    real = office.deps.check_lease

    def steal(token: str | None) -> None:
        real(token)
        office.execute("UPDATE desk.leases SET token = gen_random_uuid() WHERE token = %s", token)

    received = office.write("同步失败")
    office.deps.check_lease = steal
    assert office.work(received.ticket_id) == "lease lost"
    assert office.outbox(received.ticket_id) == []


def test_the_heartbeat_keeps_a_lease_and_notices_a_stolen_one(db: Database) -> None:
    office = Office(db, lease_seconds=30)
    received = office.write("同步失败")
    with db.transaction() as conn:
        work = desk.take(conn, office.settings, received.ticket_id, "x", handoff_notice)
    assert work is not None
    office.keeper.add(work.token)
    office.execute("UPDATE desk.leases SET expires_at = clock_timestamp() + interval '1 second'")
    office.keeper.beat()
    office.keeper.check(work.token)
    assert office.one("SELECT expires_at > clock_timestamp() + interval '20 seconds' AS ok FROM desk.leases")["ok"]
    office.execute("UPDATE desk.leases SET token = gen_random_uuid()")
    office.keeper.beat()
    with pytest.raises(LeaseLost):
        office.keeper.check(work.token)
    office.keeper.stop()


def test_a_lease_is_not_renewed_past_the_turns_deadline(db: Database) -> None:
    office = Office(db, lease_seconds=30, turn_deadline_seconds=1)
    received = office.write("同步失败")
    with db.transaction() as conn:
        work = desk.take(conn, office.settings, received.ticket_id, "x", handoff_notice)
    assert work is not None
    office.keeper.add(work.token)
    office.keeper.beat()
    assert office.one("SELECT expires_at <= deadline_at AS ok FROM desk.leases")["ok"]
    office.keeper.stop()


def test_a_heart_that_stood_still_is_not_believed_and_the_node_renews_the_lease_itself(
    db: Database, monkeypatch: pytest.MonkeyPatch,
) -> None:
    office, thief = Office(db, lease_seconds=1), Office(db)
    ticket_id = office.write("您好").ticket_id
    with db.transaction() as conn:
        work = desk.take(conn, office.settings, ticket_id, "office", handoff_notice)
    assert work is not None
    office.keeper.add(work.token)       # and no thread that beats
    monkeypatch.setattr(lease.time, "monotonic", lambda now=time.monotonic: now() + 2)
    office.execute("UPDATE desk.leases SET expires_at = clock_timestamp() - interval '1 s'")
    office.keeper.check(work.token)
    assert office.one("SELECT expires_at > clock_timestamp() AS live FROM desk.leases")["live"]
    office.execute("UPDATE desk.leases SET expires_at = clock_timestamp() - interval '1 s'")
    assert thief.work(ticket_id) == "resolved"
    monkeypatch.setattr(lease.time, "monotonic", lambda now=time.monotonic: now() + 5)
    with pytest.raises(LeaseLost):
        office.keeper.check(work.token)
    office.keeper.stop()


def test_the_heartbeat_says_when_the_machines_clock_is_wrong(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    office = Office(db)
    fast = lease.Heartbeat(db.url, office.settings, clock=lambda: lease.machine_clock() + timedelta(seconds=42))
    fast.add("11111111-1111-1111-1111-111111111111")
    fast.beat()
    fast.beat()
    fast.stop()
    said = [r.getMessage() for r in caplog.records if "clock" in r.getMessage()]
    assert said == ["this machine's clock is +42.0 s from Postgres'; set it (NTP)"]


def test_a_worker_about_to_stop_takes_nothing_and_passes_the_wakeup_on(db: Database) -> None:
    office = Office(db)
    received = office.write("您好")
    office.wakeups.turns.clear()
    assert turn.stop(office.rt, 0) == 0
    turn.handle_message(office.rt, received.ticket_id, received.message_id)
    assert office.wakeups.turns == [(received.ticket_id, received.message_id, 0.0)]
    assert office.one("SELECT count(*) AS n FROM desk.turns")["n"] == 0


def test_a_dead_message_is_answered_after_retry_though_its_text_is_in_the_thread(db: Database) -> None:
    office = Office(db, FakeLLM(TRIAGE, [], DRAFT, fail={"draft": Transient("model: 500")}), max_attempts=1)
    received = office.write("同步失败 E3001")
    assert "given up" in office.work(received.ticket_id)
    assert office.roles(received.ticket_id) == ["customer"]
    office.llm.fail.clear()
    assert ticket.release(db, office.ports, received.ticket_id) == 1
    assert office.work(received.ticket_id) == "resolved"
    assert office.roles(received.ticket_id) == ["customer", "agent"]
    assert [kind for kind, _ in office.outbox(received.ticket_id)] == ["handoff", "reply"]


def test_a_message_at_the_instant_of_release_is_found_by_the_releaser(db: Database) -> None:
    office, other = Office(db), Office(db)
    received = office.write("第一条")
    real = office.deps.finish_ticket

    def write_meanwhile(*args: object, **more: object) -> str:
        stands = real(*args, **more)  # type: ignore[arg-type]
        if len(other.rows("SELECT 1 FROM desk.inbox")) == 1:
            other.write("第二条", ticket_id=received.ticket_id)
            assert other.work(received.ticket_id) == "nothing due, or somebody has it"
        return stands

    office.deps.finish_ticket = write_meanwhile
    assert office.work(received.ticket_id) == "resolved; resolved"
    assert office.roles(received.ticket_id) == ["customer", "agent", "customer", "agent"]


def test_an_early_wakeup_is_sent_again_for_the_rest(db: Database) -> None:
    office = Office(db, turn_debounce_seconds=30)
    received = office.write("你好")
    assert turn.handle_message(office.rt, received.ticket_id, received.message_id) == "nothing due, or somebody has it"
    assert 25 < office.wakeups.turns[-1][2] < 31


def test_an_early_wakeup_is_sent_again_for_the_rest_also_while_somebody_has_the_ticket(db: Database) -> None:
    office, other = Office(db, turn_debounce_seconds=30), Office(db, turn_debounce_seconds=30)
    got = office.write("你好")
    office.execute("UPDATE desk.inbox SET due_at = clock_timestamp()")
    with db.transaction() as conn:
        assert desk.take(conn, office.settings, got.ticket_id, "somebody", handoff_notice) is not None
    late = other.write("还有一句", ticket_id=got.ticket_id)
    other.wakeups.turns.clear()
    assert turn.handle_message(other.rt, got.ticket_id, late.message_id) == "nothing due, or somebody has it"
    ((ticket_id, message_id, wait),) = other.wakeups.turns
    assert (ticket_id, message_id) == (got.ticket_id, late.message_id)
    assert 25 < wait < 31


def test_a_new_line_restarts_the_quiet_window_of_the_waiting_ones(db: Database) -> None:
    office = Office(db, turn_debounce_seconds=30, turn_debounce_max_seconds=600)
    first = office.write("你好")
    office.execute("UPDATE desk.inbox SET due_at = clock_timestamp() - interval '1 second'")
    office.write("还有一句")
    assert office.work(first.ticket_id) == "nothing due, or somebody has it"
    office.execute("UPDATE desk.inbox SET received_at = clock_timestamp() - interval '599 seconds'")
    office.write("再一句")
    waits = [r["w"] for r in office.rows("SELECT extract(epoch FROM due_at - clock_timestamp())::float8 AS w FROM desk.inbox")]
    assert max(waits) < 2


def test_the_sweeper_wakes_what_nobody_holds_and_not_at_every_tick(db: Database) -> None:
    office = Office(db, sweep_seconds=5)
    received = office.write("同步失败")
    office.wakeups.turns.clear()
    assert upkeep.sweep(db, office.ports, office.settings)["messages"] == 0
    office.execute("UPDATE desk.inbox SET due_at = clock_timestamp() - interval '1 minute'")
    assert upkeep.sweep(db, office.ports, office.settings)["messages"] == 1
    assert upkeep.sweep(db, office.ports, office.settings)["messages"] == 0
    assert [t[0] for t in office.wakeups.turns] == [received.ticket_id]


def test_the_sweeper_wakes_an_orphaned_turn(db: Database) -> None:
    office = Office(db)
    received = office.write("同步失败")
    with db.transaction() as conn:
        desk.take(conn, office.settings, received.ticket_id, "x", handoff_notice)
    assert upkeep.sweep(db, office.ports, office.settings)["messages"] == 0
    office.execute("UPDATE desk.leases SET expires_at = clock_timestamp() - interval '1 second'")
    assert upkeep.sweep(db, office.ports, office.settings)["messages"] == 1


def test_a_row_that_somebody_holds_does_not_keep_the_sweeper_from_the_others(db: Database) -> None:
    office = Office(db)
    held, orphan, free = (office.write(text, contact=f"{text}@example.com") for text in ("a", "b", "c"))
    with db.transaction() as conn:
        assert desk.take(conn, office.settings, orphan.ticket_id, "killed", handoff_notice) is not None
    office.execute("UPDATE desk.leases SET expires_at = clock_timestamp() - interval '1 second' WHERE token IS NOT NULL")
    office.execute("UPDATE desk.inbox SET due_at = clock_timestamp() - interval '1 minute'")
    with db.transaction() as frozen:
        frozen.execute("SELECT 1 FROM desk.inbox WHERE id = %s FOR UPDATE", (held.message_id,))
        frozen.execute("SELECT 1 FROM desk.turns FOR UPDATE")
        office.wakeups.turns.clear()
        upkeep.sweep(db, office.ports, office.settings)
        assert [t for t, _, _ in office.wakeups.turns] == [free.ticket_id]
    upkeep.sweep(db, office.ports, office.settings)
    assert {t for t, _, _ in office.wakeups.turns} == {held.ticket_id, orphan.ticket_id, free.ticket_id}


def test_the_sweeper_wakes_a_decided_approval_whose_wakeup_was_lost(db: Database) -> None:
    office = Office(db, refund_llm())
    give_paid_invoice(office)
    received = office.write("重复扣款,请退款 INV-1")
    office.work(received.ticket_id)
    waiting = approval.list_approvals(db, "pending")[0]
    approval.decide(db, office.ports, waiting.id, Verdict(approved=True, by="li"))
    office.execute("UPDATE desk.approvals SET decided_at = clock_timestamp() - interval '1 minute'")
    assert upkeep.sweep(db, office.ports, office.settings)["resumes"] == 1


def test_a_human_reply_takes_the_ticket_and_the_agents_reply_in_the_making_is_withheld(db: Database) -> None:
    office = Office(db)
    received = office.write("同步失败")
    real = office.deps.finish_ticket

    def human_is_faster(*args: object, **more: object) -> str:
        ticket.reply(db, office.ports, received.ticket_id, "我来处理。", by="李娜")
        return real(*args, **more)  # type: ignore[arg-type]

    office.deps.finish_ticket = human_is_faster
    office.work(received.ticket_id)
    office.deliver()
    rows = {r["kind"]: r["status"] for r in office.rows("SELECT kind, status FROM desk.outbox")}
    assert rows == {"human": "accepted", "reply": "withheld"}
    assert office.status(received.ticket_id) == "escalated"


def test_a_human_who_takes_over_while_a_turn_is_made_is_not_talked_over(
        db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office(db)
    received = office.write("同步失败")
    real, humans = desk.inbox.runnable, []

    def human_between(conn: Connection, ticket_id: str) -> list[StoredMessage]:
        found = real(conn, ticket_id)
        if not humans:
            humans.append(threading.Thread(target=ticket.reply, args=(db, office.ports, ticket_id, "我来处理。", "李娜")))
            humans[0].start()
            humans[0].join(0.5)
        return found

    monkeypatch.setattr(desk.inbox, "runnable", human_between)
    office.work(received.ticket_id)
    humans[0].join()
    office.deliver()
    rows = {r["kind"]: r["status"] for r in office.rows("SELECT kind, status FROM desk.outbox")}
    assert rows == {"human": "accepted", "reply": "withheld"}


def test_an_escalated_ticket_is_left_alone_until_it_is_released(db: Database) -> None:
    office = Office(db)
    received = office.write("同步失败")
    office.work(received.ticket_id)
    ticket.reply(db, office.ports, received.ticket_id, "我是人工客服,正在查。", by="李娜")
    office.write("谢谢,那账单呢?", ticket_id=received.ticket_id)
    assert office.work(received.ticket_id) == "nothing due, or somebody has it"
    assert ticket.release(db, office.ports, received.ticket_id) == 2
    assert office.work(received.ticket_id) == "resolved"
    entries = office.thread(received.ticket_id)["turns"]
    assert [e["role"] for e in entries] == ["customer", "agent", "agent", "customer", "agent"]
    assert entries[2]["author"] == "李娜"
    newest = office.llm.asked("triage")[-1].split('name="newest"')[1]
    assert "那账单呢" in newest
    assert "同步失败" not in newest


def test_a_ticket_released_after_the_humans_last_word_is_answered_by_nobody(db: Database) -> None:
    office = Office(db)
    received = office.write("同步失败")
    office.work(received.ticket_id)
    ticket.reply(db, office.ports, received.ticket_id, "已处理好。", by="李娜")
    ticket.release(db, office.ports, received.ticket_id)
    office.work(received.ticket_id)
    assert [kind for kind, _ in office.outbox(received.ticket_id)] == ["reply", "human"]
    assert office.status(received.ticket_id) == "answered"


def test_resolving_a_humans_ticket_takes_the_held_messages_in_without_a_reply(db: Database) -> None:
    office = Office(db)
    received = office.write("同步失败")
    office.work(received.ticket_id)
    ticket.reply(db, office.ports, received.ticket_id, "已处理好。", by="李娜")
    office.write("收到", ticket_id=received.ticket_id)
    assert ticket.resolve(db, office.ports, received.ticket_id) == "resolving"
    office.work(received.ticket_id)
    assert office.status(received.ticket_id) == "resolved"
    assert office.roles(received.ticket_id) == ["customer", "agent", "agent", "customer"]
    assert [kind for kind, _ in office.outbox(received.ticket_id)] == ["reply", "human"]


def test_two_tickets_in_one_worker_process_have_each_their_own_cost(db: Database) -> None:
    llm = FakeLLM(TRIAGE, [], DRAFT, cost=lambda text: "0.5" if "贵" in text else "0.001")
    office = Office(db, llm)
    dear = office.write("贵的问题", contact="a@example.com").ticket_id
    cheap = office.write("便宜的问题", contact="b@example.com").ticket_id
    barrier = threading.Barrier(2)

    def run(ticket_id: str) -> None:
        barrier.wait()
        office.work(ticket_id)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, [dear, cheap]))
    assert office.thread(dear)["cost_cny"] == pytest.approx(1.5)
    assert office.thread(cheap)["cost_cny"] == pytest.approx(0.003)


def _die_before(office: Office, node: str) -> threading.Event:
    """Make the process "die" (an exception that no turn handles) when `node` is about to run."""
    killed, seen = threading.Event(), iter(("load_customer", "prepare_context", "classify", "retrieve", "draft", "check",
                                            "finalize"))
    real = office.deps.check_lease

    def check(token: str | None) -> None:
        real(token)
        if next(seen) == node:
            killed.set()
            raise KeyboardInterrupt

    office.deps.check_lease = check
    return killed
