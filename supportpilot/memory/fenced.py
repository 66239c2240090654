"""The checkpointer that a zombie, a lost commit or a slow clock cannot fool.

Each write is one statement that also asks: does my lease still stand, is my parent still there, is my id above
it? Without these a frozen worker that wakes up writes over its successor's work, a head built after lost commits
refers to blobs that are not there (no error, `turns == []`), and two workers whose clocks are 100 ms apart lose
half of each other's messages, because the newest checkpoint is simply the one with the largest id.

Without a lease token in the config (tests, scripts, replays) it behaves as the stock saver does; a replay still
writes only while its row in `desk.forks` stands, which an erasure takes away. Unlike the stock saver it holds no lock
around its calls: each takes a connection of the pool.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.base import id as id_clock
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.types import INTERRUPT
from psycopg import Cursor
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool
from typing_extensions import override

from supportpilot.db.pool import checked
from supportpilot.errors import ClockBehind, LeaseLost, TailLost

TOKEN_KEY = "__lease_token"  # noqa: S105 -- the name of a key; keys with two underscores are not stored

FORK_PREFIX = "fork:"            # of a replay's thread id
UUID6 = 6
CLOCK = "_last_v6_timestamp"     # langgraph's own; a test says when it is renamed
_LIFT = threading.Lock()

# The conditions are looked up once, in a CTE that also locks the lease row (KEY SHARE: a heartbeat is not blocked,
# a taker is); the inserts happen only if all hold, and the answer tells which one did not.
PUT = """
WITH lease AS MATERIALIZED (SELECT 1 FROM desk.leases WHERE token = %(token)s::uuid FOR KEY SHARE),
fork AS MATERIALIZED (SELECT 1 FROM desk.forks WHERE thread_id = %(fork)s FOR KEY SHARE),
tail AS MATERIALIZED (
    SELECT 1 FROM checkpoints
    WHERE thread_id = %(thread)s AND checkpoint_ns = %(ns)s AND checkpoint_id = %(parent)s),
judged AS MATERIALIZED (
    SELECT (%(token)s::text IS NULL OR EXISTS (SELECT 1 FROM lease))
           AND (%(fork)s::text IS NULL OR EXISTS (SELECT 1 FROM fork)) AS held,
           %(token)s::text IS NULL OR %(parent)s::text IS NULL OR EXISTS (SELECT 1 FROM tail) AS whole,
           %(token)s::text IS NULL OR %(parent)s::text IS NULL OR %(id)s::text > %(parent)s::text COLLATE "C" AS later),
blobs AS (
    INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
    SELECT %(thread)s, %(ns)s, b.channel, b.version, b.type, b.blob
    FROM judged, unnest(%(channels)s::text[], %(versions)s::text[], %(types)s::text[], %(blobs)s::bytea[])
        AS b (channel, version, type, blob)
    WHERE judged.held AND judged.whole AND judged.later
    ON CONFLICT (thread_id, checkpoint_ns, channel, version) DO NOTHING),
head AS (
    INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
    SELECT %(thread)s, %(ns)s, %(id)s, %(parent)s, %(checkpoint)s, %(metadata)s
    FROM judged WHERE judged.held AND judged.whole AND judged.later
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id)
    DO UPDATE SET checkpoint = EXCLUDED.checkpoint, metadata = EXCLUDED.metadata)
SELECT held, whole, later FROM judged
"""

PUT_WRITES = """
WITH lease AS MATERIALIZED (SELECT 1 FROM desk.leases WHERE token = %(token)s::uuid FOR KEY SHARE),
fork AS MATERIALIZED (SELECT 1 FROM desk.forks WHERE thread_id = %(fork)s FOR KEY SHARE),
own AS MATERIALIZED (
    SELECT 1 FROM checkpoints
    WHERE thread_id = %(thread)s AND checkpoint_ns = %(ns)s AND checkpoint_id = %(id)s),
judged AS MATERIALIZED (
    SELECT (%(token)s::text IS NULL OR EXISTS (SELECT 1 FROM lease))
           AND (%(fork)s::text IS NULL OR EXISTS (SELECT 1 FROM fork)) AS held,
           %(token)s::text IS NULL OR NOT %(needs_own)s OR EXISTS (SELECT 1 FROM own) AS whole),
written AS (
    INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
    SELECT %(thread)s, %(ns)s, %(id)s, %(task)s, %(path)s, w.idx, w.channel, w.type, w.blob
    FROM judged, unnest(%(idxs)s::int[], %(channels)s::text[], %(types)s::text[], %(blobs)s::bytea[])
        AS w (idx, channel, type, blob)
    WHERE judged.held AND judged.whole
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
    DO UPDATE SET channel = EXCLUDED.channel, type = EXCLUDED.type, blob = EXCLUDED.blob WHERE %(over)s)
SELECT held, whole FROM judged
"""


class FencedSaver(PostgresSaver):
    """A `PostgresSaver` over a pool whose writes are fenced by the turn's lease token."""

    def __init__(self, pool: ConnectionPool[Any]) -> None:
        super().__init__(pool)
        self._pool = pool

    @override
    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint as the stock saver does, and lift this process' id clock to a head's time."""
        found = super().get_tuple(config)
        if found is not None:
            lift_clock(found.checkpoint["id"])
        return found

    @override
    def put(self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata,
            new_versions: ChannelVersions) -> RunnableConfig:
        """Store a checkpoint with its changed blobs in one statement.

        Raises:
            LeaseLost: the turn's lease is gone.
            TailLost: the parent checkpoint is not there (commits were lost).
            ClockBehind: the new id is not above its parent's.
        """
        given = config["configurable"]
        thread, ns, parent = given["thread_id"], given.get("checkpoint_ns", ""), given.get("checkpoint_id")
        inline, blobs = _split(checkpoint["channel_values"])
        changed = {k: v for k, v in new_versions.items() if k in blobs}
        dumped = self._dump_blobs(thread, ns, blobs, changed)
        answer = self._one(PUT, {
            "token": given.get(TOKEN_KEY), "fork": _fork(thread), "thread": thread, "ns": ns, "id": checkpoint["id"], "parent": parent,
            "channels": [d[2] for d in dumped], "versions": [d[3] for d in dumped], "types": [d[4] for d in dumped],
            "blobs": [d[5] for d in dumped], "checkpoint": Jsonb({**checkpoint, "channel_values": inline}),
            "metadata": Jsonb(get_serializable_checkpoint_metadata(config, metadata)),
        })
        _judge(answer, thread)
        return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint["id"]}}

    @override
    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str,
                   task_path: str = "") -> None:
        """Store a task's writes in one statement; an interrupt needs its own checkpoint's row.

        Raises:
            LeaseLost: the turn's lease is gone.
            TailLost: an interrupt's checkpoint is not there; nobody could ever approve it.
        """
        if not writes:
            return
        given = config["configurable"]
        thread, ns = given["thread_id"], given.get("checkpoint_ns", "")
        dumped = self._dump_writes(thread, ns, given["checkpoint_id"], task_id, task_path, writes)
        answer = self._one(PUT_WRITES, {
            "token": given.get(TOKEN_KEY), "fork": _fork(thread), "thread": thread, "ns": ns, "id": given["checkpoint_id"], "task": task_id,
            "path": task_path, "over": all(w[0] in WRITES_IDX_MAP for w in writes),
            "needs_own": any(w[0] == INTERRUPT for w in writes),
            "idxs": [d[5] for d in dumped], "channels": [d[6] for d in dumped], "types": [d[7] for d in dumped],
            "blobs": [d[8] for d in dumped],
        })
        _judge(answer, thread)

    @override
    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all of a thread's snapshots, blobs and writes to another thread id, in one transaction."""
        with self._cursor(pipeline=True) as cur:
            for statement in COPY:
                cur.execute(statement, {"source": source_thread_id, "target": target_thread_id})

    @override
    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the snapshots that these runs wrote, with their writes; blobs others use stay."""
        with self._cursor(pipeline=True) as cur:
            cur.execute(DELETE_RUNS, {"runs": list(run_ids)})

    def _one(self, statement: str, values: dict[str, Any]) -> DictRow:
        with self._cursor() as cur:
            row = cur.execute(statement, values).fetchone()
        assert row is not None  # noqa: S101 -- `judged` is one row
        return row

    @override
    @contextmanager
    def _cursor(self, *, pipeline: bool = False) -> Iterator[Cursor[DictRow]]:
        """Lend a cursor of a pooled connection, in a transaction if several statements belong together."""
        with checked(self._pool) as conn:
            if pipeline:
                with conn.transaction(), conn.cursor(binary=True, row_factory=dict_row) as cur:
                    yield cur
            else:
                with conn.cursor(binary=True, row_factory=dict_row) as cur:
                    yield cur


COPY = (
    """
    INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
    SELECT %(target)s, checkpoint_ns, channel, version, type, blob FROM checkpoint_blobs WHERE thread_id = %(source)s
    ON CONFLICT DO NOTHING
    """,
    """
    INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
    SELECT %(target)s, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata
    FROM checkpoints WHERE thread_id = %(source)s
    ON CONFLICT DO NOTHING
    """,
    """
    INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
    SELECT %(target)s, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob
    FROM checkpoint_writes WHERE thread_id = %(source)s
    ON CONFLICT DO NOTHING
    """,
)

DELETE_RUNS = """
WITH gone AS (DELETE FROM checkpoints WHERE metadata ->> 'run_id' = ANY(%(runs)s::text[])
              RETURNING thread_id, checkpoint_ns, checkpoint_id)
DELETE FROM checkpoint_writes w USING gone g
WHERE w.thread_id = g.thread_id AND w.checkpoint_ns = g.checkpoint_ns AND w.checkpoint_id = g.checkpoint_id
"""


def lift_clock(checkpoint_id: str) -> None:
    """Move langgraph's id clock up to a checkpoint's time, so that this process' next id is above it.

    `put` checks again: another thread may draw an id between the reading and the lift.
    """
    try:
        found = id_clock.UUID(checkpoint_id)
    except ValueError:
        return
    if found.version == UUID6:
        with _LIFT:
            now = getattr(id_clock, CLOCK) or 0
            setattr(id_clock, CLOCK, max(now, found.time))


def _fork(thread: str) -> str | None:
    return thread if thread.startswith(FORK_PREFIX) else None


def _split(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (values that stand in the checkpoint's row, values that go to blobs)."""
    inline = {k: v for k, v in values.items() if v is None or isinstance(v, str | int | float | bool)}
    return inline, {k: v for k, v in values.items() if k not in inline}


def _judge(answer: DictRow, thread: str) -> None:
    if not answer["held"]:
        raise LeaseLost(f"the lease of {thread} is gone; its checkpoint is not written")
    if not answer["whole"]:
        raise TailLost(f"the last checkpoint of {thread} is not in the database any more; reading again from disk")
    if not answer.get("later", True):
        raise ClockBehind(f"this machine's clock is behind the last checkpoint of {thread}; reading again")

