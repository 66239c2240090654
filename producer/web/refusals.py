"""Requests that nobody we know signed: counted, but a flood of them must not become a flood of writes."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter

from supportpilot.db.pool import Database
from supportpilot.errors import SupportPilotError
from supportpilot.service import channels

log = logging.getLogger(__name__)

BETWEEN_WRITES_SECONDS = 10.0


class Refusals:
    """Counts in memory, and writes at most every few seconds; what a process held at its end is lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._next_write = 0.0

    def note(self, db: Database, channel: str) -> None:
        """Count one more; never raises, the caller's answer matters more."""
        with self._lock:
            self._held[channel] += 1
            if time.monotonic() < self._next_write:
                return
            self._next_write = time.monotonic() + BETWEEN_WRITES_SECONDS
            held, self._held = self._held, Counter()
        try:
            for name, n in held.items():
                channels.note_refused(db, name, n)
        except SupportPilotError as error:
            log.warning("%d refused requests are not counted: %s", held.total(), error)
