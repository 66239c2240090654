"""Account tools over a real Postgres: whose data, how much money, and once only."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supportpilot.db.pool import Connection, Database, connect
from supportpilot.errors import LeaseLost, NotFound
from supportpilot.tools import business
from supportpilot.tools.registry import call_tool
from supportpilot.types import TurnScope, turn_scope

pytestmark = pytest.mark.integration

WISH = {"invoice_number": "INV-1", "amount": "100.00", "reason": "重复扣款"}
REQUEST = {"invoice_id": "I1", "invoice_number": "INV-1", "amount": "100.00", "currency": "CNY", "reason": "重复扣款"}


def fill(conn: Connection) -> None:
    conn.execute("""
        INSERT INTO biz.customers (id, email, name, is_vip) VALUES
            ('C0001', 'li@example.com', '李雷', true), ('C0002', 'han@example.com', '韩梅梅', false);
        INSERT INTO biz.subscriptions (id, customer_id, plan, billing_cycle, status, period_start, period_end) VALUES
            ('S1', 'C0001', '专业版', 'yearly', 'active', '2026-01-01', '2026-12-31'),
            ('S2', 'C0002', '基础版', 'monthly', 'active', '2026-11-01', '2026-11-30');
        INSERT INTO biz.invoices (id, customer_id, number, amount, status, issued_at, paid_at) VALUES
            ('I1', 'C0001', 'INV-1', 298.00, 'paid', '2026-11-01', '2026-11-01 08:00+08'),
            ('I2', 'C0001', 'INV-2', 298.00, 'open', '2026-12-01', NULL),
            ('I9', 'C0002', 'INV-9', 99.00, 'paid', '2026-11-01', '2026-11-02 08:00+08');
        INSERT INTO biz.bank_connections (id, customer_id, bank, account_tail, status, authorised_at, expires_at) VALUES
            ('B1', 'C0001', '招商银行', '8821', 'expired', '2026-09-01', '2026-11-30'),
            ('B9', 'C0002', '工商银行', '1234', 'active', '2026-11-01', '2027-01-30');
        INSERT INTO biz.tickets (id, customer_id, contact, channel, subject, status) VALUES
            ('T1', 'C0001', 'li@example.com', 'generic', '退款', 'open'),
            ('T2', 'C0002', 'han@example.com', 'generic', '登录', 'open'),
            ('T3', NULL, 'nobody@example.com', 'generic', '你好', 'open'),
            ('T4', 'C0001', 'li@example.com', 'generic', '旧事', 'resolved'),
            ('T5', 'C0001', 'li@example.com', 'generic', '再要退款', 'open');
        INSERT INTO desk.leases (ticket_id) VALUES ('T1'), ('T2'), ('T3'), ('T5');
        INSERT INTO desk.turns (turn_id, ticket_id, message_ids, highest_seq, taken_over_seq, status, next_attempt_at) VALUES
            ('U1', 'T1', '{M1,M2}', 2, 0, 'dead', now()), ('U2', 'T1', '{M2,M3}', 3, 0, 'done', now()),
            ('U3', 'T1', '{M4}', 4, 0, 'running', now())
    """)


@pytest.fixture
def shop(conn: Connection) -> Connection:
    fill(conn)
    return conn


@pytest.fixture
def scope() -> Iterator[TurnScope]:
    with turn_scope(TurnScope("T1", "U3")) as current:
        yield current


def ask(conn: Connection, name: str, ticket_id: str = "T1", **arguments: Any) -> Any:
    text, is_error = call_tool(conn, name, arguments, ticket_id=ticket_id)
    return text if is_error else json.loads(text)


def pay(conn: Connection, approval_id: str | None = "A1", *, request: dict[str, Any] | None = REQUEST,
        ticket_id: str = "T1") -> dict[str, Any]:
    return business.decide_refund(conn, ticket_id, True, "王芳", "核实过", request=request, approval_id=approval_id)


def refunds(conn: Connection) -> list[tuple[str, Decimal]]:
    return [(r["invoice_id"], r["amount"]) for r in conn.execute("SELECT * FROM biz.refunds ORDER BY approval_id")]


# reading --------------------------------------------------------------------------------------------

def test_every_tool_shows_the_tickets_own_customer_and_nobody_else(shop: Connection) -> None:
    assert ask(shop, "get_customer")["name"] == "李雷"
    assert [s["plan"] for s in ask(shop, "list_subscriptions")] == ["专业版"]
    assert [(i["number"], i["amount"], i["refunded"]) for i in ask(shop, "list_invoices")] == [
        ("INV-2", "298.00", "0.00"), ("INV-1", "298.00", "0.00")]
    assert [(b["account_tail"], b["expires_at"]) for b in ask(shop, "list_bank_connections")] == [("8821", "2026-11-30")]
    assert [t["id"] for t in ask(shop, "search_past_tickets")] == ["T4"]
    assert ask(shop, "get_customer", "T2")["name"] == "韩梅梅"


@pytest.mark.parametrize("arguments", [
    {"customer_id": "C0002"}, {"email": "han@example.com"}, {"ticket_id": "T2"}, {"customer_id": ["C0001", "C0002"]},
    {"email": None}, {"customer_email": "han@example.com"},
])
@pytest.mark.parametrize("tool", ["get_customer", "list_invoices", "search_past_tickets"])
def test_asking_for_another_customer_is_refused(shop: Connection, tool: str, arguments: dict[str, Any]) -> None:
    text, is_error = call_tool(shop, tool, arguments, ticket_id="T1")
    assert is_error
    assert "own customer" in text
    assert "韩梅梅" not in text


def test_naming_the_own_customer_is_harmless(shop: Connection) -> None:
    assert ask(shop, "get_customer", email=" LI@example.com ", customer_id="C0001")["id"] == "C0001"


def test_an_address_without_account_has_none(shop: Connection) -> None:
    assert call_tool(shop, "get_customer", {}, ticket_id="T3") == ("no account for this address", True)
    assert call_tool(shop, "list_invoices", {}, ticket_id="T3") == ("no account for this address", True)
    assert ask(shop, "escalate_to_human", "T3", reason="要人工") == {"status": "handoff", "reason": "要人工"}


@pytest.mark.parametrize(("name", "arguments"), [
    ("drop_tables", {}), ("", {}), (None, {}), ("get_customer", None), ("get_customer", "{}"), ("get_customer", []),
    ("get_customer", {"verbose": True}), ("request_refund", {}), ("request_refund", {**WISH, "reason": "x" * 100_000}),
    ("request_refund", {**WISH, "reason": "a\x00b"}), ("request_refund", {**WISH, "reason": "\ud800"}),
    ("request_refund", {**WISH, "reason": ["x"]}), ("request_refund", {**WISH, "amount": "much"}),
    ("request_refund", {**WISH, "amount": True}), ("request_refund", {**WISH, "amount": -1}),
    ("request_refund", {**WISH, "amount": "NaN"}), ("request_refund", {**WISH, "amount": float("inf")}),
    ("request_refund", {**WISH, "amount": "1.001"}), ("request_refund", {**WISH, "amount": "1e500"}),
    ("request_refund", {**WISH, "invoice_number": {"$ne": ""}}), ("escalate_to_human", {"reason": ""}),
    ("request_refund", {**WISH, "approved": True}), ("get_customer", {"x": object()}),
])
def test_a_wrong_call_is_one_line_for_the_model(shop: Connection, name: str, arguments: dict[str, Any]) -> None:
    text, is_error = call_tool(shop, name, arguments, ticket_id="T1")
    assert is_error
    assert text
    assert "\n" not in text
    assert len(text) < 400


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.sampled_from(["request_refund", "get_customer", "escalate_to_human"]),
       st.dictionaries(st.sampled_from(["invoice_number", "amount", "reason", "customer_id", "x"]),
                       st.none() | st.text() | st.floats() | st.integers() | st.lists(st.text(), max_size=2)))
def test_no_arguments_of_a_model_raise(shop: Connection, name: str, arguments: dict[str, Any]) -> None:
    text, _ = call_tool(shop, name, arguments, ticket_id="T1")
    assert isinstance(text, str)


def test_an_unknown_ticket_has_no_data(shop: Connection) -> None:
    assert call_tool(shop, "get_customer", {}, ticket_id="T999") == ("unknown ticket", True)


def test_tools_are_offered_without_any_way_to_name_a_customer() -> None:
    offered = {t["function"]["name"]: t["function"]["parameters"]["properties"] for t in business.TOOL_SCHEMAS}
    assert set(offered) == {"get_customer", "list_subscriptions", "list_invoices", "list_bank_connections",
                            "search_past_tickets", "request_refund", "escalate_to_human"}
    assert set().union(*offered.values()) == {"invoice_number", "amount", "reason"}


# the wish -------------------------------------------------------------------------------------------

def test_a_refund_request_is_checked_and_pays_nothing(shop: Connection) -> None:
    assert ask(shop, "request_refund", **WISH) == {"status": "pending", **REQUEST}
    assert ask(shop, "request_refund", invoice_number="INV-1", reason="全退")["amount"] == "298.00"
    assert refunds(shop) == []


@pytest.mark.parametrize(("changes", "words"), [
    ({"invoice_number": "INV-9"}, "no invoice"), ({"invoice_number": "INV-404"}, "no invoice"),
    ({"invoice_number": "INV-2"}, "not paid"), ({"amount": 298.01}, "at most 298.00"),
])
def test_a_refund_request_that_cannot_be_is_explained(shop: Connection, changes: dict[str, Any], words: str) -> None:
    text, is_error = call_tool(shop, "request_refund", {**WISH, **changes}, ticket_id="T1")
    assert is_error
    assert words in text


# the money ------------------------------------------------------------------------------------------

def test_an_approved_refund_is_paid_once_per_approval(shop: Connection, scope: TurnScope) -> None:
    first = pay(shop)
    assert (first["status"], first["amount"], first["invoice_number"]) == ("paid", "100.00", "INV-1")
    assert pay(shop) == first
    assert pay(shop, request={**REQUEST, "amount": "5.00"}) == first
    assert refunds(shop) == [("I1", Decimal("100.00"))]
    assert shop.execute("SELECT message_ids, turn_id, decided_by FROM biz.refunds").fetchone() == {
        "message_ids": ["M4"], "turn_id": "U3", "decided_by": "王芳"}


def test_a_rejected_refund_pays_nothing(shop: Connection) -> None:
    answer = business.decide_refund(shop, "T1", False, "王芳", "超过期限", request=REQUEST, approval_id="A1")
    assert (answer["status"], answer["reason"]) == ("rejected", "超过期限")
    assert refunds(shop) == []


def test_never_more_than_paid_minus_refunded_and_a_full_refund_closes_the_invoice(shop: Connection) -> None:
    assert pay(shop, "A1")["status"] == "paid"
    assert pay(shop, "A2", request={**REQUEST, "amount": "198.01"})["status"] == "refused"
    assert shop.execute("SELECT status FROM biz.invoices WHERE id = 'I1'").fetchone() == {"status": "paid"}
    assert pay(shop, "A3", request={**REQUEST, "amount": "198.00"})["status"] == "paid"
    assert shop.execute("SELECT status FROM biz.invoices WHERE id = 'I1'").fetchone() == {"status": "refunded"}
    assert "refunded already" in pay(shop, "A4")["reason"]
    assert sum(amount for _, amount in refunds(shop)) == Decimal("298.00")


@pytest.mark.parametrize("request_", [
    None, {}, {**REQUEST, "invoice_id": "I9"}, {**REQUEST, "invoice_id": "I2"}, {**REQUEST, "amount": "-5"},
    {**REQUEST, "amount": "NaN"}, {**REQUEST, "amount": "1e99"}, {**REQUEST, "amount": None}, {**REQUEST, "amount": "0.001"},
    {**REQUEST, "invoice_id": 7}, {**REQUEST, "amount": "x"},
])
def test_a_request_that_must_not_be_paid_is_refused_with_a_reason(shop: Connection, request_: dict[str, Any] | None) -> None:
    answer = pay(shop, request=request_)
    assert answer["status"] == "refused"
    assert answer["reason"]
    assert refunds(shop) == []


def test_a_turn_asked_again_about_the_same_messages_gets_the_first_refund(shop: Connection) -> None:
    with turn_scope(TurnScope("T1", "U1")):
        first = pay(shop, "A1")
    with turn_scope(TurnScope("T1", "U2")):
        assert pay(shop, "A2") == first
        assert ask(shop, "request_refund", **WISH) == first
    with turn_scope(TurnScope("T1", "U3")):
        assert pay(shop, "A3")["refund_id"] != first["refund_id"]
    assert len(refunds(shop)) == 2


def test_two_threads_that_pay_one_invoice_pay_it_once(shop: Connection, database_url: str) -> None:
    together, answers = threading.Barrier(2), []

    def decide(ticket_id: str, approval_id: str) -> None:
        with connect(database_url) as own:
            together.wait()
            answers.append(pay(own, approval_id, request={**REQUEST, "amount": "298.00"}, ticket_id=ticket_id))

    threads = [threading.Thread(target=decide, args=pair) for pair in (("T1", "A1"), ("T5", "A2"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(a["status"] for a in answers) == ["paid", "refused"]
    assert refunds(shop) == [("I1", Decimal("298.00"))]


def test_a_refund_waits_for_a_decision_that_is_not_committed_yet(shop: Connection, database_url: str) -> None:
    answers = []

    def second() -> None:
        with connect(database_url) as own:
            answers.append(pay(own, "A2", request={**REQUEST, "amount": "250.00"}))

    thread = threading.Thread(target=second)
    with shop.transaction():
        assert pay(shop, "A1")["status"] == "paid"
        thread.start()
        thread.join(0.3)
        assert answers == []
    thread.join()
    assert answers[0]["status"] == "refused"


def test_a_worker_that_lost_its_lease_pays_nothing_and_says_nothing(shop: Connection) -> None:
    with turn_scope(TurnScope("T1", "U3", lease_token="00000000-0000-0000-0000-000000000001")):
        for effect in (lambda: pay(shop), lambda: business.finish_ticket(shop, "T1", "refund", None, "好"),
                       lambda: business.escalate_to_human(shop, "T1", "r", "好")):
            with pytest.raises(LeaseLost):
                effect()
    assert refunds(shop) == []
    assert shop.execute("SELECT count(*) AS n FROM desk.outbox").fetchone() == {"n": 0}
    assert shop.execute("SELECT status FROM biz.tickets WHERE id = 'T1'").fetchone() == {"status": "open"}


# the answer -----------------------------------------------------------------------------------------

def test_the_first_reply_of_a_turn_stands_with_its_citations(shop: Connection, scope: TurnScope) -> None:
    reply = '请重新授权,见 [银行授权 \\[90 天\\]](http://127.0.0.1:8000/kb/KB-bank-001 "KB-bank-001") 与 [别处](https://x.example.com)。'
    assert business.finish_ticket(shop, "T1", "technical", "KB-bank-001", reply) == reply
    assert business.finish_ticket(shop, "T1", "technical", "KB-bank-001", "另一个说法") == reply
    rows = shop.execute("SELECT idempotency_key, kind, body, turn_id, citations FROM desk.outbox").fetchall()
    assert rows == [{"idempotency_key": "turn:U3:reply", "kind": "reply", "body": reply, "turn_id": "U3", "citations": [
        {"id": "KB-bank-001", "title": "银行授权 [90 天]", "url": "http://127.0.0.1:8000/kb/KB-bank-001"}]}]
    assert shop.execute("SELECT category, resolution_kb FROM biz.tickets WHERE id = 'T1'").fetchone() == {
        "category": "technical", "resolution_kb": "KB-bank-001"}


def test_a_handoff_gives_the_ticket_to_a_human_with_the_reason(shop: Connection, scope: TurnScope) -> None:
    assert business.escalate_to_human(shop, "T1", "要求人工", "已转人工同事") == "已转人工同事"
    assert shop.execute("SELECT status, handoff_reason FROM biz.tickets WHERE id = 'T1'").fetchone() == {
        "status": "escalated", "handoff_reason": "要求人工"}
    assert shop.execute("SELECT kind FROM desk.outbox").fetchone() == {"kind": "handoff"}


def test_without_a_turn_each_reply_is_its_own(shop: Connection) -> None:
    assert business.finish_ticket(shop, "T1", "other", None, "一") == "一"
    assert business.finish_ticket(shop, "T1", "other", None, "二") == "二"


def test_an_effect_on_an_unknown_ticket_is_refused(shop: Connection) -> None:
    with pytest.raises(NotFound):
        business.finish_ticket(shop, "T999", "other", None, "一")


def test_a_ticket_opened_here_is_tied_to_the_addresss_account_and_has_a_lease_row(shop: Connection) -> None:
    known = business.create_ticket(shop, "Li@Example.com", "E3001", "又失败了")
    unknown = business.create_ticket(shop, "who@example.com", "", "hi")
    assert ask(shop, "get_customer", known)["id"] == "C0001"
    assert call_tool(shop, "get_customer", {}, ticket_id=unknown)[1]
    assert shop.execute("SELECT count(*) AS n FROM desk.leases WHERE ticket_id = ANY(%s)", ([known, unknown],)).fetchone() == {"n": 2}


def test_an_effect_inside_the_callers_transaction_is_undone_with_it(shop: Connection, database_url: str) -> None:
    def pay_and_fail() -> None:
        with Database(database_url) as db, db.transaction() as own:
            assert pay(own)["status"] == "paid"
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        pay_and_fail()
    assert refunds(shop) == []
