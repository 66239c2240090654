"""Lease heartbeat: without it a turn longer than the lease would be taken for dead and run twice.

One thread and one connection per process renew all leases that the process holds. It also compares the machine's
clock with Postgres': ids of checkpoints come from the former, and a worker that is behind is refused its writes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from supportpilot.config import Settings
from supportpilot.db import leases
from supportpilot.db.pool import Connection, connect, translated
from supportpilot.errors import LeaseLost, Transient, shown_error

log = logging.getLogger(__name__)

CLOCK_TOLERANCE_SECONDS = 0.1     # workers that far apart write checkpoints in the wrong order
CLOCK_CHECK_SECONDS = 60.0


def machine_clock() -> datetime:
    """Return this machine's clock (UTC), which is only ever compared with Postgres' to find it wrong."""
    return datetime.now(UTC)  # noqa: TID251 -- it is this clock that is examined


class Heartbeat:
    """Renews the leases of this process; asked by every node whether its turn may go on.

    Skipped (row locked by somebody) is not lost; a token that is gone from the table is. A heart that has stood
    still for longer than a lease is not believed: the node that asks renews the lease itself, or stops.
    """

    def __init__(self, url: str, settings: Settings, clock: Callable[[], datetime] = machine_clock) -> None:
        self._url, self._clock = url, clock
        self._lease_seconds = settings.lease_seconds
        self._turn_seconds = settings.turn_deadline_seconds
        self._deadlines: dict[str, float] = {}
        self._renewed: dict[str, float] = {}
        self._lost: set[str] = set()
        self._guard = threading.Lock()
        self._beating = threading.Lock()
        self._clock_checked = float("-inf")
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._conn: Connection | None = None

    def start(self) -> None:
        """Start the thread; a second call does nothing."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="lease-heartbeat", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread and close its connection."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
            self._thread = None
        with self._beating:
            self._close()

    def add(self, token: str) -> None:
        """Renew this token from now on, up to the turn's deadline; again for each further turn under it."""
        with self._guard:
            self._deadlines[token] = time.monotonic() + self._turn_seconds
            self._renewed[token] = time.monotonic()

    def remove(self, token: str) -> None:
        """Renew this token no more."""
        with self._guard:
            self._deadlines.pop(token, None)
            self._renewed.pop(token, None)
            self._lost.discard(token)

    def check(self, token: str | None) -> None:
        """Do nothing if the turn may go on.

        Raises:
            LeaseLost: the token is gone.
            Transient: the turn is past its deadline.
            Unavailable: the lease was not renewed in time and cannot be now.
        """
        if token is None:
            return
        with self._guard:
            renewed, deadline = self._renewed.get(token), self._deadlines.get(token)
        if renewed is not None and time.monotonic() - renewed > self._lease_seconds:
            self.beat()
        with self._guard:
            lost = token in self._lost
        if lost:
            raise LeaseLost("the lease of this turn is gone; another worker has the ticket")
        if deadline is not None and time.monotonic() > deadline:
            raise Transient(f"the turn ran longer than {self._turn_seconds:.0f} s (TURN_DEADLINE_SECONDS)")

    def _run(self) -> None:
        while not self._stop.wait(self._lease_seconds / 3):
            try:
                self.beat()
            except Exception as error:  # noqa: BLE001 -- without this thread every lease of the process would lapse
                log.warning("leases not renewed: %s", shown_error(error))
                with self._beating:
                    self._close()

    def beat(self) -> None:
        """Renew all leases once. Raises Unavailable if the database is away."""
        with self._guard:
            tokens = list(self._deadlines)
        if not tokens:
            return
        with self._beating:
            if self._conn is None or self._conn.closed:
                self._conn = connect(self._url)
            with translated():
                alive = leases.renew(self._conn, tokens, self._lease_seconds)
            self._compare_clocks(self._conn)
        with self._guard:
            self._lost |= {t for t in tokens if t not in alive and t in self._deadlines}
            self._renewed.update({t: time.monotonic() for t in alive if t in self._deadlines})

    def _compare_clocks(self, conn: Connection) -> None:
        if time.monotonic() - self._clock_checked < CLOCK_CHECK_SECONDS:
            return
        self._clock_checked = time.monotonic()
        with translated():
            ahead = leases.clock_ahead(conn, self._clock)
        if abs(ahead) > CLOCK_TOLERANCE_SECONDS:
            log.warning("this machine's clock is %+.1f s from Postgres'; set it (NTP)", ahead)

    def _close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None
