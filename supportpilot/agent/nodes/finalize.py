"""Answer: put the reply into the outbox and into the conversation."""

from __future__ import annotations

import re
from typing import Any, TypedDict

from supportpilot.agent.citations import cited, mentioned_ids, render_links, without_ids
from supportpilot.agent.context import Conversation
from supportpilot.agent.deps import Deps
from supportpilot.agent.state import Turn

_ABOUT_MONEY = re.compile(r"退款|退还|审核|审批|refund|approv", re.IGNORECASE)
_PARAGRAPHS = re.compile(r"\n\s*\n")


class FinalizeIn(Conversation):
    triage: dict[str, Any]
    hits: list[dict[str, Any]]
    draft: str
    followup: str


class FinalizeOut(TypedDict, total=False):
    reply: str
    outcome: str
    turns: list[Turn]


def finalize(state: FinalizeIn, deps: Deps) -> FinalizeOut:
    """Return the reply that stands; without a draft the turn only took its messages in and says nothing.

    Raises:
        LeaseLost: another worker has the ticket.
        Transient: the database is away.
    """
    text = _text(state.get("draft") or "", state.get("followup") or "")
    if not text:
        return {"reply": "", "outcome": "resolved"}
    hits = state.get("hits") or []
    sources = cited(text, hits)
    reply = deps.finish_ticket(
        state["ticket"]["id"], state["triage"].get("category", "other"), sources[0] if sources else None,
        render_links(text, hits, deps.settings.public_url))
    entry: Turn = {"id": f"turn:{state['turn_id']}:reply", "role": "agent", "content": reply,
                   "at": deps.clock().isoformat()}
    return {"reply": reply, "outcome": "resolved", "turns": [entry]}


def _text(draft: str, followup: str) -> str:
    """After a decision the draft's "is being checked" is out of date: only its other answers are kept."""
    if not followup:
        return draft
    paragraphs = _PARAGRAPHS.split(draft)
    kept = [text for text in paragraphs if mentioned_ids(text) and not _ABOUT_MONEY.search(without_ids(text))]
    return "\n\n".join([followup, *kept])
