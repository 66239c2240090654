"""Task events for Flower, none lost.

Celery gathers task events in a list, publishes the list and empties it. Pool threads add to the list meanwhile, and
what they add between the two steps is thrown away: Flower then shows a finished task as started for ever (seen: one in
twenty). Here only what was published is taken out.
"""

from __future__ import annotations

from celery.app.events import Events
from celery.events.dispatcher import EventDispatcher
from typing_extensions import override


class ThreadSafeDispatcher(EventDispatcher):  # type: ignore[misc] # celery has no types
    """The stock dispatcher, for pools of threads."""

    @override
    def flush(self, errors: bool = True, groups: bool = True) -> None:
        """Publish what has gathered."""
        super().flush(errors=errors, groups=False)
        if not groups:
            return
        with self.mutex:
            for group, events in list(self._group_buffer.items()):
                ready = list(events)
                if ready:
                    self._publish(ready, self.producer, f"{group}.multi")
                    del events[:len(ready)]


class WorkerEvents(Events):  # type: ignore[misc] # celery has no types
    """What `app.events` makes."""

    dispatcher_cls = "worker.events:ThreadSafeDispatcher"
