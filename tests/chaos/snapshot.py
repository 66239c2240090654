"""Everything the checker judges, read once after the storm; plain values, so that a test can edit them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from supportpilot.db.pool import Connection, Database
from supportpilot.memory.checkpoint import thread_values


@dataclass(frozen=True)
class Accepted:
    """A message whose receipt the web process confirmed; `number` is its place in the customer's conversation."""

    conversation: str
    number: int
    contact: str
    message_id: str
    ticket_id: str


@dataclass(frozen=True)
class Message:
    """A row of the inbox."""

    id: str
    ticket_id: str
    seq: int
    state: str
    author: str


@dataclass(frozen=True)
class Turn:
    """A row of `desk.turns`."""

    id: str
    ticket_id: str
    message_ids: tuple[str, ...]
    status: str
    silent: bool
    attempts: int
    crashes: int


@dataclass(frozen=True)
class Reply:
    """A row of the outbox."""

    key: str
    position: int
    ticket_id: str
    turn_id: str | None
    kind: str
    body: str
    status: str


@dataclass(frozen=True)
class Approval:
    """A request for a refund and what became of it."""

    id: str
    ticket_id: str
    turn_id: str
    status: str
    decided_by: str | None
    applied: bool
    invoice_id: str | None


@dataclass(frozen=True)
class Refund:
    """Money that was paid back."""

    id: str
    approval_id: str
    ticket_id: str
    invoice_id: str
    amount: Decimal
    message_ids: tuple[str, ...]


@dataclass(frozen=True)
class Invoice:
    """A bill and whose it is."""

    id: str
    number: str
    email: str
    amount: Decimal


@dataclass(frozen=True)
class Ticket:
    """A ticket with its lease: `lease` is `None` if it has no lease row, else the holder ("" if free)."""

    id: str
    contact: str
    status: str
    lease: str | None


@dataclass(frozen=True)
class Entry:
    """One entry of a thread's `turns`."""

    id: str
    role: str
    content: str


@dataclass(frozen=True)
class Receipt:
    """A reply that the sink confirmed, or would have; in the order of arrival, repeats included."""

    key: str
    ticket_id: str
    body: str


@dataclass(frozen=True)
class Told:
    """What a decider was told: `ok`, `refused`, or `unknown` if the answer was lost."""

    approval_id: str
    by: str
    approved: bool
    answer: str


@dataclass(frozen=True)
class Witness:
    """What those outside the product saw."""

    accepted: tuple[Accepted, ...] = ()
    unaccepted: tuple[str, ...] = ()         # messages that were never confirmed
    differing: tuple[str, ...] = ()          # retries that were answered otherwise than the first time
    receipts: tuple[Receipt, ...] = ()
    told: tuple[Told, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """The database and the witnesses."""

    seen: Witness
    messages: tuple[Message, ...]
    turns: tuple[Turn, ...]                  # oldest first
    replies: tuple[Reply, ...]               # by position
    approvals: tuple[Approval, ...]
    refunds: tuple[Refund, ...]
    invoices: tuple[Invoice, ...]
    tickets: tuple[Ticket, ...]
    threads: dict[str, tuple[Entry, ...]]    # every thread that has a checkpoint


def read(db: Database, seen: Witness) -> Snapshot:
    """Read a database that nobody writes to any more."""
    with db.connection() as conn:
        thread_ids = [r["id"] for r in _rows(conn, "SELECT DISTINCT thread_id AS id FROM checkpoints ORDER BY 1")]
        return Snapshot(
            seen=seen,
            messages=_all(conn, Message, "SELECT id, ticket_id, seq, state, author FROM desk.inbox ORDER BY ticket_id, seq"),
            turns=_all(conn, Turn, "SELECT turn_id AS id, ticket_id, message_ids, status, silent, attempts, crashes "
                                   "FROM desk.turns ORDER BY created_at"),
            replies=_all(conn, Reply, "SELECT idempotency_key AS key, position, ticket_id, turn_id, kind, body, status "
                                      "FROM desk.outbox ORDER BY position"),
            approvals=_all(conn, Approval, "SELECT id, ticket_id, turn_id, status, decided_by, "
                                           "applied_at IS NOT NULL AS applied, "
                                           "request -> 'request' ->> 'invoice_id' AS invoice_id "
                                           "FROM desk.approvals ORDER BY id"),
            refunds=_all(conn, Refund, "SELECT id, approval_id, ticket_id, invoice_id, amount, message_ids "
                                       "FROM biz.refunds ORDER BY id"),
            invoices=_all(conn, Invoice, "SELECT i.id, i.number, c.email, i.amount FROM biz.invoices i "
                                         "JOIN biz.customers c ON c.id = i.customer_id ORDER BY i.id"),
            tickets=_all(conn, Ticket, "SELECT t.id, t.contact, t.status, "
                                       "CASE WHEN l.ticket_id IS NULL THEN NULL WHEN l.token IS NULL THEN '' "
                                       "ELSE coalesce(l.holder, '?') END AS lease "
                                       "FROM biz.tickets t LEFT JOIN desk.leases l ON l.ticket_id = t.id ORDER BY t.id"),
            threads={thread_id: _entries(db, thread_id) for thread_id in thread_ids},
        )


def _rows(conn: Connection, statement: str) -> list[dict[str, Any]]:
    return conn.execute(statement).fetchall()  # type: ignore[call-overload,no-any-return]


def _all(conn: Connection, of: type[Any], statement: str) -> tuple[Any, ...]:
    return tuple(of(**{k: _frozen(v) for k, v in row.items()}) for row in _rows(conn, statement))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _entries(db: Database, thread_id: str) -> tuple[Entry, ...]:
    found: Sequence[dict[str, Any]] = thread_values(db, thread_id).get("turns") or []
    return tuple(Entry(str(e.get("id")), str(e["role"]), str(e["content"])) for e in found)


def by_ticket(rows: Iterable[Any]) -> dict[str, list[Any]]:
    """Group rows by their ticket, in their order."""
    grouped: dict[str, list[Any]] = {}
    for row in rows:
        grouped.setdefault(row.ticket_id, []).append(row)
    return grouped
