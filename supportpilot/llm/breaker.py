"""Circuit breaker: a model that fails is left alone for a while, so that its outage does not hold every worker slot.

One per client, so one per process and model. Written here because `pybreaker` 1.4 holds its lock around the call
itself: turns that run side by side would ask one after the other (docs/decisions/0007-own-breaker.md).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from supportpilot.errors import Permanent, Transient, Unavailable

log = logging.getLogger(__name__)

FAILURES = 5                # in a row, repeats of one call included
FIRST_REST_SECONDS = 2.0
LONGEST_REST_SECONDS = 30.0


class ModelResting(Unavailable):
    """The model has failed too often in a row; it is not asked for the moment."""


class Breaker:
    """Counts failures in a row; open, it lets one call through at the end of each rest to see how things are.

    Args:
        model: its name, for people.
        clock: seconds that never go back.
    """

    def __init__(self, model: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._model, self._clock = model, clock
        self._guard = threading.Lock()
        self._failures = 0
        self._rest = FIRST_REST_SECONDS
        self._closed_until_probe: float | None = None   # None: every call may pass

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Let one call pass and note how it ended; a request that is rejected shows that somebody is there.

        Raises:
            ModelResting: the call may not be made now.
        """
        probing = self._admit()
        try:
            yield
        except Transient:
            self._failed(probing=probing)
            raise
        except Permanent:
            self._answered()
            raise
        self._answered()

    def _admit(self) -> bool:
        with self._guard:
            if self._closed_until_probe is None:
                return False
            wait = self._closed_until_probe - self._clock()
            if wait > 0:
                raise ModelResting(f"{self._model} failed {self._failures} times in a row; asked again in {wait:.0f} s")
            self._closed_until_probe = self._clock() + self._rest     # this call is the probe, the others wait on
            return True

    def _failed(self, *, probing: bool) -> None:
        with self._guard:
            self._failures += 1
            if probing:
                self._rest = min(self._rest * 2, LONGEST_REST_SECONDS)
            elif self._failures < FAILURES or self._closed_until_probe is not None:
                return
            else:
                log.warning("model %s failed %d times in a row and is left alone for a while", self._model, self._failures)
            self._closed_until_probe = self._clock() + self._rest

    def _answered(self) -> None:
        with self._guard:
            if self._closed_until_probe is not None:
                log.warning("model %s answers again", self._model)
            self._failures, self._rest, self._closed_until_probe = 0, FIRST_REST_SECONDS, None
