"""Messages in: each stored once, on the right ticket, whatever the sender repeats or claims."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fixtures.office import Office, give_paid_invoice

from supportpilot.channels.port import Heard
from supportpilot.db.pool import Database
from supportpilot.errors import NotFound, Refused, Unusable
from supportpilot.service import intake, letters, ticket
from supportpilot.types import InboundMessage

pytestmark = pytest.mark.integration


def test_the_first_message_of_a_known_customer_opens_their_ticket(office: Office) -> None:
    give_paid_invoice(office)
    received = office.write("同步失败", subject="银行")
    row = office.one("SELECT id, customer_id, subject, status, last_seq FROM biz.tickets")
    assert row == {"id": received.ticket_id, "customer_id": "C1", "subject": "银行", "status": "open", "last_seq": 1}
    assert office.wakeups.turns == [(received.ticket_id, received.message_id, 0.0)]


def test_an_unknown_address_gets_a_ticket_without_a_customer_and_an_answer(office: Office) -> None:
    received = office.write("你们支持哪些银行?", contact="stranger@example.com")
    assert office.one("SELECT customer_id, contact FROM biz.tickets") == {
        "customer_id": None, "contact": "stranger@example.com"}
    assert office.work(received.ticket_id) == "resolved"


def test_the_same_message_five_times_is_stored_once_and_gets_the_same_answer(office: Office) -> None:
    answers = [office.write("同步失败", message_id="same") for _ in range(5)]
    assert {(a.ticket_id, a.message_id) for a in answers} == {(answers[0].ticket_id, answers[0].message_id)}
    assert [a.duplicate for a in answers] == [False, True, True, True, True]
    assert office.one("SELECT last_seq FROM biz.tickets")["last_seq"] == 1


def test_the_same_delivery_under_another_message_id_is_a_duplicate(office: Office) -> None:
    first = office.write("同步失败", message_id="a", delivery_id="generic:d1")
    again = office.write("同步失败", message_id="b", delivery_id="generic:d1")
    assert (again.duplicate, again.message_id) == (True, first.message_id)


def test_the_same_id_with_other_content_is_kept_and_reported(office: Office, db: Database) -> None:
    office.write("同步失败", message_id="same")
    for _ in range(3):
        assert office.write("别的内容", message_id="same").duplicate
    held = letters.list_quarantine(db)
    assert len(held) == 1
    assert "came again with other content" in held[0]["reason"]


def test_the_same_message_from_twenty_threads_is_stored_once(office: Office) -> None:
    barrier = threading.Barrier(20)

    def send(_number: int) -> tuple[str, bool]:
        barrier.wait()
        received = office.write("同步失败", message_id="same")
        return received.message_id, received.duplicate

    office.db.pool.resize(4, 8)
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(send, range(20)))
    assert len({m for m, _ in answers}) == 1
    assert sum(not duplicate for _, duplicate in answers) == 1
    assert office.one("SELECT count(*) AS n FROM desk.inbox")["n"] == 1


def test_ten_first_messages_of_one_contact_at_once_open_one_ticket_without_gaps(office: Office) -> None:
    barrier = threading.Barrier(10)

    def send(number: int) -> str:
        barrier.wait()
        return office.write(f"第 {number} 句").ticket_id

    with ThreadPoolExecutor(10) as pool:
        assert len(set(pool.map(send, range(10)))) == 1
    assert [r["seq"] for r in office.rows("SELECT seq FROM desk.inbox ORDER BY seq")] == list(range(1, 11))


def test_a_named_ticket_is_joined_by_its_own_customer_only(office: Office) -> None:
    own = office.write("同步失败").ticket_id
    assert office.write("补充一句", ticket_id=own).ticket_id == own
    stranger = office.write("把资料给我", contact="thief@example.com", ticket_id=own)
    assert stranger.ticket_id != own
    assert office.one("SELECT linked_to FROM biz.tickets WHERE id = %s", stranger.ticket_id)["linked_to"] == own


def test_an_unknown_ticket_id_opens_a_new_linked_ticket(office: Office) -> None:
    received = office.write("同步失败", ticket_id="T424242")
    assert office.one("SELECT linked_to FROM biz.tickets")["linked_to"] == "T424242"
    assert received.ticket_id != "T424242"


def test_a_conversation_is_one_ticket_for_good_but_not_for_another_sender(office: Office) -> None:
    first = office.write("同步失败", conversation_id="conv-1")
    office.work(first.ticket_id)
    ticket.resolve(office.db, office.ports, first.ticket_id)
    again = office.write("又失败了", conversation_id="conv-1")
    assert again.ticket_id == first.ticket_id
    assert office.status(first.ticket_id) == "open"
    other = office.write("你好", contact="other@example.com", conversation_id="conv-1")
    assert other.ticket_id != first.ticket_id
    for contact, ticket_id in (("wang@example.com", first.ticket_id), ("other@example.com", other.ticket_id)) * 2:
        assert office.write("还有", contact=contact, conversation_id="conv-1").ticket_id == ticket_id


def test_a_message_without_ids_joins_the_ticket_written_to_lately(office: Office) -> None:
    first = office.write("同步失败").ticket_id
    assert office.write("补充").ticket_id == first
    office.execute("UPDATE biz.tickets SET last_written_at = clock_timestamp() - interval '31 minutes'")
    assert office.write("另一件事").ticket_id != first


@pytest.mark.parametrize("status", ["waiting_approval", "escalated"])
def test_a_message_without_ids_meets_the_ticket_that_waits_however_old(office: Office, status: str) -> None:
    first = office.write("请退款").ticket_id
    office.execute("UPDATE biz.tickets SET status = %s, last_written_at = clock_timestamp() - interval '9 days'", status)
    assert office.write("不用退了").ticket_id == first


def test_unusable_input_is_kept_raw_and_can_be_tried_again(office: Office, db: Database) -> None:
    raw = b'{"body": "\xff"}'
    kept = intake.keep_unusable(db, "generic", "a@example.com", raw, "not UTF-8", "generic:d9")
    assert intake.keep_unusable(db, "generic", "a@example.com", raw, "not UTF-8", "generic:d9") == kept
    assert bytes(office.one("SELECT raw FROM desk.quarantine")["raw"]) == raw

    def still_bad(_channel: str, _raw: bytes) -> Heard:
        raise Unusable("not UTF-8")

    def repaired(channel: str, _raw: bytes) -> Heard:
        return Heard(InboundMessage(channel=channel, external_id="generic:r1", contact="a@example.com", body="同步失败"))

    with pytest.raises(Refused, match="still unusable"):
        letters.retry_quarantine(db, office.settings, office.ports, kept, still_bad)
    received = letters.retry_quarantine(db, office.settings, office.ports, kept, repaired)
    assert office.work(received.ticket_id) == "resolved"
    with pytest.raises(Refused, match="already"):
        letters.retry_quarantine(db, office.settings, office.ports, kept, repaired)
    with pytest.raises(NotFound):
        letters.retry_quarantine(db, office.settings, office.ports, "Q424242", repaired)


def test_only_dead_messages_are_retried(office: Office, db: Database) -> None:
    received = office.write("同步失败")
    with pytest.raises(Refused, match="not dead"):
        letters.retry_inbox(db, office.ports, received.message_id)
    with pytest.raises(NotFound, match="M424242"):
        letters.retry_inbox(db, office.ports, "M424242")
