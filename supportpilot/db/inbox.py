"""`desk.inbox`: every message of a ticket in order of `seq`, stored before anything else happens to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from supportpilot.db.pool import Connection, Row
from supportpilot.types import InboundMessage


@dataclass(frozen=True)
class StoredMessage:
    """One row as the turn needs it."""

    id: str
    ticket_id: str
    seq: int
    author: str
    author_name: str
    body: str
    received_at: datetime


@dataclass(frozen=True)
class Known:
    """A message that was stored before."""

    id: str
    ticket_id: str
    content_hash: str



def _record(row: Row) -> StoredMessage:
    return StoredMessage(**{k: row[k] for k in ("id", "ticket_id", "seq", "author", "author_name", "body", "received_at")})


def find_known(conn: Connection, message: InboundMessage) -> Known | None:
    """Return the row of the same message or the same delivery, if it was stored before."""
    row = conn.execute(
        """
        SELECT id, ticket_id, content_hash FROM desk.inbox
        WHERE channel = %(channel)s AND (external_id = %(external)s OR delivery_id = %(delivery)s)
        ORDER BY (external_id = %(external)s) DESC LIMIT 1
        """, {"channel": message.channel, "external": message.external_id, "delivery": message.delivery_id}).fetchone()
    return None if row is None else Known(**row)


def insert(conn: Connection, ticket_id: str, seq: int, message: InboundMessage, content_hash: str,
           quiet_seconds: float) -> str | None:
    """Store a message under the `seq` that the locked ticket row gave; None if it was stored before."""
    row = conn.execute(
        """
        INSERT INTO desk.inbox (ticket_id, seq, channel, external_id, delivery_id, author, author_name, body,
                                content_hash, sent_at, due_at)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, clock_timestamp() + make_interval(secs => %s))
        ON CONFLICT DO NOTHING RETURNING id
        """,
        (ticket_id, seq, message.channel, message.external_id, message.delivery_id, message.author,
         message.contact_name, message.body, content_hash, message.sent_at, quiet_seconds)).fetchone()
    return None if row is None else str(row["id"])


def insert_note(conn: Connection, ticket_id: str, seq: int, message: InboundMessage, content_hash: str) -> str | None:
    """Store what no turn answers (a machine's mail, a stranger's), done from the start; None if it was stored before."""
    row = conn.execute(
        """
        INSERT INTO desk.inbox (ticket_id, seq, channel, external_id, author, author_name, body, content_hash, sent_at,
                                due_at, state, done_at)
        VALUES (%s, %s, %s, %s, 'automatic', %s, %s, %s, %s, clock_timestamp(), 'done', clock_timestamp())
        ON CONFLICT DO NOTHING RETURNING id
        """, (ticket_id, seq, message.channel, message.external_id, message.contact_name, message.body, content_hash,
              message.sent_at)).fetchone()
    return None if row is None else str(row["id"])


def id_of(conn: Connection, channel: str, external_id: str) -> str | None:
    """Return the id of a stored message by the sender's id of it."""
    row = conn.execute("SELECT id FROM desk.inbox WHERE channel = %s AND external_id = %s", (channel, external_id)).fetchone()
    return None if row is None else str(row["id"])


def notes(conn: Connection, ticket_id: str) -> list[Row]:
    """Return a ticket's notes in order."""
    return conn.execute(
        "SELECT id, seq, author_name AS author, body, received_at AS at FROM desk.inbox "
        "WHERE ticket_id = %s AND author = 'automatic' AND state = 'done' ORDER BY seq", (ticket_id,)).fetchall()


def note_reopening(conn: Connection, message_id: str) -> None:
    """Keep since when the ticket was resolved that this message opens again."""
    conn.execute("UPDATE desk.inbox i SET ticket_resolved_at = t.resolved_at FROM biz.tickets t "
                 "WHERE i.id = %s AND t.id = i.ticket_id", (message_id,))


def restart_quiet_window(conn: Connection, ticket_id: str, quiet_seconds: float, longest_seconds: float) -> None:
    """Move `due_at` of all the ticket's pending messages: the quiet window starts anew, capped from the first.

    A message that a turn has taken is nobody's first any more, even if that turn was replaced: counted from it, the
    window of what comes in mid-turn would be over before it began, and every line of a burst be a turn of its own.
    """
    conn.execute(
        """
        UPDATE desk.inbox i
        SET due_at = least(clock_timestamp() + make_interval(secs => %(quiet)s), f.first + make_interval(secs => %(longest)s))
        FROM (SELECT min(received_at) AS first FROM desk.inbox
              WHERE ticket_id = %(ticket)s AND state = 'pending'
                AND seq > coalesce((SELECT max(highest_seq) FROM desk.turns
                                    WHERE ticket_id = %(ticket)s AND status IN ('running', 'replaced')), 0)) f
        WHERE i.ticket_id = %(ticket)s AND i.state = 'pending'
        """, {"quiet": quiet_seconds, "longest": longest_seconds, "ticket": ticket_id})


def seconds_until_due(conn: Connection, message_id: str) -> float:
    """Return how long a pending message still has to wait; 0 if it is due, done or unknown."""
    row = conn.execute(
        """
        SELECT greatest(0, extract(epoch FROM due_at - clock_timestamp()))::float8 AS wait
        FROM desk.inbox WHERE id = %s AND state = 'pending'
        """, (message_id,)).fetchone()
    return float(row["wait"]) if row else 0.0


def runnable(conn: Connection, ticket_id: str) -> list[StoredMessage]:
    """Return the ticket's runnable messages in order (the predicate is the view)."""
    found = conn.execute(
        """
        SELECT id, ticket_id, seq, author, author_name, body, received_at
        FROM desk.runnable_messages WHERE ticket_id = %s ORDER BY seq
        """, (ticket_id,)).fetchall()
    return [_record(r) for r in found]


def pending(conn: Connection, ticket_id: str) -> list[StoredMessage]:
    """Return all the ticket's pending messages in order, due or not."""
    found = conn.execute(
        """
        SELECT id, ticket_id, seq, author, author_name, body, received_at
        FROM desk.inbox WHERE ticket_id = %s AND state = 'pending' ORDER BY seq
        """, (ticket_id,)).fetchall()
    return [_record(r) for r in found]


def unfinished(conn: Connection, ticket_id: str) -> list[tuple[StoredMessage, str]]:
    """Return the ticket's pending and dead messages in order, each with its state."""
    found = conn.execute(
        """
        SELECT id, ticket_id, seq, author, author_name, body, received_at, state
        FROM desk.inbox WHERE ticket_id = %s AND state <> 'done' ORDER BY seq
        """, (ticket_id,)).fetchall()
    return [(_record(r), str(r["state"])) for r in found]


def by_ids(conn: Connection, ids: Sequence[str]) -> list[StoredMessage]:
    """Return the rows of these ids in order of `seq`."""
    found = conn.execute(
        """
        SELECT id, ticket_id, seq, author, author_name, body, received_at
        FROM desk.inbox WHERE id = ANY(%s) ORDER BY seq
        """, (list(ids),)).fetchall()
    return [_record(r) for r in found]


def next_due(conn: Connection, ticket_id: str) -> tuple[str, float] | None:
    """Return (id, seconds from now) of the earliest message that still waits in its quiet window."""
    row = conn.execute(
        """
        SELECT id, greatest(0, extract(epoch FROM due_at - clock_timestamp()))::float8 AS wait
        FROM desk.inbox WHERE ticket_id = %s AND state = 'pending' ORDER BY due_at, seq LIMIT 1
        """, (ticket_id,)).fetchone()
    return None if row is None else (str(row["id"]), float(row["wait"]))


def set_state(conn: Connection, ids: Sequence[str], state: str, error: str | None = None) -> None:
    """Move messages to `done` or `dead`."""
    conn.execute(
        """
        UPDATE desk.inbox SET state = %s, last_error = coalesce(%s, last_error),
               done_at = CASE WHEN %s = 'done' THEN clock_timestamp() END
        WHERE id = ANY(%s)
        """, (state, error, state, list(ids)))


def revive(conn: Connection, ticket_id: str, message_id: str | None = None) -> int:
    """Make the ticket's dead messages (or one of them) pending again, due now; return how many."""
    return conn.execute(
        """
        UPDATE desk.inbox SET state = 'pending', due_at = clock_timestamp(), woken_at = NULL, wakes = 0
        WHERE ticket_id = %(ticket)s AND state = 'dead' AND (%(id)s::text IS NULL OR id = %(id)s)
        """, {"ticket": ticket_id, "id": message_id}).rowcount


def make_due(conn: Connection, ticket_id: str) -> None:
    """Make all the ticket's pending messages due now."""
    conn.execute("UPDATE desk.inbox SET due_at = clock_timestamp(), woken_at = NULL, wakes = 0 "
                 "WHERE ticket_id = %s AND state = 'pending' AND due_at > clock_timestamp()", (ticket_id,))


def highest_customer_seq(conn: Connection, ticket_id: str) -> int:
    """Return the `seq` of the customer's last message, 0 if there is none."""
    row = conn.execute("SELECT coalesce(max(seq), 0) AS seq FROM desk.inbox WHERE ticket_id = %s AND author = 'customer'",
                       (ticket_id,)).fetchone()
    return int(row["seq"]) if row else 0


def get(conn: Connection, message_id: str) -> Row | None:
    """Return one row for people."""
    return conn.execute("SELECT id, ticket_id, seq, state, last_error FROM desk.inbox WHERE id = %s",
                        (message_id,)).fetchone()


def rows(conn: Connection, *, dead: bool = False, limit: int = 200) -> list[Row]:
    """Return messages for people, newest first; `dead`: only the dead letters."""
    return conn.execute(
        """
        SELECT id, ticket_id, seq, channel, author, author_name, body, state, received_at, due_at, done_at, last_error
        FROM desk.inbox WHERE (NOT %s OR state = 'dead') ORDER BY received_at DESC, seq DESC LIMIT %s
        """, (dead, limit)).fetchall()


def wake_due(conn: Connection, grace_seconds: float, limit: int) -> list[tuple[str, str]]:
    """Return (ticket, first message) of tickets with runnable messages, each with a growing grace."""
    found = conn.execute(
        """
        WITH first AS (SELECT DISTINCT ON (ticket_id) id, due_at, woken_at, wakes
                       FROM desk.runnable_messages ORDER BY ticket_id, seq),
        due AS (
            SELECT id FROM first
            WHERE coalesce(woken_at, due_at) <= clock_timestamp()
                  - make_interval(secs => %(grace)s * power(2, least(wakes, 6)) - %(grace)s * 0.5)
            ORDER BY due_at LIMIT %(limit)s),
        free AS (SELECT id FROM desk.inbox WHERE id IN (SELECT id FROM due) AND state = 'pending' FOR UPDATE SKIP LOCKED)
        UPDATE desk.inbox i SET woken_at = clock_timestamp(), wakes = wakes + 1
        FROM free WHERE i.id = free.id RETURNING i.ticket_id, i.id
        """, {"grace": grace_seconds, "limit": limit}).fetchall()
    return [(str(r["ticket_id"]), str(r["id"])) for r in found]
