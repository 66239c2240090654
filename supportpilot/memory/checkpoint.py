"""The first memory: LangGraph's snapshots in Postgres, so that a ticket goes on after a restart.

`python -m supportpilot.memory.checkpoint` empties it: needed before ticket numbers start again from the
beginning, else a new ticket would go on with the conversation of an old one that had its number.
"""

from __future__ import annotations

import sys
from typing import Any

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg import sql
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from supportpilot.config import get_settings
from supportpilot.db.migrate import migrate
from supportpilot.db.pool import Connection, Database, Row, connect, translated
from supportpilot.db.turns import abandon_threads
from supportpilot.errors import Misconfigured, SupportPilotError
from supportpilot.memory.fenced import FencedSaver

# `checkpoint_migrations`, the fourth table of the saver, tells its schema version and is never emptied.
CHECKPOINT_TABLES = ("checkpoint_writes", "checkpoint_blobs", "checkpoints")
POOL_SIZE = 4
POOL_TIMEOUT_SECONDS = 5.0


def make_checkpointer(url: str | None = None) -> PostgresSaver:
    """Return a saver over a pool of its own; `saver.conn.close()` ends it. Migrates a database without its tables.

    Prepared statements are off (`None`; 0 would mean "at once"), since a pooler may stand in between.

    Raises:
        Misconfigured: no URL is given or configured.
        Unavailable: the database is away.
    """
    target = _url(url)
    _ensure_tables(target)
    pool: ConnectionPool[Connection] = ConnectionPool(
        target, min_size=1, max_size=POOL_SIZE, timeout=POOL_TIMEOUT_SECONDS, open=False,
        connection_class=psycopg.Connection[Row],
        kwargs={"autocommit": True, "row_factory": dict_row, "prepare_threshold": None, "connect_timeout": 5},
    )
    pool.open(wait=False)
    return FencedSaver(pool)


def checkpointer_over(db: Database) -> PostgresSaver:
    """Return a saver over the process's own pool, which stays its owner's. Expects a migrated database."""
    return FencedSaver(db.pool)


def truncate_checkpoints(conn: Connection) -> int:
    """Drop every snapshot in the caller's transaction; return how many there were."""
    tables = sql.SQL(", ").join(map(sql.Identifier, CHECKPOINT_TABLES))
    with conn.transaction():
        conn.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(tables))
        row = conn.execute("SELECT count(*) AS n FROM checkpoints").fetchone()
        conn.execute(sql.SQL("TRUNCATE {}").format(tables))
    return int(row["n"]) if row else 0


def thread_values(db: Database, thread_id: str) -> dict[str, Any]:
    """Return the state that stands in the thread's newest snapshot, {} if there is none."""
    found = checkpointer_over(db).get_tuple({"configurable": {"thread_id": thread_id}})
    return {} if found is None else dict(found.checkpoint["channel_values"])


def count_checkpoints(conn: Connection, thread_id: str) -> int:
    """Return how many snapshots a thread has."""
    row = conn.execute("SELECT count(*) AS n FROM checkpoints WHERE thread_id = %s", (thread_id,)).fetchone()
    return int(row["n"]) if row else 0


def reset_checkpoints(url: str | None = None) -> int:
    """Drop the snapshots of all tickets; return how many there were. Raises as `make_checkpointer`.

    Whoever runs a turn loses its lease in the same transaction, and tickets that waited for an approval go to a
    human: what was to be approved stood in the snapshot.
    """
    target = _url(url)
    _ensure_tables(target)
    with translated(), connect(target) as conn, conn.transaction():
        abandon_threads(conn)
        return truncate_checkpoints(conn)


def _url(url: str | None) -> str:
    target = url or get_settings().database_url
    if not target:
        raise Misconfigured("no database: set DATABASE_URL or start one with `supportpilot up`")
    return target


def _ensure_tables(url: str) -> None:
    with translated(), connect(url) as conn:
        row = conn.execute("SELECT to_regclass('checkpoints') IS NULL AS missing").fetchone()
    if row and row["missing"]:
        migrate(url)


def main() -> int:
    """Reset, print what was cleared, and return the exit code."""
    try:
        print(f"cleared {reset_checkpoints()} checkpoints")
    except SupportPilotError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, Misconfigured) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
