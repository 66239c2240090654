"""Promises, for people: which are open, which are overdue, and that one was kept or dropped."""

from __future__ import annotations

import logging

from supportpilot.db import audit, commitments, erasures, tickets
from supportpilot.db.pool import Database, Row
from supportpilot.errors import NotFound

log = logging.getLogger(__name__)

OVERDUE_BATCH = 200


def list_commitments(db: Database, *, ticket_id: str | None = None, overdue: bool = False, limit: int = 200) -> list[Row]:
    """Return promises, the earliest due first: the open ones, only overdue ones, or all of one ticket.

    Raises:
        NotFound: no such ticket, or an erased one.
    """
    with db.connection() as conn:
        if ticket_id is not None and tickets.get(conn, ticket_id) is None:
            raise erasures.absent(conn, ticket_id)
        return commitments.rows(conn, ticket_id=ticket_id, overdue=overdue, limit=limit)


def done(db: Database, commitment_id: str, by: str) -> str:
    """Mark a promise kept, in a person's name; return "", or the state that it was in already.

    Raises:
        NotFound: no such promise.
    """
    return _close(db, commitment_id, by, None)


def drop(db: Database, commitment_id: str, by: str, reason: str) -> str:
    """Drop a promise that is none, or that nobody needs any more; return "", or the state that it was in already.

    Raises:
        NotFound: no such promise.
    """
    return _close(db, commitment_id, by, reason)


def _close(db: Database, commitment_id: str, by: str, dropped_because: str | None) -> str:
    with db.transaction() as conn:
        found = commitments.get(conn, commitment_id)
        # The ticket's lock first: else the reason would be written down after the ticket was erased.
        if found is None or tickets.lock(conn, found["ticket_id"]) is None:
            raise NotFound(f"no commitment {commitment_id}; see `supportpilot commitments`")
        closed = commitments.close(conn, commitment_id, by, dropped_because)
        found = commitments.get(conn, commitment_id)
        if found is None:
            raise NotFound(f"no commitment {commitment_id} any more: its ticket was erased")
        if not closed:
            return str(found["state"])
        action = "commitment.kept" if dropped_because is None else "commitment.dropped"
        audit.record(conn, by, action, ticket_id=found["ticket_id"], subject=commitment_id,
                     detail=None if dropped_because is None else {"reason": dropped_because})
        return ""


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
