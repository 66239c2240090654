"""Fold the early part if it is too long, and render once what all later nodes show the model."""

from __future__ import annotations

from typing import TypedDict

from supportpilot.agent.context import Memory, memory_view, newest
from supportpilot.agent.deps import Deps
from supportpilot.errors import ModelOutputUnusable
from supportpilot.memory.compress import maybe_compress


class ContextOut(TypedDict):
    summary: str
    summarized_upto: int
    context: str


def prepare_context(state: Memory, deps: Deps) -> ContextOut:
    """Return the summary as it stands now and the memory view; an unanswered message is never folded."""
    summary, upto = _folded(state, deps)
    view = memory_view({**state, "summary": summary, "summarized_upto": upto}, deps.settings)
    return {"summary": summary, "summarized_upto": upto, "context": view}


def _folded(state: Memory, deps: Deps) -> tuple[str, int]:
    turns, block = state["turns"], newest(state)
    summary, upto = state.get("summary", ""), state.get("summarized_upto", 0)
    open_tail = len(turns) - turns.index(block[0]) if block else 0
    try:
        return maybe_compress(deps.small_llm, turns, summary, upto, budget=deps.settings.context_budget_tokens,
                              keep_last=max(deps.settings.context_keep_last, open_tail))
    except ModelOutputUnusable:
        return summary, upto    # too long a view is better than none
