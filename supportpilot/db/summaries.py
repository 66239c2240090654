"""`desk.summaries`: versions of the summary of a ticket's early part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from supportpilot.db.pool import Connection

MadeBy = Literal["model", "rule"]


@dataclass(frozen=True)
class StoredSummary:
    """The first `upto` entries in short; valid for a thread whose first `upto` entries have this hash."""

    ticket_id: str
    upto: int
    source_hash: str
    summary: str
    made_by: MadeBy


def versions(conn: Connection, ticket_id: str, at_most: int) -> list[StoredSummary]:
    """Return the ticket's versions that cover no more than `at_most` entries, the longest first."""
    found = conn.execute(
        """
        SELECT ticket_id, upto, source_hash, summary, made_by FROM desk.summaries
        WHERE ticket_id = %s AND upto <= %s ORDER BY upto DESC, created_at DESC LIMIT 50
        """, (ticket_id, at_most)).fetchall()
    return [StoredSummary(**row) for row in found]


def put(conn: Connection, summary: StoredSummary) -> bool:
    """Store a version; False if there is one of the same source already (the model's replaces the rule's)."""
    done = conn.execute(
        """
        INSERT INTO desk.summaries AS have (ticket_id, upto, source_hash, summary, made_by)
        VALUES (%s, %s, %s, %s, %s)
        ON CONFLICT (ticket_id, upto, source_hash) DO UPDATE
        SET summary = excluded.summary, made_by = excluded.made_by, created_at = clock_timestamp()
        WHERE have.made_by = 'rule' AND excluded.made_by = 'model'
        """, (summary.ticket_id, summary.upto, summary.source_hash, summary.summary, summary.made_by))
    return done.rowcount == 1
