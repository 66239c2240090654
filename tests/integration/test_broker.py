"""Brokers that are gone, hang, come back empty: nobody waits for them, and every pool consumes again afterwards."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from celery.signals import worker_init
from fixtures.patience import quickest
from fixtures.rabbitmq import free_port, running_rabbitmq
from fixtures.redis import RedisServer, running_redis
from fixtures.worker import DESK, MAIN, Workers, wait_for
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.transport import redis as transport

from supportpilot.config import Settings
from supportpilot.db.pool import Database
from supportpilot.errors import Unavailable
from supportpilot.service import intake
from supportpilot.types import InboundMessage
from worker import qos
from worker.publish import SOCKET_SECONDS, Publisher, send_now

if TYPE_CHECKING:
    from fixtures.llm import OfflineLLM

pytestmark = pytest.mark.integration

BACKGROUND = ("worker", "-P", "threads", "-E", "-c", "2", "-Q", "background")
ROLES = {"main": MAIN, "background": BACKGROUND, "desk": DESK}
PROBES = {"main": ("ticket.handle_message", ("T999999", "M999999")), "background": ("memory.compress", ("T999999",)),
          "desk": ("desk.settle", ())}
AT_ONCE = 0.2
_ids = itertools.count(1)


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    with running_redis(tmp_path / "own-redis") as server:
        yield server


@contextmanager
def refused(_server: RedisServer) -> Iterator[str]:
    yield f"redis://127.0.0.1:{free_port()}/0"


@contextmanager
def black_hole(_server: RedisServer) -> Iterator[str]:
    """A host that takes the connection and never says a word."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}/0"


@contextmanager
def frozen(server: RedisServer) -> Iterator[str]:
    with stopped_for_a_while(server):
        yield server.url


@contextmanager
def stopped_for_a_while(server: RedisServer) -> Iterator[None]:
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


@pytest.mark.parametrize("state", [refused, black_hole, frozen])
def test_publishing_is_bounded_and_never_in_the_way_of_the_request(
    db: Database, own_redis: RedisServer, state: Any,
) -> None:
    with state(own_redis) as url:
        settings = Settings(database_url=db.url, redis_url=url, turn_debounce_seconds=0)
        publishers = []

        def receive_and_schedule() -> float:
            publishers.append(Publisher(settings))      # a new one: it has no failed send behind it yet
            ports, started = publishers[-1].ports(), time.monotonic()
            message = InboundMessage(channel="generic", external_id=f"b{next(_ids)}", contact="a@example.com", body="您好")
            assert intake.receive(db, settings, ports, message).message_id
            ports.schedule_turn("T1", "M1", 0.0)
            return time.monotonic() - started

        assert quickest(receive_and_schedule) < AT_ONCE + 0.8, "the sender does not wait for the broker"
        started = time.monotonic()
        with pytest.raises(Unavailable):
            send_now(settings, "ticket.handle_message", "T1", "M1")
        assert all(publisher.flush(30) for publisher in publishers), "what cannot be sent is dropped, not kept for ever"
        assert time.monotonic() - started < 25 * SOCKET_SECONDS


def test_a_broker_that_came_back_gets_what_is_published_next(db: Database, own_redis: RedisServer) -> None:
    settings = Settings(database_url=db.url, redis_url=own_redis.url, turn_debounce_seconds=0)
    send_now(settings, "ticket.handle_message", "T1", "M1")
    own_redis.stop()
    with pytest.raises(Unavailable):
        send_now(settings, "ticket.handle_message", "T1", "M2")
    own_redis.start()
    publisher = Publisher(settings)
    publisher.ports().schedule_turn("T1", "M3", 0.0)
    assert publisher.flush(10)
    with own_redis.client() as client:
        assert client.llen("tickets") == 1


def answers(workers: Workers, settings: Settings, role: str) -> None:
    """Wait until a task of the role's queue has run after now."""
    name, ids = PROBES[role]
    before = ran(workers, role, name)

    def once_more() -> bool:
        try:
            send_now(settings, name, *ids)
        except Unavailable:
            return False
        time.sleep(0.5)
        return ran(workers, role, name) > before
    wait_for(once_more, 60, f"{role} to take a task")


def ran(workers: Workers, role: str, name: str) -> int:
    return sum("done" in line and name in line for line in workers.text(role).splitlines())


@pytest.mark.timeout(240)
def test_every_pool_consumes_again_after_a_restart_and_after_a_freeze_of_redis(
    workers: Workers, own_redis: RedisServer, stack_settings: Settings,
) -> None:
    settings = stack_settings.model_copy(update={"redis_url": own_redis.url})
    workers.environment |= {"REDIS_URL": own_redis.url, "LOG_LEVEL": "DEBUG"}
    for role, arguments in ROLES.items():
        workers.start(role, arguments, wait=False)

    def all_answer() -> None:
        for role in ROLES:
            answers(workers, settings, role)
    all_answer()
    own_redis.stop()
    time.sleep(3)
    own_redis.start()
    all_answer()
    with stopped_for_a_while(own_redis):
        time.sleep(6)
    all_answer()
    assert [workers.running[role].poll() for role in ROLES] == [None] * len(ROLES), "they are the same processes"


def write(db: Database, settings: Settings, publisher: Publisher) -> str:
    message = InboundMessage(channel="terminal", external_id=f"b{next(_ids)}", contact="wugang@example.com",
                             body="银行流水同步失败,提示 E3001,应该怎么办?", conversation_id=f"c{next(_ids)}")
    return intake.receive(db, settings, publisher.ports(), message).ticket_id


def accepted(db: Database, ticket_id: str) -> int:
    with db.connection() as conn:
        row = conn.execute("SELECT count(*) AS n FROM desk.outbox WHERE ticket_id = %s AND status = 'accepted'",
                           (ticket_id,)).fetchone()
    return int(row["n"]) if row else 0


def test_a_worker_with_a_task_running_outlives_a_restart_of_redis(
    workers: Workers, seeded_db: Database, own_redis: RedisServer, stack_settings: Settings, offline_llm: OfflineLLM,
) -> None:
    settings = stack_settings.model_copy(update={"redis_url": own_redis.url})
    workers.environment["REDIS_URL"] = own_redis.url
    offline_llm.control(latency_ms=5_000, task="draft", times=1)
    workers.start()
    ticket_id = write(seeded_db, settings, Publisher(settings))
    wait_for(lambda: offline_llm.requests("draft"), what="the draft to be asked for")
    own_redis.stop()
    time.sleep(3)
    own_redis.start()
    workers.start_desk()
    wait_for(lambda: accepted(seeded_db, ticket_id) == 1, 60, "the answer of the running task")
    following = write(seeded_db, settings, Publisher(settings))
    wait_for(lambda: accepted(seeded_db, following) == 1, 60, "the answer of the next one")
    assert workers.running["worker"].poll() is None


@pytest.mark.timeout(300)
def test_rabbitmq_carries_the_wakeups_too_and_may_be_restarted(
    workers: Workers, seeded_db: Database, stack_settings: Settings,
) -> None:
    with running_rabbitmq() as server:
        settings = stack_settings.model_copy(update={"redis_url": None, "broker_url": server.url})
        workers.environment.pop("REDIS_URL")
        workers.environment["BROKER_URL"] = server.url
        workers.start()
        ticket_id = write(seeded_db, settings, Publisher(settings))
        wait_for(lambda: accepted(seeded_db, ticket_id) == 1, 60, "an answer by way of RabbitMQ")
        server.stop()
        time.sleep(2)
        server.start()
        workers.start_desk()
        following = write(seeded_db, settings, Publisher(settings))
        wait_for(lambda: accepted(seeded_db, following) == 1, 90, "an answer after its restart")
        assert workers.running["worker"].poll() is None


def test_an_acknowledgement_that_a_frozen_redis_did_not_take_costs_no_slot(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Celery writes "Couldn't ack" and goes on; the desk worker, which has one slot, never fetched again: no sweep."""
    assert own_redis.process is not None
    monkeypatch.setattr(transport.Channel, "QoS", transport.Channel.QoS)     # put back afterwards
    worker_init.send(sender=None)
    assert transport.Channel.QoS is qos.FreeingQoS
    got: list[Any] = []
    queue = Queue("desk", Exchange("desk", type="direct"), routing_key="desk")
    with Connection(own_redis.url, transport_options={"socket_timeout": 2}) as connection:
        channel = connection.channel()
        with Consumer(channel, [queue], callbacks=[lambda _body, message: got.append(message)], prefetch_count=1):
            for number in (1, 2):
                Producer(connection.channel()).publish({"n": number}, exchange="desk", routing_key="desk")
            connection.drain_events(timeout=10)
            own_redis.process.send_signal(signal.SIGSTOP)
            with pytest.raises(transport.redis.exceptions.TimeoutError):
                got[0].ack()
            own_redis.process.send_signal(signal.SIGCONT)
            connection.drain_events(timeout=10)
    assert [message.payload for message in got] == [{"n": 1}, {"n": 2}]
