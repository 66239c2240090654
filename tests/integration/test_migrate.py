"""Migrations: run by whoever starts first, harmless for everybody else."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import pytest
from fixtures.postgres import PostgresServer

from supportpilot.db.migrate import migrate, pending
from supportpilot.db.pool import Connection, connect

pytestmark = pytest.mark.integration

TABLES = "SELECT count(*) AS n FROM pg_tables WHERE schemaname IN ('biz', 'kb', 'desk')"


@pytest.fixture
def empty_url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.clone("template0") as url:
        yield url


def count(conn: Connection, statement: str) -> int:
    row = conn.execute(statement).fetchone()
    assert row is not None
    return int(row["n"])


def test_migrating_an_empty_database_builds_every_schema_and_the_checkpoint_tables(empty_url: str) -> None:
    applied = migrate(empty_url)
    assert applied[0] == "0001_house"
    with connect(empty_url) as conn:
        assert count(conn, TABLES) >= 15
        assert count(conn, "SELECT count(*) AS n FROM checkpoints") == 0


def test_migrating_twice_changes_nothing(empty_url: str) -> None:
    migrate(empty_url)
    assert migrate(empty_url) == []
    assert pending(empty_url) == []


def test_several_processes_may_migrate_at_once(empty_url: str) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        applied = pool.map(migrate, [empty_url] * 3)
    assert sorted(len(names) > 0 for names in applied) == [False, False, True]
    assert pending(empty_url) == []


def test_a_test_gets_a_database_without_rows(conn: Connection) -> None:
    assert count(conn, "SELECT count(*) AS n FROM biz.tickets") == 0
