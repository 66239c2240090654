"""The customer's page of a ticket: what its link is bound to, and what may be shown on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from supportpilot.db.pool import Connection, Row


@dataclass(frozen=True)
class Linked:
    """A ticket as its link sees it; `young`: its last message is not older than links may be."""

    contact: str
    link_key: str | None
    young: bool


def get(conn: Connection, ticket_id: str, days: float) -> Linked | None:
    """Return what a ticket's link is bound to, None if there is no such ticket."""
    row = conn.execute(
        """
        SELECT contact, link_key::text AS link_key,
               coalesce(last_written_at, created_at) > clock_timestamp() - make_interval(secs => %s) AS young
        FROM biz.tickets WHERE id = %s
        """, (days * 86_400, ticket_id)).fetchone()
    return None if row is None else Linked(**row)


def renew(conn: Connection, ticket_id: str) -> str | None:
    """Give a ticket's link a new key and return it, None if there is no such ticket."""
    row = conn.execute("UPDATE biz.tickets SET link_key = gen_random_uuid() WHERE id = %s RETURNING link_key::text AS key",
                       (ticket_id,)).fetchone()
    return None if row is None else str(row["key"])


def face(conn: Connection, ticket_id: str) -> Row | None:
    """Return a ticket's subject, text, status, time, and what it waits for.

    working: a turn runs or a message waits for one. sending: an answer is on its way for the first time.
    """
    return conn.execute(
        """
        SELECT t.id, t.subject, t.body, t.status, t.created_at, t.contact_name,
               EXISTS (SELECT 1 FROM desk.turns u WHERE u.ticket_id = t.id AND u.status = 'running')
               OR EXISTS (SELECT 1 FROM desk.inbox i WHERE i.ticket_id = t.id AND i.state = 'pending'
                                                       AND i.author = 'customer') AS working,
               EXISTS (SELECT 1 FROM desk.outbox o WHERE o.ticket_id = t.id AND o.status IN ('queued', 'sending')
                                                     AND o.last_error IS NULL) AS sending
        FROM biz.tickets t WHERE t.id = %s
        """, (ticket_id,)).fetchone()


def conversation(conn: Connection, ticket_id: str, limit: int) -> list[Row]:
    """Return the newest `limit` texts that the customer may see, oldest first: id, speaker, author, body, citations, at.

    Theirs, and ours as soon as a first attempt to send them is over: a mail server that is away delays no page. What a
    human's takeover keeps back is not shown, nor are notes and automatic mail. A human's reply of ours stands in both
    tables, so of the inbox only those are taken that were written at a helpdesk.
    """
    return conn.execute(
        """
        SELECT * FROM (
            SELECT i.id, CASE i.author WHEN 'customer' THEN 'customer' ELSE 'human' END AS speaker, i.author_name AS author,
                   i.body, '[]'::jsonb AS citations, i.received_at AS at
            FROM desk.inbox i
            WHERE i.ticket_id = %(ticket)s AND (i.author = 'customer' OR i.author = 'human' AND i.channel <> 'desk')
            UNION ALL
            SELECT o.id, CASE o.kind WHEN 'human' THEN 'human' ELSE 'agent' END, o.author, o.body, o.citations, o.created_at
            FROM desk.outbox o JOIN biz.tickets t ON t.id = o.ticket_id LEFT JOIN desk.turns u ON u.turn_id = o.turn_id
            WHERE o.ticket_id = %(ticket)s
              AND (o.status = 'accepted'
                   OR (o.status IN ('unknown', 'failed') OR o.status IN ('queued', 'sending') AND o.last_error IS NOT NULL)
                      AND NOT (o.kind IN ('reply', 'notice', 'ack') AND t.taken_over_seq > coalesce(u.taken_over_seq, t.taken_over_seq)))
            ORDER BY at DESC, id DESC LIMIT %(limit)s) AS newest
        ORDER BY at, id
        """, {"ticket": ticket_id, "limit": limit}).fetchall()


def messages_since(conn: Connection, ticket_id: str, seconds: float) -> int:
    """Return how many messages were written on a ticket's page in that time."""
    row = conn.execute(
        """
        SELECT count(*) AS n FROM desk.inbox
        WHERE ticket_id = %s AND channel = 'page' AND received_at > clock_timestamp() - make_interval(secs => %s)
        """, (ticket_id, seconds)).fetchone()
    assert row is not None  # noqa: S101 -- an aggregate has one row
    return int(row["n"])


def pulses(conn: Connection, ticket_ids: Sequence[str]) -> dict[str, str]:
    """Return a mark of each ticket that is another one as soon as anything that a page shows is; an erased one has none."""
    found = conn.execute(
        """
        SELECT t.id, md5(concat_ws('|', t.status, t.last_seq, t.taken_over_seq, t.link_key,
            (SELECT string_agg(concat_ws(':', o.id, o.status, o.last_error IS NULL), ',' ORDER BY o.position)
             FROM desk.outbox o WHERE o.ticket_id = t.id),
            (SELECT concat_ws(':', u.turn_id, u.status) FROM desk.turns u
             WHERE u.ticket_id = t.id AND u.status IN ('running', 'waiting')),
            (SELECT string_agg(concat_ws(':', a.id, a.status, a.applied_at IS NULL), ',' ORDER BY a.id)
             FROM desk.approvals a WHERE a.ticket_id = t.id),
            (SELECT count(*) FROM desk.inbox i WHERE i.ticket_id = t.id AND i.state = 'pending'))) AS pulse
        FROM biz.tickets t WHERE t.id = ANY(%s)
        """, (list(ticket_ids),)).fetchall()
    return {str(row["id"]): str(row["pulse"]) for row in found}
