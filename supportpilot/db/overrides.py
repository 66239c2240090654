"""`biz.profile_overrides`: what humans say about a customer's profile."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from supportpilot.db.pool import Connection, Row

Kind = Literal["set", "suppress", "note"]


@dataclass(frozen=True)
class NewOverride:
    """A correction to be stored; `seen` is what the rows say about its target now (JSON)."""

    customer_id: str
    kind: Kind
    target: str
    value: str
    author: str
    reason: str = ""
    expires_at: datetime | None = None
    seen: object = None


def of_customers(conn: Connection, customer_ids: Sequence[str]) -> list[Row]:
    """Return the corrections of these customers, oldest first; `expired` says which do not count any more."""
    return conn.execute(
        """
        SELECT id, customer_id, kind, target, value, seen, author, reason, created_at, expires_at,
               coalesce(expires_at <= clock_timestamp(), false) AS expired
        FROM biz.profile_overrides WHERE customer_id = ANY(%s) ORDER BY created_at, id
        """, (list(customer_ids),)).fetchall()


def put(conn: Connection, new: NewOverride) -> str:
    """Store a correction in the place of an earlier one of the same target and return its id; notes are added."""
    if new.kind != "note":
        conn.execute("DELETE FROM biz.profile_overrides WHERE customer_id = %s AND target = %s AND kind <> 'note'",
                     (new.customer_id, new.target))
    row = conn.execute(
        """
        INSERT INTO biz.profile_overrides (customer_id, kind, target, value, seen, author, reason, expires_at)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s) RETURNING id
        """, (new.customer_id, new.kind, new.target, new.value, json.dumps(new.seen, ensure_ascii=False), new.author,
              new.reason, new.expires_at)).fetchone()
    assert row is not None  # noqa: S101 -- RETURNING of one inserted row
    return str(row["id"])


def remove(conn: Connection, customer_id: str, override_id: str) -> Row | None:
    """Take a correction back and return it; None if the customer has no such one."""
    return conn.execute(
        "DELETE FROM biz.profile_overrides WHERE customer_id = %s AND id = %s RETURNING id, kind, target",
        (customer_id, override_id)).fetchone()
