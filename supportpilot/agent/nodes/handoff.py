"""Give the ticket to a human and tell the customer so."""

from __future__ import annotations

from typing import Any, TypedDict

from supportpilot.agent.context import Conversation, language_of
from supportpilot.agent.deps import Deps
from supportpilot.agent.state import Turn
from supportpilot.prompts.loader import prompt


class HandoffIn(Conversation):
    triage: dict[str, Any]
    handoff_reason: str


class HandoffOut(TypedDict):
    reply: str
    outcome: str
    handoff_reason: str
    unsolved: int
    turns: list[Turn]


def handoff(state: HandoffIn, deps: Deps) -> HandoffOut:
    """Return the notice that stands; the count of unhelpful answers starts anew, for when the ticket comes back.

    Raises:
        LeaseLost: another worker has the ticket.
        Transient: the database is away.
    """
    ticket_id = state["ticket"]["id"]
    reason = state.get("handoff_reason") or (state.get("triage") or {}).get("summary") or "needs a human"
    notice = prompt("handoff", language_of(state), ticket_id=ticket_id)
    reply = deps.escalate(ticket_id, reason, notice)
    entry: Turn = {"id": f"turn:{state['turn_id']}:reply", "role": "agent", "content": reply,
                   "at": deps.clock().isoformat(), "handed_over": True}
    return {"reply": reply, "outcome": "escalated", "handoff_reason": reason, "unsolved": 0, "turns": [entry]}
