"""Live pages: one connection for all of them, everything told to whoever looks, and nothing left behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fixtures.office import CONTACT, Office

from producer.web import streams as module
from producer.web.streams import Feed, Full, News, Pulse, Streams, sse, stream
from supportpilot.db.pool import Database
from supportpilot.service import customer, ticket
from supportpilot.service.live import LiveBoard

pytestmark = pytest.mark.integration

SECONDS = 15.0


@pytest.fixture
def board(db: Database) -> Iterator[LiveBoard]:
    running = LiveBoard(db)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def office(db: Database, board: LiveBoard) -> Office:
    made = Office(db)
    object.__setattr__(made.rt, "live", board)
    return made


@asynccontextmanager
async def opened(db: Database) -> AsyncIterator[Streams]:
    streams = Streams(db.url)
    try:
        yield streams
    finally:
        streams.stop()
        await until(lambda: not streams._running)


async def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + SECONDS
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end, "did not happen in time"
        await asyncio.sleep(0.02)


async def news_until(feed: Feed, wanted: Callable[[News], bool]) -> list[News]:
    seen: list[News] = []
    end = time.monotonic() + SECONDS
    while not seen or not wanted(seen[-1]):
        assert time.monotonic() < end, seen
        got = await feed.next(0.5)
        if got is not None:
            seen.append(got)
    return seen


def is_pulse(news: News) -> bool:
    return isinstance(news, Pulse)


def kinds(seen: list[News]) -> list[str]:
    return [n.type for n in seen if not isinstance(n, Pulse)]


def run(body: Awaitable[None]) -> None:
    asyncio.run(body)  # type: ignore[arg-type]


def test_two_readers_see_the_steps_of_a_turn_and_that_something_has_changed(db: Database, board: LiveBoard, office: Office) -> None:
    ticket_id = office.write("同步失败").ticket_id

    async def body() -> None:
        async with opened(db) as streams, streams.watch(ticket_id) as one, streams.watch(ticket_id) as two:
            assert is_pulse((await news_until(one, is_pulse))[-1])
            await until(lambda: board.watched(ticket_id))
            await asyncio.to_thread(office.work, ticket_id)
            for feed in (one, two):
                seen = await news_until(feed, lambda n: not isinstance(n, Pulse) and n.type == "end")
                assert [kind for kind in kinds(seen) if kind != "token"] == ["turn", *["step"] * 7, "end"]
                await news_until(feed, is_pulse)
    run(body())


def test_a_reader_of_another_ticket_is_told_nothing(db: Database, board: LiveBoard, office: Office) -> None:
    mine, other = office.write("一", contact="a@example.com").ticket_id, office.write("二", contact="b@example.com").ticket_id

    async def body() -> None:
        async with opened(db) as streams, streams.watch(mine) as feed, streams.watch(other) as theirs:
            await news_until(feed, is_pulse)
            await until(lambda: board.watched(other))
            await asyncio.to_thread(office.work, other)
            await news_until(theirs, lambda n: not isinstance(n, Pulse) and n.type == "end")
            assert await feed.next(1.5) is None
    run(body())


def test_a_humans_reply_and_an_erasure_are_told_without_any_turn(db: Database, office: Office) -> None:
    ticket_id = office.write("同步失败").ticket_id

    async def body() -> None:
        async with opened(db) as streams, streams.watch(ticket_id) as feed:
            first = (await news_until(feed, is_pulse))[-1]
            await asyncio.to_thread(ticket.reply, db, office.ports, ticket_id, "我来跟进", "小王")
            second = (await news_until(feed, is_pulse))[-1]
            assert first != second
            await asyncio.to_thread(customer.erase, db, CONTACT, "小王")
            assert (await news_until(feed, is_pulse))[-1] == Pulse(None)
    run(body())


def test_all_pages_together_hold_one_connection_and_none_when_they_are_closed(db: Database, office: Office) -> None:
    tickets = [office.write("同步失败", contact=f"c{n}@example.com").ticket_id for n in range(12)]

    def listening() -> list[int]:
        found = office.rows("SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%%pulse%%' "
                            "AND pid <> pg_backend_pid()")
        return [row["pid"] for row in found]

    async def body() -> None:
        async with opened(db) as streams:
            feeds = [streams.watch(ticket_id) for ticket_id in tickets]
            lent = [await feed.__aenter__() for feed in feeds]
            for feed in lent:
                await news_until(feed, is_pulse)
            assert len(office.rows("SELECT 1 FROM desk.watchers")) == 12
            assert len(await asyncio.to_thread(listening)) == 1
            for feed in feeds:
                await feed.__aexit__(None, None, None)
            await until(lambda: not streams._running and not office.rows("SELECT 1 FROM desk.watchers"))
            assert await asyncio.to_thread(listening) == []
            async with streams.watch(tickets[0]) as again:      # the next reader starts it anew
                await news_until(again, is_pulse)
    run(body())


def test_too_many_readers_are_told_to_come_back(db: Database, office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FEEDS_PER_TICKET", 1)
    ticket_id = office.write("同步失败").ticket_id

    async def body() -> None:
        async with opened(db) as streams, streams.watch(ticket_id):
            with pytest.raises(Full):
                async with streams.watch(ticket_id):
                    pass
            told = [piece async for piece in stream(streams, ticket_id, lambda _: None)]
            assert b"event: full" in told[0]
    run(body())


def test_a_killed_connection_is_replaced_and_the_news_go_on(db: Database, office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECONNECT_SECONDS", 0.05)
    ticket_id = office.write("同步失败").ticket_id

    async def body() -> None:
        async with opened(db) as streams, streams.watch(ticket_id) as feed:
            await news_until(feed, is_pulse)
            killed = await asyncio.to_thread(office.rows, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
                                             "current_database() AND query LIKE '%%pulse%%' AND pid <> pg_backend_pid()")
            assert len(killed) == 1
            await news_until(feed, is_pulse)        # the new connection's first
            await asyncio.to_thread(ticket.reply, db, office.ports, ticket_id, "我来跟进", "小王")
            await news_until(feed, is_pulse)
    run(body())


def test_a_stream_ends_when_the_server_stops_when_its_time_is_over_and_when_nobody_reads(
        db: Database, office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket_id = office.write("同步失败").ticket_id

    def told(news: News) -> bytes:
        return sse("news", type(news).__name__)

    async def collected(streams: Streams) -> list[bytes]:
        return [piece async for piece in stream(streams, ticket_id, told)]

    async def body() -> None:
        async with opened(db) as streams:
            reading = asyncio.create_task(collected(streams))
            await asyncio.sleep(1.5)
            assert not reading.done()
            streams.stop()
            assert b"event: news\ndata: Pulse\n\n" in await asyncio.wait_for(reading, 3)
        monkeypatch.setattr(module, "STREAM_SECONDS", 0.3)
        async with opened(db) as streams:
            await asyncio.wait_for(collected(streams), 3)
        monkeypatch.setattr(module, "FEED_LENGTH", 1)
        async with opened(db) as streams, streams.watch(ticket_id) as feed:
            for _ in range(3):
                feed.put(Pulse("x"))
            await asyncio.sleep(0.05)
            assert feed.overrun
    run(body())
