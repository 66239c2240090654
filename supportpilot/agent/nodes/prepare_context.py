"""Put the early part in short, and render once what all later nodes show the model. Asks no model itself."""

from __future__ import annotations

import logging
from typing import TypedDict

from supportpilot.agent.context import Memory, language_of, memory_view, newest
from supportpilot.agent.deps import Deps
from supportpilot.agent.state import View
from supportpilot.memory.view import Remembered, Room, remember, room_of

log = logging.getLogger(__name__)


class ContextOut(TypedDict):
    summary: str
    summarized_upto: int
    context: str
    view: View


def prepare_context(state: Memory, deps: Deps) -> ContextOut:
    """Return the memory view, the summary in it, and what it costs; an unanswered message is never folded."""
    turns, block, ticket_id = state["turns"], newest(state), state["ticket"]["id"]
    open_tail = len(turns) - turns.index(block[0]) if block else 0
    room = room_of(deps.settings, open_tail, deps.commitments_for(ticket_id), language_of(state))
    # The state's own summary is no input: it may hold a rule's text, which was made for the last view only.
    early = turns[:-room.keep_last]
    stored = deps.summary_for(ticket_id, early) if early else None
    memory = remember(turns, stored, [turn["content"] for turn in block], room)
    if memory.irreducible:
        log.info("%s: the view has %d tokens, %d are allowed, and nothing is left to fold", ticket_id, memory.tokens, room.budget)
    text = memory_view({**state, "summary": memory.summary, "summarized_upto": memory.upto}, deps.settings,
                       memory.ledger, memory.recalled)
    return {"summary": memory.summary, "summarized_upto": memory.upto, "context": text, "view": _view(memory, room)}


def _view(memory: Remembered, room: Room) -> View:
    return {"tokens": memory.tokens, "budget": room.budget, "irreducible": memory.irreducible,
            "recalled": list(memory.recalled), "by_rule": memory.by_rule}
