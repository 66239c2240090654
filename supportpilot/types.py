"""Records that cross floors: frozen, times timezone-aware UTC, money `Decimal`, ids opaque strings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, Protocol

Author = Literal["customer", "human", "automatic"]
OutboxKind = Literal["reply", "notice", "ack", "handoff", "human"]


@dataclass(frozen=True)
class InboundMessage:
    """A message as every channel delivers it, checked and ready to be stored.

    Args:
        channel: name of the door, `generic` or `terminal`.
        external_id: the sender's id of the message, with the account or endpoint in it.
        contact: the sender's address, lower case.
        body: text; no NUL, no lone surrogate, not empty.
        delivery_id: the sender's id of this delivery, where it gives one.
        ticket_id: the ticket the sender names; believed only if it is this contact's.
        conversation_id: the channel's own conversation id.
        sent_at: the sender's clock; shown, never compared.
        joins: the ticket that the channel's own rules have found (threads of a mail); believed.
        verified: the channel vouches for the sender's address; else a new ticket gets no customer's data.
        ticket_only: joins the ticket it names or none: a page of an erased ticket must open no new one.
    """

    channel: str
    external_id: str
    contact: str
    body: str
    subject: str = ""
    contact_name: str = ""
    delivery_id: str | None = None
    ticket_id: str | None = None
    conversation_id: str | None = None
    sent_at: datetime | None = None
    author: Author = "customer"
    joins: str | None = None
    verified: bool = True
    ticket_only: bool = False


@dataclass(frozen=True)
class Received:
    """What the sender is told; `wait_seconds` is the countdown of the wake-up.

    erased: the message was erased before; both ids are empty and nothing is stored.
    """

    ticket_id: str
    message_id: str
    duplicate: bool
    wait_seconds: float = 0.0
    erased: bool = False


@dataclass(frozen=True)
class Hit:
    """One retrieved piece of a knowledge-base article; `score` is comparable within one search only."""

    article_id: str
    title: str
    text: str
    score: float
    lang: str = "zh"
    url: str | None = None


@dataclass(frozen=True)
class Citation:
    """An article that a reply cites; `url` is absolute."""

    id: str
    title: str
    url: str


@dataclass(frozen=True)
class Commitment:
    """A promise of the desk: `text` as the reply words it, `due_at` if the words name a time."""

    text: str
    due_at: datetime | None = None


@dataclass(frozen=True)
class Noted:
    """What a turn may note on its ticket for the customer's history.

    codes: error codes that stand in the customer's or a tool's text, in order; whether they are known ones is asked
    where they are stored. wish: one of the closed list. commitments: what the reply promises.
    """

    codes: tuple[str, ...] = ()
    wish: str | None = None
    commitments: tuple[Commitment, ...] = ()


@dataclass(frozen=True)
class LLMCall:
    """One paid call, attributed to who caused it. Tokens as the provider counted them, cost in CNY."""

    model: str
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost_cny: Decimal
    ms: int
    ticket_id: str | None = None
    turn_id: str | None = None
    node: str | None = None
    parts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TurnScope:
    """Whose turn runs in this thread of execution, and what its node has spent so far (CNY).

    on_token: gets the pieces of an answer as they come, while somebody watches.
    """

    ticket_id: str
    turn_id: str
    node: str = ""
    lease_token: str | None = None
    spent: list[Decimal] = field(default_factory=list)
    on_token: Callable[[str], None] | None = None


_scope: ContextVar[TurnScope | None] = ContextVar("turn_scope", default=None)


def current_scope() -> TurnScope | None:
    """Return the turn this code runs for, or None outside a turn."""
    return _scope.get()


@contextmanager
def turn_scope(scope: TurnScope) -> Iterator[TurnScope]:
    """Make `scope` the current one inside the block; safe with threads and nested blocks."""
    mark = _scope.set(scope)
    try:
        yield scope
    finally:
        _scope.reset(mark)


class LivePort(Protocol):
    """Where a running turn tells its steps to whoever watches; costs nothing while nobody does."""

    @property
    def on(self) -> bool: ...

    def step(self, node: str) -> None: ...

    def tool(self, name: str, args: dict[str, Any], *, is_error: bool = False) -> None: ...

    def token(self, text: str) -> None: ...


def _nothing(*_: object) -> None:
    return None


@dataclass(frozen=True)
class Ports:
    """How the domain asks for background work without knowing a queue.

    The default does nothing: the sweeper finds what is due in Postgres. Arguments are ids; the countdown is in
    seconds.
    """

    schedule_turn: Callable[[str, str, float], None] = _nothing        # ticket_id, message_id, countdown
    schedule_resume: Callable[[str, str], None] = _nothing             # ticket_id, approval_id
    schedule_delivery: Callable[[str], None] = _nothing                # outbox id
    schedule_compress: Callable[[str], None] = _nothing                # ticket_id
    schedule_profile: Callable[[str], None] = _nothing                 # customer_id
    schedule_prune: Callable[[str], None] = _nothing                   # ticket_id
    schedule_retain: Callable[[], None] = _nothing
    schedule_erase: Callable[[str], None] = _nothing                   # customer_id or request id
    schedule_embed: Callable[[], None] = _nothing
    schedule_notify: Callable[[str, str], None] = _nothing             # "approval" or "ticket", its id
    schedule_mail: Callable[[str], None] = _nothing                    # mail id
