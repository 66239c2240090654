"""`desk.approvals`: the approver's view of an interrupt that was read back from the checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from supportpilot.db.pool import Connection, Row


@dataclass(frozen=True)
class Approval:
    """One row; `version` is the highest `seq` of the turn that asked, `amount` in CNY once decided."""

    id: str
    ticket_id: str
    turn_id: str
    interrupt_id: str
    request: dict[str, Any]
    version: int
    status: str
    amount: Decimal | None
    decided_by: str | None
    reason: str | None
    seen_version: int | None
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None
    applied_at: datetime | None


@dataclass(frozen=True)
class Asked:
    """What an interrupt asks for; `version` is the highest `seq` of its turn."""

    ticket_id: str
    turn_id: str
    interrupt_id: str
    request: dict[str, Any]
    version: int


@dataclass(frozen=True)
class Decided:
    """A decision to write: who, what, and the customer's highest `seq` that was seen."""

    status: str
    by: str
    reason: str
    amount: Decimal | None
    seen_version: int


def _record(row: Row | None) -> Approval | None:
    return None if row is None else Approval(**{name: row[name] for name in Approval.__dataclass_fields__})


def create(conn: Connection, asked: Asked, expires_hours: float) -> Approval:
    """Make the row of an interrupt, or return the one that is there: a decided row must not be reset."""
    conn.execute(
        """
        INSERT INTO desk.approvals (ticket_id, turn_id, interrupt_id, request, version, expires_at)
        VALUES (%s, %s, %s, %s, %s, clock_timestamp() + make_interval(secs => %s)) ON CONFLICT DO NOTHING
        """, (asked.ticket_id, asked.turn_id, asked.interrupt_id,
              json.dumps(asked.request, ensure_ascii=False, default=str), asked.version, expires_hours * 3600))
    found = by_interrupt(conn, asked.interrupt_id)
    assert found is not None  # noqa: S101 -- inserted or there
    return found


def by_interrupt(conn: Connection, interrupt_id: str) -> Approval | None:
    """Return the row of an interrupt."""
    return _record(conn.execute("SELECT * FROM desk.approvals WHERE interrupt_id = %s", (interrupt_id,)).fetchone())


def get(conn: Connection, approval_id: str) -> Approval | None:
    """Return one row."""
    return _record(conn.execute("SELECT * FROM desk.approvals WHERE id = %s", (approval_id,)).fetchone())


def lock(conn: Connection, approval_id: str) -> Approval | None:
    """Lock one row and return it (its ticket's row must be locked before)."""
    return _record(conn.execute("SELECT * FROM desk.approvals WHERE id = %s FOR UPDATE", (approval_id,)).fetchone())


def time_is_up(conn: Connection, approval_id: str) -> bool:
    """Say whether the row's time ran out, by Postgres' clock."""
    row = conn.execute("SELECT expires_at <= clock_timestamp() AS up FROM desk.approvals WHERE id = %s",
                       (approval_id,)).fetchone()
    return bool(row and row["up"])


def decide(conn: Connection, approval_id: str, decided: Decided) -> None:
    """Write a decision; the first wins by the condition on `pending`."""
    conn.execute(
        """
        UPDATE desk.approvals SET status = %s, decided_by = %s, reason = %s, amount = %s, seen_version = %s,
               decided_at = clock_timestamp()
        WHERE id = %s AND status = 'pending'
        """, (decided.status, decided.by, decided.reason, decided.amount, decided.seen_version, approval_id))


def mark_applied(conn: Connection, turn_id: str) -> None:
    """Mark the turn's decided approvals as applied, in the transaction that releases the turn."""
    conn.execute(
        """
        UPDATE desk.approvals SET applied_at = clock_timestamp()
        WHERE turn_id = %s AND status IN ('approved', 'rejected', 'expired') AND applied_at IS NULL
        """, (turn_id,))


def unapplied_of_turn(conn: Connection, turn_id: str) -> Approval | None:
    """Return the turn's newest decided approval that no release has marked as applied."""
    return _record(conn.execute(
        "SELECT * FROM desk.approvals WHERE turn_id = %s AND status IN ('approved', 'rejected', 'expired') "
        "AND applied_at IS NULL ORDER BY created_at DESC LIMIT 1", (turn_id,)).fetchone())


def withdraw(conn: Connection, ticket_id: str) -> list[str]:
    """Withdraw the ticket's pending approvals; return the ids of the turns that waited for them."""
    found = conn.execute(
        """
        UPDATE desk.approvals SET status = 'withdrawn', decided_at = clock_timestamp()
        WHERE ticket_id = %s AND status = 'pending' RETURNING turn_id
        """, (ticket_id,)).fetchall()
    return [str(r["turn_id"]) for r in found]


def expired(conn: Connection, limit: int = 200) -> list[str]:
    """Return the ids of pending approvals whose time ran out."""
    found = conn.execute(
        "SELECT id FROM desk.approvals WHERE status = 'pending' AND expires_at <= clock_timestamp() "
        "ORDER BY expires_at LIMIT %s", (limit,)).fetchall()
    return [str(r["id"]) for r in found]


def to_remind(conn: Connection, shares: Sequence[float], *, approval_id: str | None = None,
              limit: int = 200) -> list[tuple[str, float]]:
    """Return (id, share) of pending approvals past a share of their time that nobody was reminded of.

    Only the highest share that was reached counts: after an outage there is one reminder, not one for each.
    """
    found = conn.execute(
        """
        SELECT id, share FROM (
            SELECT a.id, a.ticket_id, a.expires_at,
                   (SELECT max(s) FROM unnest(%(shares)s::float8[]) AS s
                    WHERE clock_timestamp() >= a.created_at + (a.expires_at - a.created_at) * s) AS share
            FROM desk.approvals a WHERE a.status = 'pending' AND a.expires_at > clock_timestamp()
              AND (%(id)s::text IS NULL OR a.id = %(id)s)) due
        WHERE share IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM desk.audit e WHERE e.ticket_id = due.ticket_id AND e.subject = due.id
                          AND e.action = 'approval.reminder' AND (e.detail ->> 'share')::float8 >= share)
        ORDER BY expires_at LIMIT %(limit)s
        """, {"shares": list(shares), "id": approval_id, "limit": limit}).fetchall()
    return [(str(r["id"]), float(r["share"])) for r in found]


def count_pending(conn: Connection) -> int:
    """Return how many rows are undecided."""
    row = conn.execute("SELECT count(*) AS n FROM desk.approvals WHERE status = 'pending'").fetchone()
    return int(row["n"]) if row else 0


def pending_of_ticket(conn: Connection, ticket_id: str) -> Approval | None:
    """Return the ticket's pending approval."""
    return _record(conn.execute("SELECT * FROM desk.approvals WHERE ticket_id = %s AND status = 'pending' LIMIT 1",
                                (ticket_id,)).fetchone())


def rows(conn: Connection, *, status: str | None = None, ticket_id: str | None = None,
         limit: int = 200) -> list[Approval]:
    """Return approvals, oldest first."""
    found = conn.execute(
        """
        SELECT * FROM desk.approvals
        WHERE (%(status)s::text IS NULL OR status = %(status)s) AND (%(ticket)s::text IS NULL OR ticket_id = %(ticket)s)
        ORDER BY created_at LIMIT %(limit)s
        """, {"status": status, "ticket": ticket_id, "limit": limit}).fetchall()
    return [a for r in found if (a := _record(r)) is not None]
