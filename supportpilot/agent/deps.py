"""What nodes need from outside, as small ports. Production builds it with `over`, tests put fakes in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from supportpilot.agent.state import Turn
from supportpilot.config import Settings, get_settings
from supportpilot.db import commitments, turns
from supportpilot.db.llm_calls import record_call
from supportpilot.db.pool import Connection, Database
from supportpilot.kb.retriever import HybridRetriever
from supportpilot.llm.client import ChatResult, LLMClient, Message
from supportpilot.memory.commitments import calendar_of, line
from supportpilot.memory.profile import sources, template
from supportpilot.memory.stored import newest_summary
from supportpilot.tools import business
from supportpilot.tools.registry import call_tool
from supportpilot.types import Hit, LLMCall, Noted, Ports

T = TypeVar("T", bound=BaseModel)


class Ledger(Protocol):
    """Counts what a client has spent in this process (for people; the truth is `desk.llm_calls`)."""

    calls: int

    def cost_cny(self, settings: Settings) -> float: ...


class LLM(Protocol):
    """What a node may ask of a model; `LLMClient` and the tests' `FakeLLM` both fit."""

    @property
    def ledger(self) -> Ledger: ...

    def chat(self, messages: list[Message], *, temperature: float = 0.2,
             tools: list[dict[str, Any]] | None = None) -> ChatResult: ...

    def structured(self, messages: list[Message], schema: type[T]) -> T: ...

    def close(self) -> None: ...


class Retriever(Protocol):
    """Search in the knowledge base, best first."""

    def search(self, query: str, k: int = 5) -> list[Hit]: ...


def _utc_now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 -- this is the clock that everything else takes


def _always(_token: str | None) -> None:
    return None


def _never(_turn_id: str) -> bool:
    return False


@dataclass
class Deps:
    """The ports. Not frozen: tests replace one after building.

    call_tool: (name, arguments, ticket_id=...) -> (text, is_error).
    escalate: (ticket_id, reason, reply) -> the notice that stands in the outbox.
    decide_refund: (ticket_id, approved, approver, reason, request, approval_id) -> {"status", "amount", ...}.
    finish_ticket: (ticket_id, category, kb_id or None, reply, noted) -> the reply that stands in the outbox.
    profile_for: customer_id -> the stored profile, or the template's while a rebuild is asked for.
    summary_for: (ticket_id, turns) -> (summary, upto) that fits these entries, or None.
    commitments_for: ticket_id -> the promises on it that are not kept yet, one line each with its due date.
    check_lease: raises LeaseLost or Transient (deadline) if the turn must stop; asked before each node.
    overtaken: turn_id -> whether the customer has written again and nothing has left the turn; asked before costly nodes.
    """

    llm: LLM
    small_llm: LLM
    retriever: Retriever
    call_tool: Callable[..., tuple[str, bool]]
    escalate: Callable[[str, str, str], str]
    decide_refund: Callable[..., dict[str, Any]]
    finish_ticket: Callable[[str, str, str | None, str, Noted], str]
    settings: Settings
    profile_for: Callable[[str], str] = lambda _customer_id: ""
    summary_for: Callable[[str, Sequence[Turn]], tuple[str, int] | None] = lambda _ticket_id, _turns: None
    commitments_for: Callable[[str], list[str]] = lambda _ticket_id: []
    clock: Callable[[], datetime] = _utc_now
    check_lease: Callable[[str | None], None] = _always
    overtaken: Callable[[str], bool] = _never
    tool_schemas: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def from_conn(cls, conn: Connection, settings: Settings | None = None) -> Deps:
        """Build it over one open connection (scripts, tests); the connection stays the caller's."""
        return cls.over(Database.over(conn), settings or get_settings())

    @classmethod
    def over(cls, db: Database, settings: Settings, ports: Ports | None = None) -> Deps:
        """Build it over a pool; each effect takes a connection and a transaction of its own.

        Through `ports` a profile that is out of date asks to be rebuilt.
        """
        def report(call: LLMCall) -> None:
            with db.transaction() as conn:
                record_call(conn, call)

        llm = LLMClient(settings, report=report)
        small = LLMClient(settings, model=settings.llm_small_model, report=report) if settings.llm_small_model else llm
        return cls(
            llm=llm, small_llm=small, retriever=HybridRetriever(db, settings), settings=settings,
            call_tool=_in_transaction(db, call_tool), escalate=_in_transaction(db, business.escalate_to_human),
            decide_refund=_in_transaction(db, business.decide_refund),
            finish_ticket=_in_transaction(db, business.finish_ticket),
            profile_for=_profile_port(db, ports or Ports()), summary_for=_summary_port(db),
            commitments_for=_commitments_port(db), overtaken=_overtaken_port(db), tool_schemas=business.TOOL_SCHEMAS,
        )

    def close(self) -> None:
        """Close the connections to the models; the database stays its owner's."""
        self.llm.close()
        self.small_llm.close()
        if isinstance(self.retriever, HybridRetriever):
            self.retriever.close()

    def spent(self) -> float:
        """What both clients have cost this process so far, in CNY; one object counts once."""
        total = self.llm.ledger.cost_cny(self.settings)
        if self.small_llm is not self.llm:
            total += self.small_llm.ledger.cost_cny(self.settings)
        return total


def _in_transaction(db: Database, effect: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: object, **kwargs: object) -> Any:  # noqa: ANN401 -- as the effect
        with db.transaction() as conn:
            return effect(conn, *args, **kwargs)
    return run


def _profile_port(db: Database, ports: Ports) -> Callable[[str], str]:
    def profile_for(customer_id: str) -> str:
        with db.connection() as conn:
            read = sources(conn, customer_id)
        if read.stored and read.fresh:
            return read.stored.summary
        ports.schedule_profile(customer_id)
        return template(read.facts)
    return profile_for


def _summary_port(db: Database) -> Callable[[str, Sequence[Turn]], tuple[str, int] | None]:
    def summary_for(ticket_id: str, turns: Sequence[Turn]) -> tuple[str, int] | None:
        with db.connection() as conn:
            stored = newest_summary(conn, ticket_id, turns)
        return (stored.summary, stored.upto) if stored else None
    return summary_for


def _commitments_port(db: Database) -> Callable[[str], list[str]]:
    def commitments_for(ticket_id: str) -> list[str]:
        with db.connection() as conn:
            found = commitments.open_commitments(conn, ticket_id)
            calendar = calendar_of(commitments.locale_of(conn, ticket_id) if found else "")
        return [line(one.commitment, calendar, overdue=one.overdue) for one in found]
    return commitments_for


def _overtaken_port(db: Database) -> Callable[[str], bool]:
    def overtaken(turn_id: str) -> bool:
        with db.connection() as conn:
            return turns.overtaken(conn, turn_id)
    return overtaken
