"""The customer's link and what stands behind it, over a real Postgres: who gets in, what is shown, what is written once."""

from __future__ import annotations

import json

import pytest
from fixtures.office import CONTACT, Office, give_paid_invoice, refund_llm

from supportpilot.db import outbox
from supportpilot.db.pool import Database
from supportpilot.desk.outbox import SendResult
from supportpilot.errors import NotFound, Unusable
from supportpilot.service import customer, customer_page, delivery, intake, links, ticket
from supportpilot.service.customer_page import Page, TooMany
from supportpilot.types import InboundMessage, Received

pytestmark = pytest.mark.integration

SECRET = "a-secret-of-the-tests-0123456789abcdef"
KEY = "form-key-of-the-tests-1"


@pytest.fixture
def office(db: Database) -> Office:
    return Office(db, customer_link_secret=SECRET)


def token(office: Office, ticket_id: str) -> str:
    return links.link_of(office.db, office.settings, ticket_id).rsplit("/", 1)[1]


def page(office: Office, ticket_id: str) -> Page:
    return customer_page.look(office.db, office.settings, token(office, ticket_id))


def said(office: Office, ticket_id: str) -> list[tuple[str, str]]:
    return [(line.speaker, line.body) for line in page(office, ticket_id).lines]


def put(office: Office, ticket_id: str, body: str = "再问一句", key: str = KEY) -> Received:
    return customer_page.write(office.db, office.settings, office.ports, token(office, ticket_id), {"key": key, "body": body})


def test_a_callback_carries_the_link_to_the_page(office: Office) -> None:
    ticket_id = office.write("同步失败").ticket_id
    office.work(ticket_id)
    bodies = []

    def send(settings, row, now):
        bodies.append(json.loads(json.dumps(delivery.callback_body(settings, row))))
        return SendResult("accept")
    delivery.deliver(office.db, office.settings, office.ports, office.wakeups.replies.pop(0), send)
    assert bodies[0]["page"] == links.link_of(office.db, office.settings, ticket_id)
    assert bodies[0]["page"].startswith("http://127.0.0.1:8000/t/" + ticket_id)


def test_without_a_secret_callbacks_say_that_there_is_no_page(db: Database) -> None:
    office = Office(db)
    ticket_id = office.write("同步失败").ticket_id
    office.work(ticket_id)
    with db.transaction() as conn:
        row = outbox.lock(conn, office.wakeups.replies[0])
    assert row is not None
    assert delivery.callback_body(office.settings, row)["page"] is None
    with pytest.raises(NotFound, match="no such page"):
        customer_page.look(db, office.settings, ticket_id + "-" + "a" * 32)


def test_a_token_of_another_ticket_a_wrong_one_and_an_old_one_open_nothing(office: Office) -> None:
    mine, other = office.write("一", contact="a@example.com").ticket_id, office.write("二", contact="b@example.com").ticket_id
    good = token(office, mine)
    assert page(office, mine).opened.ticket_id == mine
    wrong = [other + good[len(other):], good[:-1] + ("a" if good[-1] != "a" else "b"), good + "a", good.upper(), "T999999" + good[7:]]
    for text in wrong:
        with pytest.raises(NotFound, match=r"^no such page$"):
            customer_page.look(office.db, office.settings, text)
    office.execute("UPDATE biz.tickets SET last_written_at = clock_timestamp() - interval '181 days', "
                   "created_at = clock_timestamp() - interval '400 days' WHERE id = %s", mine)
    with pytest.raises(NotFound, match=r"^no such page$"):
        customer_page.look(office.db, office.settings, good)
    office.execute("UPDATE biz.tickets SET last_written_at = clock_timestamp() - interval '179 days' WHERE id = %s", mine)
    assert page(office, mine).lines


def test_a_renewed_link_opens_and_the_old_one_does_not(office: Office) -> None:
    ticket_id = office.write("同步失败").ticket_id
    old = token(office, ticket_id)
    new = links.renew(office.db, office.settings, ticket_id, "小王").rsplit("/", 1)[1]
    assert new != old
    assert new == token(office, ticket_id)
    with pytest.raises(NotFound):
        customer_page.look(office.db, office.settings, old)
    assert customer_page.look(office.db, office.settings, new).lines
    assert office.one("SELECT actor, action FROM desk.audit WHERE ticket_id = %s", ticket_id) == {
        "actor": "小王", "action": "ticket.link_renewed"}


def test_a_ticket_from_before_links_has_one_that_can_be_renewed(office: Office) -> None:
    ticket_id = office.write("同步失败").ticket_id
    office.execute("UPDATE biz.tickets SET link_key = NULL WHERE id = %s", ticket_id)
    old = token(office, ticket_id)
    assert customer_page.look(office.db, office.settings, old).lines
    links.renew(office.db, office.settings, ticket_id, "小王")
    with pytest.raises(NotFound):
        customer_page.look(office.db, office.settings, old)


def test_a_ticket_number_that_was_given_out_again_is_not_opened_by_an_old_link(office: Office) -> None:
    ticket_id = office.write("同步失败", contact="a@example.com").ticket_id
    old = token(office, ticket_id)
    office.execute("DELETE FROM desk.inbox")
    office.execute("DELETE FROM desk.leases")
    office.execute("DELETE FROM biz.tickets")
    office.execute("SELECT setval('biz.ticket_number', %s, false)", int(ticket_id[1:]))
    assert office.write("别人的事", contact="b@example.com").ticket_id == ticket_id
    with pytest.raises(NotFound):
        customer_page.look(office.db, office.settings, old)


def test_the_customer_sees_words_and_sent_replies_and_nothing_else(office: Office) -> None:
    ticket_id = office.write("同步失败").ticket_id
    assert said(office, ticket_id) == [("customer", "同步失败")]
    office.work(ticket_id)
    assert said(office, ticket_id) == [("customer", "同步失败")]         # not sent yet
    office.deliver()
    assert [speaker for speaker, _ in said(office, ticket_id)] == ["customer", "agent"]
    intake.receive(office.db, office.settings, office.ports, InboundMessage(
        channel="generic", external_id="generic:bounce", contact=CONTACT, body="自动回复", author="automatic", ticket_id=ticket_id))
    ticket.reply(office.db, office.ports, ticket_id, "我来跟进", "小王")
    office.deliver()
    assert [speaker for speaker, _ in said(office, ticket_id)] == ["customer", "agent", "human"]
    assert [line.author for line in page(office, ticket_id).lines] == ["", "", "小王"]


def test_a_listed_colleague_of_the_customers_is_named(office: Office) -> None:
    ticket_id = office.write("同步失败", contact_name="王芳").ticket_id
    office.write("补充一点", contact_name="王芳", ticket_id=ticket_id)
    intake.receive(office.db, office.settings, office.ports, InboundMessage(
        channel="email", external_id="email:cc", contact="cc@example.com", contact_name="李会计", body="我是抄送的", joins=ticket_id))
    assert [(line.author, line.body) for line in page(office, ticket_id).lines] == [
        ("", "同步失败"), ("", "补充一点"), ("李会计", "我是抄送的")]


def test_a_human_of_the_helpdesk_is_seen_once(office: Office) -> None:
    ticket_id = office.write("同步失败").ticket_id
    intake.receive(office.db, office.settings, office.ports, InboundMessage(
        channel="chatwoot", external_id="chatwoot:1:9", contact=CONTACT, contact_name="小李", body="我来看看", author="human", ticket_id=ticket_id))
    assert said(office, ticket_id) == [("customer", "同步失败"), ("human", "我来看看")]


@pytest.mark.parametrize("event", ["retry", "lose", "give_up", "accept"])
def test_a_reply_is_on_the_page_once_its_first_attempt_is_over(office: Office, event: str) -> None:
    ticket_id = office.write("同步失败").ticket_id
    office.work(ticket_id)
    delivery.deliver(office.db, office.settings, office.ports, office.wakeups.replies.pop(0),
                     lambda *_: SendResult(event, None if event == "accept" else "away"))
    assert len(said(office, ticket_id)) == 2


def test_what_a_humans_takeover_keeps_back_is_not_shown(office: Office) -> None:
    ticket_id = office.write("同步失败").ticket_id
    office.work(ticket_id)
    delivery.deliver(office.db, office.settings, office.ports, office.wakeups.replies[0], lambda *_: SendResult("retry", "away"))
    assert len(said(office, ticket_id)) == 2
    ticket.reply(office.db, office.ports, ticket_id, "我来跟进", "小王")
    assert said(office, ticket_id) == [("customer", "同步失败")]        # the answer is withheld, the human's is not sent yet
    office.execute("UPDATE desk.outbox SET next_attempt_at = clock_timestamp()")
    office.deliver()
    assert said(office, ticket_id) == [("customer", "同步失败"), ("human", "我来跟进")]
    assert office.one("SELECT status FROM desk.outbox WHERE kind = 'reply'")["status"] == "withheld"


def test_the_state_is_told_as_it_changes(db: Database) -> None:
    office = Office(db, refund_llm(), customer_link_secret=SECRET)
    give_paid_invoice(office)
    ticket_id = office.write("请退款 INV-1").ticket_id
    seen = [page(office, ticket_id)]
    office.work(ticket_id)
    office.deliver()
    seen.append(page(office, ticket_id))
    ticket.reply(office.db, office.ports, ticket_id, "我来跟进", "小王")
    seen.append(page(office, ticket_id))
    assert [one.state for one in seen] == ["working", "refund", "human"]
    assert len({one.pulse for one in seen}) == 3


def test_an_answered_ticket_says_so_when_the_answer_is_there_and_a_resolved_one_is_closed(office: Office) -> None:
    ticket_id = office.write("同步失败").ticket_id
    office.work(ticket_id)
    assert page(office, ticket_id).state == "working"
    office.deliver()
    assert page(office, ticket_id).state == "answered"
    ticket.resolve(office.db, office.ports, ticket_id)
    assert page(office, ticket_id).state == "closed"
    put(office, ticket_id)
    assert page(office, ticket_id).state == "working"


def test_a_message_of_the_page_joins_the_ticket_and_the_same_form_writes_once(office: Office) -> None:
    ticket_id = office.write("同步失败").ticket_id
    office.work(ticket_id)
    office.deliver()
    first, again = put(office, ticket_id, "再问\r\n一句"), put(office, ticket_id, "再问\n一句")
    assert (first.ticket_id, first.duplicate, again.duplicate, again.message_id) == (ticket_id, False, True, first.message_id)
    row = office.one("SELECT channel, author, body FROM desk.inbox WHERE id = %s", first.message_id)
    assert row == {"channel": "page", "author": "customer", "body": "再问\n一句"}
    assert put(office, ticket_id, "改过的话").duplicate is False          # the same form, but other words
    assert put(office, ticket_id, "再问\n一句", key="another-form-key-1").duplicate is False
    assert office.rows("SELECT 1 FROM desk.quarantine") == []
    assert office.rows("SELECT id FROM biz.tickets") == [{"id": ticket_id}]


def test_the_answer_to_a_page_message_goes_out_by_the_tickets_own_channel(office: Office) -> None:
    ticket_id = office.write("同步失败", message_id="m-1", conversation_id="conv-1").ticket_id
    put(office, ticket_id)
    office.work(ticket_id)
    with office.db.transaction() as conn:
        row = outbox.lock(conn, office.wakeups.replies[-1])
    assert row is not None
    assert (row.channel, row.conversation_id, row.in_reply_to) == ("generic", "conv-1", "generic:m-1")


@pytest.mark.parametrize(("body", "why"), [("", "empty"), (" \r\n\t ", "empty"), ("\x00", "empty"), ("长" * 101, "long")])
def test_what_cannot_be_a_message_is_refused(db: Database, body: str, why: str) -> None:
    office = Office(db, customer_link_secret=SECRET, max_message_chars=100)
    ticket_id = office.write("同步失败").ticket_id
    with pytest.raises(Unusable, match=f"^{why}$"):
        put(office, ticket_id, body)
    assert not put(office, ticket_id, "长" * 98 + "\r\n长").duplicate      # a line's end is one character


def test_more_than_a_person_writes_is_refused_until_a_minute_has_passed(office: Office) -> None:
    ticket_id = office.write("同步失败").ticket_id
    for number in range(6):
        put(office, ticket_id, f"第{number}句", key=f"form-key-number-{number}")
    with pytest.raises(TooMany):
        put(office, ticket_id, "还有", key="form-key-number-7")
    assert put(office, ticket_id, "第5句", key="form-key-number-5").duplicate      # a reload is no new message
    office.execute("UPDATE desk.inbox SET received_at = received_at - interval '61 seconds'")
    assert not put(office, ticket_id, "还有", key="form-key-number-7").duplicate


def test_an_erased_tickets_page_is_gone_and_a_form_on_its_way_opens_nothing(office: Office) -> None:
    ticket_id = office.write("同步失败").ticket_id
    good = token(office, ticket_id)
    opened = customer_page.look(office.db, office.settings, good).opened
    message = customer_page._message(opened, KEY, "迟到的话")
    customer.erase(office.db, CONTACT, "小王")
    with pytest.raises(NotFound, match=r"^no such page$"):
        customer_page.look(office.db, office.settings, good)
    with pytest.raises(NotFound, match="no such page"):
        customer_page.write(office.db, office.settings, office.ports, good, {"key": KEY, "body": "再来"})
    with pytest.raises(NotFound, match="was erased"):       # it was checked before the erasure, and is stored after it
        intake.receive(office.db, office.settings, office.ports, message)
    assert office.rows("SELECT id FROM biz.tickets") == []
