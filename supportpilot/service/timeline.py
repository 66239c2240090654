"""How each turn of a ticket went: its nodes in order, and at each the tools and model calls, with tokens and cost.

Nodes are read from the snapshots, each of which says at which version every node last ran. So even the one snapshot
that pruning leaves of an old turn names the turn's nodes in order; only what ran twice, and the times, are gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from supportpilot.db import ticket_pages
from supportpilot.db.pool import Connection, Row

START, ACT = "__start__", "act"
SHOWN_TURNS = 30
RESULT_CHARS = 600


@dataclass(frozen=True)
class Call:
    """One call of a model."""

    node: str
    model: str
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost_cny: Decimal
    ms: int
    at: datetime


@dataclass(frozen=True)
class Tool:
    """One call of a tool; `args` and `result` are text as the model wrote it and got it."""

    name: str
    args: Mapping[str, Any]
    result: str
    is_error: bool


@dataclass
class Step:
    """One node's run; without `at` its snapshot was pruned, without `seconds` the one before it."""

    node: str
    at: datetime | None = None
    seconds: float | None = None
    calls: list[Call] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)


@dataclass(frozen=True)
class Totals:
    """What some calls cost together."""

    calls: int
    tokens_in: int
    tokens_out: int
    cost_cny: Decimal


@dataclass(frozen=True)
class TurnView:
    """One turn; `number` counts from 1. `calls` and `tools` are those that belong to no step that is still known."""

    number: int
    turn_id: str
    status: str
    outcome: str | None
    attempts: int
    crashes: int
    messages: int
    silent: bool
    last_error: str | None
    began_at: datetime
    ended_at: datetime | None
    totals: Totals
    steps: list[Step]
    calls: list[Call]
    tools: list[Tool]


@dataclass(frozen=True)
class Timeline:
    """The newest turns, newest first; `left_out` older ones are not shown. `background`: calls outside any turn."""

    turns: list[TurnView]
    left_out: int
    background: list[Call]
    totals: Totals


def timeline(conn: Connection, ticket_id: str, tool_log: Sequence[Mapping[str, Any]]) -> Timeline:
    """Return how a ticket's turns went; a fixed number of statements, however many there are."""
    rows = ticket_pages.turns(conn, ticket_id)
    by_turn: dict[str, list[Row]] = {}
    for row in ticket_pages.snapshots(conn, ticket_id):
        by_turn.setdefault(row["turn_id"] or "", []).append(row)
    calls = [(row["turn_id"] or "", _call(row)) for row in ticket_pages.calls(conn, ticket_id)]
    known = {row["turn_id"] for row in rows}
    views = [_view(number, row, by_turn.get(row["turn_id"], []), [call for turn, call in calls if turn == row["turn_id"]],
                   [_tool(entry) for entry in tool_log if entry.get("turn_id") == row["turn_id"]])
             for number, row in enumerate(rows, 1) if number > len(rows) - SHOWN_TURNS]
    return Timeline(views[::-1], len(rows) - len(views), [call for turn, call in calls if turn not in known],
                    totals([call for _, call in calls]))


def totals(calls: Sequence[Call]) -> Totals:
    """Add calls up."""
    return Totals(len(calls), sum(call.tokens_in for call in calls), sum(call.tokens_out for call in calls),
                  sum((call.cost_cny for call in calls), Decimal(0)))


def _call(row: Row) -> Call:
    return Call(row["node"] or "", row["model"], row["tokens_in"], row["tokens_out"], row["tokens_cached"], row["cost_cny"],
                row["ms"], row["created_at"])


def _tool(entry: Mapping[str, Any]) -> Tool:
    args = entry.get("args")
    return Tool(str(entry.get("name", "")), args if isinstance(args, Mapping) else {}, str(entry.get("result", ""))[:RESULT_CHARS],
                bool(entry.get("is_error")))


def _view(number: int, row: Row, snapshots: Sequence[Row], calls: list[Call], tools: list[Tool]) -> TurnView:
    steps = steps_of(snapshots)
    loose_calls = [call for call in calls if not _placed(steps, call)]
    acting = next((step for step in steps if step.node == ACT), None)
    if acting is not None:
        acting.tools, tools = tools, []
    return TurnView(number, row["turn_id"], row["status"], row["outcome"], row["attempts"], row["crashes"], row["messages"],
                    row["silent"], row["last_error"], row["created_at"], row["finished_at"], totals(calls), steps, loose_calls, tools)


def _placed(steps: Sequence[Step], call: Call) -> bool:
    """Give a call to the first run of its node that had not ended before it, else to the last run of its node."""
    runs = [step for step in steps if step.node == call.node]
    if not runs:
        return False
    next((step for step in runs if step.at is not None and step.at >= call.at), runs[-1]).calls.append(call)
    return True


def steps_of(snapshots: Sequence[Row]) -> list[Step]:
    """Return the steps of one turn from its snapshots (oldest first): those still known."""
    steps: list[Step] = []
    done, before = "", None
    for row in snapshots:
        if row["source"] == "loop":
            fresh = _ran_after(row["seen"] or {}, done)
            for version, node in fresh:
                last = version == fresh[-1][0]
                steps.append(Step(node, row["at"] if last else None,
                                  (row["at"] - before).total_seconds() if last and before and len(fresh) == 1 else None))
                done = version
        before = row["at"]
    return steps


def _ran_after(seen: Mapping[str, Mapping[str, str]], done: str) -> list[tuple[str, str]]:
    """Return (version, node) of what ran later than `done` and in this turn, in order; versions compare as text."""
    begin = max((seen.get(START) or {}).values(), default="")
    found = [(max(versions.values(), default=""), node) for node, versions in seen.items() if not node.startswith("__")]
    return sorted(pair for pair in found if pair[0] > max(begin, done))
