"""What the agent may look up and do: the tools' schemas for the model, and the effects of the graph's nodes.

Each effect fences itself by the turn's lease and can be run again: its key derives from the turn or the approval,
never from a text that a model wrote, and the second run returns what the first one stored.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from supportpilot.db import business, leases, notifications, outbox, tickets, turns
from supportpilot.db.commitments import put_reply
from supportpilot.db.pool import Connection, Row
from supportpilot.errors import NotFound, Overtaken
from supportpilot.prompts.promises import fixed_promises
from supportpilot.tools.citations import citations_in
from supportpilot.types import Commitment, Noted, OutboxKind, current_scope

CURRENCY = "CNY"
MAX_TEXT = 500
NOTHING = Noted()
CENT = Decimal("0.01")


def _not_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be an amount")  # noqa: TRY004 -- pydantic reports ValueErrors
    return value


Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
Amount = Annotated[
    Decimal, BeforeValidator(_not_bool), Field(gt=0, max_digits=12, decimal_places=2),
    WithJsonSchema({"type": "string", "pattern": r"^\d{1,10}(\.\d{1,2})?$"}),
]


class Arguments(BaseModel):
    """What a tool takes; anything else is refused."""

    model_config = ConfigDict(extra="forbid")


class NoArguments(Arguments):
    """Nothing: whose data it is follows from the ticket."""


class RefundArguments(Arguments):
    """A wish for a refund."""

    invoice_number: Annotated[str, Field(min_length=1, max_length=64)] = Field(
        description="number of the customer's own paid invoice, as list_invoices shows it")
    amount: Amount | None = Field(default=None, description="amount in CNY; left out: all that can still be refunded")
    reason: Text = Field(description="why the customer wants it, in one sentence")


class EscalateArguments(Arguments):
    """A wish to hand the ticket over."""

    reason: Text = Field(description="why a human colleague has to take over, in one sentence")


TOOLS: dict[str, tuple[type[Arguments], str]] = {
    "get_customer": (NoArguments, "The account of the customer who wrote this ticket: name, company, VIP or not."),
    "list_subscriptions": (NoArguments, "This customer's subscriptions: plan, billing cycle, status, seats, period."),
    "list_invoices": (NoArguments, "This customer's invoices: number, amount, status, dates, amount refunded so far."),
    "list_bank_connections": (NoArguments, "This customer's bank connections: bank, status, when the authorisation "
                                           "began and ends, last error."),
    "search_past_tickets": (NoArguments, "This customer's earlier, resolved tickets: what it was, how it was solved, "
                                         "what was promised."),
    "request_refund": (RefundArguments, "Ask a human colleague to approve a refund of one of this customer's paid "
                                        "invoices. Pays nothing by itself."),
    "escalate_to_human": (EscalateArguments, "Ask for this ticket to be handed to a human colleague."),
}


def _parameters(model: type[Arguments]) -> dict[str, Any]:
    schema = model.model_json_schema()
    for field in schema.get("properties", {}).values():
        field.pop("title", None)
        field.pop("default", None)
    return {"type": "object", "properties": schema.get("properties", {}), "required": schema.get("required", []),
            "additionalProperties": False}


TOOL_SCHEMAS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "description": text, "parameters": _parameters(model)}}
    for name, (model, text) in TOOLS.items()
]


# reading --------------------------------------------------------------------------------------------

def create_ticket(conn: Connection, email: str, subject: str, body: str) -> str:
    """Open a ticket for an address, with its lease row, and return its id."""
    with conn.transaction():
        ticket_id = business.insert_ticket(conn, email.strip(), subject, body)
        leases.create(conn, ticket_id)
    return ticket_id


def list_subscriptions(conn: Connection, customer_id: str) -> list[Row]:
    """Return the customer's subscriptions."""
    return business.subscriptions(conn, customer_id)


def search_past_tickets(conn: Connection, customer_id: str, limit: int = 10) -> list[Row]:
    """Return the customer's resolved tickets, newest first."""
    return business.resolved_tickets(conn, customer_id, limit)


def request_refund(conn: Connection, owner: business.TicketOwner, wish: RefundArguments) -> dict[str, Any]:
    """Check a wish for a refund and return the request a human is asked to approve; changes nothing.

    If an earlier attempt at the same messages has paid already, that refund is returned instead.

    Raises:
        NotFound: the customer has no such invoice, it is not paid, or the amount is too high.
    """
    invoice = business.invoice_by_number(conn, owner.customer_id or "", wish.invoice_number.strip())
    if invoice is None:
        raise NotFound(f"this customer has no invoice {wish.invoice_number.strip()!r}")
    earlier = business.refund_for_messages(conn, owner.ticket_id, invoice.id, _messages(conn))
    if earlier is not None:
        return _paid(earlier)
    amount = invoice.refundable if wish.amount is None else wish.amount
    problem = _problem(invoice, amount)
    if problem is not None:
        raise NotFound(problem)
    return {"status": "pending", "invoice_id": invoice.id, "invoice_number": invoice.number,
            "amount": str(amount.quantize(CENT)), "currency": CURRENCY, "reason": wish.reason}


# effects --------------------------------------------------------------------------------------------

def decide_refund(  # noqa: PLR0913 -- the seed's signature, and two keys that it lacks
    conn: Connection, ticket_id: str, approved: bool, approver: str, reason: str,  # noqa: FBT001 -- as the seed
    *, request: dict[str, Any] | None = None, approval_id: str | None = None,
) -> dict[str, Any]:
    """Pay an approved refund once and return what stands: `paid`, `rejected`, or `refused` with a reason.

    Run again with the same approval it returns the refund that is there.

    Raises:
        LeaseLost: another worker has the ticket.
        Busy: the invoice is locked by another decision.
    """
    if not approved:
        return {"status": "rejected", "reason": reason, "approver": approver}
    with conn.transaction():
        _fence(conn)
        wanted = _wanted(request)
        if isinstance(wanted, str):
            return _refused(wanted)
        return _pay(conn, _Decision(ticket_id, approver, reason, _approval_key(approval_id)), wanted)


def finish_ticket(
    conn: Connection, ticket_id: str, category: str, kb_id: str | None, reply: str, noted: Noted = NOTHING,
) -> str:
    """Put the reply and its promises into the outbox and note what it was about; return the text that stands.

    Run again with another text, the ticket keeps the article of the one that stands.

    Raises:
        LeaseLost: another worker has the ticket.
        NotFound: there is no such ticket.
        Overtaken: the customer has written again; nothing is stored.
    """
    with conn.transaction():
        _fence(conn)
        if not business.note_answer(conn, ticket_id, category, kb_id):
            raise NotFound(f"no ticket {ticket_id}")
        _not_overtaken(conn)
        if noted.codes or noted.wish:
            business.note_details(conn, ticket_id, noted.codes, noted.wish)
        stands = _put(conn, ticket_id, "reply", reply, noted.commitments)
        if stands != reply:
            business.note_answer(conn, ticket_id, category, next((c.id for c in citations_in(stands)), None))
        elif noted.commitments:
            business.note_promise(conn, ticket_id, noted.commitments[-1].text)
        return stands


def escalate_to_human(conn: Connection, ticket_id: str, reason: str, reply: str) -> str:
    """Give the ticket to a human and put the notice into the outbox; return the text that stands.

    Raises:
        LeaseLost: another worker has the ticket.
        NotFound: there is no such ticket.
        Overtaken: the customer has written again; nothing is stored.
    """
    with conn.transaction():
        _fence(conn)
        tickets.lock(conn, ticket_id)
        _not_overtaken(conn)
        notifications.put_handoff_of_turn(conn, ticket_id, _turn_id() or uuid.uuid4().hex)
        if not business.mark_escalated(conn, ticket_id, reason):
            raise NotFound(f"no ticket {ticket_id}")
        return _put(conn, ticket_id, "handoff", reply, fixed_promises(reply))


# inner parts ----------------------------------------------------------------------------------------

@dataclass(frozen=True)
class _Decision:
    ticket_id: str
    approver: str
    reason: str
    key: str


@dataclass(frozen=True)
class _Wanted:
    invoice_id: str
    amount: Decimal


def _fence(conn: Connection) -> None:
    scope = current_scope()
    leases.fence(conn, scope.lease_token if scope else None)


def _not_overtaken(conn: Connection) -> None:
    """Asked under the ticket's lock, which hands out `seq`: what is stored after this is the next turn's."""
    scope = current_scope()
    if scope and scope.lease_token and turns.overtaken(conn, scope.turn_id):
        raise Overtaken(f"{scope.ticket_id} was written to before its answer stood")


def _turn_id() -> str | None:
    scope = current_scope()
    return scope.turn_id if scope else None


def _messages(conn: Connection) -> list[str]:
    turn_id = _turn_id()
    return business.messages_of_turn(conn, turn_id) if turn_id else []


def _approval_key(approval_id: str | None) -> str:
    return approval_id or f"turn:{_turn_id() or uuid.uuid4().hex}"


def _put(conn: Connection, ticket_id: str, kind: OutboxKind, body: str, promised: Sequence[Commitment]) -> str:
    turn_id = _turn_id()
    return put_reply(conn, outbox.OutboxEntry(
        ticket_id=ticket_id, turn_id=turn_id, key=f"turn:{turn_id or uuid.uuid4().hex}:reply", kind=kind, body=body,
        citations=citations_in(body)), promised)


def _wanted(request: dict[str, Any] | None) -> _Wanted | str:
    if not request or not isinstance(request.get("invoice_id"), str):
        return "there is no refund request"
    try:
        amount = Decimal(str(request.get("amount")))
    except InvalidOperation:
        return "the amount of the request is not a number"
    if not amount.is_finite() or amount <= 0 or amount >= 10**10 or amount != amount.quantize(CENT):
        return "the amount of the request is not a positive amount of money"
    return _Wanted(request["invoice_id"], amount)


def _pay(conn: Connection, decision: _Decision, wanted: _Wanted) -> dict[str, Any]:
    owner = business.ticket_owner(conn, decision.ticket_id)
    invoice = business.lock_invoice(conn, (owner and owner.customer_id) or "", wanted.invoice_id)
    if invoice is None:
        return _refused("the invoice is not this customer's")
    message_ids = _messages(conn)
    earlier = (business.refund_of_approval(conn, decision.key)
               or business.refund_for_messages(conn, decision.ticket_id, invoice.id, message_ids))
    if earlier is not None:
        return _paid(earlier)
    problem = _problem(invoice, wanted.amount)
    if problem is not None:
        return _refused(problem)
    business.insert_refund(conn, business.NewRefund(
        ticket_id=decision.ticket_id, approval_id=decision.key, invoice_id=invoice.id, amount=wanted.amount,
        reason=decision.reason, decided_by=decision.approver, message_ids=message_ids, turn_id=_turn_id()))
    if wanted.amount == invoice.refundable:
        business.mark_refunded(conn, invoice.id)
    paid = business.refund_of_approval(conn, decision.key)
    assert paid is not None  # noqa: S101 -- written just now, in this transaction
    return _paid(paid)


def _problem(invoice: business.Invoice, amount: Decimal) -> str | None:
    if invoice.status == "refunded" or (invoice.status == "paid" and invoice.refundable <= 0):
        return f"invoice {invoice.number} is refunded already"
    if invoice.status != "paid":
        return f"invoice {invoice.number} is not paid"
    if amount > invoice.refundable:
        return f"at most {invoice.refundable} {CURRENCY} of invoice {invoice.number} can be refunded"
    return None


def _paid(refund: business.Refund) -> dict[str, Any]:
    return {"status": refund.status, "refund_id": refund.id, "approval_id": refund.approval_id,
            "invoice_id": refund.invoice_id, "invoice_number": refund.invoice_number, "amount": str(refund.amount),
            "currency": CURRENCY}


def _refused(reason: str) -> dict[str, Any]:
    return {"status": "refused", "reason": reason}
