"""`desk.audit`: append-only record of who did what."""

from __future__ import annotations

import json

from supportpilot.db.pool import Connection, Row


def record(conn: Connection, actor: str, action: str, *, ticket_id: str | None = None, subject: str | None = None,
           detail: dict[str, object] | None = None) -> None:
    """Append one entry in the caller's transaction; `subject` is the id that the action was about."""
    conn.execute(
        "INSERT INTO desk.audit (actor, action, ticket_id, subject, detail) VALUES (%s, %s, %s, %s, %s)",
        (actor, action, ticket_id, subject, json.dumps(detail or {}, ensure_ascii=False, default=str)))


def of_ticket(conn: Connection, ticket_id: str) -> list[Row]:
    """Return a ticket's entries, oldest first."""
    return conn.execute(
        "SELECT at, actor, action, subject, detail FROM desk.audit WHERE ticket_id = %s ORDER BY id",
        (ticket_id,)).fetchall()
