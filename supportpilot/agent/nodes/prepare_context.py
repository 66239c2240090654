"""Put the early part in short, and render once what all later nodes show the model. Asks no model itself."""

from __future__ import annotations

from typing import TypedDict

from supportpilot.agent.context import Memory, memory_view, newest
from supportpilot.agent.deps import Deps
from supportpilot.memory.compress import fold_by_rule, fold_end


class ContextOut(TypedDict):
    summary: str
    summarized_upto: int
    context: str


def prepare_context(state: Memory, deps: Deps) -> ContextOut:
    """Return the memory view and the summary in it; an unanswered message is never folded."""
    summary, upto = _folded(state, deps)
    view = memory_view({**state, "summary": summary, "summarized_upto": upto}, deps.settings,
                       deps.commitments_for(state["ticket"]["id"]))
    return {"summary": summary, "summarized_upto": upto, "context": view}


def _folded(state: Memory, deps: Deps) -> tuple[str, int]:
    """Return the stored summary that fits; what it leaves over budget is summarised by rule, for this view only.

    The state's own summary is no input: it may hold a rule's text, and a summary of summaries loses figures.
    """
    turns, block, settings = state["turns"], newest(state), deps.settings
    open_tail = len(turns) - turns.index(block[0]) if block else 0
    keep = max(settings.context_keep_last, open_tail)
    early = turns[:-keep]
    stored = deps.summary_for(state["ticket"]["id"], early) if early else None
    summary, upto = stored or ("", 0)
    end = fold_end(turns, summary, upto, settings.context_budget_tokens, keep)
    if end > upto:
        summary = fold_by_rule(turns, summary, upto, end, settings.context_budget_tokens)
    return summary, end
