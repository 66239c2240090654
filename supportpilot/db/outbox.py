"""`desk.outbox`: what goes out to customers, strictly in order per ticket, each row once by its key."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from supportpilot.db.pool import Connection, Row
from supportpilot.types import Citation, OutboxKind

NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class OutboxEntry:
    """A text for the customer; `key` is the idempotency key and never comes from a model."""

    ticket_id: str
    turn_id: str | None
    key: str
    kind: OutboxKind
    body: str
    citations: Sequence[Citation] = ()
    author: str = ""


@dataclass(frozen=True)
class OutboxRow:
    """A stored row with what its channel needs to send it."""

    id: str
    position: int
    ticket_id: str
    turn_id: str | None
    idempotency_key: str
    kind: OutboxKind
    author: str
    body: str
    citations: list[dict[str, str]]
    in_reply_to: str | None
    status: str
    attempts: int
    claimed_until: datetime | None
    channel: str
    conversation_id: str | None
    link_key: str | None = None     # what the customer's link to the ticket is bound to
    sent_ids: Sequence[str] = ()    # the channel's ids of the ticket's other rows
    unanswered: int = 0             # sends whose text left and whose answer is missing
    waits: int = 0                  # times the channel's rate let others go first
    created_at: datetime = NEVER
    contact: str = ""
    subject: str = ""


def put(conn: Connection, entry: OutboxEntry) -> str:
    """Store the entry and return the body that stands: on a key conflict the row that is there is the truth."""
    conn.execute(
        """
        INSERT INTO desk.outbox (ticket_id, turn_id, idempotency_key, kind, body, citations, author, in_reply_to)
        SELECT %(ticket)s, %(turn)s, %(key)s, %(kind)s, %(body)s, %(citations)s, %(author)s,
               (SELECT external_id FROM desk.inbox i
                WHERE i.ticket_id = %(ticket)s AND i.author = 'customer' AND i.channel <> 'page'
                  AND i.seq <= coalesce((SELECT highest_seq FROM desk.turns WHERE turn_id = %(turn)s), i.seq)
                ORDER BY seq DESC LIMIT 1)
        ON CONFLICT (idempotency_key) DO NOTHING
        """,
        {"ticket": entry.ticket_id, "turn": entry.turn_id, "key": entry.key, "kind": entry.kind, "body": entry.body,
         "citations": json.dumps([asdict(c) for c in entry.citations], ensure_ascii=False), "author": entry.author},
    )
    stored = body_of(conn, entry.key)
    return entry.body if stored is None else stored


def body_of(conn: Connection, key: str) -> str | None:
    """Return the body stored under an idempotency key."""
    row = conn.execute("SELECT body FROM desk.outbox WHERE idempotency_key = %s", (key,)).fetchone()
    return None if row is None else str(row["body"])


def last_said(conn: Connection, ticket_id: str) -> str:
    """Return what the customer was told last, by the agent or a human; "" if nothing."""
    row = conn.execute(
        """
        SELECT body FROM (
            SELECT body, created_at AS at FROM desk.outbox
            WHERE ticket_id = %(ticket)s AND kind IN ('reply', 'handoff', 'human') AND status <> 'withheld'
            UNION ALL SELECT body, received_at FROM desk.inbox WHERE ticket_id = %(ticket)s AND author = 'human') said
        ORDER BY at DESC LIMIT 1
        """, {"ticket": ticket_id}).fetchone()
    return str(row["body"]) if row else ""


def _record(row: Row) -> OutboxRow:
    return OutboxRow(**row)


def lock(conn: Connection, reply_id: str) -> OutboxRow | None:
    """Lock one row and return it (its ticket's row must be locked before)."""
    row = conn.execute(
        """
        SELECT o.id, o.position, o.ticket_id, o.turn_id, o.idempotency_key, o.kind, o.author, o.body, o.citations,
               o.in_reply_to, o.status, o.attempts, o.claimed_until, o.unanswered, o.waits,
               o.created_at, t.channel, t.conversation_id, t.contact, t.subject,
               t.link_key::text AS link_key,
               ARRAY(SELECT p.provider_id FROM desk.outbox p
                     WHERE p.ticket_id = o.ticket_id AND p.id <> o.id AND p.provider_id IS NOT NULL) AS sent_ids
        FROM desk.outbox o JOIN biz.tickets t ON t.id = o.ticket_id
        WHERE o.id = %s FOR UPDATE OF o
        """, (reply_id,)).fetchone()
    return None if row is None else _record(row)


def channel_of(conn: Connection, reply_id: str) -> str:
    """Return the channel that a row leaves by, "" if there is no such row."""
    row = conn.execute("SELECT t.channel FROM desk.outbox o JOIN biz.tickets t ON t.id = o.ticket_id WHERE o.id = %s",
                       (reply_id,)).fetchone()
    return "" if row is None else str(row["channel"])


def ticket_of(conn: Connection, reply_id: str) -> str | None:
    """Return the ticket a row belongs to."""
    row = conn.execute("SELECT ticket_id FROM desk.outbox WHERE id = %s", (reply_id,)).fetchone()
    return None if row is None else str(row["ticket_id"])


def ticket_of_key(conn: Connection, key: str) -> str | None:
    """Return the ticket that an idempotency key was used on."""
    row = conn.execute("SELECT ticket_id FROM desk.outbox WHERE idempotency_key = %s", (key,)).fetchone()
    return None if row is None else str(row["ticket_id"])


def sent_in_conversation(conn: Connection, channel: str, conversation_id: str, limit: int = 20) -> list[Row]:
    """Return what was or is being sent in a channel's conversation, newest first: provider_id, body."""
    return conn.execute(
        """
        SELECT o.provider_id, o.body FROM desk.outbox o JOIN biz.tickets t ON t.id = o.ticket_id
        WHERE t.channel = %s AND t.conversation_id = %s AND o.attempts > 0 ORDER BY o.position DESC LIMIT %s
        """, (channel, conversation_id, limit)).fetchall()


def answers_since(conn: Connection, ticket_id: str, seconds: float) -> tuple[int, int]:
    """Return how many texts of the agent's this ticket, and its contact on this channel, were given in that time."""
    row = conn.execute(
        """
        SELECT count(*) FILTER (WHERE o.ticket_id = me.id) AS ticket, count(*) AS contact
        FROM biz.tickets me JOIN biz.tickets t ON t.contact = me.contact AND t.channel = me.channel
        JOIN desk.outbox o ON o.ticket_id = t.id
        WHERE me.id = %s AND o.kind IN ('reply', 'handoff')
          AND o.created_at > clock_timestamp() - make_interval(secs => %s)
        """, (ticket_id, seconds)).fetchone()
    assert row is not None  # noqa: S101 -- an aggregate has one row
    return int(row["ticket"]), int(row["contact"])


def unfinished_before(conn: Connection, ticket_id: str, position: int) -> str | None:
    """Return the ticket's oldest earlier row that is not sent yet; `withheld` and `failed` are passed over."""
    row = conn.execute(
        """
        SELECT id FROM desk.outbox
        WHERE ticket_id = %s AND position < %s AND status IN ('queued', 'sending', 'unknown')
        ORDER BY position LIMIT 1
        """, (ticket_id, position)).fetchone()
    return None if row is None else str(row["id"])


def next_unsent(conn: Connection, ticket_id: str) -> str | None:
    """Return the ticket's oldest row that waits to be sent."""
    row = conn.execute(
        """
        SELECT id FROM desk.outbox WHERE ticket_id = %s AND status IN ('queued', 'sending', 'unknown')
        ORDER BY position LIMIT 1
        """, (ticket_id,)).fetchone()
    return None if row is None else str(row["id"])


def taken_over(conn: Connection, reply_id: str) -> bool:
    """Say whether a human took the ticket after the row's turn was made, and has it still or has answered.

    A ticket that was given back without a word leaves the agent's text the only answer there is, also when that
    comes to be sent only after the release.
    """
    row = conn.execute(
        """
        SELECT t.taken_over_seq > u.taken_over_seq
               AND (t.status IN ('escalated', 'resolved')
                    OR EXISTS (SELECT 1 FROM desk.inbox h
                               WHERE h.ticket_id = o.ticket_id AND h.author = 'human' AND h.seq > u.highest_seq)) AS taken
        FROM desk.outbox o JOIN biz.tickets t ON t.id = o.ticket_id JOIN desk.turns u ON u.turn_id = o.turn_id
        WHERE o.id = %s
        """, (reply_id,)).fetchone()
    return bool(row and row["taken"])


def is_due(conn: Connection, reply_id: str) -> bool:
    """Say whether a queued or unknown row may be tried now, or a sending one's claim has run out."""
    row = conn.execute(
        """
        SELECT CASE status WHEN 'sending' THEN claimed_until <= clock_timestamp()
                           ELSE next_attempt_at <= clock_timestamp() END AS due
        FROM desk.outbox WHERE id = %s AND status IN ('queued', 'unknown', 'sending')
        """, (reply_id,)).fetchone()
    return bool(row and row["due"])


def claim(conn: Connection, reply_id: str, seconds: float) -> datetime:
    """Mark the row as being sent and return the claim's end, which names the claim."""
    row = conn.execute(
        """
        UPDATE desk.outbox
        SET status = 'sending', claimed_until = clock_timestamp() + make_interval(secs => %s),
            attempts = attempts + 1, woken_at = NULL, wakes = 0
        WHERE id = %s RETURNING claimed_until
        """, (seconds, reply_id)).fetchone()
    assert row is not None  # noqa: S101 -- the caller holds the row's lock
    until: datetime = row["claimed_until"]
    return until


def still_claimed(conn: Connection, reply_id: str, claimed_until: datetime, seconds: float) -> bool:
    """Say whether the claim still stands for `seconds` more, asked just before sending."""
    row = conn.execute(
        """
        SELECT 1 FROM desk.outbox
        WHERE id = %s AND status = 'sending' AND claimed_until = %s
          AND claimed_until > clock_timestamp() + make_interval(secs => %s)
        """, (reply_id, claimed_until, seconds)).fetchone()
    return row is not None


def note_text(conn: Connection, reply_id: str) -> None:
    """Note that the text leaves now: until somebody answers, it may have arrived."""
    conn.execute("UPDATE desk.outbox SET unanswered = unanswered + 1 WHERE id = %s", (reply_id,))


def postpone(conn: Connection, reply_id: str, seconds: float) -> None:
    """Let others of the channel go first."""
    conn.execute("UPDATE desk.outbox SET next_attempt_at = clock_timestamp() + make_interval(secs => %s), "
                 "waits = waits + 1, woken_at = NULL, wakes = 0 WHERE id = %s", (seconds, reply_id))


def close_claim(conn: Connection, reply_id: str, claimed_until: datetime, changes: dict[str, Any]) -> bool:
    """Write a send's result if the claim is still ours.

    `changes`: status, error, provider_id, retry_seconds, unanswered (None: as it is).
    """
    done = conn.execute(
        """
        UPDATE desk.outbox
        SET status = %(status)s, last_error = %(error)s, provider_id = coalesce(%(provider_id)s, provider_id),
            next_attempt_at = clock_timestamp() + make_interval(secs => %(retry_seconds)s), claimed_until = NULL,
            sent_at = CASE WHEN %(status)s = 'accepted' THEN clock_timestamp() ELSE sent_at END,
            unanswered = coalesce(%(unanswered)s, unanswered), waits = 0
        WHERE id = %(id)s AND status = 'sending' AND claimed_until = %(until)s
        """, {"error": None, "provider_id": None, "retry_seconds": 0.0, "unanswered": None, **changes, "id": reply_id,
              "until": claimed_until})
    return done.rowcount == 1


def set_status(conn: Connection, reply_id: str, status: str, error: str | None = None) -> None:
    """Move a locked row to another status and make it due now."""
    conn.execute(
        """
        UPDATE desk.outbox SET status = %s, claimed_until = NULL, next_attempt_at = clock_timestamp(),
               last_error = coalesce(%s, last_error)
        WHERE id = %s
        """, (status, error, reply_id))


def requeue(conn: Connection, reply_id: str) -> None:
    """Give a failed row a new set of attempts; a withheld one is cut from its turn, else it would be withheld again.

    That it may have arrived stays noted, so that the channel is asked first; but as once, so that it may leave again.
    """
    conn.execute(
        """
        UPDATE desk.outbox SET turn_id = CASE WHEN status = 'withheld' THEN NULL ELSE turn_id END,
               status = 'queued', attempts = 0, unanswered = least(unanswered, 1), next_attempt_at = clock_timestamp(),
               claimed_until = NULL, last_error = NULL, woken_at = NULL, wakes = 0
        WHERE id = %s
        """, (reply_id,))


def release_withheld(conn: Connection, ticket_id: str) -> int:
    """Queue withheld replies again whose customer messages no human has answered since; return how many."""
    return conn.execute(
        """
        UPDATE desk.outbox o SET status = 'queued', next_attempt_at = clock_timestamp(), woken_at = NULL, wakes = 0
        FROM desk.turns u
        WHERE o.ticket_id = %s AND o.status = 'withheld' AND u.turn_id = o.turn_id
          AND NOT EXISTS (SELECT 1 FROM desk.inbox h
                          WHERE h.ticket_id = o.ticket_id AND h.author = 'human' AND h.seq > u.highest_seq)
        """, (ticket_id,)).rowcount


def rows(conn: Connection, *, dead: bool = False, ticket_id: str | None = None, limit: int = 200) -> list[Row]:
    """Return rows for people, newest first; `dead`: only `failed` ones."""
    return conn.execute(
        """
        SELECT id, ticket_id, turn_id, idempotency_key, kind, author, body, status, attempts, next_attempt_at,
               last_error, provider_id, created_at, sent_at
        FROM desk.outbox
        WHERE (NOT %(dead)s OR status = 'failed') AND (%(ticket)s::text IS NULL OR ticket_id = %(ticket)s)
        ORDER BY position DESC LIMIT %(limit)s
        """, {"dead": dead, "ticket": ticket_id, "limit": limit}).fetchall()


def wake_due(conn: Connection, grace_seconds: float, limit: int) -> list[str]:
    """Return rows to send again (due, unknown, claim run out), each with a growing grace since its last wake-up."""
    found = conn.execute(
        """
        WITH due AS (
            SELECT id FROM desk.outbox
            WHERE status IN ('queued', 'sending', 'unknown')
              AND CASE status WHEN 'sending' THEN claimed_until ELSE next_attempt_at END <= clock_timestamp()
              AND coalesce(woken_at, CASE status WHEN 'sending' THEN claimed_until ELSE next_attempt_at END)
                  <= clock_timestamp() - make_interval(secs => %(grace)s * power(2, least(wakes, 6)) - %(grace)s * 0.5)
            ORDER BY next_attempt_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
        UPDATE desk.outbox o SET woken_at = clock_timestamp(), wakes = wakes + 1 FROM due WHERE o.id = due.id
        RETURNING o.id
        """, {"grace": grace_seconds, "limit": limit}).fetchall()
    return [str(r["id"]) for r in found]
