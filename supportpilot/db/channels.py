"""`desk.channel_counts` and `desk.channel_cursors`: what the doors turned away, how far a helpdesk was asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from supportpilot.db.pool import Connection, Row

COUNTS_KEPT_DAYS = 90


def count(conn: Connection, channel: str, outcome: Literal["ignored", "refused"], reason: str, n: int = 1) -> None:
    """Count what a door turned away."""
    conn.execute(
        """
        INSERT INTO desk.channel_counts (channel, day, outcome, reason, n, last_at)
        VALUES (%s, current_date, %s, %s, %s, clock_timestamp())
        ON CONFLICT (channel, day, outcome, reason)
        DO UPDATE SET n = desk.channel_counts.n + EXCLUDED.n, last_at = EXCLUDED.last_at
        """, (channel, outcome, reason[:120], n))


def counts(conn: Connection, days: int = 7) -> list[Row]:
    """Return what was turned away in the last days, the most first."""
    return conn.execute(
        """
        SELECT channel, outcome, reason, sum(n)::bigint AS n, max(last_at) AS last_at FROM desk.channel_counts
        WHERE day > current_date - %s GROUP BY channel, outcome, reason ORDER BY channel, n DESC, reason
        """, (days,)).fetchall()


def drop_old_counts(conn: Connection) -> None:
    """Forget counts of long ago."""
    conn.execute("DELETE FROM desk.channel_counts WHERE day < current_date - %s::int", (COUNTS_KEPT_DAYS,))


def stored(conn: Connection, days: int = 7) -> list[Row]:
    """Return how many messages each channel brought in the last days."""
    return conn.execute(
        """
        SELECT channel, 'stored' AS outcome, author AS reason, count(*) AS n, max(received_at) AS last_at FROM desk.inbox
        WHERE received_at > clock_timestamp() - make_interval(days => %s) GROUP BY channel, author ORDER BY channel, author
        """, (days,)).fetchall()


@dataclass(frozen=True)
class Cursor:
    """How far an account was asked: for all up to `asked_to`; for all in conversations quiet since `reached`."""

    asked_to: datetime
    reached: datetime | None


def start_asking(conn: Connection, channel: str, account: str) -> Cursor:
    """Return how far an account was asked; one that never was begins now."""
    conn.execute("INSERT INTO desk.channel_cursors (channel, account, asked_to) VALUES (%s, %s, clock_timestamp()) "
                 "ON CONFLICT DO NOTHING", (channel, account))
    row = conn.execute("SELECT asked_to, reached FROM desk.channel_cursors WHERE channel = %s AND account = %s",
                       (channel, account)).fetchone()
    assert row is not None  # noqa: S101 -- inserted above
    return Cursor(**row)


def note_reached(conn: Connection, channel: str, account: str, reached: datetime | None, found: int) -> None:
    """Note that a conversation was asked, and how many lost messages that brought; never goes back."""
    conn.execute("UPDATE desk.channel_cursors SET reached = greatest(reached, %s), found = found + %s, checked_at = clock_timestamp() "
                 "WHERE channel = %s AND account = %s", (reached, found, channel, account))


def note_asked(conn: Connection, channel: str, account: str, asked: datetime) -> None:
    """Note how far an account was asked in all; never goes back."""
    conn.execute("UPDATE desk.channel_cursors SET asked_to = greatest(asked_to, %s), reached = NULL, last_error = NULL, "
                 "checked_at = clock_timestamp() WHERE channel = %s AND account = %s", (asked, channel, account))


def note_failed(conn: Connection, channel: str, account: str, error: str) -> None:
    """Note on a known account why it could not be asked."""
    conn.execute("UPDATE desk.channel_cursors SET last_error = %s, checked_at = clock_timestamp() "
                 "WHERE channel = %s AND account = %s", (error[:300], channel, account))


def cursors(conn: Connection) -> list[Row]:
    """Return how far each account was asked."""
    return conn.execute("SELECT channel, account, asked_to, found, last_error, checked_at FROM desk.channel_cursors "
                        "ORDER BY channel, account").fetchall()
