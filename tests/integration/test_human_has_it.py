"""A human has the ticket: kept in order, nothing answered, and given back as one turn without an old reason."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fakes import FakeLLM, FakeRetriever
from fixtures.office import DRAFT, TRIAGE, Office, give_paid_invoice, refund_llm

from supportpilot.config import Settings
from supportpilot.db import tickets
from supportpilot.db.outbox import OutboxRow
from supportpilot.db.pool import Database
from supportpilot.desk import outbox as desk
from supportpilot.desk.outbox import SendResult
from supportpilot.errors import Refused, Transient
from supportpilot.service import approval, delivery, letters, ticket, upkeep
from supportpilot.service.approval import Verdict

pytestmark = pytest.mark.integration

IDLE = "nothing due, or somebody has it"
ANGRY = {**TRIAGE, "needs_human": True, "summary": "要找负责人"}
STILL = {**TRIAGE, "still_unsolved": True, "summary": "照做了还是不行"}


def handed_over(db: Database, *triages: dict[str, Any], **settings: Any) -> tuple[Office, str]:
    """Bring a ticket that the agent itself gave to a human; the triages after it follow."""
    office = Office(db, FakeLLM([ANGRY, *(triages or (TRIAGE,))], [], DRAFT), **settings)
    ticket_id = office.write("我要投诉,叫你们负责人来!").ticket_id
    assert office.work(ticket_id) == "escalated"
    return office, ticket_id


def answered(db: Database, llm: FakeLLM | None = None, **settings: Any) -> tuple[Office, str]:
    """Bring an answered ticket whose reply is queued."""
    office = Office(db, llm, **settings)
    ticket_id = office.write("同步失败 E3001").ticket_id
    assert office.work(ticket_id) == "resolved"
    return office, ticket_id


def human(office: Office, ticket_id: str, body: str, by: str = "李娜") -> None:
    ticket.reply(office.db, office.ports, ticket_id, body, by=by)


def release(office: Office, ticket_id: str) -> int:
    return ticket.release(office.db, office.ports, ticket_id)


def said(office: Office, ticket_id: str) -> list[tuple[str, str]]:
    """Return (who, what) of the conversation; a human by name."""
    return [(t.get("author") or t["role"], t["content"]) for t in office.thread(ticket_id).get("turns", [])]


def kinds(office: Office, ticket_id: str) -> list[str]:
    return [kind for kind, _ in office.outbox(ticket_id)]


def sent(office: Office, ticket_id: str) -> list[tuple[str, str]]:
    found = office.rows("SELECT kind, status FROM desk.outbox WHERE ticket_id = %s ORDER BY position", ticket_id)
    return [(r["kind"], r["status"]) for r in found]


def section(view: str, name: str) -> str:
    found = re.search(rf'<section name="{name}">\n(.*?)\n</section>', view, re.DOTALL)
    return found[1] if found else ""


def assign(office: Office, ticket_id: str) -> None:
    """Somebody takes the ticket without a word; an assignment uses up a seq."""
    with office.db.transaction() as conn:
        row = tickets.lock(conn, ticket_id)
        assert row is not None
        tickets.take_message(conn, ticket_id, row.last_seq + 1, "escalated")
        tickets.take_over(conn, ticket_id, row.last_seq + 1)


# kept in order, nothing answered, the graph not touched ---------------------------------------------

def test_what_both_sides_write_is_kept_in_order_and_nothing_touches_the_graph(db: Database) -> None:
    office, ticket_id = handed_over(db)
    before = office.rows("SELECT checkpoint_id FROM checkpoints ORDER BY 1")
    calls = office.llm.ledger.calls
    office.write("在吗", ticket_id=ticket_id)
    human(office, ticket_id, "我是主管,请讲。")
    office.write("账单也不对", ticket_id=ticket_id)
    assert office.work(ticket_id) == IDLE
    office.execute("UPDATE desk.inbox SET due_at = clock_timestamp() - interval '1 hour', woken_at = NULL")
    assert upkeep.sweep(db, office.ports, office.settings)["messages"] == 0
    kept = office.rows("SELECT author, body FROM desk.inbox WHERE state = 'pending' ORDER BY seq")
    assert [(r["author"], r["body"]) for r in kept] == [
        ("customer", "在吗"), ("human", "我是主管,请讲。"), ("customer", "账单也不对")]
    assert kinds(office, ticket_id) == ["handoff", "human"]
    assert office.rows("SELECT checkpoint_id FROM checkpoints ORDER BY 1") == before
    assert office.llm.ledger.calls == calls


def test_ticket_show_merges_what_is_held_with_the_conversation(db: Database) -> None:
    office, ticket_id = handed_over(db)
    office.write("在吗", ticket_id=ticket_id)
    human(office, ticket_id, "我是主管,请讲。")
    shown = ticket.show(db, office.settings, ticket_id)
    merged = [*shown["turns"], *shown["held"]]
    assert [(t["role"], t.get("author", "")) for t in merged] == [
        ("customer", ""), ("agent", ""), ("customer", ""), ("agent", "李娜")]
    assert [t["content"] for t in shown["held"]] == ["在吗", "我是主管,请讲。"]


def test_a_dead_message_that_the_conversation_lacks_is_shown_too_and_never_twice(db: Database) -> None:
    office = Office(db, max_crashes=1)
    ticket_id = office.write("毒消息").ticket_id
    office.execute("INSERT INTO desk.turns (turn_id, ticket_id, message_ids, highest_seq, taken_over_seq, status, "
                   "crashes, next_attempt_at) SELECT 't', ticket_id, ARRAY[id], seq, 0, 'running', 2, clock_timestamp() "
                   "FROM desk.inbox")
    office.work(ticket_id)
    assert [t["content"] for t in ticket.show(db, office.settings, ticket_id)["held"]] == ["毒消息"]
    other = Office(db, FakeLLM(TRIAGE, [], DRAFT, fail={"draft": Transient("500")}), max_attempts=1)
    second = other.write("另一条", contact="b@example.com").ticket_id
    assert "given up" in other.work(second)
    shown = ticket.show(db, office.settings, second)
    assert ([t["content"] for t in shown["turns"]], shown["held"]) == (["另一条"], [])


# release makes one turn of them ---------------------------------------------------------------------

def test_a_release_makes_one_turn_in_order_with_the_humans_words_under_their_name(db: Database) -> None:
    office, ticket_id = handed_over(db)
    office.write("在吗", ticket_id=ticket_id)
    human(office, ticket_id, "我是主管,请讲。")
    office.write("账单也不对", ticket_id=ticket_id)
    assert release(office, ticket_id) == 3
    assert office.work(ticket_id) == "resolved"
    assert said(office, ticket_id)[2:5] == [
        ("customer", "在吗"), ("李娜", "我是主管,请讲。"), ("customer", "账单也不对")]
    assert [role for role, _ in said(office, ticket_id)] == ["customer", "agent", "customer", "李娜", "customer", "agent"]
    assert office.one("SELECT count(*) AS n FROM desk.turns")["n"] == 2
    assert section(office.llm.asked("triage")[-1], "newest") == "账单也不对"
    assert office.status(ticket_id) == "answered"


def test_a_customer_who_writes_five_times_meanwhile_gets_one_answer_to_all_five(db: Database) -> None:
    office, ticket_id = handed_over(db)
    lines = [f"第 {n} 次问" for n in range(1, 6)]
    for line in lines:
        office.write(line, ticket_id=ticket_id)
        assert office.work(ticket_id) == IDLE
    assert kinds(office, ticket_id) == ["handoff"]
    assert release(office, ticket_id) == 5
    assert office.work(ticket_id) == "resolved"
    assert section(office.llm.asked("triage")[-1], "newest").splitlines() == lines
    assert kinds(office, ticket_id) == ["handoff", "reply"]
    assert office.work(ticket_id) == IDLE


def test_when_the_human_had_the_last_word_the_agent_says_nothing(db: Database) -> None:
    office, ticket_id = handed_over(db)
    for line in ("在吗", "很急"):
        office.write(line, ticket_id=ticket_id)
    human(office, ticket_id, "已经帮您处理好了。")
    calls = office.llm.ledger.calls
    release(office, ticket_id)
    assert office.work(ticket_id) == "resolved"
    assert kinds(office, ticket_id) == ["handoff", "human"]
    assert office.llm.ledger.calls == calls
    assert office.status(ticket_id) == "answered"
    assert said(office, ticket_id)[-1] == ("李娜", "已经帮您处理好了。")
    assert office.rows("SELECT 1 FROM desk.inbox WHERE state <> 'done'") == []


def test_a_second_handoff_after_a_release_is_a_handoff_of_its_own(db: Database) -> None:
    office, ticket_id = handed_over(db, TRIAGE, {**ANGRY, "summary": "又要找负责人"})
    human(office, ticket_id, "请讲。")
    office.write("同步失败", ticket_id=ticket_id)
    release(office, ticket_id)
    assert office.work(ticket_id) == "resolved"
    office.write("不行,我要找负责人", ticket_id=ticket_id)
    assert office.work(ticket_id) == "escalated"
    office.deliver()
    assert sent(office, ticket_id) == [("handoff", "accepted"), ("human", "accepted"), ("reply", "accepted"),
                                       ("handoff", "accepted")]
    assert office.one("SELECT handoff_reason FROM biz.tickets")["handoff_reason"] == "needs a human: 又要找负责人"
    release(office, ticket_id)
    office.write("好了吗", ticket_id=ticket_id)
    assert office.work(ticket_id) == "escalated"


# an old complaint does not hand over again -----------------------------------------------------------

def test_an_old_complaint_does_not_hand_the_ticket_over_again(db: Database) -> None:
    office, ticket_id = handed_over(db)
    human(office, ticket_id, "抱歉,已经处理。")
    office.write("那导出怎么弄?", ticket_id=ticket_id)
    release(office, ticket_id)
    assert office.work(ticket_id) == "resolved"
    view = office.llm.asked("triage")[-1]
    assert "投诉" not in section(view, "newest")
    assert "投诉" in section(view, "recent")


def test_a_resolved_ticket_that_is_written_to_again_is_the_agents_without_the_old_reason(db: Database) -> None:
    office, ticket_id = handed_over(db)
    human(office, ticket_id, "抱歉,已经处理。")
    ticket.resolve(db, office.ports, ticket_id)
    office.work(ticket_id)
    assert office.status(ticket_id) == "resolved"
    office.write("那导出怎么弄?", ticket_id=ticket_id)
    assert office.one("SELECT status, handoff_reason FROM biz.tickets") == {"status": "open", "handoff_reason": None}
    assert office.work(ticket_id) == "resolved"
    assert kinds(office, ticket_id) == ["handoff", "human", "reply"]
    assert section(office.llm.asked("triage")[-1], "newest") == "那导出怎么弄?"


# the view afterwards ---------------------------------------------------------------------------------

def test_the_view_says_where_the_humans_stretch_began_and_ended_and_that_the_reason_is_over(db: Database) -> None:
    office, ticket_id = handed_over(db)
    office.write("在吗", ticket_id=ticket_id)
    human(office, ticket_id, "我是主管,请讲。")
    office.write("导出怎么弄?", ticket_id=ticket_id)
    release(office, ticket_id)
    assert office.work(ticket_id) == "resolved"
    entries = office.thread(ticket_id)["turns"]
    for task in ("triage", "draft"):
        told = section(office.llm.asked(task)[-1], "handover")
        began, ended = (entries[i]["at"][:16].replace("T", " ") for i in (1, 3))
        assert f"{began} UTC起由同事接手" in told
        assert f"李娜最后答复于{ended} UTC" in told
        assert "原因已不再有效" in told
    assert office.thread(ticket_id)["handoff_reason"] == ""
    assert office.one("SELECT handoff_reason FROM biz.tickets")["handoff_reason"] is None


def test_a_ticket_that_came_back_without_a_word_is_told_so(db: Database) -> None:
    office, ticket_id = handed_over(db)
    office.write("在吗", ticket_id=ticket_id)
    release(office, ticket_id)
    office.work(ticket_id)
    told = section(office.llm.asked("draft")[-1], "handover")
    assert "同事没有答复" in told
    assert "原因已不再有效" in told


def test_a_ticket_that_no_human_ever_had_says_nothing_of_one(db: Database) -> None:
    office, _ = answered(db)
    assert 'name="handover"' not in office.llm.asked("draft")[-1]


# a human's reply stops the agent's -------------------------------------------------------------------

def test_a_humans_reply_while_the_agents_is_being_made_stops_it(db: Database) -> None:
    office = Office(db)
    ticket_id = office.write("同步失败").ticket_id
    real = office.deps.retriever.search

    def human_is_faster(*args: Any, **kwargs: Any) -> Any:
        human(office, ticket_id, "我来处理。")
        return real(*args, **kwargs)

    office.deps.retriever.search = human_is_faster  # type: ignore[method-assign]
    office.work(ticket_id)
    office.deliver()
    assert sorted(sent(office, ticket_id)) == [("human", "accepted"), ("reply", "withheld")]
    assert office.status(ticket_id) == "escalated"
    release(office, ticket_id)
    office.work(ticket_id)
    office.deliver()
    assert sorted(sent(office, ticket_id)) == [("human", "accepted"), ("reply", "withheld")]
    assert office.status(ticket_id) == "answered"


def test_a_humans_reply_stops_the_agents_that_is_queued(db: Database) -> None:
    office, ticket_id = answered(db)
    human(office, ticket_id, "我来处理。")
    office.deliver()
    assert sent(office, ticket_id) == [("reply", "withheld"), ("human", "accepted")]


def test_a_humans_reply_between_claim_and_send_stops_the_agents(
        db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    office, ticket_id = answered(db)
    real, posted = desk.may_still_send, []

    def human_between(*args: Any) -> bool:
        if not posted:
            posted.append("human")
            human(office, ticket_id, "我来处理。")
        return real(*args)

    def send(_settings: Settings, row: OutboxRow, _now: int) -> SendResult:
        posted.append(row.kind)
        return SendResult("accept")

    monkeypatch.setattr(desk, "may_still_send", human_between)
    for reply_id in office.wakeups.replies[:]:
        delivery.deliver(db, office.settings, office.ports, reply_id, send)
    assert "reply" not in posted
    office.deliver()
    assert sent(office, ticket_id) == [("reply", "withheld"), ("human", "accepted")]


# given back without a word ---------------------------------------------------------------------------

def test_a_withheld_reply_is_sent_after_a_release_if_no_human_has_answered(db: Database) -> None:
    office, ticket_id = answered(db)
    assign(office, ticket_id)
    office.deliver()
    assert sent(office, ticket_id) == [("reply", "withheld")]
    release(office, ticket_id)
    office.deliver()
    assert sent(office, ticket_id) == [("reply", "accepted")]


def test_a_reply_that_comes_to_be_sent_only_after_the_release_is_sent(db: Database) -> None:
    office, ticket_id = answered(db)
    assign(office, ticket_id)
    release(office, ticket_id)
    office.deliver()
    assert sent(office, ticket_id) == [("reply", "accepted")]


def test_a_reply_queued_again_by_a_release_is_stopped_by_the_human_who_writes_before_it_is_sent(db: Database) -> None:
    office, ticket_id = answered(db)
    assign(office, ticket_id)
    office.deliver()
    release(office, ticket_id)
    human(office, ticket_id, "还是我来。")
    office.deliver()
    assert sent(office, ticket_id) == [("reply", "withheld"), ("human", "accepted")]


def test_a_reply_that_a_human_has_answered_instead_stays_a_note_after_the_release(db: Database) -> None:
    office, ticket_id = answered(db)
    human(office, ticket_id, "我来处理。")
    office.deliver()
    release(office, ticket_id)
    office.work(ticket_id)
    office.deliver()
    assert sent(office, ticket_id) == [("reply", "withheld"), ("human", "accepted")]


# while an approval waits -----------------------------------------------------------------------------

def test_a_humans_reply_while_an_approval_waits_is_kept_and_joins_after_the_decision(db: Database) -> None:
    office = Office(db, refund_llm())
    give_paid_invoice(office)
    ticket_id = office.write("账单 INV-1 重复扣款,请退款").ticket_id
    office.work(ticket_id)
    asked = approval.list_approvals(db, "pending")[0]
    human(office, ticket_id, "我在看这笔退款。")
    office.write("好的,另外导出怎么弄?", ticket_id=ticket_id)
    assert office.work(ticket_id) == IDLE
    assert kinds(office, ticket_id) == ["notice", "human"]
    assert approval.get_approval(db, asked.id).status == "pending"
    approval.decide(db, office.ports, asked.id, Verdict(approved=True, by="li", seen_version=3))
    assert office.work(ticket_id) == "resolved"
    assert office.one("SELECT count(*) AS n FROM biz.refunds")["n"] == 1
    assert office.status(ticket_id) == "escalated"
    assert len(office.rows("SELECT 1 FROM desk.inbox WHERE state = 'pending'")) == 2
    release(office, ticket_id)
    assert office.work(ticket_id) == "resolved"
    assert [who for who, _ in said(office, ticket_id)][-3:] == ["李娜", "customer", "agent"]
    assert section(office.llm.asked("triage")[-1], "newest") == "好的,另外导出怎么弄?"
    assert office.one("SELECT count(*) AS n FROM biz.refunds")["n"] == 1


# HANDOFF_AFTER_UNSOLVED ------------------------------------------------------------------------------

def test_the_second_time_that_the_answer_did_not_help_a_human_gets_the_ticket(db: Database) -> None:
    office, ticket_id = answered(db, FakeLLM([TRIAGE, STILL, STILL], [], DRAFT))
    office.write("照做了,还是不行", ticket_id=ticket_id)
    assert office.work(ticket_id) == "resolved"
    office.write("还是不行!", ticket_id=ticket_id)
    assert office.work(ticket_id) == "escalated"
    assert "did not help, 2 times" in office.one("SELECT handoff_reason FROM biz.tickets")["handoff_reason"]


def test_an_answer_that_helped_in_between_begins_the_count_anew(db: Database) -> None:
    office, ticket_id = answered(db, FakeLLM([TRIAGE, STILL, TRIAGE, STILL, STILL], [], DRAFT))
    for line, outcome in (("还是不行", "resolved"), ("换个问题", "resolved"), ("还是不行", "resolved"), ("还不行", "escalated")):
        office.write(line, ticket_id=ticket_id)
        assert office.work(ticket_id) == outcome


def test_the_second_time_that_the_knowledge_base_has_nothing_a_human_gets_the_ticket(db: Database) -> None:
    office = Office(db, FakeLLM(TRIAGE, [], "还不能确定,请补充报错编号。"))
    office.deps.retriever = FakeRetriever(())
    ticket_id = office.write("冷门问题").ticket_id
    assert office.work(ticket_id) == "resolved"
    office.write("另一个冷门问题", ticket_id=ticket_id)
    assert office.work(ticket_id) == "escalated"
    assert "nothing to go on" in office.one("SELECT handoff_reason FROM biz.tickets")["handoff_reason"]


def test_a_customer_who_asks_for_a_human_gets_one_at_once(db: Database) -> None:
    office, ticket_id = handed_over(db)
    assert office.status(ticket_id) == "escalated"
    assert kinds(office, ticket_id) == ["handoff"]


def test_the_bound_of_unsolved_is_a_setting(db: Database) -> None:
    office, ticket_id = answered(db, FakeLLM([TRIAGE, STILL], [], DRAFT), handoff_after_unsolved=1)
    office.write("还是不行", ticket_id=ticket_id)
    assert office.work(ticket_id) == "escalated"


def test_what_did_not_help_before_a_human_answered_is_not_counted_afterwards(db: Database) -> None:
    office, ticket_id = answered(db, FakeLLM([TRIAGE, STILL, STILL, STILL], [], DRAFT))
    office.write("还是不行", ticket_id=ticket_id)
    assert office.work(ticket_id) == "resolved"
    human(office, ticket_id, "请换个浏览器。")
    office.write("还是不行", ticket_id=ticket_id)
    release(office, ticket_id)
    assert office.work(ticket_id) == "resolved"
    office.write("还是不行", ticket_id=ticket_id)
    assert office.work(ticket_id) == "escalated"


def test_a_complaint_that_a_given_up_turn_has_counted_is_not_counted_twice(db: Database) -> None:
    office, ticket_id = answered(db, FakeLLM([TRIAGE, STILL], [], DRAFT), max_attempts=1)
    office.llm.fail["draft"] = Transient("model: 500")
    received = office.write("还是不行", ticket_id=ticket_id)
    assert "given up" in office.work(ticket_id)
    office.llm.fail.clear()
    letters.retry_inbox(db, office.ports, received.message_id)
    assert office.work(ticket_id) == "resolved"


def test_a_command_that_was_carried_out_on_another_ticket_is_refused(db: Database) -> None:
    office, ticket_id = answered(db)
    other = office.write("另一件事", contact="b@example.com").ticket_id
    for _ in range(2):
        ticket.reply(db, office.ports, ticket_id, "已处理。", by="李娜", command_id="c1")
    with pytest.raises(Refused, match=f"was used on {ticket_id} already"):
        ticket.reply(db, office.ports, other, "已处理。", by="李娜", command_id="c1")
    assert kinds(office, other) == []
    assert office.status(other) == "open"
    assert kinds(office, ticket_id) == ["reply", "human"]


def test_releasing_what_the_agent_has_is_refused(db: Database) -> None:
    office, ticket_id = answered(db)
    with pytest.raises(Refused, match="nothing to release"):
        release(office, ticket_id)
