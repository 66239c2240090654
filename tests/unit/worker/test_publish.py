"""The publisher never stands in its caller's way, whatever the broker does."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from supportpilot.config import load_settings
from supportpilot.errors import Misconfigured
from supportpilot.types import Ports
from worker import publish
from worker.publish import Publisher, Wakeup, make_ports, send_now

BROKER = "redis://127.0.0.1:1/0"


@pytest.fixture
def held(monkeypatch):
    """A broker that takes nothing until it is released; keeps what it was sent."""
    sent, release = [], threading.Event()

    def send(_app, wakeup):
        release.wait(20)
        sent.append(wakeup)

    monkeypatch.setattr(publish, "_send", send)
    yield sent, release
    release.set()


def test_without_a_broker_the_ports_do_nothing():
    assert make_ports(load_settings()) == Ports()


def test_what_the_domain_asks_for_is_sent_by_name_with_ids_only(held):
    sent, release = held
    release.set()
    publisher = Publisher(load_settings(redis_url=BROKER))
    ports = publisher.ports()
    ports.schedule_turn("T000001", "7", 2.5)
    ports.schedule_resume("T000001", "A000001")
    ports.schedule_delivery("O1")
    ports.schedule_prune("T000001")
    ports.schedule_retain()
    assert publisher.flush(5)
    assert sent == [Wakeup("ticket.handle_message", ("T000001", "7"), 2.5),
                    Wakeup("ticket.resume", ("T000001", "A000001")), Wakeup("reply.deliver", ("O1",)),
                    Wakeup("memory.prune", ("T000001",)), Wakeup("memory.retain", ())]


def test_a_profile_waits_for_more_changes_so_that_a_burst_costs_one_call(held):
    sent, release = held
    release.set()
    publisher = Publisher(load_settings(redis_url=BROKER, profile_debounce_seconds=7))
    publisher.ports().schedule_profile("C0010")
    assert publisher.flush(5)
    assert sent == [Wakeup("memory.rebuild_profile", ("C0010",), 7)]


def test_a_broker_that_hangs_delays_nobody_and_a_full_queue_drops_with_a_line(held, caplog):
    sent, release = held
    publisher = Publisher(load_settings(redis_url=BROKER), length=5)
    started = time.monotonic()
    for number in range(50):
        publisher.ports().schedule_delivery(str(number))
    assert time.monotonic() - started < 10      # whoever waits for a send waits 20 s here
    assert not publisher.flush(0.05)
    assert "dropped reply.deliver" in caplog.text
    release.set()
    assert publisher.flush(5)
    assert 5 <= len(sent) <= 6


@pytest.mark.enable_socket
def test_after_a_failed_send_what_waits_is_dropped_instead_of_tried_one_by_one(caplog):
    """Nothing listens there; the first refusal empties the queue, the sweeper sends again."""
    publisher = Publisher(load_settings(redis_url=BROKER))
    with caplog.at_level(logging.WARNING):
        for number in range(100):
            publisher.ports().schedule_delivery(str(number))
        assert publisher.flush(10)
    assert len([r for r in caplog.records if "wake-ups: the sweeper will send them" in r.message]) == 1


def test_an_error_nobody_foresaw_does_not_end_the_publisher(monkeypatch, caplog):
    sent = []

    def send(_app, wakeup):
        if wakeup.ids == ("bad",):
            raise ZeroDivisionError
        sent.append(wakeup.ids)

    monkeypatch.setattr(publish, "_send", send)
    publisher = Publisher(load_settings(redis_url=BROKER))
    publisher.ports().schedule_delivery("bad")
    publisher.ports().schedule_delivery("good")
    assert publisher.flush(5)
    assert sent == [("good",)]
    assert "publisher dropped reply.deliver ('bad',)" in caplog.text


def test_a_task_without_a_queue_is_refused():
    with pytest.raises(ValueError, match="no queue is known"):
        send_now(load_settings(redis_url=BROKER), "ticket.unknown")


def test_send_now_without_a_broker_says_what_to_set():
    with pytest.raises(Misconfigured, match="REDIS_URL"):
        send_now(load_settings(), "desk.sweep")


@pytest.mark.parametrize(("name", "line"), [("ticket.resume", "the sweeper will send it"),
                                            ("memory.compress", "the next turn asks for it again"),
                                            ("kb.embed", "beat will send it")])
def test_a_dropped_wake_up_says_what_really_brings_it_back(held, caplog, name, line):
    _, release = held
    publisher = Publisher(load_settings(redis_url=BROKER), length=1)
    for _ in range(4):
        publisher.put(Wakeup(name, ("1",)))
    assert {r.message.rpartition("; ")[2] for r in caplog.records if "dropped" in r.message} == {line}
    release.set()
    assert publisher.flush(5)     # what is left would reach the next test
