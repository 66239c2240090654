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
    """One row; `version` is the highest `seq` of the turn that asked, `amount` in CNY once decided.

    two_person_above: CNY above which two people have to approve. `first_*`: what the first of them approved; kept when
    the second one has agreed. `customer_reason`: what the customer is told besides.
    """

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
    two_person_above: Decimal | None = None
    assigned_to: str | None = None
    customer_reason: str = ""
    first_by: str | None = None
    first_at: datetime | None = None
    first_amount: Decimal | None = None
    first_version: int | None = None
    first_reason: str | None = None
    first_facts: str | None = None


@dataclass(frozen=True)
class Asked:
    """What an interrupt asks for; `version` is the highest `seq` of its turn; `two_person_above` as in `Approval`."""

    ticket_id: str
    turn_id: str
    interrupt_id: str
    request: dict[str, Any]
    version: int
    two_person_above: Decimal | None = None


@dataclass(frozen=True)
class Decided:
    """A decision to write: who, what, and the customer's highest `seq` that was seen."""

    status: str
    by: str
    reason: str
    amount: Decimal | None
    seen_version: int
    customer_reason: str = ""
    seen_facts: str = ""


def _record(row: Row | None) -> Approval | None:
    return None if row is None else Approval(**{name: row[name] for name in Approval.__dataclass_fields__})


def create(conn: Connection, asked: Asked, expires_hours: float) -> Approval:
    """Make the row of an interrupt, or return the one that is there: a decided row must not be reset."""
    conn.execute(
        """
        INSERT INTO desk.approvals (ticket_id, turn_id, interrupt_id, request, version, two_person_above, expires_at)
        VALUES (%s, %s, %s, %s, %s, %s, clock_timestamp() + make_interval(secs => %s)) ON CONFLICT DO NOTHING
        """, (asked.ticket_id, asked.turn_id, asked.interrupt_id, json.dumps(asked.request, ensure_ascii=False, default=str),
              asked.version, asked.two_person_above, expires_hours * 3600))
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
               customer_reason = %s, decided_at = clock_timestamp()
        WHERE id = %s AND status = 'pending'
        """, (decided.status, decided.by, decided.reason, decided.amount, decided.seen_version, decided.customer_reason,
              approval_id))


def note_first(conn: Connection, approval_id: str, first: Decided) -> None:
    """Keep the first of two approvals; one that is there is replaced."""
    conn.execute(
        """
        UPDATE desk.approvals SET first_by = %s, first_amount = %s, first_version = %s, first_reason = %s,
               first_facts = %s, customer_reason = %s, first_at = clock_timestamp()
        WHERE id = %s AND status = 'pending'
        """, (first.by, first.amount, first.seen_version, first.reason, first.seen_facts,
              first.customer_reason, approval_id))


def forget_first(conn: Connection, approval_id: str) -> None:
    """Take the first of two approvals away: one person has decided alone."""
    conn.execute("UPDATE desk.approvals SET first_by = NULL, first_at = NULL, first_amount = NULL, first_version = NULL, "
                 "first_reason = NULL, first_facts = NULL WHERE id = %s", (approval_id,))


def assign(conn: Connection, approval_id: str, name: str | None) -> None:
    """Say whose matter an undecided approval is; None: everybody's."""
    conn.execute("UPDATE desk.approvals SET assigned_to = %s WHERE id = %s AND status = 'pending'", (name, approval_id))


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


def board(conn: Connection, *, decided: bool, assigned_to: str | None = None, limit: int = 200) -> list[Row]:
    """Return approvals for a list of them, with who asks: the undecided ones by what expires first, else newest first."""
    return conn.execute(
        """
        SELECT a.*, t.subject, t.contact, t.contact_name, t.channel, c.name AS customer_name, c.is_vip,
               extract(epoch FROM clock_timestamp() - a.created_at) AS age_seconds,
               extract(epoch FROM a.expires_at - clock_timestamp()) AS left_seconds,
               extract(epoch FROM a.expires_at - a.created_at) AS whole_seconds,
               (SELECT count(*) FROM desk.inbox m WHERE m.ticket_id = a.ticket_id AND m.author = 'customer' AND m.seq > a.version) AS new_messages
        FROM desk.approvals a JOIN biz.tickets t ON t.id = a.ticket_id LEFT JOIN biz.customers c ON c.id = t.customer_id
        WHERE (a.status = 'pending') <> %(decided)s AND (%(name)s::text IS NULL OR a.assigned_to = %(name)s)
        ORDER BY CASE WHEN %(decided)s THEN a.decided_at END DESC NULLS LAST, a.expires_at, a.id LIMIT %(limit)s
        """, {"decided": decided, "name": assigned_to, "limit": limit}).fetchall()


def seconds(conn: Connection, approval_id: str) -> tuple[float, float]:
    """Return (age, time left) of one row in seconds, by Postgres' clock."""
    row = conn.execute("SELECT extract(epoch FROM clock_timestamp() - created_at) AS age, "
                       "extract(epoch FROM expires_at - clock_timestamp()) AS rest FROM desk.approvals WHERE id = %s",
                       (approval_id,)).fetchone()
    return (float(row["age"]), float(row["rest"])) if row else (0.0, 0.0)


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
    """Return approvals, oldest first; of more than `limit` the newest."""
    found = conn.execute(
        """
        SELECT * FROM (
            SELECT * FROM desk.approvals
            WHERE (%(status)s::text IS NULL OR status = %(status)s) AND (%(ticket)s::text IS NULL OR ticket_id = %(ticket)s)
            ORDER BY created_at DESC LIMIT %(limit)s) newest
        ORDER BY created_at
        """, {"status": status, "ticket": ticket_id, "limit": limit}).fetchall()
    return [a for r in found if (a := _record(r)) is not None]
