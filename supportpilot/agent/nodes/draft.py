"""Write the reply to the newest messages."""

from __future__ import annotations

from typing import Any, TypedDict

from supportpilot.agent.context import Conversation, articles, language_of, request
from supportpilot.agent.deps import Deps
from supportpilot.errors import ModelOutputUnusable


class DraftIn(Conversation):
    context: str
    hits: list[dict[str, Any]]
    findings: str
    review: dict[str, Any]
    draft: str


class DraftOut(TypedDict):
    draft: str


def draft(state: DraftIn, deps: Deps) -> DraftOut:
    """Return a draft; after a failed review it is the last one mended.

    Raises:
        ModelOutputUnusable: the model wrote nothing.
        Transient: the model is away.
    """
    problems = (state.get("review") or {}).get("problems") or []
    text = deps.llm.chat(request(
        "draft", language_of(state), state["context"],
        articles=articles(state.get("hits") or []), findings=state.get("findings") or "",
        problems="\n".join(f"- {problem}" for problem in problems),
        previous_draft=state.get("draft", "") if problems else "",
    )).content.strip()
    if not text:
        raise ModelOutputUnusable("the draft is empty")
    return {"draft": text}
