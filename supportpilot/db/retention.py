"""What is deleted because it is old: snapshots (`checkpoints` and its two companions), replays, settled quarantine.

A snapshot goes together with its writes; a blob goes when no snapshot refers to it any more. All of a pruning sees one
snapshot of the database (REPEATABLE READ): what a running turn writes meanwhile is neither counted nor deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, LiteralString

import psycopg
from psycopg import sql

from supportpilot.db.pool import Connection, Database
from supportpilot.errors import Busy

PRUNE_TIMEOUT_MS = 60_000       # a ticket of thousands of turns that was never pruned


@dataclass(frozen=True)
class ThreadSize:
    """How many rows of each of the three tables, and the bytes of what they hold as it is stored."""

    snapshots: int = 0
    writes: int = 0
    blobs: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Quiet:
    """A resolved ticket: `since` when neither side has said a word or closed it, and how many days that is ago."""

    since: datetime
    days: float


# pruning a thread -----------------------------------------------------------------------------------

@contextmanager
def pruning(db: Database, thread_id: str, *, dry_run: bool = False) -> Iterator[Connection]:
    """Lend a transaction that sees one snapshot of the database and is alone in pruning this thread.

    `dry_run`: it is rolled back at its end.

    Raises:
        Busy: somebody else prunes it, or did at this moment; try again.
    """
    with db.connection() as conn:
        try:
            with conn.transaction(force_rollback=dry_run):
                conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                if conn.info.server_version >= 170000:      # who is frozen here keeps nobody but another pruning waiting
                    conn.execute(sql.SQL("SET LOCAL transaction_timeout = {}").format(PRUNE_TIMEOUT_MS))
                # Without taking a snapshot yet: tickets first, as `seed` does, which empties all of it.
                conn.execute("LOCK TABLE biz.tickets IN ACCESS SHARE MODE")
                lock_tables(conn)
                conn.execute("SELECT pg_advisory_xact_lock(hashtextextended('supportpilot.prune:' || %s, 0))", (thread_id,))
                yield conn
        except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected) as error:
            raise Busy(f"the snapshots of {thread_id} were changed at this moment") from error


def lock_tables(conn: Connection) -> None:
    """Lock the saver's tables for deleting rows, in the order of those who empty them: neither waits for the other."""
    conn.execute("LOCK TABLE checkpoint_writes, checkpoint_blobs, checkpoints IN ROW EXCLUSIVE MODE")


def snapshots(conn: Connection, thread_id: str) -> list[tuple[str, str | None]]:
    """Return (id, turn that wrote it) of a thread's snapshots."""
    found = conn.execute(
        """
        SELECT checkpoint_id, coalesce(metadata ->> 'turn_id', checkpoint -> 'channel_values' ->> 'turn_id') AS turn_id
        FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = ''
        """, (thread_id,)).fetchall()
    return [(row["checkpoint_id"], row["turn_id"]) for row in found]


def delete_snapshots(conn: Connection, thread_id: str, kept: Sequence[str], doomed: Sequence[str]) -> ThreadSize:
    """Delete snapshots with their writes, and blobs that no other refers to; return what went.

    A snapshot whose parent goes becomes a first one: whoever walks back ends there. Writes that lie behind the
    newest snapshot and never got one of their own (a process died in between) go too.
    """
    names = {"thread": thread_id, "kept": list(kept), "doomed": list(doomed), "head": max(kept)}
    conn.execute(
        """
        UPDATE checkpoints SET parent_checkpoint_id = NULL
        WHERE thread_id = %(thread)s AND checkpoint_ns = '' AND checkpoint_id = ANY(%(kept)s)
          AND parent_checkpoint_id <> ALL(%(kept)s)
        """, names)
    gone = _count(conn,
        """
        DELETE FROM checkpoints WHERE thread_id = %(thread)s AND checkpoint_ns = '' AND checkpoint_id = ANY(%(doomed)s)
        RETURNING pg_column_size(checkpoint) + pg_column_size(metadata) AS bytes
        """, names)
    writes = _count(conn,
        """
        DELETE FROM checkpoint_writes
        WHERE thread_id = %(thread)s AND checkpoint_ns = '' AND checkpoint_id <> ALL(%(kept)s)
          AND checkpoint_id < %(head)s COLLATE "C"
        RETURNING pg_column_size(blob) AS bytes
        """, names)
    # NOT IN over a subquery is a hash, however wrong the planner's estimate of a thread's rows is.
    blobs = _count(conn,
        """
        DELETE FROM checkpoint_blobs
        WHERE thread_id = %(thread)s AND checkpoint_ns = ''
          AND (channel, version) NOT IN (
              SELECT v.key, v.value FROM checkpoints c CROSS JOIN LATERAL jsonb_each_text(c.checkpoint -> 'channel_versions') AS v
              WHERE c.thread_id = %(thread)s AND c.checkpoint_ns = '' AND v.value IS NOT NULL)
        RETURNING coalesce(pg_column_size(blob), 0) AS bytes
        """, names)
    return ThreadSize(gone[0], writes[0], blobs[0], gone[1] + writes[1] + blobs[1])


def _count(conn: Connection, deletion: LiteralString, names: Mapping[str, object]) -> tuple[int, int]:
    counted = sql.SQL("WITH gone AS ({}) SELECT count(*) AS n, coalesce(sum(bytes), 0) AS bytes FROM gone")
    row = conn.execute(counted.format(sql.SQL(deletion)), names).fetchone()
    return (int(row["n"]), int(row["bytes"])) if row else (0, 0)


# what is due ----------------------------------------------------------------------------------------

def quiet(conn: Connection, ticket_id: str) -> Quiet | None:
    """Return how long a resolved ticket has been quiet; None if it is not resolved, or something on it is open."""
    row = conn.execute(
        """
        SELECT greatest(resolved_at, last_written_at) AS since,
               extract(epoch FROM clock_timestamp() - greatest(resolved_at, last_written_at))::float8 / 86400 AS days
        FROM biz.tickets t
        WHERE id = %s AND status = 'resolved' AND greatest(resolved_at, last_written_at) IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM desk.unsettled_tickets u WHERE u.ticket_id = t.id)
        """, (ticket_id,)).fetchone()
    return None if row is None else Quiet(row["since"], row["days"])


def tickets_due(conn: Connection, mark: Literal["reduced_for", "forgotten_for"], days: float, limit: int) -> list[str]:
    """Return tickets, longest quiet first, that may be cut down to their last snapshot, or whose conversation may go."""
    found = conn.execute(sql.SQL(
        """
        SELECT id FROM biz.tickets t
        WHERE status = 'resolved' AND {mark} IS DISTINCT FROM greatest(resolved_at, last_written_at)
          AND greatest(resolved_at, last_written_at) <= clock_timestamp() - make_interval(secs => %(days)s * 86400)
          AND NOT EXISTS (SELECT 1 FROM desk.unsettled_tickets u WHERE u.ticket_id = t.id)
        ORDER BY greatest(resolved_at, last_written_at) LIMIT %(limit)s
        """).format(mark=sql.Identifier(mark)), {"days": days, "limit": limit}).fetchall()
    return [str(row["id"]) for row in found]


def mark_reduced(conn: Connection, ticket_id: str, since: datetime) -> None:
    """Note that the ticket needs no second look unless something happens on it."""
    conn.execute("UPDATE biz.tickets SET reduced_for = %s WHERE id = %s", (since, ticket_id))


def pruned_tickets(conn: Connection, after: str, limit: int) -> list[str]:
    """Return ids of tickets that have more than one snapshot, in order, those after `after`."""
    found = conn.execute(
        """
        SELECT t.id FROM biz.tickets t
        WHERE t.id > %s AND EXISTS (SELECT 1 FROM checkpoints c WHERE c.thread_id = t.id AND c.checkpoint_ns = '' OFFSET 1)
        ORDER BY t.id LIMIT %s
        """, (after, limit)).fetchall()
    return [row["id"] for row in found]


# deleting whole things ------------------------------------------------------------------------------

def forget(conn: Connection, ticket_id: str, since: datetime) -> None:
    """Delete a ticket's thread, its summaries and its replays. Lease row and ticket row are locked by the caller.

    The lease's token goes too: a zombie may still hold the number of a head that is gone.
    """
    conn.execute("UPDATE desk.leases SET token = NULL, holder = NULL, expires_at = NULL, deadline_at = NULL "
                 "WHERE ticket_id = %s AND token IS NOT NULL", (ticket_id,))
    replays = conn.execute("DELETE FROM desk.forks WHERE ticket_id = %s RETURNING thread_id", (ticket_id,)).fetchall()
    delete_threads(conn, [ticket_id, *(row["thread_id"] for row in replays)])
    conn.execute("DELETE FROM desk.summaries WHERE ticket_id = %s", (ticket_id,))
    conn.execute("DELETE FROM desk.summary_notes WHERE ticket_id = %s", (ticket_id,))
    conn.execute("DELETE FROM desk.attachments WHERE ticket_id = %s", (ticket_id,))
    conn.execute("UPDATE desk.mails SET raw = NULL, full_text = '', visible = '', quoted = '' WHERE ticket_id = %s", (ticket_id,))
    conn.execute("UPDATE biz.tickets SET forgotten_for = %(since)s, reduced_for = %(since)s WHERE id = %(id)s",
                 {"since": since, "id": ticket_id})


def delete_threads(conn: Connection, thread_ids: Sequence[str]) -> None:
    """Delete all snapshots, writes and blobs of these threads."""
    lock_tables(conn)
    conn.execute("DELETE FROM checkpoint_writes WHERE thread_id = ANY(%s)", (list(thread_ids),))
    conn.execute("DELETE FROM checkpoint_blobs WHERE thread_id = ANY(%s)", (list(thread_ids),))
    conn.execute("DELETE FROM checkpoints WHERE thread_id = ANY(%s)", (list(thread_ids),))


def delete_replays(conn: Connection, days: float, limit: int) -> int:
    """Delete replays that are older, with their threads; return how many."""
    old = _ids(conn,
        """
        DELETE FROM desk.forks WHERE thread_id IN (
            SELECT thread_id FROM desk.forks
            WHERE created_at <= clock_timestamp() - make_interval(secs => %(days)s * 86400)
            ORDER BY created_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
        RETURNING thread_id AS id
        """, days, limit)
    if old:
        delete_threads(conn, old)
    return len(old)


def delete_quarantine(conn: Connection, state: str, days: float, limit: int) -> int:
    """Delete quarantined input of a state that came longer ago, with what was read of it as a mail; return how many."""
    return len(_ids(conn,
        """
        WITH gone AS (
            DELETE FROM desk.quarantine WHERE id IN (
                SELECT id FROM desk.quarantine
                WHERE state = %(state)s AND received_at <= clock_timestamp() - make_interval(secs => %(days)s * 86400)
                ORDER BY received_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
            RETURNING id),
        mails AS (DELETE FROM desk.mails m USING gone WHERE m.quarantine_id = gone.id AND m.state = 'quarantined')
        SELECT id FROM gone
        """, days, limit, state=state))


def delete_mails(conn: Connection, days: float, limit: int) -> int:
    """Delete mails that became nothing (a machine's, a repetition) and the bytes of those that were read; return how many."""
    gone = _ids(conn,
        """
        DELETE FROM desk.mails WHERE id IN (
            SELECT id FROM desk.mails WHERE state IN ('ignored', 'duplicate')
               AND received_at <= clock_timestamp() - make_interval(secs => %(days)s * 86400)
            ORDER BY received_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
        RETURNING id
        """, days, limit)
    read = _ids(conn,
        """
        UPDATE desk.mails SET raw = NULL WHERE id IN (
            SELECT id FROM desk.mails WHERE state IN ('filed', 'note') AND raw IS NOT NULL
               AND received_at <= clock_timestamp() - make_interval(secs => %(days)s * 86400)
            ORDER BY received_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
        RETURNING id
        """, days, limit)
    return min(limit, len(gone) + len(read))


def delete_notifications(conn: Connection, days: float, limit: int) -> int:
    """Delete notifications closed longer ago; return how many. Those of a pending approval stay: their keys keep it from being told anew."""
    return len(_ids(conn,
        """
        DELETE FROM desk.notifications WHERE id IN (
            SELECT n.id FROM desk.notifications n
            WHERE n.state <> 'queued' AND n.closed_at <= clock_timestamp() - make_interval(secs => %(days)s * 86400)
              AND NOT EXISTS (SELECT 1 FROM desk.approvals a WHERE a.id = n.subject_id AND a.status = 'pending')
            ORDER BY n.closed_at LIMIT %(limit)s FOR UPDATE OF n SKIP LOCKED)
        RETURNING id
        """, days, limit))


def delete_calls(conn: Connection, days: float, limit: int) -> int:
    """Delete records of model calls that are older, of an open ticket none; return how many."""
    return len(_ids(conn,
        """
        DELETE FROM desk.llm_calls WHERE id IN (
            SELECT c.id FROM desk.llm_calls c
            WHERE c.created_at <= clock_timestamp() - make_interval(secs => %(days)s * 86400)
              AND NOT EXISTS (SELECT 1 FROM biz.tickets t WHERE t.id = c.ticket_id AND t.status <> 'resolved')
            ORDER BY c.created_at LIMIT %(limit)s FOR UPDATE OF c SKIP LOCKED)
        RETURNING id::text AS id
        """, days, limit))


def _ids(conn: Connection, statement: LiteralString, days: float, limit: int, **names: str) -> list[str]:
    found = conn.execute(statement, {"days": days, "limit": limit, **names}).fetchall()
    return [str(row["id"]) for row in found]
