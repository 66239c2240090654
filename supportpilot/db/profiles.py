"""`biz.customer_profiles`, and the rows that a profile is made from."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

from supportpilot.db import overrides
from supportpilot.db.business import PROMISE
from supportpilot.db.pool import Connection, Row

CLAIM_SECONDS = 180


@dataclass(frozen=True)
class Profile:
    """A stored profile and what it was built from; `sentences` are `{"text", "rows"}`, `refused` reason codes."""

    customer_id: str
    summary: str
    source_ticket_count: int
    source_fingerprint: str
    sentences: list[dict[str, Any]] = field(default_factory=list)
    made_by: Literal["model", "rule"] = "model"
    refused: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Rows:
    """All rows that say something about one customer. Lists are in a fixed order, newest first, corrections oldest first."""

    customer: Row
    subscriptions: list[Row]
    tickets: list[Row]
    bank_connections: list[Row]
    commitments: list[Row]
    overrides: list[Row]


def open_commitments(conn: Connection, customer_ids: Sequence[str]) -> list[Row]:
    """Return the promises to these customers that are not kept yet, oldest first; a handoff's "a colleague answers" is none.

    Rows of customer_id, id, text, due_at (Chinese time, or None), overdue.
    """
    return conn.execute(
        """
        SELECT c.customer_id, c.id, c.text, c.due_at AT TIME ZONE 'Asia/Shanghai' AS due_at, c.state = 'overdue' AS overdue
        FROM desk.commitment_states c
        WHERE c.customer_id = ANY(%s) AND c.state IN ('open', 'overdue') AND c.kind <> 'handoff' ORDER BY c.created_at, c.id
        """, (list(customer_ids),)).fetchall()


def rows_of(conn: Connection, customer_ids: Sequence[str]) -> dict[str, Rows]:
    """Return the rows of these customers by customer; an unknown id is left out. A fixed number of statements."""
    ids = list(customer_ids)
    customers = conn.execute("SELECT id, is_vip, locale FROM biz.customers WHERE id = ANY(%s)", (ids,)).fetchall()
    subscriptions = conn.execute(
        """
        SELECT customer_id, id, plan, billing_cycle, status FROM biz.subscriptions
        WHERE customer_id = ANY(%s) ORDER BY period_start DESC, id
        """, (ids,)).fetchall()
    tickets = conn.execute(
        f"""
        SELECT t.customer_id, t.id, t.category, t.error_code, t.resolution, t.resolution_kb, {PROMISE}, t.wish,
               to_char(t.created_at AT TIME ZONE 'Asia/Shanghai', 'YYYY-MM') AS month
        FROM biz.tickets t WHERE t.customer_id = ANY(%s) AND t.status = 'resolved' ORDER BY t.created_at DESC, t.id DESC
        """, (ids,)).fetchall()  # noqa: S608 -- a constant
    banks = conn.execute(
        """
        SELECT customer_id, id, bank, status, expires_at FROM biz.bank_connections
        WHERE customer_id = ANY(%s) ORDER BY expires_at, id
        """, (ids,)).fetchall()
    grouped = [_grouped(found) for found in (
        subscriptions, tickets, banks, open_commitments(conn, ids), overrides.of_customers(conn, ids))]
    return {row["id"]: Rows(row, *(group.get(row["id"], []) for group in grouped)) for row in customers}


def _grouped(found: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in found:
        groups.setdefault(row["customer_id"], []).append({k: v for k, v in row.items() if k != "customer_id"})
    return groups


def plans(conn: Connection) -> list[str]:
    """Return the names of all plans that anybody has."""
    return [str(row["plan"]) for row in conn.execute("SELECT DISTINCT plan FROM biz.subscriptions ORDER BY plan").fetchall()]


def today(conn: Connection) -> date:
    """Return the business day: that of the house's time zone."""
    row = conn.execute("SELECT (clock_timestamp() AT TIME ZONE 'Asia/Shanghai')::date AS day").fetchone()
    assert row is not None  # noqa: S101 -- a SELECT without FROM
    day: date = row["day"]
    return day


def find_customer(conn: Connection, name: str) -> str | None:
    """Return the id of the customer with this id or address."""
    row = conn.execute("SELECT id FROM biz.customers WHERE id = %(name)s OR email = lower(%(name)s)", {"name": name}).fetchone()
    return str(row["id"]) if row else None


def get(conn: Connection, customer_id: str) -> Profile | None:
    """Return the stored profile, if there is one."""
    return get_all(conn, [customer_id]).get(customer_id)


def get_all(conn: Connection, customer_ids: Sequence[str]) -> dict[str, Profile]:
    """Return the stored profiles of these customers."""
    found = conn.execute(
        """
        SELECT customer_id, summary, source_ticket_count, source_fingerprint, sentences, made_by, refused
        FROM biz.customer_profiles WHERE customer_id = ANY(%s)
        """, (list(customer_ids),)).fetchall()
    return {row["customer_id"]: Profile(**row) for row in found}


def stored_after(conn: Connection, customer_id: str, limit: int) -> list[str]:
    """Return the next customers with a stored profile, by id."""
    found = conn.execute("SELECT customer_id FROM biz.customer_profiles WHERE customer_id > %s ORDER BY customer_id LIMIT %s",
                         (customer_id, limit)).fetchall()
    return [str(row["customer_id"]) for row in found]


def updated_at(conn: Connection, customer_id: str) -> object:
    """Return when the stored profile was written."""
    row = conn.execute("SELECT updated_at FROM biz.customer_profiles WHERE customer_id = %s", (customer_id,)).fetchone()
    return row["updated_at"] if row else None


def put(conn: Connection, profile: Profile) -> None:
    """Store a profile in the place of the customer's last one."""
    conn.execute(
        """
        INSERT INTO biz.customer_profiles (customer_id, summary, source_ticket_count, source_fingerprint, sentences, made_by, refused)
        VALUES (%s, %s, %s, %s, %s, %s, %s)
        ON CONFLICT (customer_id) DO UPDATE
        SET summary = excluded.summary, source_ticket_count = excluded.source_ticket_count,
            source_fingerprint = excluded.source_fingerprint, sentences = excluded.sentences,
            made_by = excluded.made_by, refused = excluded.refused, updated_at = clock_timestamp()
        """,
        (profile.customer_id, profile.summary, profile.source_ticket_count, profile.source_fingerprint,
         json.dumps(profile.sentences, ensure_ascii=False), profile.made_by, profile.refused))


def lock_customer(conn: Connection, customer_id: str) -> None:
    """Hold the customer's row until the transaction ends; NO KEY, so that foreign-key checks do not wait."""
    conn.execute("SELECT 1 FROM biz.customers WHERE id = %s FOR NO KEY UPDATE", (customer_id,))


def claim(conn: Connection, customer_id: str) -> str | None:
    """Say that this process words the customer's profile and return its token; None while another one does.

    A claim ends by itself, so a killed process holds nobody up for long.
    """
    row = conn.execute(
        """
        INSERT INTO desk.profile_rebuilds (customer_id, token, until)
        VALUES (%(id)s, %(token)s, clock_timestamp() + make_interval(secs => %(secs)s))
        ON CONFLICT (customer_id) DO UPDATE SET token = excluded.token, until = excluded.until
        WHERE profile_rebuilds.until <= clock_timestamp() RETURNING token
        """, {"id": customer_id, "token": uuid.uuid4(), "secs": CLAIM_SECONDS}).fetchone()
    return str(row["token"]) if row else None


def release(conn: Connection, customer_id: str, token: str) -> None:
    """Give the claim back; another one's stays."""
    conn.execute("DELETE FROM desk.profile_rebuilds WHERE customer_id = %s AND token = %s", (customer_id, token))
