"""Decide what kind of message this is, and whether a human has to take over before anything is tried."""

from __future__ import annotations

from typing import Any, TypedDict

from supportpilot.agent.context import Memory, language_of, nothing_to_answer, perhaps_thanks, request
from supportpilot.agent.deps import Deps
from supportpilot.agent.state import Triage
from supportpilot.config import Settings


class ClassifyIn(Memory, total=False):
    context: str
    unsolved: int
    cost_cny: float


class ClassifyOut(TypedDict, total=False):
    triage: dict[str, Any]
    unsolved: int
    handoff_reason: str


def classify(state: ClassifyIn, deps: Deps) -> ClassifyOut:
    """Return the triage; an empty one if there is nothing to answer or the ticket has used up its money.

    Its word that the customer only thanks counts only where the rules are in doubt.

    Raises:
        ModelOutputUnusable: the answer did not fit the schema.
        Transient: the model is away.
    """
    if nothing_to_answer(state):
        return {"triage": {}}
    cap = deps.settings.ticket_cost_cap_cny
    if state.get("cost_cny", 0.0) >= cap:
        return {"triage": {}, "handoff_reason": f"the ticket has reached its cost cap of {cap:g} CNY"}
    triage = deps.small_llm.structured(request("triage", language_of(state), state["context"]), Triage)
    wants = triage.needs_human or triage.still_unsolved or triage.needs_account_data or triage.wish
    if triage.only_thanks and (wants or not perhaps_thanks(state)):
        triage = triage.model_copy(update={"only_thanks": False})
    unsolved = state.get("unsolved", 0) + (1 if triage.still_unsolved else 0)
    update: ClassifyOut = {"triage": triage.model_dump(), "unsolved": unsolved}
    reason = _reason(triage, unsolved, deps.settings)
    if reason:
        update["handoff_reason"] = reason
    return update


def _reason(triage: Triage, unsolved: int, settings: Settings) -> str:
    if triage.needs_human:
        return f"needs a human: {triage.summary}"
    if triage.still_unsolved and unsolved >= settings.handoff_after_unsolved:
        return f"the answer did not help, {unsolved} times: {triage.summary}"
    return ""
