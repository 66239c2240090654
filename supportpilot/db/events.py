"""`desk.events` and `desk.watchers`: live steps of a running turn, and who looks at them; LISTEN and NOTIFY."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from supportpilot.db.pool import Connection, translated

WATCH_CHANNEL = "supportpilot_watch"    # payload: a ticket that somebody watches
LIVE_CHANNEL = "supportpilot_live"      # payload: a ticket that has new events


@dataclass(frozen=True)
class Event:
    """One live event; `type` is turn, step, tool, token or end."""

    id: int
    ticket_id: str
    turn_id: str
    type: str
    data: dict[str, Any]


def listen(conn: Connection, channel: str) -> None:
    """Listen on one of this module's channels."""
    conn.execute("LISTEN supportpilot_watch" if channel == WATCH_CHANNEL else "LISTEN supportpilot_live")


def wait(conn: Connection, seconds: float) -> list[str]:
    """Return the payloads that came within `seconds`, at once if there is one.

    Raises:
        Unavailable: the connection broke.
    """
    with translated():
        return [n.payload for n in conn.notifies(timeout=seconds, stop_after=1)]


def mark_watched(conn: Connection, watcher_id: str, ticket_id: str, seconds: float) -> None:
    """Set or renew a watcher's mark and tell the workers; a ticket that was erased is watched no more."""
    conn.execute(
        """
        WITH held AS MATERIALIZED (SELECT 1 FROM biz.tickets WHERE id = %(ticket)s FOR KEY SHARE)
        INSERT INTO desk.watchers (watcher_id, ticket_id, until)
        SELECT %(watcher)s, %(ticket)s, clock_timestamp() + make_interval(secs => %(seconds)s) FROM held
        ON CONFLICT (watcher_id) DO UPDATE SET ticket_id = EXCLUDED.ticket_id, until = EXCLUDED.until
        """, {"watcher": watcher_id, "ticket": ticket_id, "seconds": seconds})
    conn.execute("SELECT pg_notify('supportpilot_watch', %s)", (ticket_id,))


def unmark(conn: Connection, watcher_id: str) -> None:
    """Take a watcher's mark away."""
    conn.execute("DELETE FROM desk.watchers WHERE watcher_id = %s", (watcher_id,))


def watched(conn: Connection) -> dict[str, float]:
    """Return the tickets that are watched now, and for how many more seconds."""
    found = conn.execute(
        """
        SELECT ticket_id, max(extract(epoch FROM until - clock_timestamp()))::float8 AS left
        FROM desk.watchers WHERE until > clock_timestamp() GROUP BY ticket_id
        """).fetchall()
    return {str(r["ticket_id"]): float(r["left"]) for r in found}


def write(conn: Connection, ticket_id: str, turn_id: str, events: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Append events of a turn and notify the watchers with the ticket's id alone.

    The ticket's row is locked, so what a turn tells after its ticket was erased vanishes without an error.
    """
    conn.execute(
        """
        WITH held AS MATERIALIZED (SELECT 1 FROM biz.tickets WHERE id = %s FOR KEY SHARE)
        INSERT INTO desk.events (ticket_id, turn_id, type, data)
        SELECT %s, %s, t, d FROM held, unnest(%s::text[], %s::jsonb[]) WITH ORDINALITY AS e (t, d, n) ORDER BY n
        """, (ticket_id, ticket_id, turn_id, [t for t, _ in events], [json.dumps(d, ensure_ascii=False) for _, d in events]))
    conn.execute("SELECT pg_notify('supportpilot_live', %s)", (ticket_id,))


def since(conn: Connection, ticket_id: str, last_id: int) -> list[Event]:
    """Return a ticket's events after `last_id`, in order."""
    found = conn.execute(
        "SELECT id, ticket_id, turn_id, type, data FROM desk.events WHERE ticket_id = %s AND id > %s ORDER BY id",
        (ticket_id, last_id)).fetchall()
    return [Event(**r) for r in found]


def last_id(conn: Connection, ticket_id: str) -> int:
    """Return the id of the ticket's last event, 0 if there is none."""
    row = conn.execute("SELECT coalesce(max(id), 0) AS id FROM desk.events WHERE ticket_id = %s", (ticket_id,)).fetchone()
    return int(row["id"]) if row else 0


def drop_old(conn: Connection, seconds: float) -> int:
    """Delete events and marks that are older than `seconds`; return how many events."""
    conn.execute("DELETE FROM desk.watchers WHERE until < clock_timestamp() - make_interval(secs => %s)", (seconds,))
    return conn.execute("DELETE FROM desk.events WHERE at < clock_timestamp() - make_interval(secs => %s)",
                        (seconds,)).rowcount
