"""Bring the schema up to date: yoyo runs the plain `.sql` files, an advisory lock keeps starters apart.

yoyo's own lock is a table row that a killed process leaves behind for ever, so it is not used; waiting inside
`pg_advisory_lock` would deadlock with the checkpointer's CREATE INDEX CONCURRENTLY, so the lock is polled.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.rows import dict_row

from supportpilot.db.pool import Row, translated
from supportpilot.errors import Unavailable

LOCK_KEY = 4_815_162_342
LOCK_WAIT_SECONDS = 60.0


def migrate(url: str) -> list[str]:
    """Apply what is missing, the checkpointer's four tables included; return the ids of the new migrations.

    Idempotent, and safe when several processes start at once.

    Raises:
        Unavailable: the database is away or another process migrates for over `LOCK_WAIT_SECONDS`.
    """
    with translated(), _lock(url):
        applied = _apply(url)
        with psycopg.Connection[Row].connect(url, autocommit=True, row_factory=dict_row) as conn:
            PostgresSaver(conn).setup()
        return applied


def pending(url: str) -> list[str]:
    """Return the ids of migrations that are not applied yet."""
    with translated():
        backend, migrations = _yoyo(url)
        try:
            return [m.id for m in backend.to_apply(migrations)]
        finally:
            backend.connection.close()


def _apply(url: str) -> list[str]:
    backend, migrations = _yoyo(url)
    try:
        missing = backend.to_apply(migrations)
        names = [m.id for m in missing]
        backend.apply_migrations(missing)
        return names
    finally:
        backend.connection.close()


def _yoyo(url: str):  # type: ignore[no-untyped-def]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from yoyo import get_backend, read_migrations  # noqa: PLC0415 -- its import warns about pkg_resources
    backend = get_backend("postgresql+psycopg://" + url.split("://", 1)[1])
    return backend, read_migrations(str(files("supportpilot.db") / "migrations"))


@contextmanager
def _lock(url: str) -> Iterator[None]:
    with psycopg.connect(url, autocommit=True) as conn:
        waited = 0.0
        while not _try(conn):
            if waited >= LOCK_WAIT_SECONDS:
                raise Unavailable("another process is migrating this database; try again when it is done")
            time.sleep(0.1)
            waited += 0.1
        yield  # the session's end frees the lock, however it ends


def _try(conn: psycopg.Connection[tuple[object, ...]]) -> bool:
    row = conn.execute("SELECT pg_try_advisory_lock(%s)", (LOCK_KEY,)).fetchone()
    return bool(row and row[0])
