"""Answer: put the reply into the outbox and into the conversation."""

from __future__ import annotations

import re
from typing import Any, TypedDict

from supportpilot.agent.citations import cited, mentioned_ids, render_links, without_ids
from supportpilot.agent.context import Conversation
from supportpilot.agent.deps import Deps
from supportpilot.agent.state import Turn
from supportpilot.memory.commitments import Commitment, Said, calendar_of, promised
from supportpilot.prompts.promises import fixed_promises

_ABOUT_MONEY = re.compile(r"退款|退还|审核|审批|refund|approv", re.IGNORECASE)
_PARAGRAPHS = re.compile(r"\n\s*\n")


class FinalizeIn(Conversation):
    triage: dict[str, Any]
    hits: list[dict[str, Any]]
    draft: str
    followup: str
    review: dict[str, Any]
    customer: dict[str, Any] | None


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
    written = render_links(text, hits, deps.settings.public_url)
    reply = _finish(state, deps, sources[0] if sources else None, written)
    entry: Turn = {"id": f"turn:{state['turn_id']}:reply", "role": "agent", "content": reply,
                   "at": deps.clock().isoformat()}
    return {"reply": reply, "outcome": "resolved", "turns": [entry]}


def _finish(state: FinalizeIn, deps: Deps, kb_id: str | None, written: str) -> str:
    """Send the reply off; a port that knows nothing of promises is not asked to keep any."""
    promises = _promises(state, deps, written)
    more: dict[str, Any] = {"commitments": promises} if promises else {}
    return deps.finish_ticket(state["ticket"]["id"], state["triage"].get("category", "other"), kb_id, written, **more)


def _promises(state: FinalizeIn, deps: Deps, written: str) -> tuple[Commitment, ...]:
    """Return what the reply promises: what the reviewer named is believed only where its words stand in the reply."""
    hits = state.get("hits") or []
    listed = [{**item, "text": render_links(str(item.get("text") or ""), hits, deps.settings.public_url)}
              for item in (state.get("review") or {}).get("commitments") or ()]
    return promised(Said(
        written, deps.clock(), calendar_of(str((state.get("customer") or {}).get("locale") or "")), listed,
        customer=[turn["content"] for turn in state["turns"] if turn["role"] == "customer"],
        sources=[str(hit.get("text") or "") for hit in hits], known=fixed_promises(state.get("followup") or "")))


def _text(draft: str, followup: str) -> str:
    """After a decision the draft's "is being checked" is out of date: only its other answers are kept."""
    if not followup:
        return draft
    paragraphs = _PARAGRAPHS.split(draft)
    kept = [text for text in paragraphs if mentioned_ids(text) and not _ABOUT_MONEY.search(without_ids(text))]
    return "\n\n".join([followup, *kept])
