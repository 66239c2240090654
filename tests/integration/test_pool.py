"""The pool after its server has cut every connection, and while there is none."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fixtures.patience import quickest
from fixtures.postgres import running_postgres

from supportpilot.db.pool import Database, connect
from supportpilot.errors import Busy, Misconfigured, Unavailable

pytestmark = pytest.mark.integration


def use(db: Database, seconds: float = 0.0) -> None:
    with db.transaction() as conn:
        conn.execute("SELECT pg_sleep(%s)", (seconds,))


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_the_first_call_after_all_connections_were_cut_succeeds_at_once(database_url: str, size: int) -> None:
    with Database(database_url, max_size=size) as db, ThreadPoolExecutor(size) as threads:
        def cut_and_call() -> float:
            list(threads.map(lambda _: use(db, 0.1), range(size)))
            with connect(database_url) as other:
                other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                              " WHERE datname = current_database() AND pid <> pg_backend_pid()")
            started = time.monotonic()
            list(threads.map(lambda _: use(db), range(size * 2)))
            return time.monotonic() - started

        assert quickest(cut_and_call) < 1.5


def test_while_the_server_is_down_a_call_says_so_and_afterwards_it_works() -> None:
    with running_postgres() as server, Database(server.url(), max_size=4, timeout=1.0) as db:
        use(db)
        server.stop()
        with pytest.raises(Unavailable):
            use(db)
        server.start()
        deadline = time.monotonic() + 20
        while True:
            try:
                use(db)
                break
            except Unavailable:
                assert time.monotonic() < deadline


def test_a_lock_that_is_not_granted_in_time_is_busy(db: Database, database_url: str) -> None:
    with db.transaction() as conn, Database(database_url) as second:
        conn.execute("LOCK TABLE biz.customers")
        with pytest.raises(Busy), second.transaction() as other:
            other.execute("LOCK TABLE biz.customers")


@pytest.mark.parametrize("url", ["nonsense hunter2", "http://u:hunter2@host/db", "postgresql://u:hunter2@h/db?foo=bar"])
def test_an_address_that_cannot_be_read_is_named_without_its_password(url: str) -> None:
    for opened in (connect, Database):
        with pytest.raises(Misconfigured, match=r"^DATABASE_URL: ") as error:
            opened(url)
        assert "hunter2" not in str(error.value)
