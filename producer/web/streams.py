"""Live pages: one thread per web process watches every ticket that somebody looks at, and hands the news on.

One connection in all: a page that anybody may leave open must not hold one of Postgres' connections each. Marks a watched
ticket for the workers (`supportpilot/service/live.py`), fetches its live events when they are notified, and asks once a
second what else has changed (a delivery, a decision, a human's reply), in one statement for all tickets.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from supportpilot.db import events, links
from supportpilot.db.events import LIVE_CHANNEL, Event
from supportpilot.db.pool import Connection, connect, translated
from supportpilot.errors import Transient
from supportpilot.service.live import RENEW_SECONDS, WATCH_SECONDS

log = logging.getLogger(__name__)

MOST_FEEDS = 300                # streams of one web process
MOST_FEEDS_PER_TICKET = 8
FEED_LENGTH = 1000              # news that a slow reader may leave unread before its stream ends
WAIT_SECONDS = 0.2
PULSE_SECONDS = 1.0
RECONNECT_SECONDS = 2.0
STREAM_SECONDS = 600.0          # then the browser connects anew
PING_SECONDS = 15.0
RIGHT_SECONDS = 5.0             # between two looks whether a reader may still look: logged out, revoked, link renewed


class Full(Exception):
    """As many streams are open as this process, or this ticket, may have."""


@dataclass(frozen=True)
class Pulse:
    """Something of the ticket has changed; `mark` is another one each time, None: the ticket is gone."""

    mark: str | None


News = Event | Pulse


class Feed:
    """One reader's queue; filled by the watching thread, read in the event loop."""

    def __init__(self, ticket_id: str) -> None:
        self.ticket_id = ticket_id
        self.overrun = False
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[News] = asyncio.Queue()

    async def next(self, seconds: float) -> News | None:
        """Return the next piece of news, None if there is none within `seconds`."""
        try:
            return await asyncio.wait_for(self._queue.get(), seconds)
        except TimeoutError:
            return None

    def put(self, news: News) -> None:
        """Hand on a piece of news; called in the watching thread."""
        try:
            self._loop.call_soon_threadsafe(self._add, news)
        except RuntimeError:        # the loop has ended, and the reader with it
            self.overrun = True

    def _add(self, news: News) -> None:
        if self._queue.qsize() >= FEED_LENGTH:
            self.overrun = True
        else:
            self._queue.put_nowait(news)


@dataclass
class _Watched:
    """What the thread knows of one ticket."""

    last_event: int
    renew_at: float
    pulse: str | None = None


class Streams:
    """The feeds of one web process, and the thread behind them; it runs while there are any."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._id = uuid.uuid4().hex
        self._guard = threading.Lock()
        self._feeds: dict[str, set[Feed]] = {}
        self._running = False
        self._stopped = False

    @asynccontextmanager
    async def watch(self, ticket_id: str) -> AsyncIterator[Feed]:
        """Lend a feed of the ticket's news from now on; the first is a `Pulse`.

        Raises:
            Full: too many are open.
        """
        feed = Feed(ticket_id)
        self._enter(feed)
        try:
            yield feed
        finally:
            self._leave(feed)

    def stop(self) -> None:
        """End the thread and every stream (a stopping server waits for them)."""
        self._stopped = True

    @property
    def stopped(self) -> bool:
        """Say whether the streams have to end."""
        return self._stopped

    def _enter(self, feed: Feed) -> None:
        with self._guard:
            mine = self._feeds.setdefault(feed.ticket_id, set())
            if len(mine) >= MOST_FEEDS_PER_TICKET or sum(map(len, self._feeds.values())) >= MOST_FEEDS:
                if not mine:
                    del self._feeds[feed.ticket_id]
                raise Full
            mine.add(feed)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="streams", daemon=True).start()

    def _leave(self, feed: Feed) -> None:
        with self._guard:
            mine = self._feeds.get(feed.ticket_id, set())
            mine.discard(feed)
            if not mine:
                self._feeds.pop(feed.ticket_id, None)

    def _of(self, ticket_id: str) -> list[Feed]:
        with self._guard:
            return list(self._feeds.get(ticket_id, ()))

    def _tickets(self) -> list[str]:
        """Return the tickets to watch; none: the thread ends, and the next feed starts another one."""
        with self._guard:
            found = [] if self._stopped else sorted(self._feeds)
            self._running = bool(found)
            return found

    def _run(self) -> None:
        try:
            while not self._watched_to_the_end():
                time.sleep(RECONNECT_SECONDS)
                if not self._tickets():
                    return
        except BaseException:
            with self._guard:
                self._running = False       # the next feed starts another one
            raise


    def _watched_to_the_end(self) -> bool:
        """Watch until nobody looks any more; False: the database went away."""
        try:
            with connect(self._url) as conn, translated():
                _Watch(conn, self._id, self._tickets, self._of).run()
        except Transient as error:
            log.warning("live pages interrupted: %s", error)
            return False
        return True


class _Watch:
    """One connection's life."""

    def __init__(self, conn: Connection, watcher_id: str, tickets: Callable[[], list[str]],
                 feeds: Callable[[str], list[Feed]]) -> None:
        self._conn, self._id, self._tickets, self._feeds = conn, watcher_id, tickets, feeds
        self._known: dict[str, _Watched] = {}
        self._told: set[Feed] = set()

    def run(self) -> None:
        events.listen(self._conn, LIVE_CHANNEL)
        ask_at = 0.0
        while wanted := self._tickets():
            self._drop(wanted)
            for ticket_id in wanted:
                self._mark(ticket_id)
            notified = set(events.wait(self._conn, WAIT_SECONDS))
            for ticket_id in notified & self._known.keys():
                self._fetch(ticket_id)
            if time.monotonic() >= ask_at:
                self._ask(wanted)
                ask_at = time.monotonic() + PULSE_SECONDS
        self._drop([])

    def _drop(self, wanted: list[str]) -> None:
        for ticket_id in self._known.keys() - set(wanted):
            events.unmark(self._conn, f"{self._id}:{ticket_id}")
            del self._known[ticket_id]

    def _mark(self, ticket_id: str) -> None:
        known = self._known.get(ticket_id)
        if known is not None and time.monotonic() < known.renew_at:
            return
        events.mark_watched(self._conn, f"{self._id}:{ticket_id}", ticket_id, WATCH_SECONDS)
        renew_at = time.monotonic() + RENEW_SECONDS
        if known is None:
            self._known[ticket_id] = _Watched(events.last_id(self._conn, ticket_id), renew_at)
        else:
            known.renew_at = renew_at

    def _fetch(self, ticket_id: str) -> None:
        known = self._known[ticket_id]
        for event in events.since(self._conn, ticket_id, known.last_event):
            known.last_event = event.id
            for feed in self._feeds(ticket_id):
                feed.put(event)

    def _ask(self, wanted: list[str]) -> None:
        """Tell what has changed; a feed that came in between gets its first pulse."""
        now = links.pulses(self._conn, wanted)
        told: set[Feed] = set()
        for ticket_id in wanted:
            mark, known = now.get(ticket_id), self._known[ticket_id]
            for feed in self._feeds(ticket_id):
                if mark != known.pulse or feed not in self._told:
                    feed.put(Pulse(mark))
                told.add(feed)
            known.pulse = mark
        self._told = told


def sse(name: str, data: str) -> bytes:
    """Return one event in the form of server-sent events; `data` is one line (JSON)."""
    return f"event: {name}\ndata: {data}\n\n".encode()


def _always() -> bool:
    return True


async def stream(streams: Streams, ticket_id: str, shown: Callable[[News], bytes | None],
                 allowed: Callable[[], bool] = _always) -> AsyncIterator[bytes]:
    """Yield a ticket's news as server-sent events until the ticket is gone, the time is over or the server stops.

    `allowed` is asked every `RIGHT_SECONDS`, in a thread: who may not look any more is told nothing more. `shown` turns a piece of news into bytes, None for what this reader is not told. Full: the reader is told to come back.
    """
    try:
        async with streams.watch(ticket_id) as feed:
            yield b"retry: 3000\n\n"
            until = time.monotonic() + STREAM_SECONDS
            ping_at = time.monotonic() + PING_SECONDS
            ask_at = time.monotonic() + RIGHT_SECONDS
            while time.monotonic() < until and not (streams.stopped or feed.overrun):
                news = await feed.next(0.5)
                if time.monotonic() >= ask_at:
                    if not await run_in_threadpool(allowed):
                        return
                    ask_at = time.monotonic() + RIGHT_SECONDS
                if news is not None and (told := shown(news)) is not None:
                    yield told
                if isinstance(news, Pulse) and news.mark is None:
                    return
                if time.monotonic() >= ping_at:
                    yield b": still here\n\n"
                    ping_at = time.monotonic() + PING_SECONDS
    except Full:
        yield b"retry: 30000\n\n" + sse("full", "{}")
