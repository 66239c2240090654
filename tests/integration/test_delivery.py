"""Replies out: in order, under one key, never lost silently, never sent twice without a reason."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from fixtures.office import Office
from standardwebhooks import Webhook

from supportpilot.config import Settings
from supportpilot.db.outbox import OutboxRow
from supportpilot.db.pool import Database
from supportpilot.desk import outbox as desk
from supportpilot.desk.outbox import SendResult
from supportpilot.desk.rules import DELIVERY_MAX_ATTEMPTS
from supportpilot.errors import NotFound, Refused
from supportpilot.service import delivery, letters, ticket, upkeep

pytestmark = pytest.mark.integration

SECRET = "whsec_c3VwcG9ydHBpbG90LXRlc3Q="


class Receiver:
    """A sender's callback: keeps what it got, answers as it is told."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(outer.statuses.pop(0) if outer.statuses else 200)
                self.end_headers()

            def log_message(self, *_args: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/callback"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    running = Receiver()
    yield running
    running.stop()


def answered(db: Database, receiver: Receiver | None = None, **settings: object) -> tuple[Office, str]:
    """Bring one answered ticket with an undelivered reply."""
    where = {"reply_callback_url": receiver.url, "reply_callback_secret": SECRET} if receiver else {}
    office = Office(db, **{**where, **settings})
    received = office.write("同步失败 E3001", message_id="m-17", conversation_id="conv-9")
    office.work(received.ticket_id)
    return office, received.ticket_id


def statuses(office: Office) -> list[str]:
    return [r["status"] for r in office.rows("SELECT status FROM desk.outbox ORDER BY position")]


def test_the_callback_is_signed_and_carries_what_the_sender_needs(db: Database, receiver: Receiver) -> None:
    office, ticket_id = answered(db, receiver)
    assert office.deliver() == ["accepted"]
    headers, body = receiver.got[0]
    Webhook(SECRET).verify(body, headers)
    key = office.one("SELECT idempotency_key FROM desk.outbox")["idempotency_key"]
    assert headers["webhook-id"] == key
    sent = json.loads(body)
    assert sent["ticket_id"] == ticket_id
    assert (sent["conversation_id"], sent["in_reply_to"], sent["kind"]) == ("conv-9", "m-17", "reply")
    assert sent["citations"] == [{"id": "KB-bank-001", "title": "银行流水同步失败 E3001",
                                  "url": "http://127.0.0.1:8000/kb/KB-bank-001"}]
    assert "/kb/KB-bank-001" in sent["body"]


def test_a_callback_that_fails_is_tried_again_under_the_same_key(db: Database, receiver: Receiver) -> None:
    office, _ = answered(db, receiver)
    receiver.statuses = [503]
    assert office.deliver() == ["queued: HTTP 503 from the callback"]
    office.execute("UPDATE desk.outbox SET next_attempt_at = clock_timestamp()")
    assert upkeep.sweep(db, office.ports, office.settings)["replies"] == 0
    office.execute("UPDATE desk.outbox SET next_attempt_at = clock_timestamp() - interval '1 minute'")
    assert upkeep.sweep(db, office.ports, office.settings)["replies"] == 1
    assert office.deliver() == ["accepted"]
    assert len({h["webhook-id"] for h, _ in receiver.got}) == 1


def test_a_reply_whose_deliverers_all_died_brings_a_human(db: Database) -> None:
    office, ticket_id = answered(db)
    reply_id = office.one("SELECT id FROM desk.outbox")["id"]
    office.execute("UPDATE desk.outbox SET status = 'sending', attempts = %s, claimed_until = clock_timestamp() - interval '1 second'",
                   DELIVERY_MAX_ATTEMPTS)
    assert delivery.deliver(db, office.settings, office.ports, reply_id) == "given up"
    assert (statuses(office), office.status(ticket_id)) == (["failed"], "escalated")
    assert office.one("SELECT handoff_reason FROM biz.tickets")["handoff_reason"] == (
        f"reply {reply_id} could not be sent: every attempt ended with its deliverer")
    assert [r["kind"] for r in office.rows("SELECT kind FROM desk.notifications")] == ["handoff"]


def test_a_retry_keeps_that_a_reply_may_have_arrived_but_not_how_often(db: Database) -> None:
    office, _ = answered(db)
    for unanswered, kept in ((0, 0), (1, 1), (2, 1)):       # a mail that left twice without an answer may leave once more
        office.execute("UPDATE desk.outbox SET status = 'failed', attempts = 79, unanswered = %s", unanswered)
        letters.retry_outbox(db, office.ports, office.one("SELECT id FROM desk.outbox")["id"])
        assert office.one("SELECT status, attempts, unanswered FROM desk.outbox") == {
            "status": "queued", "attempts": 0, "unanswered": kept}


def test_a_reply_that_never_works_ends_loudly_and_can_be_retried(db: Database, receiver: Receiver) -> None:
    office, _ = answered(db, receiver)
    office.execute("UPDATE desk.outbox SET attempts = 11")
    receiver.statuses = [500]
    office.deliver()
    assert statuses(office) == ["failed"]
    dead = letters.list_outbox(db, dead=True)
    assert dead[0]["last_error"] == "HTTP 500 from the callback"
    letters.retry_outbox(db, office.ports, dead[0]["id"])
    assert office.deliver() == ["accepted"]
    with pytest.raises(Refused, match="only failed or withheld"):
        letters.retry_outbox(db, office.ports, dead[0]["id"])
    with pytest.raises(NotFound):
        letters.retry_outbox(db, office.ports, "R424242")


def test_a_gone_receiver_is_given_up_at_once(db: Database, receiver: Receiver) -> None:
    office, _ = answered(db, receiver)
    receiver.statuses = [410]
    office.deliver()
    assert statuses(office) == ["failed"]


def test_no_connection_waits_for_the_next_attempt(db: Database) -> None:
    office, _ = answered(db, reply_callback_url="http://127.0.0.1:9/none")
    assert office.deliver()[0].startswith("queued: no connection")


def test_without_a_callback_url_the_reply_is_kept_and_counts_as_accepted(db: Database) -> None:
    office, _ = answered(db)
    office.deliver()
    assert statuses(office) == ["accepted"]


def test_a_deliverer_that_dies_in_mid_send_leaves_unknown_and_the_key_stays(db: Database) -> None:
    office, _ = answered(db)
    reply_id = office.wakeups.replies[0]
    keys: list[str] = []

    def dies(_settings: Settings, row: OutboxRow, _now: int) -> SendResult:
        keys.append(row.idempotency_key)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        delivery.deliver(db, office.settings, office.ports, reply_id, dies)
    assert delivery.deliver(db, office.settings, office.ports, reply_id) == "not due, or being sent by somebody"
    office.execute("UPDATE desk.outbox SET claimed_until = clock_timestamp() - interval '1 second'")

    def works(_settings: Settings, row: OutboxRow, _now: int) -> SendResult:
        keys.append(row.idempotency_key)
        assert row.status == "sending"
        return SendResult("accept")

    assert delivery.deliver(db, office.settings, office.ports, reply_id, works) == "accepted"
    assert len(set(keys)) == 1


def test_ten_deliverers_at_once_send_once(db: Database, receiver: Receiver) -> None:
    office, _ = answered(db, receiver)
    reply_id = office.wakeups.replies[0]
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda _: delivery.deliver(db, office.settings, office.ports, reply_id), range(10)))
    assert len(receiver.got) == 1
    assert statuses(office) == ["accepted"]


def test_a_ticket_is_delivered_strictly_in_order(db: Database, receiver: Receiver) -> None:
    office, ticket_id = answered(db, receiver)
    ticket.reply(db, office.ports, ticket_id, "第二条,人工", by="李娜", command_id="c1")
    ticket.reply(db, office.ports, ticket_id, "第二条,人工", by="李娜", command_id="c1")
    last = office.rows("SELECT id FROM desk.outbox ORDER BY position")[-1]["id"]
    office.execute("UPDATE biz.tickets SET taken_over_seq = 0")
    assert delivery.deliver(db, office.settings, office.ports, last) == "an earlier row of the ticket goes first"
    office.deliver()
    assert [json.loads(b)["kind"] for _, b in receiver.got] == ["reply", "human"]


def test_a_failed_row_does_not_block_the_ones_behind_it(db: Database, receiver: Receiver) -> None:
    office, ticket_id = answered(db, receiver)
    receiver.statuses = [410]
    ticket.reply(db, office.ports, ticket_id, "人工回复", by="李娜")
    office.execute("UPDATE biz.tickets SET taken_over_seq = 0")
    office.deliver()
    assert statuses(office) == ["failed", "accepted"]


def test_a_reply_withheld_for_a_human_is_sent_if_the_ticket_comes_back_without_a_word(db: Database) -> None:
    office, ticket_id = answered(db)
    office.execute("UPDATE biz.tickets SET status = 'escalated', taken_over_seq = last_seq + 1, last_seq = last_seq + 1")
    office.deliver()
    assert statuses(office) == ["withheld"]
    ticket.release(db, office.ports, ticket_id)
    office.deliver()
    assert statuses(office) == ["accepted"]


def test_a_withheld_reply_that_an_operator_retries_is_sent(db: Database) -> None:
    office, ticket_id = answered(db)
    ticket.reply(db, office.ports, ticket_id, "人工回复", by="李娜")
    office.deliver()
    assert statuses(office) == ["withheld", "accepted"]
    reply_id = office.rows("SELECT id FROM desk.outbox ORDER BY position")[0]["id"]
    letters.retry_outbox(db, office.ports, reply_id)
    office.deliver()
    assert statuses(office) == ["accepted", "accepted"]


def test_an_answer_by_drops_does_not_outlast_the_claim(db: Database) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        def drip() -> None:
            peer, _ = door.accept()
            with peer, contextlib.suppress(OSError):
                while True:
                    peer.sendall(b"H")
                    time.sleep(0.1)

        threading.Thread(target=drip, daemon=True).start()
        office, _ = answered(db, reply_callback_url=f"http://127.0.0.1:{door.getsockname()[1]}/", reply_timeout_seconds=0.5)
        started = time.monotonic()
        assert office.deliver() == ["unknown: no answer: TimeoutError"]
        assert time.monotonic() - started < 3


def test_a_claim_that_would_end_in_mid_send_is_not_used(db: Database) -> None:
    office, _ = answered(db, reply_timeout_seconds=10)
    with db.transaction() as conn:
        claimed = desk.claim(conn, office.wakeups.replies[0], 9)
        assert isinstance(claimed, desk.Claimed)
        assert desk.may_still_send(conn, claimed, 8)
        assert not desk.may_still_send(conn, claimed, 10)


def test_a_sender_with_a_mistake_ends_loudly_and_lets_the_next_row_pass(db: Database) -> None:
    office, ticket_id = answered(db)
    ticket.reply(db, office.ports, ticket_id, "人工回复", by="李娜")
    office.execute("UPDATE biz.tickets SET taken_over_seq = 0")
    reply_id = office.wakeups.replies[0]
    for _ in range(DELIVERY_MAX_ATTEMPTS):
        office.execute("UPDATE desk.outbox SET next_attempt_at = clock_timestamp()")
        said = delivery.deliver(db, office.settings, office.ports, reply_id, lambda *_: SendResult(str(1 / 0)))
    assert said == "failed: unexpected ZeroDivisionError while sending"
    office.deliver()
    assert statuses(office) == ["failed", "accepted"]


def test_a_row_whose_deliverers_all_die_is_given_up(db: Database) -> None:
    office, _ = answered(db)
    reply_id = office.wakeups.replies[0]
    for _ in range(DELIVERY_MAX_ATTEMPTS):
        with db.transaction() as conn:
            assert isinstance(desk.claim(conn, reply_id, 60), desk.Claimed)
            conn.execute("UPDATE desk.outbox SET claimed_until = clock_timestamp()")
    assert delivery.deliver(db, office.settings, office.ports, reply_id) == "given up"
    assert statuses(office) == ["failed"]
