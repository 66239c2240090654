"""The graph's state: what is kept across turns and what each turn starts anew, declared once.

A field that stays from the last turn misleads this one (an old review makes the draft "correct" a mistake that
nobody made), so `fresh_turn()` resets all of `PerTurn`, and a test fails if a field is in neither class.
State keys and node names are a stored format: add, never rename.
"""

from __future__ import annotations

import operator
import uuid
from typing import Annotated, Any, Literal, NotRequired, TypedDict, get_args, get_type_hints

from pydantic import BaseModel, BeforeValidator, Field

Category = Literal["billing", "refund", "invoice", "account", "technical", "plan_change", "api", "other"]
WishName = Literal["", "reminder_before_expiry", "notice_before_charge", "phone_call", "monthly_invoice"]
Role = Literal["customer", "agent"]
PROMISE_CHARS, DUE_CHARS, MAX_PROMISES = 200, 40, 10
Outcome = Literal["resolved", "waiting_approval", "escalated"]


class Ticket(TypedDict):
    """The ticket as the graph knows it; `customer_email` is the only key to account data."""

    id: str
    customer_email: str
    subject: str
    body: str


class View(TypedDict, total=False):
    """What the memory in `context` costs. `irreducible`: over budget with nothing left to fold.

    `recalled` are the indexes of the folded entries that are shown again; `by_rule`: no stored summary covered all.
    """

    tokens: int
    budget: int
    irreducible: bool
    recalled: list[int]
    by_rule: bool


class Turn(TypedDict):
    """One entry; `at` is ISO 8601 UTC, `author` names a human colleague, `handed_over` marks the notice of a handoff."""

    id: NotRequired[str]
    role: Role
    content: str
    at: NotRequired[str]
    author: NotRequired[str]
    handed_over: NotRequired[bool]


def add_turns(have: list[Turn], new: list[Turn]) -> list[Turn]:
    """Append the entries whose id is not there yet; an entry without an id gets one."""
    known = {t.get("id") for t in have}
    result = list(have)
    for entry in new:
        entry_id = entry.get("id") or uuid.uuid4().hex
        if entry_id not in known:
            known.add(entry_id)
            result.append({**entry, "id": entry_id})
    return result


def add_log(have: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Append tool calls; `{"forget_turn": id}` takes out those of a turn that another one replaced."""
    gone = {entry["forget_turn"] for entry in new if "forget_turn" in entry}
    return [e for e in have if e.get("turn_id") not in gone] + [e for e in new if "forget_turn" not in e]


class Kept(TypedDict, total=False):
    """Stays across turns."""

    ticket: Ticket
    turn_id: str
    turn_messages: list[str]        # ids of the entries that this turn answers
    silent: bool                    # take the messages in, reply nothing
    turns: Annotated[list[Turn], add_turns]
    unsolved: int                   # answers in a row that did not help
    summary: str
    summarized_upto: int            # turns[:summarized_upto] are covered by `summary`
    profile: str
    tool_log: Annotated[list[dict[str, Any]], add_log]
    cost_cny: Annotated[float, operator.add]


class PerTurn(TypedDict, total=False):
    """Starts anew each turn."""

    customer: dict[str, Any] | None
    triage: dict[str, Any]
    review: dict[str, Any]
    findings: str
    refund_request: dict[str, Any] | None
    revisions: int
    approval: dict[str, Any] | None
    followup: str
    draft: str
    hits: list[dict[str, Any]]
    context: str
    view: View
    outcome: str
    reply: str
    handoff_reason: str
    unsolved_before: int            # `unsolved` when the turn began: what a turn in its place starts from


class SupportState(Kept, PerTurn, total=False):
    """The whole state."""


def fresh_turn() -> PerTurn:
    """Return the start values of every per-turn field."""
    return {
        "customer": None, "triage": {}, "review": {}, "findings": "", "refund_request": None, "revisions": 0,
        "approval": None, "followup": "", "draft": "", "hits": [], "context": "", "view": {}, "outcome": "", "reply": "",
        "handoff_reason": "", "unsolved_before": 0,
    }


def state_fields() -> set[str]:
    """Return the names of all fields."""
    return set(get_type_hints(SupportState))


def _wish(value: object) -> object:
    """A wish that is not on the list is none; it is not worth a second call."""
    return value if isinstance(value, str) and value in get_args(WishName) else ""


class Triage(BaseModel):
    """What kind of message this is; decides the way through the graph."""

    category: Category = Field(description="the subject, as defined in the instructions")
    needs_account_data: bool = Field(description="true if only this customer's own account data can answer it")
    needs_human: bool = Field(description="true for complaints at a higher level, legal threats, security incidents, or a wish for a human")
    urgency: Literal["low", "normal", "high"] = "normal"
    summary: str = Field(max_length=200, description="the customer's request in one sentence of at most 40 characters")
    search_query: str = Field(max_length=400, description="query for the help centre: error codes and product words, no greetings")
    wish: Annotated[WishName, BeforeValidator(_wish)] = Field(
        default="", description="what the customer wishes for the future, only if the newest message says so in words; else empty")
    still_unsolved: bool = Field(default=False, description="true if the customer says that the last answer did not help")
    only_thanks: bool = Field(default=False, description="true if the customer only thanks or confirms, and asks, reports and wishes nothing")


class Promise(BaseModel):
    """A commitment as the reviewer names it."""

    text: str = Field(max_length=PROMISE_CHARS, description="its words, copied from the draft")
    due: str = Field(default="", max_length=DUE_CHARS, description="YYYY-MM-DD or YYYY-MM-DDThh:mm, empty if the words name no time")


def _readable(found: object) -> object:
    """A list that is malformed must not cost the verdict: the rules find promises by themselves."""
    if not isinstance(found, list):
        return []
    kept = [item for item in found if isinstance(item, dict) and isinstance(item.get("text"), str)
            and len(item["text"]) <= PROMISE_CHARS and isinstance(item.get("due", ""), str) and len(item.get("due", "")) <= DUE_CHARS]
    return kept[:MAX_PROMISES]


class Review(BaseModel):
    """The verdict on a draft."""

    passed: bool
    problems: list[str] = Field(default_factory=list, description="if not passed: each problem in one sentence")
    commitments: Annotated[list[Promise], BeforeValidator(_readable)] = Field(
        default_factory=list, max_length=MAX_PROMISES, description="each promise of the draft: what we will do, and by when")
