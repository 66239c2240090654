"""Lease heartbeat: without it a turn longer than the lease would be taken for dead and run twice.

One thread and one connection per process renew all leases that the process holds.
"""

from __future__ import annotations

import logging
import threading
import time

from supportpilot.config import Settings
from supportpilot.db import leases
from supportpilot.db.pool import Connection, connect, translated
from supportpilot.errors import LeaseLost, Transient, Unavailable

log = logging.getLogger(__name__)


class Heartbeat:
    """Renews the leases of this process; asked by every node whether its turn may go on.

    Skipped (row locked by somebody) is not lost; a token that is gone from the table is.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        self._url = url
        self._lease_seconds = settings.lease_seconds
        self._turn_seconds = settings.turn_deadline_seconds
        self._deadlines: dict[str, float] = {}
        self._lost: set[str] = set()
        self._guard = threading.Lock()
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
        self._close()

    def add(self, token: str) -> None:
        """Renew this token from now on, up to the turn's deadline; again for each further turn under it."""
        with self._guard:
            self._deadlines[token] = time.monotonic() + self._turn_seconds

    def remove(self, token: str) -> None:
        """Renew this token no more."""
        with self._guard:
            self._deadlines.pop(token, None)
            self._lost.discard(token)

    def check(self, token: str | None) -> None:
        """Do nothing if the turn may go on.

        Raises:
            LeaseLost: the token is gone.
            Transient: the turn is past its deadline.
        """
        if token is None:
            return
        with self._guard:
            lost, deadline = token in self._lost, self._deadlines.get(token)
        if lost:
            raise LeaseLost("the lease of this turn is gone; another worker has the ticket")
        if deadline is not None and time.monotonic() > deadline:
            raise Transient(f"the turn ran longer than {self._turn_seconds:.0f} s (TURN_DEADLINE_SECONDS)")

    def _run(self) -> None:
        while not self._stop.wait(self._lease_seconds / 3):
            try:
                self.beat()
            except Unavailable as error:
                log.warning("leases not renewed: %s", error)
                self._close()
            except Transient:
                log.exception("leases not renewed")
                self._close()

    def beat(self) -> None:
        """Renew all leases once. Raises Unavailable if the database is away."""
        with self._guard:
            tokens = list(self._deadlines)
        if not tokens:
            return
        if self._conn is None or self._conn.closed:
            self._conn = connect(self._url)
        with translated():
            alive = leases.renew(self._conn, tokens, self._lease_seconds)
        with self._guard:
            self._lost |= {t for t in tokens if t not in alive and t in self._deadlines}

    def _close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None
