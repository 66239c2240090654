"""Promises, for people: which are open, which are overdue, and that one was kept."""

from __future__ import annotations

import logging

from supportpilot.db import audit, commitments, tickets
from supportpilot.db.pool import Database, Row
from supportpilot.errors import NotFound

log = logging.getLogger(__name__)

OVERDUE_BATCH = 200


def list_commitments(db: Database, *, ticket_id: str | None = None, overdue: bool = False, limit: int = 200) -> list[Row]:
    """Return promises, the earliest due first: those not kept, only overdue ones, or all of one ticket.

    Raises:
        NotFound: no such ticket.
    """
    with db.connection() as conn:
        if ticket_id is not None and tickets.get(conn, ticket_id) is None:
            raise NotFound(f"no ticket {ticket_id}; see `supportpilot ticket list`")
        return commitments.rows(conn, ticket_id=ticket_id, overdue=overdue, limit=limit)


def done(db: Database, commitment_id: str, by: str) -> bool:
    """Mark a promise kept, in a person's name; False if it was already.

    Raises:
        NotFound: no such promise.
    """
    with db.transaction() as conn:
        found = commitments.get(conn, commitment_id)
        if found is None:
            raise NotFound(f"no commitment {commitment_id}; see `supportpilot commitments`")
        kept = commitments.keep(conn, commitment_id, by)
        if kept:
            audit.record(conn, by, "commitment.kept", ticket_id=found["ticket_id"], subject=commitment_id)
        return kept


def note_overdue(db: Database) -> int:
    """Write once into the log and the audit which promises have become overdue; return how many."""
    with db.transaction() as conn:
        late = commitments.note_overdue(conn, OVERDUE_BATCH)
        for row in late:
            audit.record(conn, "clock", "commitment.overdue", ticket_id=row["ticket_id"], subject=row["id"],
                         detail={"due_at": row["due_at"].isoformat()})
    for row in late:
        log.warning("commitment overdue %s ticket=%s due=%s", row["id"], row["ticket_id"], row["due_at"].isoformat())
    return len(late)
