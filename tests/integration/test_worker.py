"""Messages through real worker processes: Postgres, Redis, Celery and the offline model over HTTP."""

from __future__ import annotations

import itertools
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.llm import OfflineLLM
from fixtures.redis import RedisServer, running_redis
from fixtures.worker import Workers, wait_for

from supportpilot.config import Settings
from supportpilot.db.pool import Database
from supportpilot.service import intake, ticket
from supportpilot.types import InboundMessage, Ports, Received
from worker.publish import Publisher, send_now

pytestmark = pytest.mark.integration

QUESTION = "银行流水同步失败,提示 E3001,应该怎么办?"
_ids = itertools.count(1)


class Customer:
    """Somebody who writes through the terminal channel and waits for answers."""

    def __init__(self, db: Database, settings: Settings, ports: Ports) -> None:
        self.db, self.settings, self.ports = db, settings, ports

    def writes(self, body: str = QUESTION, ticket_id: str | None = None) -> Received:
        message = InboundMessage(
            channel="terminal", external_id=f"m{next(_ids)}", contact="wugang@example.com", body=body, ticket_id=ticket_id,
        )
        return intake.receive(self.db, self.settings, self.ports, message)

    def replies(self, ticket_id: str) -> list[dict[str, Any]]:
        with self.db.connection() as conn:
            found = conn.execute(
                "SELECT status, body FROM desk.outbox WHERE ticket_id = %s AND kind = 'reply' ORDER BY id", (ticket_id,))
            return list(found)

    def is_answered(self, ticket_id: str) -> bool:
        accepted = [r for r in self.replies(ticket_id) if r["status"] == "accepted"]
        return bool(accepted) and ticket.show(self.db, self.settings, ticket_id)["status"] == "answered"


@pytest.fixture
def customer(seeded_db: Database, stack_settings: Settings) -> Customer:
    publisher = Publisher(stack_settings)
    return Customer(seeded_db, stack_settings, publisher.ports())


def test_a_message_reaches_an_answered_ticket(customer: Customer, workers: Workers):
    workers.start()
    got = customer.writes()
    wait_for(lambda: customer.is_answered(got.ticket_id), what="an answer")
    replies = customer.replies(got.ticket_id)
    assert len(replies) == 1
    assert "KB-bank-001" in replies[0]["body"]


def test_what_the_worker_logs_names_the_task_and_no_word_of_the_customer(customer: Customer, workers: Workers):
    workers.start()
    got = customer.writes()
    wait_for(lambda: customer.is_answered(got.ticket_id), what="an answer")
    text = wait_for(lambda: "reply.deliver" in workers.text() and workers.text(), what="the log")
    assert re.search(r"done.*ticket\.handle_message", text)
    assert got.ticket_id in text
    assert "同步失败" not in text


def test_two_messages_before_the_answer_are_one_turn_or_two_but_never_lost(customer: Customer, workers: Workers):
    workers.start()
    got = customer.writes()
    customer.writes("另外,我想知道授权多久过期?", got.ticket_id)
    shown = wait_for(
        lambda: (found := ticket.show(customer.db, customer.settings, got.ticket_id))["status"] == "answered"
        and not found["pending_messages"] and found, what="an empty inbox")
    assert [t["content"] for t in shown["turns"] if t["role"] == "customer"] == [QUESTION, "另外,我想知道授权多久过期?"]


def test_a_worker_killed_in_the_middle_of_a_turn_loses_nothing_and_answers_once(
    customer: Customer, workers: Workers, offline_llm: OfflineLLM,
):
    offline_llm.control(latency_ms=3_000, task="draft", times=1)
    workers.start()
    workers.start_desk()
    got = customer.writes()
    wait_for(lambda: offline_llm.requests("draft"), what="the draft to be asked for")
    workers.kill()
    assert customer.replies(got.ticket_id) == []
    workers.start()
    wait_for(lambda: customer.is_answered(got.ticket_id), 60, "the answer after the kill")
    assert len(customer.replies(got.ticket_id)) == 1


def test_after_redis_was_flushed_the_sweeper_brings_the_work_back(
    customer: Customer, workers: Workers, redis_server: RedisServer,
):
    got = customer.writes()
    with redis_server.client() as client:
        wait_for(lambda: client.llen("tickets"), what="the task in Redis")
    redis_server.flush()
    workers.start()
    workers.start_desk()
    wait_for(lambda: customer.is_answered(got.ticket_id), 60, "the answer")
    assert len(customer.replies(got.ticket_id)) == 1


def test_a_worker_outlives_a_restart_of_redis(
    customer: Customer, workers: Workers, stack_settings: Settings, tmp_path: Path,
):
    with running_redis(tmp_path / "own-redis") as server:
        workers.environment["REDIS_URL"] = server.url
        customer.ports = Publisher(stack_settings.model_copy(update={"redis_url": server.url})).ports()
        workers.start()
        server.stop()
        time.sleep(2)       # long enough for the worker to see that nobody answers
        server.start()
        workers.start_desk()
        got = customer.writes()
        wait_for(lambda: customer.is_answered(got.ticket_id), 60, "the answer after the restart")
        assert len(customer.replies(got.ticket_id)) == 1


def test_a_stopped_worker_ends_well_and_leaves_no_lease(customer: Customer, workers: Workers):
    workers.start()
    got = customer.writes()
    wait_for(lambda: customer.is_answered(got.ticket_id), what="an answer")
    assert workers.stop() == 0
    with customer.db.connection() as conn:
        assert conn.execute("SELECT count(*) AS n FROM desk.leases WHERE expires_at > now()").fetchone() == {"n": 0}


def turn_of(customer: Customer, ticket_id: str) -> dict[str, Any]:
    with customer.db.connection() as conn:
        found = conn.execute("SELECT turn_id, status, attempts, crashes, setbacks, expires_at - clock_timestamp() AS lease "
                             "FROM desk.turns JOIN desk.leases USING (ticket_id) WHERE ticket_id = %s", (ticket_id,)).fetchall()
    assert len(found) == 1, "one turn for one message, whatever happened to its workers"
    return found[0]


def test_a_worker_stopped_in_mid_turn_gives_it_back_at_the_next_node_and_nobody_waits_for_the_lease(
    customer: Customer, workers: Workers, offline_llm: OfflineLLM,
):
    workers.environment["LEASE_SECONDS"] = "120"
    offline_llm.control(latency_ms=2_000, task="draft", times=1)
    workers.start("first")
    got = customer.writes()
    wait_for(lambda: offline_llm.requests("draft"), what="the draft to be asked for")
    workers.start("second", wait=False)
    assert workers.stop("first") == 0
    wait_for(lambda: customer.is_answered(got.ticket_id), 30, "the other worker's answer (no sweeper runs)")
    turn = turn_of(customer, got.ticket_id)
    assert (turn["status"], turn["attempts"], turn["crashes"]) == ("done", 0, 0)
    assert turn["setbacks"] == 1, "it was handed back"
    assert len(customer.replies(got.ticket_id)) == 1
    assert len(offline_llm.requests("draft")) == 1, "what was paid for is not asked for again"


def test_a_turn_that_does_not_reach_its_next_node_in_time_is_handed_back_over_its_head(
    customer: Customer, workers: Workers, offline_llm: OfflineLLM,
):
    workers.environment |= {"LEASE_SECONDS": "120", "DRAIN_SECONDS": "1"}
    offline_llm.control(latency_ms=8_000, task="draft", times=1)
    workers.start("first")
    got = customer.writes()
    wait_for(lambda: offline_llm.requests("draft"), what="the draft to be asked for")
    workers.start("second")
    first = workers.running["first"]
    first.terminate()
    wait_for(lambda: customer.is_answered(got.ticket_id), 20, "the other worker's answer (no sweeper runs)")
    assert first.poll() is None, "the hanging one is still at it"
    assert workers.stop("first") == 0
    turn = turn_of(customer, got.ticket_id)
    assert (turn["status"], turn["attempts"], turn["crashes"]) == ("done", 0, 0)
    assert len(customer.replies(got.ticket_id)) == 1
    assert len(ticket.show(customer.db, customer.settings, got.ticket_id)["turns"]) == 2


def test_the_broker_holds_ids_and_no_word_of_the_customer(customer: Customer, redis_server: RedisServer):
    got = customer.writes()
    with redis_server.client() as client:
        wait_for(lambda: client.llen("tickets") == 1, what="the task in Redis")
        assert client.llen("desk") == client.llen("approvals") == client.llen("delivery") == 0
        (message,) = client.lrange("tickets", 0, -1)
    assert "ticket.handle_message" in message
    assert QUESTION not in message
    assert "wugang" not in message
    assert got.ticket_id


def listening_to_nobody() -> tuple[str, Callable[[], None]]:
    door = socket.create_server(("127.0.0.1", 0))
    return f"redis://127.0.0.1:{door.getsockname()[1]}/0", door.close


@pytest.mark.parametrize("state", ["refused", "frozen"])
def test_a_message_is_taken_in_at_once_while_the_broker_is_away(
    customer: Customer, stack_settings: Settings, state: str,
):
    url, close = ("redis://127.0.0.1:1/0", lambda: None) if state == "refused" else listening_to_nobody()
    publisher = Publisher(stack_settings.model_copy(update={"redis_url": url}))
    customer.ports = publisher.ports()
    started = time.monotonic()
    received = [customer.writes(f"第 {n} 条") for n in range(5)]
    assert time.monotonic() - started < 3
    assert publisher.flush(30)
    close()
    assert len({r.message_id for r in received}) == 5


def test_a_mistake_in_a_task_is_logged_and_the_worker_goes_on(customer: Customer, workers: Workers, stack_settings: Settings):
    workers.start()
    send_now(stack_settings, "ticket.handle_message", "no-such-ticket", "no-such-message")
    send_now(stack_settings, "reply.deliver", "not-a-number")
    send_now(stack_settings, "reply.deliver", "one", "too many")
    text = wait_for(lambda: "failed unexpectedly" in workers.text() and workers.text(), what="the line in the log")
    assert re.search(r"failed unexpectedly.*TypeError", text)
    assert "Traceback" not in text
    got = customer.writes()
    wait_for(lambda: customer.is_answered(got.ticket_id), what="an answer")
    assert len(customer.replies(got.ticket_id)) == 1
