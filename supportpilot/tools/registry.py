"""The only way from a model's tool call to data.

The model names a tool and its wishes; whose data it gets follows from the ticket. Everything a model can get wrong
becomes one line for the model, never an exception.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any, TypeAlias

from pydantic import ValidationError

from supportpilot.db import business as data
from supportpilot.db.pool import Connection
from supportpilot.errors import NotFound
from supportpilot.tools.business import TOOLS, Arguments, EscalateArguments, RefundArguments, request_refund

Runner: TypeAlias = Callable[[Connection, data.TicketOwner, Any], object]

NO_ACCOUNT = "no account for this address"
INVOICES_SHOWN = 24
PAST_TICKETS_SHOWN = 10
MAX_ARGUMENT_CHARS = 4_000


def call_tool(conn: Connection, name: str, arguments: dict[str, Any], *, ticket_id: str) -> tuple[str, bool]:
    """Run a tool for the ticket's own customer; return (JSON, False), or (one line on what is wrong, True).

    Raises:
        Transient: the database is in trouble.
    """
    try:
        return _as_json(_call(conn, name, arguments, ticket_id)), False
    except (NotFound, _BadCallError) as error:
        return str(error), True


class _BadCallError(Exception):
    """The call itself is wrong; its text is shown to the model."""


def _call(conn: Connection, name: object, arguments: object, ticket_id: str) -> object:
    if not isinstance(name, str) or name not in TOOLS:
        raise _BadCallError(f"unknown tool {str(name)[:40]!r}; there are: {', '.join(TOOLS)}")
    given = _storable(arguments)
    owner = data.ticket_owner(conn, ticket_id)
    if owner is None:
        raise NotFound("unknown ticket")
    parsed = _validated(TOOLS[name][0], _without_identity(given, owner))
    if name != "escalate_to_human" and owner.customer_id is None:
        raise NotFound(NO_ACCOUNT)
    return RUNNERS[name](conn, owner, parsed)


def _storable(arguments: object) -> dict[str, Any]:
    """Return the arguments if they are a small object of text that Postgres can take."""
    if not isinstance(arguments, dict):
        raise _BadCallError("arguments must be a JSON object")
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError):
        raise _BadCallError("arguments are not plain JSON") from None
    if len(text) > MAX_ARGUMENT_CHARS:
        raise _BadCallError("arguments are too long")
    if "\\u0000" in text:
        raise _BadCallError("arguments contain a NUL character")
    return arguments


def _without_identity(arguments: dict[str, Any], owner: data.TicketOwner) -> dict[str, Any]:
    """Take out who the model thinks it asks about; anybody but the ticket's own customer is refused."""
    own = {"email": owner.contact, "customer_email": owner.contact, "customer_id": owner.customer_id,
           "ticket_id": owner.ticket_id}
    for field, value in own.items():
        given = arguments.get(field)
        same = isinstance(given, str) and value is not None and given.strip().lower() == value.lower()
        if field in arguments and not same:
            raise _BadCallError(f"{field}: only the data of this ticket's own customer can be used; leave it out")
    return {name: value for name, value in arguments.items() if name not in own}


def _validated(model: type[Arguments], arguments: dict[str, Any]) -> Arguments:
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:60] or "arguments"
        raise _BadCallError(" ".join(f"{where}: {first['msg']}".split())[:200]) from None


def _get_customer(conn: Connection, owner: data.TicketOwner, _: Arguments) -> object:
    found = data.customer(conn, owner.customer_id or "")
    if found is None:
        raise NotFound(NO_ACCOUNT)
    return found


def _subscriptions(conn: Connection, owner: data.TicketOwner, _: Arguments) -> object:
    return data.subscriptions(conn, owner.customer_id or "")


def _invoices(conn: Connection, owner: data.TicketOwner, _: Arguments) -> object:
    return data.invoices(conn, owner.customer_id or "", INVOICES_SHOWN)


def _bank_connections(conn: Connection, owner: data.TicketOwner, _: Arguments) -> object:
    return data.bank_connections(conn, owner.customer_id or "")


def _past_tickets(conn: Connection, owner: data.TicketOwner, _: Arguments) -> object:
    return data.resolved_tickets(conn, owner.customer_id or "", PAST_TICKETS_SHOWN)


def _request_refund(conn: Connection, owner: data.TicketOwner, wish: RefundArguments) -> object:
    return request_refund(conn, owner, wish)


def _escalate(_: Connection, __: data.TicketOwner, wish: EscalateArguments) -> object:
    return {"status": "handoff", "reason": wish.reason}


RUNNERS: dict[str, Runner] = {
    "get_customer": _get_customer,
    "list_subscriptions": _subscriptions,
    "list_invoices": _invoices,
    "list_bank_connections": _bank_connections,
    "search_past_tickets": _past_tickets,
    "request_refund": _request_refund,
    "escalate_to_human": _escalate,
}


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"no JSON for {type(value).__name__}")
