"""`biz.customer_profiles`, and the rows that a profile is made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from supportpilot.db import business
from supportpilot.db.pool import Connection
from supportpilot.errors import NotFound


@dataclass(frozen=True)
class Profile:
    """A stored profile and what it was built from."""

    customer_id: str
    summary: str
    source_ticket_count: int
    source_fingerprint: str


def get(conn: Connection, customer_id: str) -> Profile | None:
    """Return the stored profile, if there is one."""
    row = conn.execute(
        "SELECT customer_id, summary, source_ticket_count, source_fingerprint"
        " FROM biz.customer_profiles WHERE customer_id = %s",
        (customer_id,)).fetchone()
    return Profile(**row) if row else None


def put(conn: Connection, profile: Profile) -> None:
    """Store a profile in the place of the customer's last one."""
    conn.execute(
        """
        INSERT INTO biz.customer_profiles (customer_id, summary, source_ticket_count, source_fingerprint)
        VALUES (%s, %s, %s, %s)
        ON CONFLICT (customer_id) DO UPDATE
        SET summary = excluded.summary, source_ticket_count = excluded.source_ticket_count,
            source_fingerprint = excluded.source_fingerprint, updated_at = clock_timestamp()
        """,
        (profile.customer_id, profile.summary, profile.source_ticket_count, profile.source_fingerprint))


def lock_customer(conn: Connection, customer_id: str) -> None:
    """Hold the customer's row until the transaction ends; NO KEY, so that foreign-key checks do not wait."""
    conn.execute("SELECT 1 FROM biz.customers WHERE id = %s FOR NO KEY UPDATE", (customer_id,))


def resolved_count(conn: Connection, customer_id: str) -> int:
    """Return how many of the customer's tickets are resolved."""
    row = conn.execute(
        "SELECT count(*) AS n FROM biz.tickets WHERE customer_id = %s AND status = 'resolved'",
        (customer_id,)).fetchone()
    return int(row["n"]) if row else 0


def facts(conn: Connection, customer_id: str, past_tickets: int) -> dict[str, Any]:
    """Return `{"customer", "subscriptions", "past_tickets"}`: the newest resolved tickets, rows in a fixed order.

    Raises:
        NotFound: there is no such customer.
    """
    customer = conn.execute(
        "SELECT name, company, is_vip, locale FROM biz.customers WHERE id = %s", (customer_id,)).fetchone()
    if customer is None:
        raise NotFound(f"no customer {customer_id}")
    return {
        "customer": customer,
        "subscriptions": business.subscriptions(conn, customer_id),
        "past_tickets": business.resolved_tickets(conn, customer_id, past_tickets),
    }
