"""`desk.turns`: one run of the graph over the messages that were frozen when the row was made."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from supportpilot.db.inbox import StoredMessage
from supportpilot.db.pool import Connection, Row

MOST_REPLACED = 2    # times that a message's answer is put off for a newer message


@dataclass(frozen=True)
class TurnRow:
    """One row as the protocol needs it."""

    turn_id: str
    ticket_id: str
    message_ids: list[str]
    highest_seq: int
    taken_over_seq: int
    silent: bool
    status: str
    attempts: int
    crashes: int
    closing: bool
    setbacks: int


@dataclass(frozen=True)
class FailedAttempt:
    """What to note of a failure: the text, the wait in seconds, and what it adds to the two bounds.

    `setbacks`: how many uncounted failures there were in a row, this one included.
    """

    error: str
    wait_seconds: float
    attempts: int = 0
    crashes: int = 0
    setbacks: int = 0


def _record(row: Row) -> TurnRow:
    return TurnRow(**{name: row[name] for name in TurnRow.__dataclass_fields__})


def create(conn: Connection, ticket_id: str, messages: Sequence[StoredMessage], *, taken_over_seq: int,
           silent: bool = False) -> TurnRow:
    """Make a running turn of these messages (in order); their ids are frozen here."""
    row = conn.execute(
        """
        INSERT INTO desk.turns (turn_id, ticket_id, message_ids, highest_seq, taken_over_seq, silent, status,
                                next_attempt_at)
        VALUES (%s, %s, %s, %s, %s, %s, 'running', clock_timestamp()) RETURNING *
        """,
        (str(uuid.uuid4()), ticket_id, [m.id for m in messages], max((m.seq for m in messages), default=0),
         taken_over_seq, silent)).fetchone()
    assert row is not None  # noqa: S101 -- INSERT ... RETURNING
    return _record(row)


def orphaned(conn: Connection, ticket_id: str) -> TurnRow | None:
    """Return the ticket's running turn if it is due and nobody holds it (asked under the lease row's lock)."""
    row = conn.execute("SELECT * FROM desk.orphaned_turns WHERE ticket_id = %s", (ticket_id,)).fetchone()
    return None if row is None else _record(row)


def resumable(conn: Connection, ticket_id: str) -> TurnRow | None:
    """Return the ticket's waiting turn if its approval is decided and not applied."""
    row = conn.execute("SELECT * FROM desk.resumable_turns WHERE ticket_id = %s LIMIT 1", (ticket_id,)).fetchone()
    return None if row is None else _record(row)


def open_turn(conn: Connection, ticket_id: str) -> TurnRow | None:
    """Return the ticket's running or waiting turn."""
    row = conn.execute("SELECT * FROM desk.turns WHERE ticket_id = %s AND status IN ('running', 'waiting')",
                       (ticket_id,)).fetchone()
    return None if row is None else _record(row)


def last_turn(conn: Connection, ticket_id: str) -> Row | None:
    """Return the newest turn for people."""
    return conn.execute("SELECT * FROM desk.turns WHERE ticket_id = %s ORDER BY created_at DESC LIMIT 1",
                        (ticket_id,)).fetchone()


def follows_dead(conn: Connection, turn_id: str) -> bool:
    """Say whether the ticket's turn before this one was given up."""
    row = conn.execute(
        """
        SELECT b.status = 'dead' AS dead FROM desk.turns u
        JOIN desk.turns b ON b.ticket_id = u.ticket_id AND b.created_at < u.created_at AND b.status <> 'replaced'
        WHERE u.turn_id = %s ORDER BY b.created_at DESC LIMIT 1
        """, (turn_id,)).fetchone()
    return bool(row and row["dead"])


def overtaken(conn: Connection, turn_id: str) -> bool:
    """Say whether the customer wrote after a running turn began, and one turn can still answer both.

    It can if nothing of the turn stands outside its thread, no human has the ticket, and none of its messages was put
    off `MOST_REPLACED` times already. Asked at many steps: without a newer message it is one look into an index.
    """
    newer = conn.execute(
        """
        SELECT 1 FROM desk.turns u JOIN desk.inbox i ON i.ticket_id = u.ticket_id AND i.seq > u.highest_seq
        WHERE u.turn_id = %s AND u.status = 'running' AND i.state = 'pending' AND i.author = 'customer' LIMIT 1
        """, (turn_id,)).fetchone()
    return newer is not None and _replaceable(conn, turn_id)


def _replaceable(conn: Connection, turn_id: str) -> bool:
    row = conn.execute(
        """
        SELECT NOT u.silent AND NOT u.closing AND t.status <> 'escalated'
               AND NOT EXISTS (SELECT 1 FROM desk.outbox o WHERE o.ticket_id = u.ticket_id AND o.turn_id = u.turn_id)
               AND NOT EXISTS (SELECT 1 FROM desk.approvals a WHERE a.ticket_id = u.ticket_id AND a.turn_id = u.turn_id)
               AND NOT EXISTS (SELECT 1 FROM biz.refunds r WHERE r.ticket_id = u.ticket_id AND r.turn_id = u.turn_id)
               AND NOT EXISTS (SELECT 1 FROM desk.commitments c WHERE c.ticket_id = u.ticket_id AND c.turn_id = u.turn_id)
               AND (SELECT count(*) FROM desk.turns b WHERE b.ticket_id = u.ticket_id AND b.status = 'replaced'
                    AND b.message_ids && u.message_ids) < %s AS ok
        FROM desk.turns u JOIN biz.tickets t ON t.id = u.ticket_id WHERE u.turn_id = %s
        """, (MOST_REPLACED, turn_id)).fetchone()
    return bool(row and row["ok"])


def replaced_before(conn: Connection, turn_id: str) -> list[str]:
    """Return the turns that this one took the place of: their messages are its own."""
    found = conn.execute(
        """
        SELECT b.turn_id FROM desk.turns u
        JOIN desk.turns b ON b.ticket_id = u.ticket_id AND b.status = 'replaced' AND b.message_ids && u.message_ids
        WHERE u.turn_id = %s ORDER BY b.created_at
        """, (turn_id,)).fetchall()
    return [str(row["turn_id"]) for row in found]


def of_ticket(conn: Connection, ticket_id: str) -> list[Row]:
    """Return the ticket's turns for people, oldest first."""
    return conn.execute("SELECT turn_id, status, outcome FROM desk.turns WHERE ticket_id = %s ORDER BY created_at",
                        (ticket_id,)).fetchall()


def of_message(conn: Connection, message_id: str) -> Row | None:
    """Return the newest turn that holds a message; only its ticket's turns are read."""
    return conn.execute(
        """
        SELECT * FROM desk.turns
        WHERE ticket_id = (SELECT ticket_id FROM desk.inbox WHERE id = %(id)s) AND message_ids @> ARRAY[%(id)s]
        ORDER BY created_at DESC LIMIT 1
        """, {"id": message_id}).fetchone()


def start(conn: Connection, turn_id: str, *, crashed: bool = False) -> None:
    """Mark a turn as taken; `crashed`: its last holder was killed."""
    conn.execute(
        """
        UPDATE desk.turns SET status = 'running', crashes = crashes + %s, woken_at = NULL, wakes = 0,
               next_attempt_at = clock_timestamp()
        WHERE turn_id = %s
        """, (1 if crashed else 0, turn_id))


def park(conn: Connection, turn_id: str) -> None:
    """Set a turn waiting for its approval."""
    conn.execute("UPDATE desk.turns SET status = 'waiting', outcome = 'waiting_approval' WHERE turn_id = %s", (turn_id,))


def finish(conn: Connection, turn_id: str, status: str, outcome: str | None, error: str | None = None) -> None:
    """Set a turn `done`, `dead` or `replaced`."""
    conn.execute(
        """
        UPDATE desk.turns SET status = %s, outcome = coalesce(%s, outcome), finished_at = clock_timestamp(),
               last_error = coalesce(%s, last_error)
        WHERE turn_id = %s
        """, (status, outcome, error, turn_id))


def fail_attempt(conn: Connection, turn_id: str, failed: FailedAttempt) -> bool:
    """Note a failed attempt of a running turn and when to try again; False if it is not running any more."""
    done = conn.execute(
        """
        UPDATE desk.turns SET attempts = attempts + %s, crashes = crashes + %s, setbacks = %s, last_error = %s,
               failed_at = clock_timestamp(),
               next_attempt_at = clock_timestamp() + make_interval(secs => %s)
        WHERE turn_id = %s AND status = 'running'
        """, (failed.attempts, failed.crashes, failed.setbacks, failed.error, failed.wait_seconds, turn_id))
    return done.rowcount == 1


def set_closing(conn: Connection, turn_id: str) -> None:
    """The customer has the answer and only the thread lacks it: try that again, with new attempts."""
    conn.execute("UPDATE desk.turns SET closing = true, attempts = 0, crashes = 0, setbacks = 0, next_attempt_at = clock_timestamp() "
                 "WHERE turn_id = %s", (turn_id,))


def wake_orphans(conn: Connection, grace_seconds: float, limit: int) -> list[tuple[str, str]]:
    """Return (ticket, first message) of orphaned turns, each with a growing grace."""
    found = conn.execute(
        """
        WITH due AS (
            SELECT turn_id FROM desk.orphaned_turns
            WHERE woken_at IS NULL OR woken_at <= clock_timestamp()
                  - make_interval(secs => %(grace)s * power(2, least(wakes, 6)) - %(grace)s * 0.5)
            ORDER BY next_attempt_at LIMIT %(limit)s),
        free AS (SELECT turn_id FROM desk.turns WHERE turn_id IN (SELECT turn_id FROM due) FOR UPDATE SKIP LOCKED)
        UPDATE desk.turns u SET woken_at = clock_timestamp(), wakes = wakes + 1
        FROM free WHERE u.turn_id = free.turn_id RETURNING u.ticket_id, coalesce(u.message_ids[1], '') AS message_id
        """, {"grace": grace_seconds, "limit": limit}).fetchall()
    return [(str(r["ticket_id"]), str(r["message_id"])) for r in found]


def wake_resumable(conn: Connection, grace_seconds: float, limit: int) -> list[tuple[str, str]]:
    """Return (ticket, approval) of turns whose approval is decided, each with a growing grace."""
    found = conn.execute(
        """
        WITH due AS (
            SELECT r.approval_id FROM desk.resumable_turns r JOIN desk.approvals a ON a.id = r.approval_id
            WHERE coalesce(a.woken_at, a.decided_at) <= clock_timestamp()
                  - make_interval(secs => %(grace)s * power(2, least(a.wakes, 6)) - %(grace)s * 0.5)
            ORDER BY a.decided_at LIMIT %(limit)s),
        free AS (SELECT id FROM desk.approvals WHERE id IN (SELECT approval_id FROM due) FOR UPDATE SKIP LOCKED)
        UPDATE desk.approvals a SET woken_at = clock_timestamp(), wakes = wakes + 1
        FROM free WHERE a.id = free.id RETURNING a.ticket_id, a.id
        """, {"grace": grace_seconds, "limit": limit}).fetchall()
    return [(str(r["ticket_id"]), str(r["id"])) for r in found]


def abandon_threads(conn: Connection) -> None:
    """Let go of every thread, for whoever deletes all snapshots in the same transaction.

    Lease tokens are freed (a running turn writes no more and is begun again); a turn that waits for its approval
    dies with it, its messages become dead and its ticket a human's, so that `ticket release` can bring them back.
    A decision that a begun turn had not applied yet is withdrawn: it belongs to an interrupt that is gone, and would
    wake the turn for ever once that asks anew (a refund already paid is found by its messages).
    """
    conn.execute("SELECT 1 FROM desk.leases ORDER BY ticket_id FOR UPDATE")
    conn.execute("UPDATE desk.leases SET token = NULL, holder = NULL, expires_at = NULL, deadline_at = NULL "
                 "WHERE token IS NOT NULL")
    # Tickets before what hangs on them, as everybody does: `ticket release` locks its ticket, then its turn.
    conn.execute("SELECT 1 FROM biz.tickets t WHERE EXISTS (SELECT 1 FROM desk.turns u WHERE u.ticket_id = t.id "
                 "AND u.status IN ('running', 'waiting')) ORDER BY id FOR NO KEY UPDATE")
    conn.execute(
        """
        WITH waiting AS (
            UPDATE desk.turns SET status = 'dead', outcome = 'escalated', finished_at = clock_timestamp(),
                   last_error = 'the snapshots were reset'
            WHERE status = 'waiting' RETURNING turn_id, ticket_id, message_ids),
        withdrawn AS (
            UPDATE desk.approvals a SET status = 'withdrawn', decided_at = clock_timestamp()
            FROM desk.turns u
            WHERE a.turn_id = u.turn_id AND u.status IN ('running', 'waiting')
              AND a.applied_at IS NULL AND a.status <> 'withdrawn'),
        letters AS (
            UPDATE desk.inbox i SET state = 'dead', last_error = 'the snapshots were reset'
            FROM waiting w WHERE i.id = ANY(w.message_ids))
        UPDATE biz.tickets t SET status = 'escalated', handoff_reason = 'the snapshots were reset'
        FROM waiting w WHERE t.id = w.ticket_id
        """)
