"""`desk.summaries`: versions of the summary of a ticket's early part; `desk.summary_notes`: of its chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from supportpilot.db.pool import Connection

MadeBy = Literal["model", "rule"]


@dataclass(frozen=True)
class StoredSummary:
    """The first `upto` entries in short; valid for a thread whose first `upto` entries have this hash.

    `refused` are the codes of why answers of the model were not stored.
    """

    ticket_id: str
    upto: int
    source_hash: str
    summary: str
    made_by: MadeBy
    refused: tuple[str, ...] = ()


def versions(conn: Connection, ticket_id: str, at_most: int) -> list[StoredSummary]:
    """Return the ticket's versions that cover no more than `at_most` entries, the longest first."""
    found = conn.execute(
        """
        SELECT ticket_id, upto, source_hash, summary, made_by, refused FROM desk.summaries
        WHERE ticket_id = %s AND upto <= %s ORDER BY upto DESC, version DESC LIMIT 50
        """, (ticket_id, at_most)).fetchall()
    return [StoredSummary(**{**row, "refused": tuple(row["refused"])}) for row in found]


def newest_version(conn: Connection, ticket_id: str) -> int:
    """Return the number of the ticket's newest version, 0 if it has none."""
    row = conn.execute("SELECT coalesce(max(version), 0) AS n FROM desk.summaries WHERE ticket_id = %s",
                       (ticket_id,)).fetchone()
    return int(row["n"]) if row else 0


def put(conn: Connection, summary: StoredSummary, after: int) -> bool:
    """Store the version that follows `after`; False if somebody has stored one since that was the newest."""
    done = conn.execute(
        """
        INSERT INTO desk.summaries (ticket_id, version, upto, source_hash, summary, made_by, refused)
        SELECT %(ticket)s, %(after)s::int + 1, %(upto)s, %(hash)s, %(summary)s, %(made_by)s, %(refused)s
        WHERE %(after)s = (SELECT coalesce(max(version), 0) FROM desk.summaries WHERE ticket_id = %(ticket)s)
        ON CONFLICT DO NOTHING
        """, {"ticket": summary.ticket_id, "after": after, "upto": summary.upto, "hash": summary.source_hash,
              "summary": summary.summary, "made_by": summary.made_by, "refused": list(summary.refused)})
    return done.rowcount == 1


def note(conn: Connection, ticket_id: str, source_hash: str) -> str | None:
    """Return what a chunk of the ticket says in short, if that is kept."""
    row = conn.execute("SELECT note FROM desk.summary_notes WHERE ticket_id = %s AND source_hash = %s",
                       (ticket_id, source_hash)).fetchone()
    return str(row["note"]) if row else None


def put_note(conn: Connection, ticket_id: str, source_hash: str, text: str) -> None:
    """Keep what a chunk says in short; what is there already stands."""
    conn.execute("INSERT INTO desk.summary_notes (ticket_id, source_hash, note) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                 (ticket_id, source_hash, text))
