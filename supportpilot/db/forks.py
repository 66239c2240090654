"""`desk.forks` and the snapshots they start from: a replay runs on a copy, so the ticket's own thread never moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from supportpilot.db.pool import Connection


@dataclass(frozen=True)
class Fork:
    """A replay: the thread it runs in, whose snapshot it starts from, and the id of that copy in its thread."""

    thread_id: str
    ticket_id: str
    from_checkpoint: str
    first_checkpoint: str


def create(conn: Connection, fork: Fork) -> bool:
    """Write the fork's row and copy the snapshot into its thread; False if the snapshot is not there.

    What tasks wrote after the snapshot stays behind, else the replay would take their old results. One statement, so
    a pruning cannot come between a snapshot and its blobs; a ticket erased meanwhile fails on the foreign key.
    """
    return conn.execute(
        """
        WITH origin AS (
            SELECT * FROM checkpoints
            WHERE thread_id = %(ticket_id)s AND checkpoint_ns = '' AND checkpoint_id = %(from_checkpoint)s
        ), fork AS (
            INSERT INTO desk.forks (thread_id, ticket_id, from_checkpoint)
            SELECT %(thread_id)s, %(ticket_id)s, checkpoint_id FROM origin
        ), blobs AS (
            INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
            SELECT %(thread_id)s, '', b.channel, b.version, b.type, b.blob
            FROM origin o CROSS JOIN LATERAL jsonb_each_text(o.checkpoint -> 'channel_versions') AS v
            JOIN checkpoint_blobs b ON b.thread_id = o.thread_id AND b.checkpoint_ns = '' AND b.channel = v.key
                                   AND b.version = v.value
        )
        INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
        SELECT %(thread_id)s, '', %(first_checkpoint)s, NULL, type,
               jsonb_set(checkpoint, '{id}', to_jsonb(%(first_checkpoint)s::text)), metadata
        FROM origin
        """,
        {"thread_id": fork.thread_id, "ticket_id": fork.ticket_id, "from_checkpoint": fork.from_checkpoint,
         "first_checkpoint": fork.first_checkpoint}).rowcount == 1


def finish(conn: Connection, thread_id: str, outcome: str, reply: str) -> None:
    """Note how a replay ended; one that broke off keeps neither."""
    conn.execute("UPDATE desk.forks SET outcome = %s, reply = %s WHERE thread_id = %s", (outcome, reply, thread_id))


def tickets_of(conn: Connection, thread_ids: Sequence[str]) -> dict[str, str]:
    """Return the ticket of each thread that is a fork."""
    found = conn.execute("SELECT thread_id, ticket_id FROM desk.forks WHERE thread_id = ANY(%s)", (list(thread_ids),))
    return {row["thread_id"]: row["ticket_id"] for row in found.fetchall()}


def snapshot_ids(conn: Connection, thread_id: str) -> list[str]:
    """Return the ids of a thread's snapshots, newest first."""
    found = conn.execute(
        "SELECT checkpoint_id FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = '' ORDER BY checkpoint_id DESC",
        (thread_id,)).fetchall()
    return [row["checkpoint_id"] for row in found]


def snapshot_bytes(conn: Connection, thread_id: str) -> dict[str, int]:
    """Return the size of each snapshot with all the blobs it stands on; neighbours share most of theirs."""
    found = conn.execute(
        """
        SELECT c.checkpoint_id,
               octet_length(c.checkpoint::text) + octet_length(c.metadata::text) + coalesce(sum(octet_length(b.blob)), 0)
                   AS bytes
        FROM checkpoints c CROSS JOIN LATERAL jsonb_each_text(c.checkpoint -> 'channel_versions') AS v
        LEFT JOIN checkpoint_blobs b ON b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns
                                    AND b.channel = v.key AND b.version = v.value
        WHERE c.thread_id = %s AND c.checkpoint_ns = ''
        GROUP BY c.checkpoint_id, c.checkpoint, c.metadata
        """, (thread_id,)).fetchall()
    return {row["checkpoint_id"]: int(row["bytes"]) for row in found}


def make_read_only(conn: Connection) -> None:
    """Let the caller's transaction, just begun, change nothing whatever runs in it."""
    conn.execute("SET TRANSACTION READ ONLY")
