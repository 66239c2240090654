"""The staff's page of a customer: profile with sources and corrections, tickets, export, erasure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from producer.plain import plain
from producer.web.auth import StaffOf, need
from producer.web.formats import HOUSE
from producer.web.forms import Form, FormOf, once
from producer.web.i18n import texts
from producer.web.ids import plain_ids
from producer.web.pages import page, see_other
from producer.web.state import Site, SiteOf
from producer.web.tickets import KINDS, AgentOf, plain_words, row_link
from supportpilot.errors import Forbidden, Misconfigured, NotFound, Refused, Unusable
from supportpilot.service import approvers, customer, customer_file, profile
from supportpilot.service.approvers import Approver
from supportpilot.service.profile import Correction

router = APIRouter(dependencies=[Depends(plain_ids)])

AdminOf = Annotated[Approver, Depends(need("admin"))]
_TICKET = re.compile(r"[A-Za-z0-9]{1,40}")


@router.api_route("/customers/{name}", methods=["GET", "HEAD"])
def show_customer(name: str, request: Request, site: SiteOf, _: StaffOf) -> Response:
    """Return the page of a customer's number, or of the address that wrote the ticket of that number."""
    return shown(site, request, name)


@dataclass(frozen=True)
class Wrong:
    """Why a form was not obeyed: its status, what the page says, the reason, and which form it was."""

    status: int
    problem: str
    reason: str
    where: str


FINE = Wrong(200, "", "", "")


def shown(site: Site, request: Request, name: str, wrong: Wrong = FINE) -> Response:
    """Return the page, with what was wrong with a form above it."""
    found = customer_file.look(site.db, name)
    if found.subject.row is not None and name != found.subject.row["id"]:
        return see_other(f"/customers/{found.subject.row['id']}")
    who: Approver = request.state.who
    admin = approvers.allows(who.role, "admin")
    return page(request, "staff_customer.html", wrong.status, found=found, name=name, kinds=KINDS, admin=admin,
                acts=approvers.allows(who.role, "agent"), row_link=row_link, ticket_id="",
                preview=customer_file.preview(site.db, found.subject) if admin else None,
                problem=wrong.problem, reason=wrong.reason, where=wrong.where)


# corrections ----------------------------------------------------------------------------------------

@router.post("/customers/{name}/corrections")
def correct(name: str, request: Request, site: SiteOf, who: AgentOf, form: FormOf) -> Response:
    """Correct the profile, as `profile correct` does."""
    def done() -> str:
        made = _correction(form, who)
        with once(site.db, form) as first:
            if first:
                profile.correct(site.db, site.ports, name, made)
            return "corrected" if first else "again"

    return _obeyed(site, request, name, form, done)


@router.post("/customers/{name}/corrections/{override_id}/withdraw")
def withdraw(name: str, override_id: str, request: Request, site: SiteOf, who: AgentOf, form: FormOf) -> Response:
    """Take a correction back."""
    def done() -> str:
        with once(site.db, form) as first:
            if first:
                profile.withdraw(site.db, site.ports, name, override_id, who.name)
            return "withdrawn" if first else "again"

    return _obeyed(site, request, name, form, done)


def _correction(form: Form, who: Approver) -> Correction:
    kind, target, value = form.text("kind", 20), form.text("target", 200), form.text("value", 2000)
    if kind not in ("set", "suppress", "note"):
        raise Unusable("choose what to do: set, suppress or note")
    ends = _expires(form.text("expires", 20))
    reason = form.text("reason", 1000)
    if kind == "set":
        return Correction("set", target.strip(), value.strip(), who.name, reason, ends)
    return Correction("note", "", value, who.name, reason, ends) if kind == "note" else Correction("suppress", target, "", who.name, reason, ends)


def _expires(text: str) -> datetime | None:
    """Return the end of the last day that a correction counts on, as the command line does."""
    if not text.strip():
        return None
    try:
        return datetime.fromisoformat(text.strip()).replace(tzinfo=HOUSE).astimezone(UTC) + timedelta(days=1)
    except (ValueError, OverflowError):
        raise Unusable("the last day must be a date such as 2027-01-31") from None


def _obeyed(site: Site, request: Request, name: str, form: Form, deed: Callable[[], str]) -> Response:
    back = form.text("ticket", 40)
    onward = f"/tickets/{back}" if _TICKET.fullmatch(back) else f"/customers/{name}"
    try:
        return see_other(onward, deed())
    except (Forbidden, NotFound):
        raise
    except (Misconfigured, Unusable) as error:
        status, reason = 422, plain_words(error)
    except Refused as error:
        status, reason = 409, plain_words(error)
    return shown(site, request, name, Wrong(status, texts(request)(f"ticket.problem.{status}"), reason, "correct"))


# export and erasure ---------------------------------------------------------------------------------

@router.get("/customers/{name}/export")
def export(name: str, site: SiteOf, _: AdminOf) -> Response:
    """Return everything that is held, as a file of JSON: the same as `customer export`."""
    about = customer_file.subject(site.db, name)
    held = plain(customer.export(site.db, about.name))
    body = json.dumps(held, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace")
    return Response(body, media_type="application/json",
                    headers={"content-disposition": f'attachment; filename="customer-{name}.json"'})


@router.post("/customers/{name}/erase")
def erase(name: str, request: Request, site: SiteOf, who: AdminOf, form: FormOf) -> Response:
    """Have the customer erased, if their address was typed; leads to the receipt. Asked twice it is one request."""
    try:
        wanted = customer_file.ask_erasure(site.db, site.ports, name, form.text("address", 400), who.name)
    except Unusable as error:
        return shown(site, request, name, Wrong(422, texts(request)("erase.wrong"), plain_words(error), "erase"))
    return see_other(f"/erasures/{wanted}")


@router.api_route("/erasures/{erasure_id}", methods=["GET", "HEAD"])
def show_erasure(erasure_id: str, request: Request, site: SiteOf, _: AdminOf) -> Response:
    """Return the receipt, or that it is still being done: that page loads itself again."""
    return page(request, "erasure.html", found=customer_file.receipt(site.db, erasure_id))
