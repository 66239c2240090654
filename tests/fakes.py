"""Stand-ins for what the graph needs from outside: short, named like the real thing, asserted by what they recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from supportpilot.agent.deps import Deps
from supportpilot.config import Settings
from supportpilot.errors import SupportPilotError
from supportpilot.llm.client import ChatResult, ToolCall
from supportpilot.types import Commitment, Hit, Noted, current_scope

T = TypeVar("T")

DEFAULT_HITS = (
    Hit("KB-refund-002", "退款规则", "年付套餐七天内可申请退款,由同事审核。", 2.0),
    Hit("KB-bank-001", "银行流水同步失败 E3001", "E3001 表示银行授权过期,请到 设置 > 银行 重新授权。", 1.5),
)


@dataclass
class FakeLedger:
    """Counts the calls and what they cost."""

    calls: int = 0
    spent: Decimal = Decimal(0)

    def cost_cny(self, _settings: Settings) -> float:
        return float(self.spent)


class FakeLLM:
    """A model that says what it is told to, by the task that the system prompt names.

    Args:
        triage: fields of the triage, or several of them, one for each turn (the last one stays).
        tool_calls: what `act` asks for in its first round: `(name, arguments)` each.
        draft: the reply, or several, one for each writing (the last one stays).
        reviews: `True`, or the list of problems, one for each review; without any left a draft passes.
        texts: answers by task, for `summary`, `profile` and `act`.
        cost: CNY of one call, or a function that is called for it (with the user message).
        fail: an error by task, raised in the place of an answer.
    """

    def __init__(self, triage: dict[str, Any] | Sequence[dict[str, Any]], tool_calls: Sequence[tuple[str, dict[str, Any]]] = (),
                 draft: str | Sequence[str] = "您好。", *, reviews: Sequence[bool | list[str]] = (),
                 texts: dict[str, str] | None = None, cost: str | Callable[[str], str] = "0.001",
                 fail: dict[str, SupportPilotError] | None = None) -> None:
        self.ledger = FakeLedger()
        self.requests: list[list[dict[str, Any]]] = []
        self.tools_offered: list[list[dict[str, Any]] | None] = []
        self.fail = dict(fail or {})
        self.commitments: list[dict[str, str]] = []      # what every review lists
        self._triages = [triage] if isinstance(triage, dict) else list(triage)
        self._drafts = [draft] if isinstance(draft, str) else list(draft)
        self._reviews = list(reviews)
        self._tool_calls = list(tool_calls)
        self._texts = {"summary": "- 客户反映账单有问题", "profile": "专业版年付客户。", "act": "已查证。", **(texts or {})}
        self._cost = cost

    def chat(self, messages: list[dict[str, Any]], *, temperature: float = 0.2,
             tools: list[dict[str, Any]] | None = None) -> ChatResult:
        task = self._asked(messages)
        self.tools_offered.append(tools)
        if task == "draft":
            return ChatResult(_next(self._drafts))
        if task == "act" and self._tool_calls and messages[-1]["role"] == "user":
            return ChatResult("", [ToolCall(f"call{i}", name, arguments)
                                   for i, (name, arguments) in enumerate(self._tool_calls)])
        return ChatResult(self._texts[task])

    def structured(self, messages: list[dict[str, Any]], schema: type[T]) -> T:
        task = self._asked(messages)
        if task == "triage":
            return schema(**_next(self._triages))
        verdict = self._reviews.pop(0) if self._reviews else True
        listed = {"commitments": self.commitments} if self.commitments else {}
        return schema(passed=verdict is True, problems=[] if verdict is True else verdict, **listed)

    def close(self) -> None:
        """Nothing is open."""

    def asked(self, task: str) -> list[str]:
        """Return the user messages of every call of a task."""
        return [request[1]["content"] for request in self.requests if f"[task:{task}]" in request[0]["content"]]

    def _asked(self, messages: list[dict[str, Any]]) -> str:
        task = str(messages[0]["content"]).split("[task:", 1)[1].split("]", 1)[0]
        self.requests.append(list(messages))
        self.ledger.calls += 1
        cost = Decimal(self._cost if isinstance(self._cost, str) else self._cost(messages[1]["content"]))
        self.ledger.spent += cost
        scope = current_scope()
        if scope is not None:
            scope.spent.append(cost)
        if task in self.fail:
            raise self.fail[task]
        return task


def _next(answers: list[T]) -> T:
    return answers.pop(0) if len(answers) > 1 else answers[0]


class FakeTools:
    """The account tools and the effects; effects are keyed by turn or approval as the real ones are.

    Args:
        customer: the sender's account, None for a stranger.
        results: what a tool returns, by name: JSON-able data, or `(text, is_error)`.
        refund_status: what `decide_refund` says of an approved refund.
    """

    def __init__(self, customer: dict[str, Any] | None = None, results: dict[str, Any] | None = None,
                 refund_status: str = "paid") -> None:
        self.customer = customer
        self.results = dict(results or {})
        self.refund_status = refund_status
        self.calls: list[tuple[str, dict[str, Any], str]] = []
        self.refunds: list[dict[str, Any]] = []
        self.escalations: list[tuple[str, str, str]] = []
        self.noted: list[Noted] = []
        self.finished: list[tuple[str, str, str | None, str]] = []
        self.promised: list[Commitment] = []
        self.outbox: dict[str, str] = {}

    def call_tool(self, name: str, arguments: dict[str, Any], *, ticket_id: str) -> tuple[str, bool]:
        self.calls.append((name, arguments, ticket_id))
        if name == "get_customer" and name not in self.results:
            return (json.dumps(self.customer), False) if self.customer else ("no account for this address", True)
        result = self.results.get(name, (f"unknown tool {name}", True))
        return result if isinstance(result, tuple) else (json.dumps(result, ensure_ascii=False), False)

    def escalate(self, ticket_id: str, reason: str, reply: str) -> str:
        self.escalations.append((ticket_id, reason, reply))
        return self._put(reply)

    def finish_ticket(self, ticket_id: str, category: str, kb_id: str | None, reply: str, noted: Noted) -> str:
        self.noted.append(noted)
        self.promised.extend(noted.commitments)
        self.finished.append((ticket_id, category, kb_id, reply))
        return self._put(reply)

    def decide_refund(self, ticket_id: str, approved: bool, approver: str, reason: str, *,
                      request: dict[str, Any] | None = None, approval_id: str | None = None) -> dict[str, Any]:
        self.refunds.append({"ticket_id": ticket_id, "approved": approved, "approver": approver, "reason": reason,
                             "request": request, "approval_id": approval_id})
        status = self.refund_status if approved else "rejected"
        return {"status": status, "reason": reason or "at most 10.00 CNY can be refunded"}

    def _put(self, reply: str) -> str:
        scope = current_scope()
        return self.outbox.setdefault(scope.turn_id if scope else "", reply)


@dataclass
class FakeRetriever:
    """Finds the same hits for every query."""

    hits: Sequence[Hit] = DEFAULT_HITS
    queries: list[str] = field(default_factory=list)

    def search(self, query: str, k: int = 5) -> list[Hit]:
        self.queries.append(query)
        return list(self.hits)[:k]


@dataclass
class FakeClock:
    """A clock that moves when it is told to."""

    now: datetime = datetime(2026, 12, 2, 9, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **by: float) -> None:
        self.now += timedelta(**by)


def make_deps(llm: FakeLLM, tools: FakeTools, *, hits: Sequence[Hit] = DEFAULT_HITS, **settings: object) -> Deps:
    """Build the graph's ports over fakes; further keywords are settings."""
    return Deps(
        llm=llm, small_llm=llm, retriever=FakeRetriever(hits), call_tool=tools.call_tool, escalate=tools.escalate,
        decide_refund=tools.decide_refund, finish_ticket=tools.finish_ticket, settings=Settings(**settings),
        clock=FakeClock(), tool_schemas=[{"type": "function", "function": {"name": "list_invoices"}}],
    )
