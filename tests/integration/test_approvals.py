"""Refunds that wait for a human: parked, decided once, never on an old picture, applied once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
from fixtures.office import Office, give_paid_invoice, refund_llm

from supportpilot.db import approvals, tickets
from supportpilot.db.approvals import Approval
from supportpilot.db.pool import Database
from supportpilot.errors import AlreadyDecided, NotFound, Refused, Stale
from supportpilot.memory.checkpoint import reset_checkpoints
from supportpilot.service import approval, ticket, turn
from supportpilot.service.approval import Verdict

pytestmark = pytest.mark.integration


def waiting(db: Database, **settings: object) -> tuple[Office, Approval]:
    """Bring a refund to its approval."""
    office = Office(db, refund_llm(), **settings)
    give_paid_invoice(office)
    received = office.write("账单 INV-1 重复扣款,请退款")
    assert office.work(received.ticket_id).startswith("waits for approval")
    return office, approval.list_approvals(db, "pending")[0]


def refunds(office: Office) -> list[tuple[str, Decimal]]:
    return [(r["invoice_id"], r["amount"]) for r in office.rows("SELECT invoice_id, amount FROM biz.refunds")]


def test_a_refund_parks_the_ticket_and_tells_the_customer_once(db: Database) -> None:
    office, asked = waiting(db)
    assert office.status(asked.ticket_id) == "waiting_approval"
    assert asked.request["request"]["invoice_number"] == "INV-1"
    assert [kind for kind, _ in office.outbox(asked.ticket_id)] == ["notice"]
    assert refunds(office) == []
    assert office.one("SELECT status FROM desk.turns")["status"] == "waiting"


def test_without_the_notice_setting_the_customer_hears_nothing_yet(db: Database) -> None:
    office, asked = waiting(db, approval_notice=False)
    assert office.outbox(asked.ticket_id) == []


def test_an_approval_pays_once_and_the_reply_names_the_amount(db: Database) -> None:
    office, asked = waiting(db)
    approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li"))
    assert office.wakeups.resumes == [(asked.ticket_id, asked.id)]
    assert turn.resume(office.rt, asked.ticket_id, asked.id) == "resolved"
    assert turn.resume(office.rt, asked.ticket_id, asked.id) == f"{asked.id} was applied before"
    assert refunds(office) == [("INV-1", Decimal("300.00"))]
    kind, body = office.outbox(asked.ticket_id)[-1]
    assert kind == "reply"
    assert "300.00" in body
    assert office.status(asked.ticket_id) == "answered"


def test_a_smaller_amount_is_what_is_paid(db: Database) -> None:
    office, asked = waiting(db)
    approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li", amount=Decimal("120.50")))
    office.work(asked.ticket_id)
    assert refunds(office) == [("INV-1", Decimal("120.50"))]
    assert "120.50" in office.outbox(asked.ticket_id)[-1][1]


@pytest.mark.parametrize("amount", ["300.01", "0", "-1", "NaN", "Infinity", "0.001", "120.505"])
def test_an_impossible_amount_is_refused(db: Database, amount: str) -> None:
    office, asked = waiting(db)
    with pytest.raises(Refused, match="at most 300"):
        approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li", amount=Decimal(amount)))
    assert approval.get_approval(db, asked.id).status == "pending"


def test_a_rejection_pays_nothing_and_says_so(db: Database) -> None:
    office, asked = waiting(db)
    approval.decide(db, office.ports, asked.id, Verdict(approved=False, by="li", reason="超过期限"))
    office.work(asked.ticket_id)
    assert refunds(office) == []
    assert office.outbox(asked.ticket_id)[-1][0] == "reply"
    assert office.status(asked.ticket_id) == "answered"


def test_a_message_meanwhile_is_held_acknowledged_once_and_makes_the_decision_stale(db: Database) -> None:
    office, asked = waiting(db)
    for line in ("先不要退了", "等等"):
        held = office.write(line, ticket_id=asked.ticket_id)
        assert office.work(asked.ticket_id) == "nothing due, or somebody has it"
    assert held.ticket_id == asked.ticket_id
    assert [kind for kind, _ in office.outbox(asked.ticket_id)] == ["notice", "ack"]
    with pytest.raises(Stale, match="--version 3"):
        approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li"))
    approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li", seen_version=3))
    assert office.work(asked.ticket_id) == "resolved; resolved"
    assert office.roles(asked.ticket_id) == ["customer", "agent", "customer", "customer", "agent"]
    assert len(refunds(office)) == 1


@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("version", [2, 3, 2**63 - 1, 2**63, 10**30])
def test_a_version_that_no_message_has_is_refused_else_it_would_never_be_stale(
    db: Database, version: int, approved: bool,
) -> None:
    office, asked = waiting(db)
    with pytest.raises(Refused, match=r"its last is 1.*--version 1"):
        approval.decide(db, office.ports, asked.id, Verdict(approved=approved, by="li", seen_version=version))
    assert approval.get_approval(db, asked.id).status == "pending"
    assert office.wakeups.resumes == []


@pytest.mark.parametrize("version", [0, -1, -2**63, -10**30])
def test_a_version_below_the_request_is_stale(db: Database, version: int) -> None:
    office, asked = waiting(db)
    with pytest.raises(Stale):
        approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li", seen_version=version))


def test_a_webhook_retried_while_an_approval_waits_does_not_make_it_stale(db: Database) -> None:
    office = Office(db, refund_llm())
    give_paid_invoice(office)
    first = office.write("账单 INV-1 重复扣款,请退款", message_id="same")
    office.work(first.ticket_id)
    asked = approval.list_approvals(db, "pending")[0]
    again = office.write("账单 INV-1 重复扣款,请退款", message_id="same")
    assert (again.duplicate, again.message_id) == (True, first.message_id)
    approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li"))


def test_the_first_decision_wins_and_the_same_one_again_is_no_error(db: Database) -> None:
    office, asked = waiting(db)
    approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li"))
    assert approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li")).status == "approved"
    with pytest.raises(AlreadyDecided, match="already approved by li"):
        approval.decide(db, office.ports, asked.id, Verdict(approved=False, by="wang"))


def test_of_ten_deciders_at_once_one_wins(db: Database) -> None:
    office, asked = waiting(db)
    barrier = threading.Barrier(10)

    def one(number: int) -> bool:
        barrier.wait()
        try:
            approval.decide(db, office.ports, asked.id, Verdict(approved=number % 2 == 0, by=f"p{number}"))
        except AlreadyDecided:
            return False
        return True

    with ThreadPoolExecutor(10) as pool:
        assert sum(pool.map(one, range(10))) == 1


def test_two_resumes_at_once_pay_once(db: Database) -> None:
    office, asked = waiting(db)
    approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li"))
    offices = [Office(db, refund_llm()) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda o: turn.resume(o.rt, asked.ticket_id, asked.id), offices))
    assert len(refunds(office)) == 1
    assert [kind for kind, _ in office.outbox(asked.ticket_id)] == ["notice", "reply"]


def test_a_worker_killed_between_the_refund_and_its_checkpoint_pays_once(db: Database) -> None:
    office, asked = waiting(db)
    real = office.deps.decide_refund

    def pay_and_die(*args: object, **kwargs: object) -> None:
        real(*args, **kwargs)
        raise KeyboardInterrupt

    office.deps.decide_refund = pay_and_die  # type: ignore[assignment]
    approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li"))
    with pytest.raises(KeyboardInterrupt):
        office.work(asked.ticket_id)
    assert len(refunds(office)) == 1
    office.execute("UPDATE desk.leases SET expires_at = clock_timestamp() - interval '1 second'")
    assert Office(db, refund_llm()).work(asked.ticket_id) == "resolved"
    assert len(refunds(office)) == 1
    assert approval.get_approval(db, asked.id).applied_at is not None


def test_a_worker_killed_before_the_approvals_row_is_written_parks_the_next_time(db: Database) -> None:
    office = Office(db, refund_llm())
    give_paid_invoice(office)
    received = office.write("账单 INV-1 重复扣款,请退款")
    office.execute("ALTER TABLE desk.approvals RENAME TO approvals_away")
    said = office.work(received.ticket_id)
    assert said.startswith("failed")
    office.execute("ALTER TABLE desk.approvals_away RENAME TO approvals")
    office.execute("UPDATE desk.turns SET next_attempt_at = clock_timestamp()")
    assert Office(db, refund_llm()).work(received.ticket_id).startswith("waits for approval")
    assert len(approval.list_approvals(db, "pending")) == 1


def test_an_approval_whose_time_ran_out_becomes_a_handoff(db: Database) -> None:
    office, asked = waiting(db)
    office.execute("UPDATE desk.approvals SET expires_at = clock_timestamp() - interval '1 second'")
    with pytest.raises(AlreadyDecided, match="expired"):
        approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li"))
    assert approval.expire_due(db, office.ports) == 1
    assert approval.expire_due(db, office.ports) == 0
    assert office.work(asked.ticket_id) == "escalated"
    assert refunds(office) == []
    assert [kind for kind, _ in office.outbox(asked.ticket_id)] == ["notice", "handoff"]
    assert office.status(asked.ticket_id) == "escalated"


@pytest.mark.parametrize(("passed", "said"), [(0.49, []), (0.5, [50]), (0.89, [50]), (0.9, [90]), (1.0, [])])
def test_an_undecided_approval_reminds_at_half_and_nine_tenths_of_its_time(
        db: Database, caplog: pytest.LogCaptureFixture, passed: float, said: list[int]) -> None:
    office, asked = waiting(db)
    let_pass(office, passed)
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(lambda _: approval.remind_due(db), range(4))) == len(said)
    assert approval.remind_due(db) == 0
    lines = [r.getMessage() for r in caplog.records if "is undecided after" in r.getMessage()]
    assert [f"{asked.id} of ticket {asked.ticket_id} is undecided after {share} %" in line
            for line, share in zip(lines, said, strict=True)] == [True] * len(said)
    rows = office.rows("SELECT subject, detail FROM desk.audit WHERE action = 'approval.reminder'")
    assert [(r["subject"], round(r["detail"]["share"] * 100)) for r in rows] == [(asked.id, share) for share in said]


def test_both_reminders_come_in_their_time_and_none_after_the_decision(db: Database) -> None:
    office, asked = waiting(db)
    for passed in (0.6, 0.7, 0.95, 0.97):
        let_pass(office, passed)
        approval.remind_due(db)
    shares = [r["detail"]["share"] for r in office.rows("SELECT detail FROM desk.audit WHERE action = 'approval.reminder' "
                                                        "ORDER BY id")]
    assert shares == [0.5, 0.9]
    office.execute("DELETE FROM desk.audit WHERE action = 'approval.reminder'")
    approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li"))
    assert approval.remind_due(db) == 0


def let_pass(office: Office, share: float) -> None:
    """Move the approvals back so that this share of their time is gone."""
    office.execute("UPDATE desk.approvals SET created_at = clock_timestamp() - (expires_at - created_at) * %s::float8, "
                   "expires_at = clock_timestamp() + (expires_at - created_at) * (1 - %s::float8)", share, share)


def test_a_decision_on_a_finished_ticket_is_refused_with_the_reason(db: Database) -> None:
    office, asked = waiting(db)
    approval.decide(db, office.ports, asked.id, Verdict(approved=False, by="li", reason="超过期限"))
    office.work(asked.ticket_id)
    ticket.resolve(db, office.ports, asked.ticket_id)
    with pytest.raises(AlreadyDecided, match=f"{asked.id} is already rejected by li"):
        approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="wang"))
    assert refunds(office) == []
    assert office.status(asked.ticket_id) == "resolved"


def test_a_decision_on_a_ticket_that_a_human_took_is_carried_out_and_its_reply_kept_as_a_note(db: Database) -> None:
    office, asked = waiting(db)
    ticket.reply(db, office.ports, asked.ticket_id, "我来跟进这笔退款。", by="李娜")
    approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li"))
    office.work(asked.ticket_id)
    office.deliver()
    assert len(refunds(office)) == 1
    assert office.status(asked.ticket_id) == "escalated"
    rows = office.rows("SELECT kind, status FROM desk.outbox ORDER BY position")
    assert [(r["kind"], r["status"]) for r in rows] == [("notice", "withheld"), ("human", "accepted"), ("reply", "withheld")]


def test_releasing_a_ticket_withdraws_its_approval_and_brings_its_messages_back(db: Database) -> None:
    office, asked = waiting(db)
    ticket.reply(db, office.ports, asked.ticket_id, "请稍等。", by="李娜")
    ticket.release(db, office.ports, asked.ticket_id)
    assert approval.get_approval(db, asked.id).status == "withdrawn"
    with pytest.raises(AlreadyDecided, match="withdrawn"):
        approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li"))
    office.work(asked.ticket_id)
    assert refunds(office) == []
    assert office.rows("SELECT 1 FROM desk.inbox WHERE state <> 'done'") == []


def test_a_ticket_with_a_pending_approval_cannot_be_resolved(db: Database) -> None:
    office, asked = waiting(db)
    with pytest.raises(Refused, match="approval"):
        ticket.resolve(db, office.ports, asked.ticket_id)


def test_two_refunds_in_a_row_are_two_approvals_each_decided_by_itself(db: Database) -> None:
    office, first = waiting(db)
    give_paid_invoice(office, number="INV-2", amount="50.00")
    approval.decide(db, office.ports, first.id, Verdict(approved=False, by="li"))
    office.work(first.ticket_id)
    second_office = Office(db, refund_llm("INV-2"))
    second_office.write("那 INV-2 呢,请退款", ticket_id=first.ticket_id)
    second_office.work(first.ticket_id)
    second = approval.list_approvals(db, "pending")[0]
    approval.decide(db, office.ports, second.id, Verdict(approved=True, by="li"))
    second_office.work(first.ticket_id)
    assert refunds(office) == [("INV-2", Decimal("50.00"))]


def test_a_reset_takes_the_ticket_before_its_turn_and_approval_as_everybody_does(db: Database) -> None:
    """Else each could hold what the other waits for."""
    _, asked = waiting(db)
    with ThreadPoolExecutor(1) as pool:
        with db.transaction() as deciding:
            assert tickets.lock(deciding, asked.ticket_id) is not None
            resetting = pool.submit(reset_checkpoints, db.url)
            with pytest.raises(TimeoutError):
                resetting.result(1)
            deciding.execute("SET LOCAL lock_timeout = '1s'")
            deciding.execute("SELECT 1 FROM desk.turns WHERE turn_id = %s FOR UPDATE", (asked.turn_id,))
            assert approvals.lock(deciding, asked.id) is not None
        resetting.result(30)
    assert approval.get_approval(db, asked.id).status == "withdrawn"


def test_an_unknown_approval_is_named(db: Database) -> None:
    with pytest.raises(NotFound, match="A999999"):
        approval.decide(db, Office(db).ports, "A999999", Verdict(approved=True, by="li"))
