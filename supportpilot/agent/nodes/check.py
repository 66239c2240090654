"""Review the draft: by rule what a rule can tell, by the model the rest; count how often it goes back."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, TypedDict

from supportpilot.agent.citations import foreign_links, unknown_ids
from supportpilot.agent.context import Conversation, articles, language_of, request
from supportpilot.agent.deps import Deps
from supportpilot.agent.grants import granted_money, promised_money
from supportpilot.agent.state import Review

QUOTED_CHARS = 120
_INVOICE = re.compile(r"(?<![A-Za-z0-9])INV(?:-[A-Za-z0-9]+)+")


class CheckIn(Conversation):
    context: str
    hits: list[dict[str, Any]]
    findings: str
    draft: str
    revisions: int


class CheckOut(TypedDict, total=False):
    review: dict[str, Any]
    revisions: int
    handoff_reason: str


def check(state: CheckIn, deps: Deps) -> CheckOut:
    """Return the verdict; a draft that fails once too often goes to a human with the problems as the reason.

    Raises:
        ModelOutputUnusable: the verdict did not fit the schema.
        Transient: the model is away.
    """
    broken = _broken_rules(state, deps)
    review = Review(passed=False, problems=broken) if broken else _reviewed(state, deps)
    if review.passed:
        return {"review": _stored(review)}
    revisions = state.get("revisions", 0) + 1
    update: CheckOut = {"review": _stored(review), "revisions": revisions}
    if revisions > deps.settings.max_revisions:
        update["handoff_reason"] = "the draft failed its review: " + "; ".join(review.problems)
    return update


def _stored(review: Review) -> dict[str, Any]:
    return review.model_dump(exclude=None if review.commitments else {"commitments"})


def _broken_rules(state: CheckIn, deps: Deps) -> list[str]:
    hits, text = state.get("hits") or [], state["draft"]
    unknown = [f"{name} is not among the given articles" for name in unknown_ids(text, hits)]
    links = [f"{url} is not an address of ours" for url in foreign_links(text, hits, deps.settings.public_url)]
    return unknown + links + _unbacked_money(state, deps)


def _unbacked_money(state: CheckIn, deps: Deps) -> list[str]:
    """Return what the draft promises or says was granted although nobody has decided it: only `approval` grants money.

    A sentence that names a bill is backed by that bill's refund only.
    """
    sources = [str(hit["text"]) for hit in state.get("hits") or []]
    promised, granted = promised_money(state["draft"], sources), granted_money(state["draft"], sources)
    if granted:
        paid = _refunded(state, deps)
        granted = [sentence for sentence in granted if not (paid & set(_INVOICE.findall(sentence)) if _INVOICE.search(sentence) else paid)]
    return [f"nobody has decided that: {sentence[:QUOTED_CHARS]}" for sentence in dict.fromkeys([*promised, *granted])]


def _refunded(state: CheckIn, deps: Deps) -> set[str]:
    """Return the numbers of the customer's invoices that money went back for."""
    text, is_error = deps.call_tool("list_invoices", {}, ticket_id=state["ticket"]["id"])
    rows = [] if is_error else json.loads(text)
    return {str(row.get("number")) for row in rows if row.get("status") == "refunded" or Decimal(str(row.get("refunded") or 0)) > 0}


def _reviewed(state: CheckIn, deps: Deps) -> Review:
    review = deps.small_llm.structured(request(
        "check", language_of(state), state["context"],
        articles=articles(state.get("hits") or []), findings=state.get("findings") or "", draft=state["draft"],
    ), Review)
    if review.passed or review.problems:
        return review
    return Review(passed=False, problems=["the reviewer gave no reason"])
