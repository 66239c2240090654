"""Time travel: a ticket's snapshots, and a second run from one of them in a fork.

A fork has a thread of its own, so the ticket's own head never moves; nothing it does leaves it, and the money it
costs is charged to it.
"""

from __future__ import annotations

import difflib
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base.id import uuid6
from langgraph.types import StateSnapshot

from supportpilot.agent.deps import Deps
from supportpilot.agent.graph import Graph, build_graph
from supportpilot.db import erasures, forks, llm_calls, outbox, tickets, turns
from supportpilot.db.forks import Fork
from supportpilot.db.pool import Connection, Database, translated
from supportpilot.desk.turns import reply_key
from supportpilot.errors import NotFound, Permanent
from supportpilot.memory.checkpoint import checkpointer_over
from supportpilot.memory.fenced import FORK_PREFIX
from supportpilot.memory.profile import sources, template
from supportpilot.tools.registry import call_tool

SHOWN_CHECKPOINTS = 5
INPUT, UPDATE, START = "input", "update", "__start__"
_SENTENCE_END = re.compile(r"(?<=[。!?])|(?<=[.!?])\s+|\n+")


# history --------------------------------------------------------------------------------------------

def history(db: Database, deps: Deps, ticket_id: str) -> list[dict[str, Any]]:
    """Return the ticket's snapshots, newest first: turn, what was written before it and what comes next, time, size.

    Raises:
        NotFound: no such ticket.
    """
    with db.connection() as conn:
        _known(conn, ticket_id)
        sizes = forks.snapshot_bytes(conn, ticket_id)
        numbers = {row["turn_id"]: i for i, row in enumerate(turns.of_ticket(conn, ticket_id), 1)}
    graph = build_graph(deps, checkpointer_over(db))
    with translated():
        found = _with_turns(graph.get_state_history(_thread(ticket_id)))
    by_id = {_checkpoint_id(snapshot.config): snapshot for snapshot, _ in found}
    for _, turn_id in reversed(found):
        numbers.setdefault(turn_id, len(numbers) + 1)       # a thread driven by hand has no rows of turns
    return [_line(snapshot, turn_id, by_id) | {"turn": numbers[turn_id], "bytes": sizes.get(_checkpoint_id(snapshot.config))}
            for snapshot, turn_id in found]


def _with_turns(snapshots: Iterator[StateSnapshot]) -> list[tuple[StateSnapshot, str]]:
    """Until `load_customer` has run, the state names the last turn: there the next snapshot knows better."""
    found: list[tuple[StateSnapshot, str]] = []
    for snapshot in snapshots:
        turn_id = str((snapshot.metadata or {}).get("turn_id") or "")
        starting = snapshot.next in ((START,), ("load_customer",))
        later = found[-1][1] if found and starting else ""
        values = "" if starting else str(snapshot.values.get("turn_id") or "")
        found.append((_without_values(snapshot), turn_id or later or values))
    return found


def _without_values(snapshot: StateSnapshot) -> StateSnapshot:
    """Let go of the state's values: a long thread has many snapshots, and the list needs none of them."""
    return snapshot._replace(values={}, tasks=())


def _line(snapshot: StateSnapshot, turn_id: str, by_id: Mapping[str, StateSnapshot]) -> dict[str, Any]:
    metadata = snapshot.metadata or {}
    return {
        "checkpoint_id": _checkpoint_id(snapshot.config), "turn_id": turn_id, "step": metadata.get("step"),
        "written_by": _writer(snapshot, by_id), "next": list(snapshot.next), "at": snapshot.created_at,
    }


def _writer(snapshot: StateSnapshot, by_id: Mapping[str, StateSnapshot]) -> str | None:
    """Return which node's writes a snapshot holds, None if the snapshot before it was pruned."""
    source = (snapshot.metadata or {}).get("source")
    if source in (INPUT, UPDATE):
        return source
    parent = by_id.get(_checkpoint_id(snapshot.parent_config)) if snapshot.parent_config else None
    return ", ".join(parent.next) if parent else None


# replay ---------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class _End:
    """How a run in a fork ended."""

    turn_id: str
    steps: list[str]
    outcome: str
    text: str
    request: dict[str, Any] | None


def replay(db: Database, deps: Deps, ticket_id: str, checkpoint_id: str) -> dict[str, Any]:
    """Run a ticket from one of its snapshots again, in a fork, and compare what comes out with what came out then.

    Tools and knowledge base are read as they are today. At a refund the replay stops: nobody is asked.

    Raises:
        NotFound: no such ticket, or no such snapshot; the text names some that exist.
        Transient, Permanent, Misconfigured: as the graph's nodes.
    """
    fork = Fork(f"{FORK_PREFIX}{uuid.uuid4()}", ticket_id, checkpoint_id, str(uuid6(clock_seq=-2)))
    with db.transaction() as conn:
        _known(conn, ticket_id)
        if not forks.create(conn, fork):
            raise NotFound(_no_snapshot(forks.snapshot_ids(conn, ticket_id), ticket_id, checkpoint_id))
    graph = build_graph(harmless(deps, db), checkpointer_over(db))
    with translated():
        end = _run(graph, fork.thread_id)
    with db.transaction() as conn:
        forks.finish(conn, fork.thread_id, end.outcome, end.text)
        cost = llm_calls.cost_of_ticket(conn, fork.thread_id)
        then = _then(conn, graph, ticket_id, end.turn_id)
    return {
        "fork": fork.thread_id, "ticket_id": ticket_id, "checkpoint_id": checkpoint_id, "turn_id": end.turn_id,
        "steps": end.steps, "outcome": end.outcome, "reply": end.text, "request": end.request, "original": then,
        "same": (end.outcome, end.text) == (then["outcome"], then["reply"]),
        "diff": compare(then["reply"], end.text), "cost_cny": cost,
    }


def harmless(deps: Deps, db: Database) -> Deps:
    """Return ports that read but change nothing: what would be an effect returns its text, tools run read-only."""
    return replace(
        deps, call_tool=_reading(db, call_tool), profile_for=_profile(db), check_lease=lambda _token: None,
        overtaken=lambda _turn_id: False,
        escalate=lambda _ticket_id, _reason, reply: reply,
        finish_ticket=lambda _ticket_id, _category, _kb_id, reply, _noted: reply,
        decide_refund=_never)


def _reading(db: Database, look_up: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: object, **kwargs: object) -> Any:  # noqa: ANN401 -- as what it looks up
        with db.transaction() as conn:
            forks.make_read_only(conn)
            return look_up(conn, *args, **kwargs)
    return run


def _profile(db: Database) -> Callable[[str], str]:
    """As a turn reads it, but without asking for a new one."""
    def profile_for(customer_id: str) -> str:
        with db.connection() as conn:
            read = sources(conn, customer_id)
        return read.stored.summary if read.stored and read.fresh else template(read.facts)
    return profile_for


def _never(*_: object, **__: object) -> NoReturn:
    raise Permanent("a replay decides no refund")


def _run(graph: Graph, thread_id: str) -> _End:
    """Go on from the copied snapshot to the end of its turn or to the question for a human."""
    start = graph.get_state(_thread(thread_id))
    turn_id = str((start.metadata or {}).get("turn_id") or start.values.get("turn_id") or "")
    steps: list[str] = []
    if start.next:
        for update in graph.stream(None, _thread(thread_id, turn_id), stream_mode="updates", durability="sync"):
            steps += [node for node in update if not node.startswith("__")]
    end = graph.get_state(_thread(thread_id))
    turn_id = str(end.values.get("turn_id") or turn_id)
    if end.interrupts:
        payload = dict(end.interrupts[0].value)
        return _End(turn_id, steps, "waiting_approval", payload.get("draft") or "", payload.get("request"))
    return _End(turn_id, steps, end.values.get("outcome") or "resolved", end.values.get("reply") or "", None)


def _then(conn: Connection, graph: Graph, ticket_id: str, turn_id: str) -> dict[str, Any]:
    """Return what the turn came to when it ran for the ticket; while it waits for a human that is its draft."""
    row = next((row for row in turns.of_ticket(conn, ticket_id) if row["turn_id"] == turn_id), None)
    head = graph.get_state(_thread(ticket_id)).values
    ours = head if head.get("turn_id") == turn_id else {}
    entries = {entry.get("id"): entry["content"] for entry in head.get("turns", [])}
    reply = outbox.body_of(conn, reply_key(turn_id)) or entries.get(reply_key(turn_id)) or ours.get("draft")
    return {"outcome": (row["outcome"] if row else None) or ours.get("outcome") or None, "reply": reply or ""}


def compare(before: str, after: str) -> list[str]:
    """Return the sentences of two texts, those of one side only marked `-` or `+`; [] if there are none."""
    old, new = _sentences(before), _sentences(after)
    lines: list[str] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [f"  {text}" for text in old[i1:i2]]
        else:
            lines += [f"- {text}" for text in old[i1:i2]] + [f"+ {text}" for text in new[j1:j2]]
    return lines


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in _SENTENCE_END.split(text) if part.strip()]


# both -----------------------------------------------------------------------------------------------

def _known(conn: Connection, ticket_id: str) -> None:
    if tickets.get(conn, ticket_id) is None:
        raise erasures.absent(conn, ticket_id)


def _no_snapshot(existing: list[str], ticket_id: str, checkpoint_id: str) -> str:
    if not existing:
        return f"{ticket_id} has no snapshots: it has not run yet, or they were pruned"
    some = ", ".join(existing[:SHOWN_CHECKPOINTS])
    return (f"{ticket_id} has no snapshot {checkpoint_id} (unknown or pruned); newest of {len(existing)}: {some}; "
            f"all of them: `supportpilot ticket history {ticket_id}`")


def _thread(thread_id: str, turn_id: str = "") -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, **({"turn_id": turn_id} if turn_id else {})}}


def _checkpoint_id(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])
