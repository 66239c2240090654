"""The staff's pages of tickets: the list, one ticket, and what a person does to it. GET and HEAD only show."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from producer.web.auth import StaffOf, need
from producer.web.forms import FormOf, once
from producer.web.i18n import texts
from producer.web.ids import plain_ids
from producer.web.pages import page, see_other
from producer.web.state import Site, SiteOf
from supportpilot.desk.rules import TICKET
from supportpilot.errors import Erased, Forbidden, NotFound, Refused, SupportPilotError, Unusable
from supportpilot.service import approvers, ticket, ticket_page
from supportpilot.service.approvers import Approver
from supportpilot.service.ticket_page import Filters

router = APIRouter(dependencies=[Depends(plain_ids)])

AgentOf = Annotated[Approver, Depends(need("agent"))]
FILTER_CHARS = {"status": 40, "channel": ticket_page.CHANNEL_CHARS, "email": ticket_page.EMAIL_CHARS, "after": 80}
KINDS = {"open": "info", "answered": "ok", "waiting_approval": "wait", "escalated": "danger", "resolved": "",
         "running": "info", "waiting": "wait", "done": "ok", "dead": "danger", "replaced": ""}
DELIVERIES = {"queued": "info", "sending": "info", "accepted": "ok", "unknown": "wait", "failed": "danger", "withheld": "wait"}


@router.api_route("/tickets", methods=["GET", "HEAD"])
def list_tickets(request: Request, site: SiteOf, _: StaffOf) -> Response:
    """Return a page of the list, as `status`, `channel`, `email` and `human` say, from `after` on."""
    asked = {name: request.query_params.get(name, "")[:limit] for name, limit in FILTER_CHARS.items()}
    if any("\x00" in value or any("\ud800" <= sign <= "\udfff" for sign in value) for value in asked.values()):
        raise Unusable("the filter has characters that no ticket has")
    filters = Filters(asked["status"], asked["channel"], asked["email"].strip(), request.query_params.get("human") == "1")
    found = ticket_page.find(site.db, filters, asked["after"])
    return page(request, "tickets.html", found=found, filters=filters, statuses=list(TICKET), kinds=KINDS,
                link=lambda **changes: _link(filters, changes), first=not asked["after"])


def _link(filters: Filters, changes: dict[str, Any]) -> str:
    values = {**asdict(filters), "after": "", **changes}
    values["human"] = "1" if values.pop("needs_human") else ""
    query = urlencode({name: value for name, value in values.items() if value})
    return "/tickets" + (f"?{query}" if query else "")


@router.api_route("/tickets/{ticket_id}", methods=["GET", "HEAD"])
def show_ticket(ticket_id: str, request: Request, site: SiteOf, _: StaffOf) -> Response:
    """Return a ticket's page; 404 if there is none, 410 if its customer was erased."""
    return shown(site, request, ticket_id)


def shown(site: Site, request: Request, ticket_id: str, status: int = 200, **wrong: str) -> Response:
    """Return the page of a ticket; wrong: `problem`, why the form was not obeyed, `where` it stood, and its `text`."""
    found = ticket_page.look(site.db, site.settings, ticket_id)
    who: Approver = request.state.who
    return page(request, "ticket.html", status, found=found, shown=found.shown, kinds=KINDS, deliveries=DELIVERIES,
                acts=approvers.allows(who.role, "agent"), admin=approvers.allows(who.role, "admin"), where=wrong.get("where", ""),
                problem=wrong.get("problem", ""), text=wrong.get("text", ""), limit=ticket.MAX_REPLY_CHARS,
                reason=wrong.get("reason", ""), row_link=row_link, who_name=who.name)


ROW = re.compile(r"\b(T[0-9]{6,}|KB-[A-Za-z0-9-]+)\b")


def row_link(row: str) -> str:
    """Return the page of the row that a sentence came from, "" if it has none."""
    found = ROW.search(row)
    if found is None:
        return ""
    return f"/tickets/{found[1]}" if found[1].startswith("T") else f"/kb/{found[1]}"


# what a person does ---------------------------------------------------------------------------------

@router.post("/tickets/{ticket_id}/reply")
def reply(ticket_id: str, request: Request, site: SiteOf, who: AgentOf, form: FormOf) -> Response:
    """Answer the customer; the same words on the same form again are the same reply."""
    body = form.text("body", 4 * ticket.MAX_REPLY_CHARS)

    def done() -> str:
        if not form.key:
            raise Unusable("the form has no key; reload the page")
        ticket.reply(site.db, site.ports, ticket_id, body, who.name, hashlib.sha256(f"{form.key}\n{body}".encode()).hexdigest()[:40])
        return "reply"

    return _obeyed(site, request, ticket_id, done, where="reply", text=body)


@router.post("/tickets/{ticket_id}/release")
def release(ticket_id: str, request: Request, site: SiteOf, who: AgentOf, form: FormOf) -> Response:
    """Give the ticket back to the agent."""
    def done() -> str:
        with once(site.db, form) as first:
            if first:
                ticket.release(site.db, site.ports, ticket_id, who.name)
            return "release" if first else "again"

    return _obeyed(site, request, ticket_id, done, where="actions")


@router.post("/tickets/{ticket_id}/resolve")
def resolve(ticket_id: str, request: Request, site: SiteOf, who: AgentOf, form: FormOf) -> Response:
    """Close the matter."""
    def done() -> str:
        with once(site.db, form) as first:
            status = ticket.resolve(site.db, site.ports, ticket_id, who.name) if first else ""
            return "again" if not first else "resolve" if status == "resolved" else "resolving"

    return _obeyed(site, request, ticket_id, done, where="actions")


def _obeyed(site: Site, request: Request, ticket_id: str, deed: Callable[[], str], **kept: str) -> Response:
    """Do it and lead back to the page; a refusal is shown on it, with the text kept."""
    status, problem = 0, ""
    try:
        return see_other(f"/tickets/{ticket_id}", deed())
    except (Erased, NotFound, Forbidden):
        raise
    except Refused as error:
        status, problem = 409, plain_words(error)
    except Unusable as error:
        status, problem = 422, plain_words(error)
    return shown(site, request, ticket_id, status, problem=texts(request)(f"ticket.problem.{status}"), reason=problem, **kept)


def plain_words(error: SupportPilotError) -> str:
    """Return an error's text without the dashes of the command line's options."""
    return re.sub(r"(?<![\w-])--(?=[a-z])", "", str(error))
