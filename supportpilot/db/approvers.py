"""`desk.approvers` and their sessions. Only hashes of tokens are stored; what is compared is the hash."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from supportpilot.db.pool import Connection, Row

Role = Literal["viewer", "agent", "approver", "admin"]


@dataclass(frozen=True)
class Approver:
    """One person of the staff; `revoked_at` is None while the token counts."""

    id: str
    name: str
    role: Role
    created_at: datetime
    revoked_at: datetime | None
    seen_at: datetime | None


def _record(row: Row | None) -> Approver | None:
    return None if row is None else Approver(**{name: row[name] for name in Approver.__dataclass_fields__})


def put(conn: Connection, name: str, folded_name: str, role: Role, token_hash: str) -> Approver | None:
    """Write a person, or give one who was revoked a new token; None if that name has a token that counts."""
    return _record(conn.execute(
        """
        INSERT INTO desk.approvers AS a (name, folded_name, role, token_hash) VALUES (%s, %s, %s, %s)
        ON CONFLICT (folded_name) DO UPDATE SET name = EXCLUDED.name, role = EXCLUDED.role, token_hash = EXCLUDED.token_hash,
               revoked_at = NULL
        WHERE a.token_hash IS NULL
        RETURNING a.*
        """, (name, folded_name, role, token_hash)).fetchone())


def revoke(conn: Connection, folded_name: str) -> Approver | None:
    """Take a person's token and sessions away; None if there is no such person with a token."""
    found = _record(conn.execute(
        "UPDATE desk.approvers a SET token_hash = NULL, revoked_at = clock_timestamp() "
        "WHERE folded_name = %s AND token_hash IS NOT NULL RETURNING a.*", (folded_name,)).fetchone())
    if found is not None:
        conn.execute("DELETE FROM desk.sessions WHERE approver_id = %s", (found.id,))
    return found


def rows(conn: Connection) -> list[Approver]:
    """Return everybody, those who are revoked too, by name."""
    found = conn.execute("SELECT a.* FROM desk.approvers a ORDER BY a.name, a.id").fetchall()
    return [a for row in found if (a := _record(row)) is not None]


def by_name(conn: Connection, folded_name: str) -> Approver | None:
    """Return the person of that name, if the token counts."""
    return _record(conn.execute("SELECT a.* FROM desk.approvers a WHERE folded_name = %s AND token_hash IS NOT NULL",
                                (folded_name,)).fetchone())


def by_token(conn: Connection, token_hash: str) -> Approver | None:
    """Return whose token it is."""
    return _record(conn.execute("SELECT a.* FROM desk.approvers a WHERE token_hash = %s", (token_hash,)).fetchone())


# sessions -------------------------------------------------------------------------------------------

def open_session(conn: Connection, approver_id: str, id_hash: str, hours: float) -> None:
    """Write a session, and forget those that are over."""
    conn.execute("DELETE FROM desk.sessions WHERE expires_at < clock_timestamp()")
    conn.execute("DELETE FROM desk.form_keys WHERE used_at < clock_timestamp() - interval '7 days'")
    conn.execute("INSERT INTO desk.sessions (id_hash, approver_id, expires_at) "
                 "VALUES (%s, %s, clock_timestamp() + make_interval(secs => %s))", (id_hash, approver_id, hours * 3600))
    conn.execute("UPDATE desk.approvers SET seen_at = clock_timestamp() WHERE id = %s", (approver_id,))


def by_session(conn: Connection, id_hash: str) -> Approver | None:
    """Return whose session it is, None if it is over."""
    return _record(conn.execute(
        "SELECT a.* FROM desk.sessions s JOIN desk.approvers a ON a.id = s.approver_id "
        "WHERE s.id_hash = %s AND s.expires_at > clock_timestamp() AND a.token_hash IS NOT NULL", (id_hash,)).fetchone())


def close_session(conn: Connection, id_hash: str) -> None:
    """End a session."""
    conn.execute("DELETE FROM desk.sessions WHERE id_hash = %s", (id_hash,))


# forms ----------------------------------------------------------------------------------------------

def spend_form(conn: Connection, key_hash: str) -> bool:
    """Note that a form was sent; False if it was before."""
    return conn.execute("INSERT INTO desk.form_keys (key_hash) VALUES (%s) ON CONFLICT DO NOTHING", (key_hash,)).rowcount == 1


def give_form_back(conn: Connection, key_hash: str) -> None:
    """Let a form be sent again: what it asked for was not done."""
    conn.execute("DELETE FROM desk.form_keys WHERE key_hash = %s", (key_hash,))
