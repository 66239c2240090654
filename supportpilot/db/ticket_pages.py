"""What the staff's pages of tickets and customers read: lists by key, and how each turn of a ticket went."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from supportpilot.db.pool import Connection, Row

NEEDS_HUMAN = """
    (t.status IN ('escalated', 'waiting_approval')
     OR EXISTS (SELECT 1 FROM desk.outbox o WHERE o.ticket_id = t.id AND o.status = 'failed')
     OR EXISTS (SELECT 1 FROM desk.inbox i WHERE i.ticket_id = t.id AND i.state = 'dead'))
"""
WRITTEN = "coalesce(t.last_written_at, t.created_at)"


@dataclass(frozen=True)
class Filters:
    """Which tickets; empty: all. `email` is a part of the address, `needs_human`: a person has something to do on it."""

    status: str = ""
    channel: str = ""
    email: str = ""
    needs_human: bool = False


@dataclass(frozen=True)
class Key:
    """Where a page of the list begins: after this ticket."""

    written_at: datetime
    ticket_id: str


def find(conn: Connection, filters: Filters, after: Key | None, limit: int) -> list[Row]:
    """Return tickets that fit, last written first, from below `after` on."""
    return conn.execute(
        f"""
        SELECT t.id AS ticket_id, t.status, t.customer_id, t.contact, coalesce(c.name, t.contact_name) AS name, t.channel,
               t.subject, t.category, t.handoff_reason, t.verified, {WRITTEN} AS written_at, {NEEDS_HUMAN} AS needs_human,
               (SELECT count(*) FROM desk.inbox i WHERE i.ticket_id = t.id AND i.state = 'pending') AS pending_messages,
               EXISTS (SELECT 1 FROM desk.outbox o WHERE o.ticket_id = t.id AND o.status = 'failed') AS undelivered
        FROM biz.tickets t LEFT JOIN biz.customers c ON c.id = t.customer_id
        WHERE (%(status)s = '' OR t.status = %(status)s) AND (%(channel)s = '' OR t.channel = %(channel)s)
          AND (%(email)s = '' OR strpos(t.contact, lower(%(email)s)) > 0)
          AND (NOT %(human)s OR {NEEDS_HUMAN})
          AND (%(at)s::timestamptz IS NULL OR ({WRITTEN}, t.id) < (%(at)s::timestamptz, %(id)s))
        ORDER BY {WRITTEN} DESC, t.id DESC LIMIT %(limit)s
        """,  # noqa: S608 -- constants
        {"status": filters.status, "channel": filters.channel, "email": filters.email.strip(), "human": filters.needs_human,
         "at": after and after.written_at, "id": after and after.ticket_id, "limit": limit}).fetchall()


def channels(conn: Connection) -> list[str]:
    """Return the channels that tickets came by, one look into an index each."""
    found = conn.execute(
        """
        WITH RECURSIVE each AS (
            SELECT min(channel) AS channel FROM biz.tickets
            UNION ALL SELECT (SELECT min(channel) FROM biz.tickets WHERE channel > each.channel) FROM each
            WHERE each.channel IS NOT NULL)
        SELECT channel FROM each WHERE channel IS NOT NULL
        """).fetchall()
    return [str(row["channel"]) for row in found]


def face(conn: Connection, ticket_id: str) -> Row | None:
    """Return what a ticket's page says at its head, and the texts of one from before the inbox."""
    return conn.execute(
        """
        SELECT t.id, t.customer_id, t.contact, coalesce(c.name, t.contact_name) AS name, t.body, t.resolution, t.created_at,
               t.resolved_at, t.verified
        FROM biz.tickets t LEFT JOIN biz.customers c ON c.id = t.customer_id WHERE t.id = %s
        """, (ticket_id,)).fetchone()


def of_person(conn: Connection, customer_id: str | None, contact: str, limit: int) -> list[Row]:
    """Return the newest tickets of a customer, or of an address without an account."""
    return conn.execute(
        f"""
        SELECT t.id AS ticket_id, t.status, t.channel, t.subject, t.category, {WRITTEN} AS written_at
        FROM biz.tickets t WHERE t.customer_id = %(customer)s OR t.contact = %(contact)s AND t.customer_id IS NULL
        ORDER BY {WRITTEN} DESC, t.id DESC LIMIT %(limit)s
        """, {"customer": customer_id, "contact": contact, "limit": limit}).fetchall()  # noqa: S608 -- constants


def customer(conn: Connection, customer_id: str) -> Row | None:
    """Return a customer's row."""
    return conn.execute("SELECT id, email, name, company, is_vip, locale, created_at FROM biz.customers WHERE id = %s",
                        (customer_id,)).fetchone()


# the timeline ---------------------------------------------------------------------------------------

def turns(conn: Connection, ticket_id: str) -> list[Row]:
    """Return a ticket's turns, oldest first, with what they were about."""
    return conn.execute(
        """
        SELECT turn_id, status, outcome, attempts, crashes, last_error, silent, created_at, finished_at,
               cardinality(message_ids) AS messages
        FROM desk.turns WHERE ticket_id = %s ORDER BY created_at, turn_id
        """, (ticket_id,)).fetchall()


def calls(conn: Connection, ticket_id: str) -> list[Row]:
    """Return a ticket's model calls, in order."""
    return conn.execute(
        """
        SELECT turn_id, node, model, tokens_in, tokens_out, tokens_cached, cost_cny, ms, created_at
        FROM desk.llm_calls WHERE ticket_id = %s ORDER BY id
        """, (ticket_id,)).fetchall()


def snapshots(conn: Connection, ticket_id: str) -> list[Row]:
    """Return a thread's snapshots, oldest first: turn, time, and at which version each node last ran.

    Read here without the conversation that they hold: a long thread has many, and a timeline needs none of it.
    """
    return conn.execute(
        """
        SELECT checkpoint_id, metadata ->> 'turn_id' AS turn_id, metadata ->> 'source' AS source,
               (checkpoint ->> 'ts')::timestamptz AS at, checkpoint -> 'versions_seen' AS seen
        FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = '' ORDER BY checkpoint_id
        """, (ticket_id,)).fetchall()


def human_deliveries(conn: Connection, ticket_id: str) -> dict[str, str]:
    """Return what became of each reply that a human wrote here, by its message in the inbox."""
    found = conn.execute(
        """
        SELECT i.id, o.status FROM desk.outbox o JOIN desk.inbox i ON i.channel = 'desk' AND i.external_id = o.idempotency_key
        WHERE o.ticket_id = %s AND o.kind = 'human'
        """, (ticket_id,)).fetchall()
    return {str(row["id"]): str(row["status"]) for row in found}
