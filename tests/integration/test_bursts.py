"""A customer who writes on while the answer is being made gets one answer to all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fakes import FakeLLM
from fixtures.crash.scenarios import ScriptedLLM
from fixtures.office import DRAFT, TRIAGE, Office, give_paid_invoice

from supportpilot.db.pool import Database
from supportpilot.desk import turns as desk
from supportpilot.errors import LeaseLost, Transient
from supportpilot.service import approval, ticket, turn, upkeep
from supportpilot.service.approval import Verdict
from supportpilot.service.texts import handoff_notice
from supportpilot.types import current_scope

pytestmark = pytest.mark.integration

FIRST, SECOND = "同步失败 E3001", "补充:是招商银行的账户 E3001"
WISH = "账单 INV-1 重复扣款,请退款"
PLAIN = ("load_customer", "prepare_context", "classify", "retrieve", "draft", "check", "finalize")
STILL = {**TRIAGE, "still_unsolved": True, "needs_account_data": True, "summary": "照做了还是不行"}


def before(office: Office, node: str, do: Callable[[], object], *, times: int = 1) -> None:
    """Do something when `node` is about to run, before the turn asks whether it may."""
    left = [times]
    real = office.deps.check_lease

    def check(token: str | None) -> None:
        real(token)
        scope = current_scope()
        if scope and scope.node == node and left[0]:
            left[0] -= 1
            do()

    office.deps.check_lease = check


def turns_of(office: Office, ticket_id: str) -> list[str]:
    return [r["status"] for r in office.rows("SELECT status FROM desk.turns WHERE ticket_id = %s ORDER BY created_at", ticket_id)]


def said(office: Office, ticket_id: str) -> list[tuple[str, str]]:
    return [(t["role"], t["content"]) for t in office.thread(ticket_id)["turns"]]


def writer(db: Database, ticket_id: Callable[[], str], body: str = SECOND) -> Callable[[], object]:
    other = Office(db)
    return lambda: other.write(body, ticket_id=ticket_id())


@pytest.mark.parametrize("node", PLAIN)
def test_a_message_that_comes_before_any_node_gets_one_answer_with_the_first(db: Database, node: str) -> None:
    office = Office(db)
    got = office.write(FIRST)
    before(office, node, writer(db, lambda: got.ticket_id))
    assert office.work(got.ticket_id) == "replaced; resolved"
    assert turns_of(office, got.ticket_id) == ["replaced", "done"]
    assert said(office, got.ticket_id)[:2] == [("customer", FIRST), ("customer", SECOND)]
    assert office.roles(got.ticket_id) == ["customer", "customer", "agent"]
    assert [kind for kind, _ in office.outbox(got.ticket_id)] == ["reply"]
    assert office.rows("SELECT 1 FROM desk.inbox WHERE state <> 'done'") == []
    assert office.one("SELECT token FROM desk.leases")["token"] is None
    newest = office.llm.asked("draft")[-1]
    assert FIRST in newest.split('"newest"')[-1]
    assert SECOND in newest.split('"newest"')[-1]


def test_no_model_is_asked_again_for_a_turn_that_is_overtaken(db: Database) -> None:
    office = Office(db)
    got = office.write(FIRST)
    before(office, "draft", writer(db, lambda: got.ticket_id))
    office.work(got.ticket_id)
    assert [len(office.llm.asked(task)) for task in ("triage", "draft", "check")] == [2, 1, 1]


def test_a_message_at_the_instant_of_the_reply_is_answered_with_it_or_in_a_turn_of_its_own(db: Database) -> None:
    office, other = Office(db), Office(db)
    real, got = office.deps.finish_ticket, office.write(FIRST)
    lines = iter(("在写回复前", "在写回复后"))

    def around(*args: Any, **more: Any) -> str:
        line = next(lines, "")
        if line == "在写回复前":
            other.write(line, ticket_id=got.ticket_id)
        stands = real(*args, **more)
        if line == "在写回复后":
            other.write(line, ticket_id=got.ticket_id)
        return stands

    office.deps.finish_ticket = around
    assert office.work(got.ticket_id) == "replaced; resolved; resolved"
    assert turns_of(office, got.ticket_id) == ["replaced", "done", "done"]
    assert office.roles(got.ticket_id) == ["customer", "customer", "agent", "customer", "agent"]


def test_an_overtaken_reply_leaves_nothing_on_the_ticket(db: Database) -> None:
    office, other = Office(db), Office(db)
    real, got, seen = office.deps.finish_ticket, office.write(FIRST), []

    def late(*args: Any, **more: Any) -> str:
        if not seen:
            other.write(SECOND, ticket_id=got.ticket_id)
        try:
            return real(*args, **more)
        finally:
            seen.append(office.one("SELECT category, resolution_kb, promise, status FROM biz.tickets"))

    office.deps.finish_ticket = late
    office.work(got.ticket_id)
    assert seen[0] == {"category": None, "resolution_kb": None, "promise": None, "status": "open"}
    assert seen[1]["category"] == "technical"


def test_a_wish_for_a_human_that_is_overtaken_hands_over_once(db: Database) -> None:
    office = Office(db, ScriptedLLM())
    got = office.write("转人工")
    before(office, "handoff", writer(db, lambda: got.ticket_id, "人工在吗"))
    assert office.work(got.ticket_id) == "replaced; escalated"
    assert [kind for kind, _ in office.outbox(got.ticket_id)] == ["handoff"]
    assert office.status(got.ticket_id) == "escalated"


@pytest.mark.parametrize("node", ["classify", "act", "draft", "check", "approval"])
def test_a_message_before_the_refund_is_asked_for_is_part_of_the_request(db: Database, node: str) -> None:
    office = Office(db, ScriptedLLM())
    give_paid_invoice(office)
    got = office.write(WISH)
    before(office, node, writer(db, lambda: got.ticket_id, "就是账单 INV-1,请退款"))
    assert office.work(got.ticket_id).startswith("replaced; waits for approval")
    asked = office.rows("SELECT version, status FROM desk.approvals")
    assert asked == [{"version": 2, "status": "pending"}]
    assert turns_of(office, got.ticket_id) == ["replaced", "waiting"]
    calls = office.thread(got.ticket_id)["tool_log"]
    assert len({c["turn_id"] for c in calls}) == 1
    assert [c["name"] for c in calls] == ["request_refund"]


def test_a_message_between_the_interrupt_and_its_approval_is_part_of_the_request(
        db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    office, other = Office(db, ScriptedLLM()), Office(db)
    give_paid_invoice(office)
    got, real = office.write(WISH), turn.approval_notice

    def late(*args: Any) -> str:     # asked for before the ticket is locked
        monkeypatch.setattr(turn, "approval_notice", real)
        other.write("先不急", ticket_id=got.ticket_id)
        return real(*args)

    monkeypatch.setattr(turn, "approval_notice", late)
    assert office.work(got.ticket_id).startswith("replaced; waits for approval")
    assert [r["version"] for r in office.rows("SELECT version FROM desk.approvals")] == [2]
    assert [kind for kind, _ in office.outbox(got.ticket_id)] == ["notice"]
    asked = office.one("SELECT id, interrupt_id FROM desk.approvals")
    approval.decide(db, office.ports, asked["id"], Verdict(approved=True, by="li"))
    assert turn.resume(office.rt, got.ticket_id, asked["id"]) == "resolved"
    assert len(office.rows("SELECT 1 FROM biz.refunds")) == 1


def test_a_message_after_the_refund_was_asked_for_is_held_and_the_decision_carried_out(db: Database) -> None:
    office = Office(db, ScriptedLLM())
    give_paid_invoice(office)
    got = office.write(WISH)
    office.work(got.ticket_id)
    Office(db).write(SECOND, ticket_id=got.ticket_id)
    asked = office.one("SELECT id FROM desk.approvals")["id"]
    approval.decide(db, office.ports, asked, Verdict(approved=True, by="li", seen_version=2))
    before(office, "approval", writer(db, lambda: got.ticket_id, "第三条"))
    assert turn.resume(office.rt, got.ticket_id, asked) == "resolved; resolved"
    assert turns_of(office, got.ticket_id) == ["done", "done"]
    assert len(office.rows("SELECT 1 FROM biz.refunds")) == 1


def test_a_turn_killed_after_its_reply_row_is_not_replaced_by_what_comes_before_its_recovery(db: Database) -> None:
    dying = Office(db)
    real, got = dying.deps.finish_ticket, dying.write(FIRST)

    def finish_and_die(*args: Any, **more: Any) -> str:
        real(*args, **more)
        raise KeyboardInterrupt

    dying.deps.finish_ticket = finish_and_die
    with pytest.raises(KeyboardInterrupt):
        dying.work(got.ticket_id)
    first = dying.outbox(got.ticket_id)
    dying.write(SECOND, ticket_id=got.ticket_id)
    db_expire(dying)
    second = Office(db, FakeLLM(TRIAGE, [], "第二个答复 [KB-bank-001]"))
    assert second.work(got.ticket_id) == "resolved; resolved"
    assert turns_of(second, got.ticket_id) == ["done", "done"]
    assert second.roles(got.ticket_id) == ["customer", "agent", "customer", "agent"]
    assert second.outbox(got.ticket_id)[0] == first[0]


def test_a_decision_is_carried_out_though_the_customer_writes_and_was_told_nothing_yet(db: Database) -> None:
    office = Office(db, ScriptedLLM(), approval_notice=False)
    give_paid_invoice(office)
    got = office.write(WISH)
    office.work(got.ticket_id)
    asked = office.one("SELECT id FROM desk.approvals")["id"]
    approval.decide(db, office.ports, asked, Verdict(approved=True, by="li"))
    before(office, "approval", writer(db, lambda: got.ticket_id))
    assert turn.resume(office.rt, got.ticket_id, asked) == "resolved; resolved"
    assert turns_of(office, got.ticket_id) == ["done", "done"]
    assert len(office.rows("SELECT 1 FROM biz.refunds")) == 1


EFFECTS = {
    "a text for the customer": "INSERT INTO desk.outbox (ticket_id, turn_id, idempotency_key, kind, body) "
                               "VALUES (%(ticket)s, %(turn)s, 'k', 'notice', 'x')",
    "a request for approval": "INSERT INTO desk.approvals (ticket_id, turn_id, interrupt_id, request, version, expires_at) "
                              "VALUES (%(ticket)s, %(turn)s, 'i', '{}', 1, clock_timestamp())",
    "a refund": "INSERT INTO biz.refunds (id, ticket_id, approval_id, invoice_id, amount, status, decided_by, turn_id) "
                "VALUES ('RF1', %(ticket)s, 'A1', 'INV-1', 1, 'paid', 'li', %(turn)s)",
    "a promise": "WITH o AS (INSERT INTO desk.outbox (ticket_id, idempotency_key, kind, body) "
                 "VALUES (%(ticket)s, 'k', 'reply', 'x')) INSERT INTO desk.commitments "
                 "(ticket_id, outbox_key, position, turn_id, text) VALUES (%(ticket)s, 'k', 0, %(turn)s, 'x')",
    "closing": "UPDATE desk.turns SET closing = true WHERE turn_id = %(turn)s",
}


@pytest.mark.parametrize("effect", EFFECTS)
def test_each_effect_by_itself_keeps_a_turn_from_being_replaced(db: Database, effect: str) -> None:
    office = Office(db)
    give_paid_invoice(office)
    got = office.write(FIRST)
    with db.transaction() as conn:
        work = desk.take(conn, office.settings, got.ticket_id, "x", handoff_notice)
    assert work is not None
    office.write(SECOND, ticket_id=got.ticket_id)
    assert office.deps.overtaken(work.turn.turn_id)
    with db.transaction() as conn:
        conn.execute(EFFECTS[effect], {"ticket": got.ticket_id, "turn": work.turn.turn_id})
    assert not office.deps.overtaken(work.turn.turn_id)
    with db.transaction() as conn:
        assert desk.replace(conn, work, office.settings) is work
    assert turns_of(office, got.ticket_id) == ["running"]
    assert office.one("SELECT token::text FROM desk.leases")["token"] == work.token


def test_an_answer_is_put_off_twice_and_not_a_third_time(db: Database) -> None:
    office, other = Office(db), Office(db)
    got = office.write("第 0 句")
    lines = iter(range(1, 10))
    before(office, "draft", lambda: other.write(f"第 {next(lines)} 句", ticket_id=got.ticket_id), times=3)
    assert office.work(got.ticket_id) == "replaced; replaced; resolved; resolved"
    assert turns_of(office, got.ticket_id) == ["replaced", "replaced", "done", "done"]
    assert office.roles(got.ticket_id) == ["customer"] * 3 + ["agent", "customer", "agent"]


def test_the_count_is_kept_through_a_crash_and_starts_anew_with_the_next_answer(db: Database) -> None:
    office, other = Office(db), Office(db)
    got = office.write("第 0 句")
    lines = iter(range(1, 10))

    def write() -> None:
        other.write(f"第 {next(lines)} 句", ticket_id=got.ticket_id)

    before(office, "draft", write)
    before(office, "check", _die)
    with pytest.raises(KeyboardInterrupt):
        office.work(got.ticket_id)
    assert turns_of(office, got.ticket_id) == ["replaced", "running"]
    write()
    db_expire(office)
    second = Office(db)
    before(second, "check", write, times=3)
    assert second.work(got.ticket_id) == "replaced; resolved; replaced; resolved"
    assert turns_of(office, got.ticket_id) == ["replaced", "replaced", "done", "replaced", "done"]
    assert office.rows("SELECT 1 FROM desk.inbox WHERE state <> 'done'") == []


def _die() -> None:
    raise KeyboardInterrupt


def db_expire(office: Office) -> None:
    office.execute("UPDATE desk.leases SET expires_at = clock_timestamp() - interval '1 second' WHERE token IS NOT NULL")


def test_the_turn_in_its_place_has_a_deadline_of_its_own(db: Database) -> None:
    office, other = Office(db), Office(db)
    got, seen = office.write(FIRST), []
    statement = "SELECT extract(epoch FROM deadline_at - clock_timestamp())::float8 AS left FROM desk.leases"

    def shorten() -> None:
        office.execute("UPDATE desk.leases SET deadline_at = clock_timestamp() + interval '20 seconds'")
        other.write(SECOND, ticket_id=got.ticket_id)

    before(office, "draft", shorten)
    before(office, "check", lambda: seen.append(office.one(statement)["left"]))
    office.work(got.ticket_id)
    assert seen[0] > 60


def test_while_the_customer_writes_on_nobody_holds_the_ticket_and_the_last_line_wakes_it(db: Database) -> None:
    quiet: dict[str, Any] = {"turn_debounce_seconds": 30, "turn_debounce_max_seconds": 100}
    office, other = Office(db, **quiet), Office(db, **quiet)
    got = office.write(FIRST)
    office.execute("UPDATE desk.inbox SET due_at = clock_timestamp(), received_at = received_at - interval '10 minutes'")
    before(office, "draft", lambda: other.write(SECOND, ticket_id=got.ticket_id))
    assert office.work(got.ticket_id) == "replaced"
    assert turns_of(office, got.ticket_id) == ["replaced"]
    assert office.one("SELECT token FROM desk.leases")["token"] is None
    assert 25 < office.wakeups.turns[-1][2] < 31
    assert office.work(got.ticket_id) == "nothing due, or somebody has it"

    other.write("还有一句", ticket_id=got.ticket_id)
    waits = {round(r["w"], -1) for r in office.rows(
        "SELECT extract(epoch FROM due_at - clock_timestamp())::float8 AS w FROM desk.inbox")}
    assert waits == {30}        # ten minutes ago the first one began a window of its own
    office.execute("UPDATE desk.inbox SET due_at = clock_timestamp()")
    assert office.work(got.ticket_id) == "resolved"
    assert office.roles(got.ticket_id) == ["customer"] * 3 + ["agent"]


def test_a_wakeup_that_is_lost_after_the_replacement_is_made_good_by_the_sweeper(db: Database) -> None:
    office = Office(db, turn_debounce_seconds=30)
    other = Office(db, turn_debounce_seconds=30)
    got = office.write(FIRST)
    office.execute("UPDATE desk.inbox SET due_at = clock_timestamp()")
    before(office, "check", lambda: other.write(SECOND, ticket_id=got.ticket_id))
    assert office.work(got.ticket_id) == "replaced"
    office.wakeups.turns.clear()
    office.execute("UPDATE desk.inbox SET due_at = clock_timestamp() - interval '1 minute'")
    assert upkeep.sweep(db, office.ports, office.settings)["messages"] == 1
    assert turn.handle_message(office.rt, *office.wakeups.turns[0][:2]) == "resolved"


def test_a_human_who_takes_over_keeps_the_turn_from_being_replaced(db: Database) -> None:
    office, other = Office(db), Office(db)
    got = office.write(FIRST)

    def take_over_and_write() -> None:
        ticket.reply(db, other.ports, got.ticket_id, "我来处理", by="李娜", command_id="r1")
        other.write(SECOND, ticket_id=got.ticket_id)

    before(office, "draft", take_over_and_write)
    assert office.work(got.ticket_id) == "resolved"
    assert turns_of(office, got.ticket_id) == ["done"]
    assert office.status(got.ticket_id) == "escalated"


def test_a_colleagues_word_alone_replaces_nothing(db: Database) -> None:
    office, other = Office(db), Office(db)
    got = office.write(FIRST)
    before(office, "check", lambda: ticket.reply(db, other.ports, got.ticket_id, "我来处理", by="李娜", command_id="r1"))
    assert office.work(got.ticket_id) == "resolved"
    assert turns_of(office, got.ticket_id) == ["done"]


def test_a_silent_turn_is_not_replaced_by_a_message_that_comes_meanwhile(db: Database) -> None:
    office = Office(db, ScriptedLLM())
    got = office.write("转人工")
    office.work(got.ticket_id)
    office.write("还在吗", ticket_id=got.ticket_id)
    ticket.resolve(db, office.ports, got.ticket_id)
    before(office, "classify", writer(db, lambda: got.ticket_id))
    assert office.work(got.ticket_id) == "resolved; resolved"
    assert turns_of(office, got.ticket_id) == ["done", "done", "done"]


def test_a_silent_turn_stays_silent_if_the_ticket_is_given_back_and_written_to_meanwhile(db: Database) -> None:
    office, other = Office(db, ScriptedLLM()), Office(db)
    got = office.write("转人工")
    office.work(got.ticket_id)
    office.write("还在吗", ticket_id=got.ticket_id)
    ticket.resolve(db, office.ports, got.ticket_id)

    def give_back_and_write() -> None:
        ticket.release(db, other.ports, got.ticket_id)
        other.write(SECOND, ticket_id=got.ticket_id)

    before(office, "classify", give_back_and_write)
    assert office.work(got.ticket_id) == "resolved; resolved"
    assert turns_of(office, got.ticket_id) == ["done", "done", "done"]
    assert office.roles(got.ticket_id) == ["customer", "agent", "customer", "customer", "agent"]


def test_a_complaint_in_a_replaced_turn_is_counted_once(db: Database) -> None:
    office = Office(db, FakeLLM([TRIAGE, STILL], [], DRAFT))
    got = office.write(FIRST)
    office.work(got.ticket_id)
    before(office, "draft", writer(db, lambda: got.ticket_id))
    office.write("照做了还是不行", ticket_id=got.ticket_id)
    assert office.work(got.ticket_id) == "replaced; resolved"
    assert office.thread(got.ticket_id)["unsolved"] == 1


def test_calls_and_draft_of_a_replaced_turn_are_not_the_new_ones(db: Database) -> None:
    accounts = {**TRIAGE, "needs_account_data": True}
    office = Office(db, FakeLLM([accounts, TRIAGE], [("list_invoices", {})], ["半个答复", DRAFT]))
    give_paid_invoice(office)
    got = office.write(FIRST)
    before(office, "check", writer(db, lambda: got.ticket_id))
    assert office.work(got.ticket_id) == "replaced; resolved"
    thread = office.thread(got.ticket_id)
    assert (thread["tool_log"], thread["findings"]) == ([], "")
    assert "半个答复" not in str(office.outbox(got.ticket_id))


def test_a_zombie_replaces_nothing(db: Database) -> None:
    office, other = Office(db), Office(db)
    got = office.write(FIRST)
    with db.transaction() as conn:
        work = desk.take(conn, office.settings, got.ticket_id, "frozen", handoff_notice)
    assert work is not None
    db_expire(office)
    other.write(SECOND, ticket_id=got.ticket_id)
    assert other.work(got.ticket_id) == "replaced; resolved"
    with pytest.raises(LeaseLost), db.transaction() as conn:
        desk.replace(conn, work, office.settings)
    assert turns_of(office, got.ticket_id) == ["replaced", "done"]


def test_a_turn_that_waits_for_its_next_attempt_is_replaced_when_that_comes(db: Database) -> None:
    office = Office(db)
    office.llm.fail["draft"] = Transient("model: 500")
    got = office.write(FIRST)
    assert office.work(got.ticket_id).startswith("failed")
    office.llm.fail.clear()
    office.write(SECOND, ticket_id=got.ticket_id)
    office.execute("UPDATE desk.turns SET next_attempt_at = clock_timestamp()")
    assert office.work(got.ticket_id) == "replaced; resolved"
    assert office.roles(got.ticket_id) == ["customer", "customer", "agent"]


def test_a_released_ticket_s_dead_message_stays_known_as_such_through_a_replacement(db: Database) -> None:
    office = Office(db, FakeLLM([TRIAGE, STILL], [], DRAFT), max_attempts=1, handoff_after_unsolved=2)
    got = office.write(FIRST)
    office.work(got.ticket_id)
    office.llm.fail["draft"] = Transient("model: 500")
    office.write("照做了还是不行", ticket_id=got.ticket_id)
    assert "given up" in office.work(got.ticket_id)
    office.llm.fail.clear()
    ticket.release(db, office.ports, got.ticket_id)
    before(office, "draft", writer(db, lambda: got.ticket_id))
    assert office.work(got.ticket_id) == "replaced; resolved"

