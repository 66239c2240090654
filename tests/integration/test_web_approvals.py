"""The approver's desk and the API over HTTP: what is shown, who may decide, and that one decision is made."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from fixtures.office import CONTACT, Office, give_paid_invoice, refund_llm
from fixtures.site import Person, Staff

from producer.web.amounts import amount_of
from supportpilot.db.pool import Database
from supportpilot.errors import Unusable
from supportpilot.service import approval, customer, ticket, turn
from supportpilot.service.approval import Verdict

pytestmark = pytest.mark.integration

DECISION = "/approvals/A000001/decision"


@pytest.fixture
def office(db: Database) -> Office:
    """An office in which a refund of 300.00 waits as A000001."""
    office = Office(db, refund_llm())
    give_paid_invoice(office)
    office.work(office.write("账单 INV-1 重复扣款,请退款").ticket_id)
    return office


def row(office: Office, approval_id: str = "A000001") -> dict[str, Any]:
    return office.one("SELECT * FROM desk.approvals WHERE id = %s", approval_id)


def decisions(office: Office) -> list[tuple[str, str]]:
    found = office.rows("SELECT actor, action FROM desk.audit WHERE subject = 'A000001' AND action <> 'approval.requested' ORDER BY id")
    return [(r["actor"], r["action"]) for r in found]


def approve(person: Person, page: str | None = None, **fields: str) -> Any:
    shown = page or person.get("/approvals/A000001")
    return person.send(DECISION, shown, **{"decision": "approve", **fields})


# what is shown ----------------------------------------------------------------------------------------

def test_the_list_shows_what_waits_what_is_mine_and_what_is_decided(office: Office, staff: Staff) -> None:
    person = staff()
    assert "INV-1" in person.get("/approvals")
    assert "¥300.00 · 王敏" in person.get("/approvals?show=nonsense")
    assert "没有分配给你的退款" in person.get("/approvals?show=mine")
    page = person.get("/approvals/A000001")
    assert person.send("/approvals/A000001/assign", page, to="王芳").headers["location"] == "/approvals/A000001?done=assigned"
    assert "A000001" in person.get("/approvals?show=mine")
    assert "已重新分配" in person.get("/approvals/A000001?done=assigned")
    assert "还没有处理过" in person.get("/approvals?show=decided")
    approve(person)
    assert "没有待审批的退款" in person.get("/approvals")
    assert "已批准" in person.get("/approvals?show=decided")


def test_the_page_shows_words_payment_policy_draft_record_and_cost(office: Office, staff: Staff) -> None:
    office.execute("INSERT INTO kb.articles (id, title, lang, body) VALUES ('KB-refund-002', '退款规定', 'zh', '七天内 **可退**')")
    page = staff().get("/approvals/A000001")
    for text in ("账单 INV-1 重复扣款,请退款", "¥300.00", "已付", "重复扣款", "退款规定", "<strong>可退</strong>", "账单 INV-1 的退款已交给同事审核",
                 "没有退过款", "助手提出请求", "T000001", CONTACT, "UTC+8"):
        assert text in page, text
    assert "flag" not in page
    assert "<h2 id=\"flags\">" not in page


def test_money_is_read_live_and_what_is_odd_is_flagged(office: Office, staff: Staff) -> None:
    office.execute("INSERT INTO biz.refunds (id, ticket_id, approval_id, invoice_id, amount, status, decided_by) "
                   "VALUES ('RF-old', 'T000001', 'old', 'INV-1', 120, 'paid', '李强')")
    office.execute("UPDATE biz.tickets SET verified = false")
    office.execute("INSERT INTO desk.approvals (ticket_id, turn_id, interrupt_id, request, version, status, expires_at) "
                   "SELECT ticket_id, turn_id, 'other', request, version, 'rejected', expires_at FROM desk.approvals")
    page = staff().get("/approvals/A000001")
    for text in ("¥180.00", "¥120.00", "李强", "发件人未经验证", "已经退过一部分", "超过还可退的金额", "曾被拒绝", "A000002"):
        assert text in page, text


def test_messages_after_the_request_are_marked_new(office: Office, staff: Staff) -> None:
    office.write("先不要退了", ticket_id="T000001")
    person = staff()
    assert "1 条新消息" in person.get("/approvals")
    page = person.get("/approvals/A000001")
    before, _, after = page.partition("账单 INV-1 重复扣款")
    assert "请求之后的新消息" not in before.split("客户原话")[1]
    assert after.index("请求之后的新消息") < after.index("先不要退了")
    assert "请求之后客户又写了消息" in page


def test_looking_changes_nothing(office: Office, staff: Staff) -> None:
    person = staff()
    before = row(office), office.rows("SELECT * FROM desk.audit WHERE subject = 'A000001'")
    person.get("/approvals/A000001?decision=approve&amount=1")
    for path in ("/approvals/A000001", "/approvals"):
        assert person.client.head(path).status_code == 200
    assert person.client.get(DECISION).status_code == 405
    assert (row(office), office.rows("SELECT * FROM desk.audit WHERE subject = 'A000001'")) == before


def test_an_unknown_approval_is_a_page_that_says_so(staff: Staff) -> None:
    person = staff()
    assert "没有这个页面" in person.get("/approvals/A999999", 404)
    assert person.client.get("/approvals/%00").status_code == 404
    api = staff("李强").api
    for path in ("/api/approvals/%00", "/api/tickets/%00", "/api/approvals/A999999"):
        assert api.get(path).status_code == 404


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_every_state_of_an_approval_has_its_page_in_both_languages(office: Office, staff: Staff, lang: str) -> None:
    person = staff()
    for status in ("pending", "approved", "rejected", "expired", "withdrawn"):
        office.execute("UPDATE desk.approvals SET status = %s, decided_at = clock_timestamp(), decided_by = 'x'", status)
        assert f'<html lang="{lang}">' in person.get(f"/approvals/A000001?lang={lang}")
        person.get(f"/approvals?show=decided&lang={lang}")


# who may ----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("role", ["viewer", "agent"])
def test_who_may_only_look_is_shown_no_form_and_refused_by_both_doors(office: Office, staff: Staff, role: str) -> None:
    person, approver = staff("小张", role), staff()
    page = person.get("/approvals/A000001")
    assert "可以查看，不能决定" in page
    assert DECISION not in page
    fields = {**person_fields(person), "decision": "approve", "version": "1", "facts": "{}"}
    assert person.client.post(DECISION, data=fields).status_code == 403
    assert person.client.post("/approvals/A000001/assign", data=fields).status_code == 403
    assert person.api.post("/api/approvals/A000001/decision", json={"decision": "approve"}).status_code == 403
    assert decisions(office) == []
    assert approve(approver).status_code == 303


def person_fields(person: Person) -> dict[str, str]:
    """Return the session's own token, taken from another form of the person's."""
    page = person.get("/")
    return {"csrf": page.split('name="csrf" value="')[1].split('"')[0]}


def test_a_decision_without_the_forms_token_is_refused(office: Office, staff: Staff) -> None:
    person = staff()
    page = person.get("/approvals/A000001")
    assert person.send(DECISION, page, csrf="0" * 64).status_code == 403
    assert decisions(office) == []


# deciding ---------------------------------------------------------------------------------------------

def test_an_approval_is_carried_out_and_the_page_says_who_and_when(office: Office, staff: Staff) -> None:
    person = staff()
    got = approve(person)
    assert (got.status_code, got.headers["location"]) == (303, "/approvals/A000001")
    page = person.get("/approvals/A000001")
    assert "王芳 于" in page
    assert "批准了 ¥300.00" in page
    assert "正在执行" in page
    office.work("T000001")
    assert "已执行" in person.get("/approvals/A000001")
    assert office.one("SELECT amount, decided_by FROM biz.refunds") == {"amount": Decimal("300.00"), "decided_by": "王芳"}
    seen = office.one("SELECT detail FROM desk.audit WHERE action = 'approval.approved'")["detail"]
    assert seen["seen"]["refundable"] == "300.00"
    assert seen["seen_version"] == 1


def test_a_smaller_amount_needs_a_reason_and_the_customer_hears_the_note(office: Office, staff: Staff) -> None:
    person = staff()
    page = person.get("/approvals/A000001")
    for amount, reason in (("100", ""), ("0", "r"), ("300.01", "r"), ("abc", "r"), ("1.005", "r"), ("-1", "r"), ("", "r"), ("٣", "r")):
        got = person.send(DECISION, page, decision="less", amount=amount, reason=reason, customer_reason="说明 <b>x</b>")
        assert got.status_code == 422, (amount, got.text)
        assert "说明 &lt;b&gt;x&lt;/b&gt;" in got.text, "what was typed is kept"
    assert decisions(office) == []
    got = person.send(DECISION, page, decision="less", amount=" ¥１２０.50 ", reason="部分使用", customer_reason="已使用一部分")
    assert got.status_code == 303
    office.work("T000001")
    assert office.one("SELECT amount FROM biz.refunds")["amount"] == Decimal("120.50")
    reply = office.outbox("T000001")[-1][1]
    assert "120.50" in reply
    assert "已使用一部分" in reply
    assert "部分使用" not in reply.replace("已使用一部分", "")


def test_a_rejection_keeps_the_inner_reason_inside(office: Office, staff: Staff) -> None:
    person = staff()
    page = person.get("/approvals/A000001")
    assert person.send(DECISION, page, decision="reject", reason=" ", customer_reason="x").status_code == 422
    assert person.send(DECISION, page, decision="reject", reason="疑似欺诈", customer_reason="超过了七天").status_code == 303
    office.work("T000001")
    reply = office.outbox("T000001")[-1][1]
    assert "超过了七天" in reply
    assert "欺诈" not in reply
    assert office.rows("SELECT * FROM biz.refunds") == []
    assert "疑似欺诈" in person.get("/approvals/A000001")


def test_a_double_click_decides_once_and_both_answers_are_true(office: Office, staff: Staff) -> None:
    person = staff()
    page = person.get("/approvals/A000001")
    assert [approve(person, page).status_code for _ in range(3)] == [303, 303, 303]
    assert decisions(office) == [("王芳", "approval.approved")]


def test_of_two_approvers_at_once_one_decides_and_the_other_sees_who(office: Office, staff: Staff) -> None:
    people = [staff("王芳"), staff("李强")]
    pages = [person.get("/approvals/A000001") for person in people]
    start = threading.Barrier(2)

    def click(index: int) -> Any:
        start.wait()
        return people[index].send(DECISION, pages[index], decision=("approve", "reject")[index], reason="r")

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(click, range(2)))
    assert sorted(got.status_code for got in answers) == [303, 409]
    (winner, _), = decisions(office)
    loser = next(got for got in answers if got.status_code == 409)
    assert f"{winner} 于" in loser.text
    assert "你的点击没有改变任何东西" in loser.text
    assert DECISION not in loser.text


def test_after_a_new_message_the_old_page_decides_nothing_and_shows_the_message(office: Office, staff: Staff) -> None:
    person = staff()
    page = person.get("/approvals/A000001")
    office.write("先不要退了", ticket_id="T000001")
    got = approve(person, page, reason="ok")
    assert got.status_code == 409
    assert "先不要退了" in got.text.split('role="alert"')[1].split("</ul>")[0]
    assert decisions(office) == []
    office.write("算了,还是退吧", ticket_id="T000001")
    again = approve(person, got.text)
    alert = again.text.split('role="alert"')[1].split("</ul>")[0]
    assert "还是退吧" in alert
    assert "先不要退了" not in alert, "what was seen before is no difference"
    assert approve(person, again.text).status_code == 303, "the new page decides"


def test_when_the_money_has_changed_the_old_page_decides_nothing_and_shows_the_difference(office: Office, staff: Staff) -> None:
    person = staff()
    page = person.get("/approvals/A000001")
    office.execute("INSERT INTO biz.refunds (id, ticket_id, approval_id, invoice_id, amount, status, decided_by) "
                   "VALUES ('RF-x', 'T000001', 'x', 'INV-1', 120, 'paid', '李强')")
    got = approve(person, page)
    assert got.status_code == 409
    alert = got.text.split('role="alert"')[1].split("</ul>")[0]
    assert "还可退" in alert
    assert alert.index("300.00") < alert.index("180.00")
    assert decisions(office) == []


@pytest.mark.parametrize("facts", ["", "{", "[]", "[" * 5000, '{"refundable": "1"}'])
def test_facts_that_nobody_showed_are_stale(office: Office, staff: Staff, facts: str) -> None:
    assert approve(staff(), facts=facts).status_code == 409
    assert decisions(office) == []


@pytest.mark.parametrize("fields", [{"version": ""}, {"version": "x"}, {"version": "٣"}, {"decision": "pay"}, {"decision": ""}, {"reason": "x" * 2001},
                                    {"reason": "a\x00b"}])
def test_a_form_that_makes_no_sense_decides_nothing(office: Office, staff: Staff, fields: dict[str, str]) -> None:
    assert approve(staff(), **fields).status_code == 422
    assert decisions(office) == []


def test_what_has_expired_cannot_be_decided_and_the_page_says_so(office: Office, staff: Staff) -> None:
    person = staff()
    page = person.get("/approvals/A000001")
    office.execute("UPDATE desk.approvals SET expires_at = clock_timestamp()")
    assert approve(person, page).status_code == 409
    assert "时间已到" in person.get("/approvals/A000001")
    approval.expire_due(office.db, office.ports)
    assert approve(person, page).status_code == 409
    assert "没有人及时决定" in person.get("/approvals/A000001")


def test_of_an_erased_ticket_no_request_is_left(office: Office, staff: Staff) -> None:
    person = staff()
    page = person.get("/approvals/A000001")
    customer.erase(office.db, "wang@example.com", "管理")
    assert person.client.get("/approvals/A000001").status_code == 404
    assert approve(person, page).status_code == 404
    assert office.rows("SELECT 1 FROM biz.refunds") == []


def test_a_withdrawn_request_says_so(office: Office, staff: Staff) -> None:
    person = staff()
    page = person.get("/approvals/A000001")
    ticket.reply(office.db, office.ports, "T000001", "我来", "同事")
    assert approve(person, page).status_code == 409, "the ticket is a colleague's now"
    ticket.release(office.db, office.ports, "T000001")
    assert "已于" in person.get("/approvals/A000001")
    assert approve(person, page).status_code == 409


# two people -------------------------------------------------------------------------------------------

@pytest.fixture
def dear(db: Database) -> Office:
    """An office in which a refund of 8990.00 waits as A000001, and above 5000 two people decide."""
    office = Office(db, refund_llm())
    give_paid_invoice(office, amount="8990.00")
    office.work(office.write("账单 INV-1 重复扣款,请退款").ticket_id)
    return office


def test_the_second_person_reads_what_the_customer_is_told_and_agrees_to_the_same_facts(dear: Office, staff: Staff) -> None:
    one, two = staff("王芳"), staff("李强")
    assert approve(one, one.get("/approvals/A000001"), customer_reason="给您添麻烦了").status_code == 303
    page = two.get("/approvals/A000001")
    assert "给您添麻烦了" in page
    dear.execute("UPDATE biz.tickets SET verified = false")
    assert approve(two, page).status_code == 409
    assert approve(two, two.get("/approvals/A000001")).status_code == 303
    assert row(dear)["status"] == "pending", "the first one saw other facts: this is the first of two now"
    assert approve(one, one.get("/approvals/A000001")).status_code == 303
    assert row(dear)["status"] == "approved"


def test_above_the_limit_two_different_people_have_to_approve(dear: Office, staff: Staff) -> None:
    one, two = staff("王芳"), staff("李强")
    assert "两个不同的人" in one.get("/approvals/A000001")
    assert approve(one).status_code == 303
    assert approve(one).status_code == 303
    assert row(dear)["status"] == "pending"
    assert "正在等另一人" in one.get("/approvals/A000001")
    assert "等第二人" in two.get("/approvals")
    assert "同意并批准 ¥8,990.00" in two.get("/approvals/A000001")
    assert dear.wakeups.resumes == []
    assert approve(two).status_code == 303
    assert decisions(dear) == [("王芳", "approval.first"), ("李强", "approval.approved")]
    assert "王芳 + 李强 于" in one.get("/approvals/A000001")
    assert turn.drain(dear.rt, "T000001", "") == "resolved"
    assert dear.one("SELECT amount, decided_by FROM biz.refunds") == {"amount": Decimal("8990.00"), "decided_by": "王芳 + 李强"}


def test_two_clicks_at_once_by_two_people_are_two_approvals(dear: Office, staff: Staff) -> None:
    people = [staff("王芳"), staff("李强")]
    pages = [person.get("/approvals/A000001") for person in people]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda i: approve(people[i], pages[i]), range(2)))
    assert [got.status_code for got in answers] == [303, 303]
    assert row(dear)["status"] == "approved"
    assert {actor for actor, _ in decisions(dear)} == {"王芳", "李强"}


def test_the_same_person_under_another_spelling_is_not_a_second_one(dear: Office, db: Database) -> None:
    for name in ("Li Wei", "li  wei", "ＬＩ WEI", " LI WEI "):
        decided = approval.decide(db, dear.ports, "A000001", Verdict(approved=True, by=name))
        assert decided.status == "pending", name


def test_two_people_must_mean_the_same_amount_and_the_same_messages(dear: Office, db: Database) -> None:
    def says(by: str, amount: str | None = None, version: int | None = None) -> str:
        given = None if amount is None else Decimal(amount)
        return approval.decide(db, dear.ports, "A000001", Verdict(approved=True, by=by, amount=given, seen_version=version)).status

    assert says("a") == "pending"
    assert says("b", "6000") == "pending"
    assert says("a", "7000") == "pending"
    dear.write("还有一句", ticket_id="T000001")
    assert says("b", "7000", 2) == "pending"
    assert says("b", "7000", 2) == "pending"
    assert says("a", "7000", 2) == "approved"
    assert row(dear)["amount"] == Decimal("7000.00")


def test_up_to_the_limit_and_to_reject_one_person_is_enough(dear: Office, db: Database) -> None:
    approval.decide(db, dear.ports, "A000001", Verdict(approved=True, by="a"))
    decided = approval.decide(db, dear.ports, "A000001", Verdict(approved=True, by="b", amount=Decimal(5000)))
    assert (decided.status, decided.decided_by, decided.first_by) == ("approved", "b", None)


def test_one_person_rejects_what_another_has_approved(dear: Office, db: Database) -> None:
    approval.decide(db, dear.ports, "A000001", Verdict(approved=True, by="a"))
    decided = approval.decide(db, dear.ports, "A000001", Verdict(approved=False, by="b"))
    assert (decided.status, decided.decided_by, decided.first_by) == ("rejected", "b", None)


# the API ----------------------------------------------------------------------------------------------

def test_the_api_lists_shows_and_decides(office: Office, staff: Staff) -> None:
    api = staff().api
    found = api.get("/api/approvals", params={"status": "pending"}).json()["approvals"]
    assert [a["id"] for a in found] == ["A000001"]
    assert api.get("/api/approvals", params={"status": "x"}).status_code == 422
    shown = api.get("/api/approvals/A000001").json()
    assert (shown["version"], shown["asked"], shown["facts"]["refundable"]) == (1, "300.00", "300.00")
    body = {"decision": "approve", "amount": "99.00", "currency": "CNY", "reason": "ok", "version": shown["version"], "facts": shown["fingerprint"]}
    got = api.post("/api/approvals/A000001/decision", json=body)
    assert (got.status_code, got.json()["status"], got.json()["amount"], got.json()["decided_by"]) == (200, "approved", "99.00", "王芳")
    assert api.post("/api/approvals/A000001/decision", json=body).status_code == 200, "the same once more"
    other = staff("李强").api.post("/api/approvals/A000001/decision", json={"decision": "reject"})
    assert (other.status_code, other.json()["code"], other.json()["approval"]["decided_by"]) == (409, "decided", "王芳")
    assert api.get("/api/tickets/T000001").json()["approvals"][0]["status"] == "approved"
    assert api.get("/api/tickets/T999999").status_code == 404


def test_the_api_refuses_what_is_stale_and_says_what_stands(office: Office, staff: Staff) -> None:
    api = staff().api
    facts = api.get("/api/approvals/A000001").json()["fingerprint"]
    office.write("先不要退了", ticket_id="T000001")
    got = api.post("/api/approvals/A000001/decision", json={"decision": "approve"})
    assert (got.status_code, got.json()["code"], got.json()["version"]) == (409, "stale", 2)
    assert api.post("/api/approvals/A000001/decision", json={"decision": "approve", "version": 2, "facts": facts}).status_code == 409
    again = {"decision": "approve", "version": 2, "facts": got.json()["facts"]}
    assert api.post("/api/approvals/A000001/decision", json=again).status_code == 200


@pytest.mark.parametrize(("body", "status"), [
    ({"decision": "pay"}, 422), ({}, 422), ({"decision": "approve", "amount": 99.0}, 422), ({"decision": "approve", "amount": "NaN"}, 422),
    ({"decision": "approve", "amount": "1e2"}, 422), ({"decision": "approve", "amount": "0"}, 409), ({"decision": "approve", "amount": "300.01"}, 409),
    ({"decision": "approve", "currency": "USD"}, 409), ({"decision": "approve", "by": "boss"}, 422), ({"decision": "approve", "version": "1"}, 422),
    ({"decision": "approve", "version": 10**30}, 409), ({"decision": "approve", "reason": "\x00"}, 422), ({"decision": "approve", "reason": "\ud800"}, 422),
    ([], 422), ("approve", 422),
])
def test_the_api_takes_no_nonsense(office: Office, staff: Staff, body: Any, status: int) -> None:
    got = staff().api.post("/api/approvals/A000001/decision", content=json.dumps(body))
    assert got.status_code == status, got.text
    assert "error" in got.json()
    assert decisions(office) == []


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[" * 9000, b"x" * 20_001])
def test_a_body_that_is_no_json_is_a_clean_refusal(office: Office, staff: Staff, raw: bytes) -> None:
    assert staff().api.post("/api/approvals/A000001/decision", content=raw).status_code == 422


# rules ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("text", "amount"), [("99", "99"), ("99.5", "99.5"), ("1,299.50", "1299.50"), ("¥ 12", "12"), ("￥１２", "12")])
def test_an_amount_is_read_as_people_type_it(text: str, amount: str) -> None:
    assert amount_of(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["1,2", "12,34", "1.234", "1e3", "", " ", "NaN", "1 000", "٣", "1" * 41, "--1", "+1"])
def test_what_is_no_amount_is_not_guessed(text: str) -> None:
    with pytest.raises(Unusable):
        amount_of(text)
