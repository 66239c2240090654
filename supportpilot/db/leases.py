"""`desk.leases`: who works on a ticket now. One row a ticket, made with it; freed means `token IS NULL`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from supportpilot.db.pool import Connection
from supportpilot.errors import LeaseLost


@dataclass(frozen=True)
class LeaseRow:
    """A locked lease row; `live` was judged by Postgres' clock after the lock was granted."""

    ticket_id: str
    token: str | None
    live: bool


def clock(conn: Connection) -> datetime:
    """Return Postgres' clock now (not the transaction's start)."""
    row = conn.execute("SELECT clock_timestamp() AS now").fetchone()
    assert row is not None  # noqa: S101 -- a SELECT without FROM has a row
    now: datetime = row["now"]
    return now


def clock_ahead(conn: Connection, ours: Callable[[], datetime]) -> float:
    """Return how many seconds a machine's clock is ahead of Postgres'.

    Compared in the middle of the round trip; the shortest of three is the least disturbed.
    """
    measured = []
    for _ in range(3):
        before, theirs, after = ours(), clock(conn), ours()
        measured.append((after - before, (before + (after - before) / 2 - theirs).total_seconds()))
    return min(measured)[1]


def lock(conn: Connection, ticket_id: str) -> LeaseRow | None:
    """Lock the ticket's lease row, then judge it by the clock in a second statement.

    Inside the locking SELECT the clock would be read before the wait, and an expired lease judged live.
    """
    row = conn.execute(
        "SELECT token::text, expires_at FROM desk.leases WHERE ticket_id = %s FOR UPDATE", (ticket_id,)).fetchone()
    if row is None:
        return None
    live = row["token"] is not None and row["expires_at"] > clock(conn)
    return LeaseRow(ticket_id, row["token"], live)


def create(conn: Connection, ticket_id: str) -> None:
    """Make the free lease row of a new ticket."""
    conn.execute("INSERT INTO desk.leases (ticket_id) VALUES (%s) ON CONFLICT DO NOTHING", (ticket_id,))


def grant(conn: Connection, ticket_id: str, holder: str, lease_seconds: float, deadline_seconds: float) -> str:
    """Give the locked row a new token and return it."""
    token = str(uuid.uuid4())
    conn.execute(
        """
        UPDATE desk.leases
        SET token = %s, holder = %s, deadline_at = clock_timestamp() + make_interval(secs => %s),
            expires_at = clock_timestamp() + make_interval(secs => %s)
        WHERE ticket_id = %s
        """, (token, holder, deadline_seconds, lease_seconds, ticket_id))
    return token


def extend(conn: Connection, token: str, lease_seconds: float, deadline_seconds: float) -> None:
    """Set expiry and deadline anew for a further turn under the same lease."""
    conn.execute(
        """
        UPDATE desk.leases
        SET deadline_at = clock_timestamp() + make_interval(secs => %s),
            expires_at = clock_timestamp() + make_interval(secs => %s)
        WHERE token = %s
        """, (deadline_seconds, lease_seconds, token))


def free(conn: Connection, ticket_id: str) -> None:
    """Free the locked row."""
    conn.execute(
        "UPDATE desk.leases SET token = NULL, holder = NULL, expires_at = NULL, deadline_at = NULL WHERE ticket_id = %s",
        (ticket_id,))


def fence(conn: Connection, token: str | None) -> None:
    """Hold the lease for the rest of this transaction; without a token (scripts, tests) there is no fence.

    KEY SHARE: heartbeats are not blocked, a taker is.

    Raises:
        LeaseLost: the token is gone.
    """
    if token is None:
        return
    row = conn.execute("SELECT 1 FROM desk.leases WHERE token = %s FOR KEY SHARE", (token,)).fetchone()
    if row is None:
        raise LeaseLost("the lease of this turn is gone; another worker has the ticket")


def renew(conn: Connection, tokens: Iterable[str], lease_seconds: float) -> set[str]:
    """Renew all leases of a process in one statement, up to each deadline; return the tokens that still exist.

    A row that somebody else has locked is skipped, which is not lost.
    """
    wanted = list(tokens)
    conn.execute(
        """
        WITH mine AS (SELECT ticket_id FROM desk.leases WHERE token = ANY(%s::uuid[]) FOR NO KEY UPDATE SKIP LOCKED)
        UPDATE desk.leases l
        SET expires_at = least(clock_timestamp() + make_interval(secs => %s), l.deadline_at)
        FROM mine WHERE l.ticket_id = mine.ticket_id
        """, (wanted, lease_seconds))
    found = conn.execute("SELECT token::text FROM desk.leases WHERE token = ANY(%s::uuid[])", (wanted,)).fetchall()
    return {str(r["token"]) for r in found}


def sweep_alone(conn: Connection) -> bool:
    """Take the sweeper's lock until the transaction ends; False if another sweep runs (two beats do no harm)."""
    row = conn.execute("SELECT pg_try_advisory_xact_lock(hashtextextended('supportpilot.sweep', 0)) AS ok").fetchone()
    return bool(row and row["ok"])
