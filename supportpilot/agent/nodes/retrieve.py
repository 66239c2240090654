"""Search the knowledge base; finding nothing counts as an answer that will not help."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TypedDict

from supportpilot.agent.context import Identity
from supportpilot.agent.deps import Deps

HITS = 5


class RetrieveIn(Identity, total=False):
    triage: dict[str, Any]
    customer: dict[str, Any] | None
    unsolved: int


class RetrieveOut(TypedDict, total=False):
    hits: list[dict[str, Any]]
    unsolved: int
    handoff_reason: str


def retrieve(state: RetrieveIn, deps: Deps) -> RetrieveOut:
    """Return the hits, and the count of answers that did not help: back to 0 once there is something to go on."""
    triage = state["triage"]
    hits = [asdict(hit) for hit in deps.retriever.search(triage["search_query"], HITS)]
    unsolved = state.get("unsolved", 0)
    if triage.get("still_unsolved"):
        return {"hits": hits}    # counted already
    if hits or (triage.get("needs_account_data") and state.get("customer")):
        return {"hits": hits, "unsolved": 0}
    update: RetrieveOut = {"hits": hits, "unsolved": unsolved + 1}
    if unsolved + 1 >= deps.settings.handoff_after_unsolved:
        update["handoff_reason"] = f"the knowledge base had nothing to go on: {triage.get('summary', '')}"
    return update
