"""`desk.commitments`: what replies have promised, by when, and whether it was kept or dropped.

A row is written in the transaction of its reply's outbox row. Whether it counts is read from that row
(`desk.commitment_states`): a promise in a reply that was withheld was made to nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from supportpilot.db import outbox
from supportpilot.db.outbox import OutboxEntry
from supportpilot.db.pool import Connection, Row
from supportpilot.types import Commitment

COLUMNS = "id, ticket_id, turn_id, message_id, text, due_at, state, closed_at, closed_by, dropped_because, created_at"


@dataclass(frozen=True)
class OpenCommitment:
    """A promise that is neither kept nor dropped; `customer_id` is None for an address without an account."""

    id: str
    ticket_id: str
    customer_id: str | None
    text: str
    due_at: datetime | None
    overdue: bool
    created_at: datetime

    @property
    def commitment(self) -> Commitment:
        """The promise alone."""
        return Commitment(self.text, self.due_at)


def put_reply(conn: Connection, entry: OutboxEntry, promised: Sequence[Commitment]) -> str:
    """Store a reply with its promises and return the body that stands; another body's promises are not this one's."""
    stands = outbox.put(conn, entry)
    if stands == entry.body:
        put(conn, entry.key, promised)
    return stands


def put(conn: Connection, outbox_key: str, commitments: Sequence[Commitment]) -> int:
    """Store the promises of the outbox row of that key; return how many are new. What is there already stands."""
    stored = 0
    for position, commitment in enumerate(commitments):
        stored += conn.execute(
            """
            INSERT INTO desk.commitments (ticket_id, outbox_key, position, turn_id, message_id, text, due_at)
            SELECT o.ticket_id, o.idempotency_key, %(position)s, o.turn_id, u.message_ids[cardinality(u.message_ids)],
                   %(text)s, %(due)s
            FROM desk.outbox o LEFT JOIN desk.turns u ON u.turn_id = o.turn_id
            WHERE o.idempotency_key = %(key)s
            ON CONFLICT (outbox_key, position) DO NOTHING
            """, {"key": outbox_key, "position": position, "text": commitment.text, "due": commitment.due_at}).rowcount
    return stored


def open_commitments(conn: Connection, ticket_id: str) -> list[OpenCommitment]:
    """Return the ticket's promises that are not kept yet, the earliest due first, those without a day last."""
    found = conn.execute(
        """
        SELECT c.id, c.ticket_id, c.customer_id, c.text, c.due_at, c.state = 'overdue' AS overdue, c.created_at
        FROM desk.commitment_states c
        WHERE c.ticket_id = %s AND c.state IN ('open', 'overdue') ORDER BY c.due_at NULLS LAST, c.created_at, c.id
        """, (ticket_id,)).fetchall()
    return [OpenCommitment(**row) for row in found]


def locale_of(conn: Connection, ticket_id: str) -> str:
    """Return the locale of the ticket's customer, "" without an account."""
    row = conn.execute("SELECT c.locale FROM biz.tickets t JOIN biz.customers c ON c.id = t.customer_id WHERE t.id = %s",
                       (ticket_id,)).fetchone()
    return str(row["locale"]) if row else ""


def rows(conn: Connection, *, ticket_id: str | None = None, overdue: bool = False, limit: int = 200) -> list[Row]:
    """Return promises for people: of one ticket all of them, else the open ones; the earliest due first."""
    return conn.execute(
        f"""
        SELECT {COLUMNS} FROM desk.commitment_states
        WHERE CASE WHEN %(overdue)s THEN state = 'overdue' ELSE %(ticket)s::text IS NOT NULL OR state IN ('open', 'overdue') END
          AND (%(ticket)s::text IS NULL OR ticket_id = %(ticket)s)
        ORDER BY due_at NULLS LAST, created_at, id LIMIT %(limit)s
        """, {"ticket": ticket_id, "overdue": overdue, "limit": limit}).fetchall()  # noqa: S608 -- a constant


def get(conn: Connection, commitment_id: str) -> Row | None:
    """Return one promise."""
    return conn.execute(f"SELECT {COLUMNS} FROM desk.commitment_states WHERE id = %s",  # noqa: S608 -- a constant
                        (commitment_id,)).fetchone()


def close(conn: Connection, commitment_id: str, by: str, dropped_because: str | None = None) -> bool:
    """Mark one promise kept, or dropped where a reason is given; False if it is either already."""
    done = conn.execute(
        "UPDATE desk.commitments SET closed_at = clock_timestamp(), closed_by = %s, dropped_because = %s "
        "WHERE id = %s AND closed_at IS NULL", (by, dropped_because, commitment_id))
    return done.rowcount == 1


def keep_of_ticket(conn: Connection, ticket_id: str, by: str) -> list[str]:
    """Mark the promises of a resolved ticket kept, but not those whose day is still to come; return their ids."""
    return _kept(conn, "ticket_id = %(ticket)s AND (due_at IS NULL OR due_at <= clock_timestamp())", ticket_id, by)


def keep_handed_over(conn: Connection, ticket_id: str, by: str) -> list[str]:
    """Mark kept what a handoff notice promised, that a colleague will answer; return the ids."""
    return _kept(conn, "ticket_id = %(ticket)s AND outbox_key IN (SELECT idempotency_key FROM desk.outbox "
                       "WHERE ticket_id = %(ticket)s AND kind = 'handoff')", ticket_id, by)


def _kept(conn: Connection, condition: str, ticket_id: str, by: str) -> list[str]:
    found = conn.execute(
        f"UPDATE desk.commitments SET closed_at = clock_timestamp(), closed_by = %(by)s "  # noqa: S608 -- they stand above
        f"WHERE closed_at IS NULL AND {condition} RETURNING id",
        {"ticket": ticket_id, "by": by}).fetchall()
    return sorted(str(row["id"]) for row in found)


def note_overdue(conn: Connection, limit: int) -> list[Row]:
    """Mark promises that have become overdue as noted, each once, and return them."""
    return conn.execute(
        """
        WITH late AS (
            SELECT c.id FROM desk.commitments c JOIN desk.commitment_states s ON s.id = c.id
            WHERE c.closed_at IS NULL AND c.overdue_noted_at IS NULL AND c.due_at <= clock_timestamp()
              AND s.state = 'overdue'
            ORDER BY c.due_at LIMIT %s FOR UPDATE OF c SKIP LOCKED)
        UPDATE desk.commitments c SET overdue_noted_at = clock_timestamp() FROM late WHERE c.id = late.id
        RETURNING c.id, c.ticket_id, c.due_at
        """, (limit,)).fetchall()
