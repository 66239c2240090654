"""Start a turn: reset what belongs to one turn, find out who writes, and which entries are to be answered."""

from __future__ import annotations

import json
import uuid
from typing import Any

from supportpilot.agent.context import Conversation, trailing_customer_entries
from supportpilot.agent.deps import Deps
from supportpilot.agent.state import PerTurn, Ticket, Turn, add_turns, fresh_turn
from supportpilot.errors import ModelOutputUnusable
from supportpilot.types import current_scope


class LoadIn(Conversation, total=False):
    """The whole conversation."""

    unsolved: int


class LoadOut(PerTurn, total=False):
    profile: str
    turn_id: str
    turn_messages: list[str]
    turns: list[Turn]


def load_customer(state: LoadIn, deps: Deps) -> LoadOut:
    """Return a fresh turn with its customer and profile; the ticket's body is the first entry if there is none."""
    customer = _customer(state["ticket"], deps)
    first = [] if state.get("turns") else _first_entry(state["ticket"], deps)
    turns = add_turns(state.get("turns") or [], first)
    return {
        **fresh_turn(), "unsolved_before": state.get("unsolved", 0), "customer": customer, "profile": _profile(customer, deps),
        "turn_id": _turn_id(state), "turn_messages": _turn_messages(state, turns), "turns": first,
    }


def _customer(ticket: Ticket, deps: Deps) -> dict[str, Any] | None:
    text, is_error = deps.call_tool("get_customer", {}, ticket_id=ticket["id"])
    found = None if is_error else json.loads(text)
    return found if isinstance(found, dict) and found.get("id") else None


def _profile(customer: dict[str, Any] | None, deps: Deps) -> str:
    if customer is None:
        return ""
    try:
        return deps.profile_for(customer["id"])
    except ModelOutputUnusable:
        return ""    # a turn can do without; the next one asks again


def _first_entry(ticket: Ticket, deps: Deps) -> list[Turn]:
    text = ticket["body"].strip() or ticket["subject"].strip()
    entry: Turn = {"id": f"ticket:{ticket['id']}:body", "role": "customer", "content": text,
                   "at": deps.clock().isoformat()}
    return [entry] if text else []


def _turn_id(state: LoadIn) -> str:
    """Return the turn's id; a thread driven by hand gives none, and the last turn's would hide this one's reply."""
    scope = current_scope()
    given = (scope.turn_id if scope else "") or state.get("turn_id") or ""
    answered = {turn.get("id") for turn in state.get("turns") or ()}
    return given if given and f"turn:{given}:reply" not in answered else uuid.uuid4().hex


def _turn_messages(state: LoadIn, turns: list[Turn]) -> list[str]:
    """Return the ids given with this turn; if the customer has written after them they are left over from the last."""
    given = set(state.get("turn_messages") or ())
    last = max((i for i, turn in enumerate(turns) if turn.get("id") in given), default=-1)
    if last >= 0 and not any(turn["role"] == "customer" for turn in turns[last + 1:]):
        return [turn["id"] for turn in turns if turn.get("id") in given]
    return [turn["id"] for turn in trailing_customer_entries(turns)]
