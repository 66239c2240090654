"""Connections: one pool per process, errors translated here, nobody above `db/` sees psycopg.

Without the translation every caller would have to know which SQLSTATE means "come back later".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from supportpilot.errors import Busy, Gone, Misconfigured, SupportPilotError, Transient, Unavailable

Row: TypeAlias = dict[str, Any]
Connection: TypeAlias = psycopg.Connection[Row]

# SQLSTATE classes that say "the server or the connection is in trouble", not "this statement is wrong".
AWAY_CLASSES = frozenset({"08", "25", "40", "53", "55", "57"})
LOCK_TIMEOUT_MS = 2_000
TRANSACTION_TIMEOUT_MS = 10_000
# A server that vanished without a goodbye (power, cable) must not hold a thread for the quarter of an hour of TCP.
LINK: dict[str, Any] = {"connect_timeout": 5, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
                        "tcp_user_timeout": 20_000}


def translate(error: Exception) -> SupportPilotError:
    """Turn a psycopg error into one of ours; the text stays one line."""
    line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return Busy(f"lock not granted in time: {line}")
    if isinstance(error, psycopg.errors.ForeignKeyViolation):
        return Gone(f"deleted meanwhile: {line}")
    if isinstance(error, PoolTimeout):
        return Unavailable(f"no database connection: {line}")
    state = getattr(error, "sqlstate", None)
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and not state:
        return Unavailable(f"database away: {line}")
    if state and state[:2] in AWAY_CLASSES:
        return Unavailable(f"database away ({state}): {line}")
    return Transient(f"database error ({state}): {line}")


@contextmanager
def translated() -> Iterator[None]:
    """Translate psycopg's errors raised inside the block.

    Raises:
        Unavailable: the database is away, or the pool is empty for too long.
        Busy: a row lock was not granted within `LOCK_TIMEOUT_MS`.
        Gone: the row that a new one hangs on is not there.
        Transient: any other database error.
    """
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        raise translate(error) from error


def _configure(conn: Connection) -> None:
    """A process frozen inside a transaction must not hold up the others, so both waits are bounded."""
    conn.execute(sql.SQL("SET lock_timeout = {}").format(LOCK_TIMEOUT_MS))
    name = "transaction_timeout" if conn.info.server_version >= 170000 else "idle_in_transaction_session_timeout"
    conn.execute(sql.SQL("SET {} = {}").format(sql.Identifier(name), TRANSACTION_TIMEOUT_MS))
    conn.execute("SET timezone = 'UTC'")


def check_address(url: str) -> None:
    """Raise Misconfigured if Postgres cannot read the address; its own complaint would show the password."""
    try:
        psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise Misconfigured("DATABASE_URL: not an address that Postgres can read, such as postgresql://user@host:5432/name") from None


def connect(url: str) -> Connection:
    """Open one autocommit connection that returns dict rows; the caller closes it.

    Raises:
        Misconfigured: the address cannot be read.
        Unavailable: nothing answers there.
    """
    check_address(url)
    with translated():
        conn = psycopg.Connection[Row].connect(url, autocommit=True, row_factory=dict_row, **LINK)
        _configure(conn)
        return conn


@contextmanager
def checked(pool: ConnectionPool[Connection]) -> Iterator[Connection]:
    """Lend a connection that answers.

    The pool's own `check=` waits 1, 2, 4 s between dead connections: after a restart of Postgres a pool of four
    was out for longer than its time-out. Here the first dead one empties the pool of all that were opened before.

    Raises:
        PoolTimeout: there was none in time.
    """
    conn = pool.getconn()
    for _ in range(pool.max_size):
        try:
            ConnectionPool.check_connection(conn)
        except psycopg.Error:
            pool.putconn(conn)
            pool.drain()
            conn = pool.getconn()
        else:
            break
    try:
        with conn:
            yield conn
    finally:
        pool.putconn(conn)


class Database:
    """A bounded pool (`open` before use, `close` after), or one connection with the same face."""

    def __init__(self, url: str, *, max_size: int = 4, timeout: float = 5.0) -> None:
        check_address(url)
        self.url = url
        self._single: Connection | None = None
        self._pool: ConnectionPool[Connection] | None = ConnectionPool(
            url, min_size=1, max_size=max_size, timeout=timeout, open=False, configure=_configure,
            connection_class=psycopg.Connection[Row],
            kwargs={"autocommit": True, "row_factory": dict_row, **LINK},
        )

    @classmethod
    def over(cls, conn: Connection) -> Database:
        """Give one open connection a Database's face (scripts, tests)."""
        self = cls.__new__(cls)
        self.url, self._pool, self._single = conn.info.dsn, None, conn
        return self

    @property
    def pool(self) -> ConnectionPool[Connection]:
        """The pool itself, for the checkpointer."""
        if self._pool is None:
            raise TypeError("this Database stands on a single connection")
        return self._pool

    def open(self) -> Database:
        """Open the pool (after a fork, never before); does not wait for the server."""
        if self._pool is not None:
            self._pool.open(wait=False)
        return self

    def close(self) -> None:
        """Close the pool; a single connection stays its owner's."""
        if self._pool is not None:
            self._pool.close()

    def __enter__(self) -> Database:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Lend a connection in autocommit mode. Raises as `translated`."""
        with translated():
            if self._pool is None:
                assert self._single is not None  # noqa: S101 -- one of the two always stands
                yield self._single
            else:
                with checked(self._pool) as conn:
                    yield conn

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Lend a connection inside one READ COMMITTED transaction: commit at the end, roll back on any error.

        Raises as `translated`.
        """
        with self.connection() as conn, conn.transaction():
            yield conn

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Lend a connection whose statements all see the database as it is now (REPEATABLE READ, read only).

        Raises as `translated`.
        """
        with self.transaction() as conn:
            conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield conn
