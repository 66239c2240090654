"""Task events: what a pool thread adds while others are being published is sent too, once, in order."""

from __future__ import annotations

from typing import Any

from celery import Celery

from worker.app import app


class RecordingProducer:
    """Publishes to a list; while the first batch is on its way a pool thread adds one more event."""

    def __init__(self, add: Any) -> None:
        self.batches: list[list[str]] = []
        self._add = add

    def publish(self, events: list[dict[str, Any]], **_: Any) -> None:
        self.batches.append([event["uuid"] for event in events])
        if len(self.batches) == 1:
            self._add()


def test_an_event_added_during_a_flush_is_sent_with_the_next_one():
    broker = Celery(broker="memory://", events=app.events_cls, set_as_current=False)
    dispatcher = broker.events.Dispatcher(broker.connection_for_write(), hostname="worker@test", buffer_group=["task"])
    producer = RecordingProducer(lambda: dispatcher.send("task-succeeded", uuid="added meanwhile"))
    dispatcher.producer = producer
    dispatcher.send("task-started", uuid="first")
    dispatcher.flush()
    dispatcher.flush()
    dispatcher.flush()
    assert producer.batches == [["first"], ["added meanwhile"]]
