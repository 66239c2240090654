"""Answer: put the reply into the outbox and into the conversation."""

from __future__ import annotations

import re
from typing import Any, TypedDict, get_args

from supportpilot.agent.citations import cited, mentioned_ids, render_links, without_ids
from supportpilot.agent.context import Conversation, newest
from supportpilot.agent.deps import Deps
from supportpilot.agent.state import Category, Turn
from supportpilot.memory.commitments import Commitment, Said, calendar_of, promised
from supportpilot.memory.noted import error_codes, only_code, wish_of
from supportpilot.prompts.promises import fixed_promises
from supportpilot.types import Noted

_ABOUT_MONEY = re.compile(r"退款|退还|审核|审批|refund|approv", re.IGNORECASE)
CODE_TOOL = "list_bank_connections"
_PARAGRAPHS = re.compile(r"\n\s*\n")


class FinalizeIn(Conversation):
    triage: dict[str, Any]
    hits: list[dict[str, Any]]
    draft: str
    followup: str
    review: dict[str, Any]
    customer: dict[str, Any] | None
    tool_log: list[dict[str, Any]]


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
    noted = _noted(state, _promises(state, deps, written))
    reply = deps.finish_ticket(state["ticket"]["id"], _category(state), sources[0] if sources else None, written, noted)
    entry: Turn = {"id": f"turn:{state['turn_id']}:reply", "role": "agent", "content": reply,
                   "at": deps.clock().isoformat()}
    return {"reply": reply, "outcome": "resolved", "turns": [entry]}


def _promises(state: FinalizeIn, deps: Deps, written: str) -> tuple[Commitment, ...]:
    """Return what the reply promises: what the reviewer named is believed only where its words stand in the reply."""
    hits = state.get("hits") or []
    listed = [{**item, "text": render_links(str(item.get("text") or ""), hits, deps.settings.public_url)}
              for item in (state.get("review") or {}).get("commitments") or ()]
    return promised(Said(
        written, deps.clock(), calendar_of(str((state.get("customer") or {}).get("locale") or "")), listed,
        customer=[turn["content"] for turn in state["turns"] if turn["role"] == "customer"],
        sources=[str(hit.get("text") or "") for hit in hits], known=fixed_promises(state.get("followup") or "")))


def _category(state: FinalizeIn) -> str:
    named = state["triage"].get("category")
    return str(named) if named in get_args(Category) else "other"


def _noted(state: FinalizeIn, promises: tuple[Commitment, ...]) -> Noted:
    """Return what becomes part of the customer's history: nothing that the customer or a tool has not written.

    A code from the customer's words goes first. A tool names one only if the matter is technical and it names just one:
    what a search in old tickets finds is about those.
    """
    said = [turn["content"] for turn in state["turns"] if turn["role"] == "customer"]
    codes = error_codes(said)
    if not codes and _category(state) == "technical":
        codes = [code for call in state.get("tool_log") or [] if call.get("name") == CODE_TOOL and not call.get("is_error")
                 for code in only_code(str(call.get("result") or ""))][-1:]
    wish = wish_of(state["triage"].get("wish"), [turn["content"] for turn in newest(state)])
    return Noted(tuple(codes), wish, promises)


def _text(draft: str, followup: str) -> str:
    """After a decision the draft's "is being checked" is out of date: only its other answers are kept."""
    if not followup:
        return draft
    paragraphs = _PARAGRAPHS.split(draft)
    kept = [text for text in paragraphs if mentioned_ids(text) and not _ABOUT_MONEY.search(without_ids(text))]
    return "\n\n".join([followup, *kept])
