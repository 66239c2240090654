"""`desk.quarantine`: signed input that could not become a message, kept raw until somebody looks."""

from __future__ import annotations

from datetime import datetime

from supportpilot.db.pool import Connection, Row


def keep(conn: Connection, channel: str, sender: str, raw: bytes, reason: str, delivery_id: str | None) -> str:
    """Store raw input and return its id; the same delivery again returns the first id."""
    row = conn.execute(
        """
        INSERT INTO desk.quarantine (channel, sender, raw, reason, delivery_id) VALUES (%s, %s, %s, %s, %s)
        ON CONFLICT (channel, delivery_id) DO UPDATE SET delivery_id = EXCLUDED.delivery_id
        RETURNING id
        """, (channel, sender, raw, reason, delivery_id)).fetchone()
    assert row is not None  # noqa: S101 -- an upsert returns its row
    return str(row["id"])


def get(conn: Connection, quarantine_id: str) -> Row | None:
    """Return one row with its raw bytes, locked."""
    return conn.execute("SELECT * FROM desk.quarantine WHERE id = %s FOR UPDATE", (quarantine_id,)).fetchone()


def accept(conn: Connection, quarantine_id: str, message_id: str) -> None:
    """Mark a row as turned into a message after all."""
    conn.execute("UPDATE desk.quarantine SET state = 'accepted', message_id = %s WHERE id = %s",
                 (message_id, quarantine_id))


def raws_since(conn: Connection, channel: str, since: datetime) -> list[bytes]:
    """Return what a channel's rows hold that came since."""
    return [bytes(row["raw"]) for row in conn.execute(
        "SELECT raw FROM desk.quarantine WHERE channel = %s AND received_at >= %s", (channel, since)).fetchall()]


def rows(conn: Connection, limit: int = 200) -> list[Row]:
    """Return what is held, newest first, with the start of the raw text."""
    return conn.execute(
        """
        SELECT id, channel, sender, reason, state, message_id, received_at, length(raw) AS bytes,
               encode(substring(raw FROM 1 FOR 120), 'escape') AS start
        FROM desk.quarantine ORDER BY received_at DESC LIMIT %s
        """, (limit,)).fetchall()
