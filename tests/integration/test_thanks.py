"""Thanks end in silence and open nothing again; whatever asks, denies or goes on is answered."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from fakes import FakeLLM
from fixtures.office import CONTACT, DRAFT, TRIAGE, Office, give_paid_invoice, refund_llm

from supportpilot.db.pool import Database
from supportpilot.service import approval, ticket, turn
from supportpilot.service.approval import Verdict

pytestmark = pytest.mark.integration

QUESTION = "同步失败 E3001"
DOUBT = "太好了,已经恢复正常了,谢谢你们的耐心"
ASKS = "请问您用的是哪家银行?"
ANSWERED, RESOLVED = "answered", "resolved"
THANKS_TRIAGE = {**TRIAGE, "category": "other", "only_thanks": True}


def at(db: Database, status: str, llm: FakeLLM | None = None) -> tuple[Office, str]:
    """An office and a ticket with one answer, in this status."""
    office = Office(db, llm)
    ticket_id = office.write(QUESTION).ticket_id
    office.work(ticket_id)
    if status == RESOLVED:
        ticket.resolve(db, office.ports, ticket_id)
        office.execute("UPDATE biz.tickets SET resolved_at = '2026-11-20T08:00:00Z' WHERE id = %s", ticket_id)
    assert office.status(ticket_id) == status
    return office, ticket_id


def replies(office: Office, ticket_id: str) -> int:
    return len(office.outbox(ticket_id))


def resolved_at(office: Office, ticket_id: str) -> datetime | None:
    return office.one("SELECT resolved_at FROM biz.tickets WHERE id = %s", ticket_id)["resolved_at"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("status", [ANSWERED, RESOLVED])
@pytest.mark.parametrize("text", ["谢谢", "好的", "OK", "👍", "好的,谢谢!", "Thanks!"])
def test_an_acknowledgement_is_a_turn_without_a_word_and_opens_nothing(db: Database, status: str, text: str) -> None:
    office, ticket_id = at(db, status)
    calls, since = len(office.llm.requests), resolved_at(office, ticket_id)
    got = office.write(text, ticket_id=ticket_id)
    assert (got.ticket_id, office.status(ticket_id)) == (ticket_id, status)
    assert office.work(ticket_id) == "resolved"
    assert (office.status(ticket_id), replies(office, ticket_id), len(office.llm.requests)) == (status, 1, calls)
    assert resolved_at(office, ticket_id) == since
    assert [r["status"] for r in office.rows("SELECT status FROM desk.turns")] == ["done", "done"]
    assert office.roles(ticket_id) == ["customer", "agent", "customer"]


@pytest.mark.parametrize("status", [ANSWERED, RESOLVED])
@pytest.mark.parametrize("text", ["谢谢,不过还是不行", "谢谢,还有发票怎么开?", "好的吗?", "😡", "你好"])
def test_whatever_goes_on_opens_the_ticket_and_is_answered(db: Database, status: str, text: str) -> None:
    office, ticket_id = at(db, status, FakeLLM([TRIAGE, THANKS_TRIAGE], [], DRAFT))   # a model that errs changes nothing
    office.write(text, ticket_id=ticket_id)
    assert (office.status(ticket_id), resolved_at(office, ticket_id)) == ("open", None)
    office.work(ticket_id)
    assert (office.status(ticket_id), replies(office, ticket_id)) == (ANSWERED, 2)
    assert office.thread(ticket_id)["triage"]["only_thanks"] is False


@pytest.mark.parametrize("status", [ANSWERED, RESOLVED])
def test_in_doubt_triage_decides_and_the_ticket_is_as_before(db: Database, status: str) -> None:
    office, ticket_id = at(db, status, FakeLLM([TRIAGE, THANKS_TRIAGE], [], DRAFT))
    since = resolved_at(office, ticket_id)
    office.write(DOUBT, ticket_id=ticket_id)
    assert office.work(ticket_id) == "resolved"
    assert (office.status(ticket_id), replies(office, ticket_id)) == (status, 1)
    assert resolved_at(office, ticket_id) == since
    assert [len(office.llm.asked(task)) for task in ("triage", "draft")] == [2, 1]


@pytest.mark.parametrize("triage", [TRIAGE, {**THANKS_TRIAGE, "still_unsolved": True}, {**THANKS_TRIAGE, "wish": "phone_call"},
                                    {**THANKS_TRIAGE, "needs_account_data": True}],
                         ids=["no thanks", "still unsolved", "a wish", "about the account"])
def test_in_doubt_it_is_answered_unless_triage_is_sure(db: Database, triage: dict[str, Any]) -> None:
    office, ticket_id = at(db, RESOLVED, FakeLLM([TRIAGE, triage], [], DRAFT))
    office.write(DOUBT, ticket_id=ticket_id)
    office.work(ticket_id)
    assert (office.status(ticket_id), replies(office, ticket_id)) == (ANSWERED, 2)


@pytest.mark.parametrize("text", ["好的", "谢谢", DOUBT])
def test_while_a_question_is_open_every_word_is_an_answer(db: Database, text: str) -> None:
    office, ticket_id = at(db, ANSWERED, FakeLLM([TRIAGE, THANKS_TRIAGE], [], [ASKS, DRAFT]))
    office.write(text, ticket_id=ticket_id)
    assert office.status(ticket_id) == "open"
    office.work(ticket_id)
    assert replies(office, ticket_id) == 2


def test_thanks_as_the_first_word_are_answered(db: Database) -> None:
    office = Office(db, FakeLLM(THANKS_TRIAGE, [], DRAFT))
    got = office.write("谢谢")
    office.work(got.ticket_id)
    assert replies(office, got.ticket_id) == 1


def test_thanks_while_a_refund_waits_are_kept_without_a_word(db: Database) -> None:
    office = Office(db, refund_llm())
    give_paid_invoice(office)
    ticket_id = office.write("账单 INV-1 重复扣款,请退款").ticket_id
    office.work(ticket_id)
    office.write("好的,谢谢", ticket_id=ticket_id)
    assert office.status(ticket_id) == "waiting_approval"
    assert office.work(ticket_id) == "nothing due, or somebody has it"
    assert [kind for kind, _ in office.outbox(ticket_id)] == ["notice"]
    asked = office.one("SELECT id FROM desk.approvals")["id"]
    approval.decide(db, office.ports, asked, Verdict(approved=True, by="li", seen_version=2))
    assert turn.resume(office.rt, ticket_id, asked) == "resolved; resolved"
    assert [kind for kind, _ in office.outbox(ticket_id)] == ["notice", "reply"]
    assert office.status(ticket_id) == ANSWERED


def test_thanks_and_a_question_in_one_burst_are_answered_and_the_ticket_is_open_meanwhile(db: Database) -> None:
    office, ticket_id = at(db, RESOLVED)
    office.write("谢谢", ticket_id=ticket_id)
    assert office.status(ticket_id) == RESOLVED
    office.write("不过还是不行", ticket_id=ticket_id)
    assert office.status(ticket_id) == "open"
    assert office.work(ticket_id) == "resolved"
    assert (office.status(ticket_id), replies(office, ticket_id)) == (ANSWERED, 2)


def test_a_question_that_comes_while_thanks_are_taken_in_leaves_the_ticket_answered(db: Database) -> None:
    office, ticket_id = at(db, RESOLVED, FakeLLM([TRIAGE, THANKS_TRIAGE, TRIAGE], [], DRAFT))
    other = Office(db)
    office.write(DOUBT, ticket_id=ticket_id)
    real, left = office.deps.overtaken, [1]

    def after_the_last_look(turn_id: str) -> bool:
        found = real(turn_id)
        if left and left.pop():
            other.write("另外,发票怎么开", ticket_id=ticket_id)
        return found

    office.deps.overtaken = after_the_last_look
    assert office.work(ticket_id) == "resolved; resolved"
    assert (office.status(ticket_id), replies(office, ticket_id)) == (ANSWERED, 2)


def test_the_thanks_of_a_customer_whom_a_human_answered_last_are_known(db: Database) -> None:
    office, ticket_id = at(db, ANSWERED)
    ticket.reply(db, office.ports, ticket_id, "我看过了,已经修好。", by="李娜", command_id="r1")
    ticket.resolve(db, office.ports, ticket_id)
    office.work(ticket_id)
    assert office.status(ticket_id) == RESOLVED
    office.write("谢谢", ticket_id=ticket_id)
    assert office.status(ticket_id) == RESOLVED
    assert office.work(ticket_id) == "resolved"
    assert office.status(ticket_id) == RESOLVED
    assert [kind for kind, _ in office.outbox(ticket_id)] == ["reply", "human"]


def test_a_resolved_ticket_that_a_human_answered_anew_is_not_closed_with_its_old_day(db: Database) -> None:
    office, ticket_id = at(db, RESOLVED)
    office.write("又不行了", ticket_id=ticket_id)
    ticket.reply(db, office.ports, ticket_id, "我来处理。", by="李娜", command_id="r1")
    ticket.release(db, office.ports, ticket_id)
    office.work(ticket_id)
    assert (office.status(ticket_id), resolved_at(office, ticket_id)) == (ANSWERED, None)


def test_thanks_are_a_message_of_the_contact_as_any_other(db: Database) -> None:
    office, ticket_id = at(db, ANSWERED)
    got = office.write("谢谢", contact=CONTACT)
    assert (got.ticket_id, got.duplicate) == (ticket_id, False)
