"""`desk.notifications`: what colleagues are told, each thing once by its key, with a state for every target."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from supportpilot.db.pool import Connection, Row

Kind = Literal["approval", "reminder", "handoff"]


@dataclass(frozen=True)
class Notification:
    """A row and what its text needs; `moot`: why nobody needs to know it any more.

    now: Postgres' clock. asked_at, expires_at: the approval's, None for a handoff.
    """

    id: str
    kind: Kind
    ticket_id: str
    subject_id: str
    targets: dict[str, dict[str, Any]]
    attempts: int
    created_at: datetime
    due: bool
    held: bool
    moot: str | None
    request: dict[str, Any]
    asked_at: datetime | None
    expires_at: datetime | None
    now: datetime


def put(conn: Connection, kind: Kind, ticket_id: str, subject_id: str, key: str) -> None:
    """Queue a notification in the transaction of what causes it; a key that is there stands."""
    conn.execute(
        """
        INSERT INTO desk.notifications (kind, ticket_id, subject_id, key, taken_over_seq)
        SELECT %s, id, %s, %s, taken_over_seq FROM biz.tickets WHERE id = %s
        ON CONFLICT (key) DO NOTHING
        """, (kind, subject_id, key, ticket_id))


def put_handoff(conn: Connection, ticket_id: str, cause: str) -> None:
    """Queue the notification of a handoff. `cause` names the event: the next handoff of the ticket has another one."""
    put(conn, "handoff", ticket_id, ticket_id, f"ticket:{ticket_id}:handoff:{cause}")


def put_handoff_of_turn(conn: Connection, ticket_id: str, turn_id: str) -> None:
    """Queue the notification of a turn that ends in a handoff; called before that changes the locked ticket's status.

    A colleague who has taken the ticket since the turn began, and has it still, is a later one than the turn knows of.
    """
    conn.execute(
        """
        INSERT INTO desk.notifications (kind, ticket_id, subject_id, key, taken_over_seq)
        SELECT 'handoff', t.id, t.id, 'ticket:' || t.id || ':handoff:turn:' || %(turn)s::text,
               CASE WHEN t.status = 'escalated' THEN coalesce(u.taken_over_seq, t.taken_over_seq) ELSE t.taken_over_seq END
        FROM biz.tickets t LEFT JOIN desk.turns u ON u.ticket_id = t.id AND u.turn_id = %(turn)s WHERE t.id = %(ticket)s
        ON CONFLICT (key) DO NOTHING
        """, {"ticket": ticket_id, "turn": turn_id})


def lock_queued(conn: Connection, subject_id: str) -> list[Notification]:
    """Lock the queued rows about an approval or a ticket and return them, oldest first."""
    conn.execute("SELECT 1 FROM desk.notifications WHERE subject_id = %s AND state = 'queued' ORDER BY position FOR UPDATE",
                 (subject_id,))
    # In a statement of its own: the locking one does not see what was written while it waited.
    found = conn.execute(
        """
        SELECT n.id, n.kind, n.ticket_id, n.subject_id, n.targets, n.attempts, n.created_at,
               n.next_attempt_at <= c.now AS due, coalesce(n.claimed_until > c.now, false) AS held,
               CASE WHEN n.kind = 'handoff' AND t.status <> 'escalated' THEN 'given back or closed'
                    WHEN n.kind = 'handoff' AND t.taken_over_seq > n.taken_over_seq THEN 'a colleague has the ticket'
                    WHEN n.kind = 'handoff' THEN NULL
                    WHEN a.status IS DISTINCT FROM 'pending' THEN 'not pending any more'
                    WHEN a.expires_at <= c.now THEN 'expired' END AS moot,
               coalesce(a.request, '{}') AS request, a.created_at AS asked_at, a.expires_at, c.now
        FROM desk.notifications n
        CROSS JOIN (SELECT clock_timestamp() AS now) c
        JOIN biz.tickets t ON t.id = n.ticket_id
        LEFT JOIN desk.approvals a ON a.id = n.subject_id AND a.ticket_id = n.ticket_id
        WHERE n.subject_id = %s AND n.state = 'queued' ORDER BY n.position
        """, (subject_id,)).fetchall()
    return [Notification(**row) for row in found]


def claim(conn: Connection, notification_id: str, seconds: float) -> datetime:
    """Mark a locked row as being sent and return the claim's end, which names the claim."""
    row = conn.execute(
        """
        UPDATE desk.notifications
        SET claimed_until = clock_timestamp() + make_interval(secs => %s), attempts = attempts + 1, woken_at = NULL, wakes = 0
        WHERE id = %s RETURNING claimed_until
        """, (seconds, notification_id)).fetchone()
    assert row is not None  # noqa: S101 -- the caller holds the row's lock
    until: datetime = row["claimed_until"]
    return until


def mark(conn: Connection, notification_id: str, target: str, outcome: dict[str, Any]) -> None:
    """Note what came of one target. What was sent stays sent, whoever claims the row by now."""
    conn.execute(
        """
        UPDATE desk.notifications
        SET targets = targets || jsonb_build_object(%(target)s::text, %(outcome)s::jsonb || jsonb_build_object('at', clock_timestamp()))
        WHERE id = %(id)s AND targets #>> ARRAY[%(target)s, 'state'] IS DISTINCT FROM 'sent'
        """, {"target": target, "outcome": json.dumps(outcome, ensure_ascii=False), "id": notification_id})


def close(conn: Connection, notification_id: str, state: str, why: str | None = None) -> None:
    """Close a locked row without a claim: `dropped` or `failed`."""
    conn.execute("UPDATE desk.notifications SET state = %s, last_error = %s, claimed_until = NULL, closed_at = clock_timestamp() "
                 "WHERE id = %s AND state = 'queued'", (state, why, notification_id))


def close_claim(conn: Connection, notification_id: str, claimed_until: datetime, changes: dict[str, Any]) -> bool:
    """Write what came of a claim if it is still ours. `changes`: state, error, retry_seconds."""
    done = conn.execute(
        """
        UPDATE desk.notifications
        SET state = %(state)s, last_error = %(error)s, claimed_until = NULL,
            next_attempt_at = clock_timestamp() + make_interval(secs => %(retry_seconds)s),
            closed_at = CASE WHEN %(state)s <> 'queued' THEN clock_timestamp() END
        WHERE id = %(id)s AND state = 'queued' AND claimed_until = %(until)s
        """, {"error": None, "retry_seconds": 0.0, **changes, "id": notification_id, "until": claimed_until})
    return done.rowcount == 1


def wake_due(conn: Connection, grace_seconds: float, limit: int) -> list[tuple[str, str]]:
    """Return (`approval` or `ticket`, its id) of rows that are due or whose claim ran out, each with a growing grace."""
    found = conn.execute(
        """
        WITH due AS (
            SELECT id FROM desk.notifications
            WHERE state = 'queued' AND coalesce(claimed_until, next_attempt_at) <= clock_timestamp()
              AND (woken_at IS NULL OR woken_at <= clock_timestamp()
                   - make_interval(secs => %(grace)s * power(2, least(wakes, 6)) - %(grace)s * 0.5))
            ORDER BY next_attempt_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
        UPDATE desk.notifications n SET woken_at = clock_timestamp(), wakes = wakes + 1 FROM due WHERE n.id = due.id
        RETURNING n.kind, n.subject_id
        """, {"grace": grace_seconds, "limit": limit}).fetchall()
    return list(dict.fromkeys(("ticket" if row["kind"] == "handoff" else "approval", str(row["subject_id"])) for row in found))


def drop_all(conn: Connection, why: str) -> int:
    """Drop whatever is queued, there is nobody to tell it to; the sweeper waits for no row that somebody has locked."""
    return conn.execute(
        """
        UPDATE desk.notifications SET state = 'dropped', last_error = %s, claimed_until = NULL, closed_at = clock_timestamp()
        WHERE id IN (SELECT id FROM desk.notifications WHERE state = 'queued' FOR UPDATE SKIP LOCKED)
        """, (why,)).rowcount


def rows(conn: Connection, limit: int = 200) -> list[Row]:
    """Return rows for people, newest first; targets as a list of (service, state, error)."""
    return conn.execute(
        """
        SELECT n.id, n.kind, n.ticket_id, n.subject_id, n.state, n.attempts, n.next_attempt_at, n.last_error, n.created_at, n.closed_at,
               coalesce((SELECT jsonb_agg(t.value ORDER BY (t.value ->> 'number')::integer) FROM jsonb_each(n.targets) t), '[]') AS targets
        FROM desk.notifications n ORDER BY n.position DESC LIMIT %s
        """, (limit,)).fetchall()


def latest(conn: Connection, hours: float) -> dict[str, dict[str, Any]]:
    """Return the newest outcome of each target within that time, by the target's hash."""
    found = conn.execute(
        """
        SELECT DISTINCT ON (t.key) t.key, t.value
        FROM desk.notifications n CROSS JOIN LATERAL jsonb_each(n.targets) t
        WHERE n.created_at > clock_timestamp() - make_interval(secs => %s)
        ORDER BY t.key, (t.value ->> 'at')::timestamptz DESC
        """, (hours * 3600,)).fetchall()
    return {str(row["key"]): dict(row["value"]) for row in found}


def make_key(conn: Connection) -> bytes:
    """Return the key that signs links and names targets; the first who needs it makes it."""
    conn.execute("INSERT INTO desk.notify_key (key) VALUES (sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'))) "
                 "ON CONFLICT DO NOTHING")
    key = read_key(conn)
    assert key is not None  # noqa: S101 -- inserted or there
    return key


def read_key(conn: Connection) -> bytes | None:
    """Return the key, None before its first use."""
    row = conn.execute("SELECT key FROM desk.notify_key").fetchone()
    return None if row is None else bytes(row["key"])

