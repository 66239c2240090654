"""Live view of a running turn: steps, tool calls and tokens, written only while somebody watches.

The worker learns of watchers by NOTIFY and keeps them in memory, so a ticket that nobody watches costs no
statement. What is written here is for eyes only: losing it loses nothing, and no failure of it fails a turn.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from supportpilot.db import events
from supportpilot.db.events import LIVE_CHANNEL, WATCH_CHANNEL, Event
from supportpilot.db.pool import Connection, Database, connect, translated
from supportpilot.errors import Transient

log = logging.getLogger(__name__)

WATCH_SECONDS = 30.0      # a mark lives this long without renewal
RENEW_SECONDS = 10.0
TOKEN_SECONDS = 0.1       # tokens are batched this long
KEEP_SECONDS = 600.0      # events that nobody fetched
RECONNECT_SECONDS = 2.0


class LiveBoard:
    """One per worker process: knows which tickets are watched, without asking Postgres at each turn."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._until: dict[str, float] = {}
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start listening in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="live-board", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def watched(self, ticket_id: str) -> bool:
        """Say whether somebody watches the ticket now."""
        with self._guard:
            until = self._until.get(ticket_id)
        return until is not None and until > time.monotonic()

    def turn(self, ticket_id: str, turn_id: str) -> LiveTurn:
        """Return the port that a turn writes its steps to."""
        return LiveTurn(self, self._db, ticket_id, turn_id)

    def note(self, ticket_id: str, seconds: float = WATCH_SECONDS) -> None:
        """Remember that a ticket is watched for `seconds` more."""
        now = time.monotonic()
        with self._guard:
            self._until = {t: u for t, u in self._until.items() if u > now}
            self._until[ticket_id] = now + seconds

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with connect(self._db.url) as conn:
                    self._listen(conn)
            except Transient as error:
                log.warning("live view interrupted: %s", error)
                self._stop.wait(RECONNECT_SECONDS)

    def _listen(self, conn: Connection) -> None:
        with translated():
            events.listen(conn, WATCH_CHANNEL)
            for ticket_id, seconds in events.watched(conn).items():
                self.note(ticket_id, seconds)
        while not self._stop.is_set():
            for ticket_id in events.wait(conn, 0.5):
                self.note(ticket_id)


class LiveTurn:
    """A running turn's port: does nothing while nobody watches; tokens go out in batches."""

    def __init__(self, board: LiveBoard, db: Database, ticket_id: str, turn_id: str) -> None:
        self._board, self._db = board, db
        self._ticket_id, self._turn_id = ticket_id, turn_id
        self._text, self._since = "", 0.0
        self._broken = False

    @property
    def on(self) -> bool:
        """Say whether somebody watches."""
        return not self._broken and self._board.watched(self._ticket_id)

    def begin(self, messages: int) -> None:
        """Tell that a turn over so many messages runs."""
        self._put([("turn", {"messages": messages})])

    def step(self, node: str) -> None:
        """Tell that a node begins."""
        self._put([*self._flushed(), ("step", {"node": node})])

    def tool(self, name: str, args: dict[str, Any], *, is_error: bool = False) -> None:
        """Tell what a tool was called with."""
        self._put([*self._flushed(), ("tool", {"name": name, "args": args, "is_error": is_error})])

    def token(self, text: str) -> None:
        """Tell a piece of the draft."""
        if not self._text:
            self._since = time.monotonic()
        self._text += text
        if time.monotonic() - self._since >= TOKEN_SECONDS:
            self._put(self._flushed())

    def end(self, said: str) -> None:
        """Tell that the turn is over, parked or failed, in the words of the log."""
        self._put([*self._flushed(), ("end", {"said": said})])

    def _flushed(self) -> list[tuple[str, dict[str, Any]]]:
        text, self._text = self._text, ""
        return [("token", {"text": text})] if text else []

    def _put(self, new: list[tuple[str, dict[str, Any]]]) -> None:
        if not new or not self.on:
            return
        try:
            with self._db.transaction() as conn:
                events.write(conn, self._ticket_id, self._turn_id, new)
        except (Transient, ValueError) as error:    # ValueError: half of a surrogate pair, from a stream cut inside it
            self._broken = True
            log.warning("live view of ticket=%s given up: %s", self._ticket_id, type(error).__name__)


class Watcher:
    """Somebody who watches a ticket: sets the mark, renews it, yields events as they come. A context manager."""

    def __init__(self, url: str, ticket_id: str) -> None:
        self.ticket_id = ticket_id
        self._id = uuid.uuid4().hex
        self._conn = connect(url)
        self._renew_at = 0.0
        with translated():
            events.listen(self._conn, LIVE_CHANNEL)
            self._last = events.last_id(self._conn, ticket_id)
        self._mark()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._conn.closed and not self._conn.broken:
            with translated():
                events.unmark(self._conn, self._id)
        self._conn.close()

    def _mark(self) -> None:
        with translated():
            events.mark_watched(self._conn, self._id, self.ticket_id, WATCH_SECONDS)
        self._renew_at = time.monotonic() + RENEW_SECONDS

    def poll(self, seconds: float) -> list[Event]:
        """Return the ticket's new events, waiting up to `seconds` for the first.

        Raises:
            Unavailable: the database is away.
        """
        if time.monotonic() >= self._renew_at:
            self._mark()
        fresh = self._fetch()
        if fresh:
            return fresh
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.ticket_id in events.wait(self._conn, min(left, 1.0)):
                return self._fetch()
        return self._fetch()

    def events(self, seconds: float) -> Iterator[Event]:
        """Yield events until `seconds` have passed."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            yield from self.poll(min(left, 1.0))

    def _fetch(self) -> list[Event]:
        with translated():
            fresh = events.since(self._conn, self.ticket_id, self._last)
        if fresh:
            self._last = fresh[-1].id
        return fresh
