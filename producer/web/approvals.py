"""The approver's desk: the list, one request with its evidence, and the decision. Only a POST decides."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from producer.web.amounts import amount_of
from producer.web.auth import StaffOf, need
from producer.web.forms import Form, FormOf
from producer.web.ids import plain_ids
from producer.web.pages import page, see_other
from producer.web.state import Site, SiteOf
from supportpilot.db.approvals import Approval
from supportpilot.desk.approvals import requested_amount
from supportpilot.desk.evidence import changes, fingerprint
from supportpilot.errors import AlreadyDecided, Refused, Stale, Unusable
from supportpilot.service import approval as service
from supportpilot.service import approvers, dossier
from supportpilot.service.approval import Verdict
from supportpilot.service.approvers import Approver
from supportpilot.service.dossier import Dossier

router = APIRouter(prefix="/approvals", dependencies=[Depends(plain_ids)])

FILTERS = ("pending", "mine", "decided")
REASON_CHARS = 2000
FACTS_CHARS = 20_000
SOON = 0.5      # share of the time that is left when a request begins to press

ApproverOf = Annotated[Approver, Depends(need("approver"))]


@dataclass
class Trouble:
    """Why a decision was not made, and what was typed, so that nothing has to be typed again."""

    kind: str                           # stale, decided, refused
    text: str = ""
    changed: dict[str, tuple[str, str]] = field(default_factory=dict)
    typed: dict[str, str] = field(default_factory=dict)


@router.api_route("", methods=["GET", "HEAD"])
def list_approvals(request: Request, site: SiteOf, who: StaffOf) -> Response:
    """Return the list: what waits, what waits for me, what is decided."""
    asked = request.query_params.get("show", "pending")
    shown = asked if asked in FILTERS else "pending"
    rows = service.board(site.db, decided=shown == "decided", assigned_to=who.name if shown == "mine" else None)
    return page(request, "approvals.html", shown=shown, filters=FILTERS, soon=SOON,
                rows=[dict(row) | {"asked": row["request"].get("request") or {}} for row in rows])


@router.api_route("/{approval_id}", methods=["GET", "HEAD"])
def show_approval(approval_id: str, request: Request, site: SiteOf, who: StaffOf) -> Response:
    """Return one request with its evidence and, for who may decide, the forms."""
    return _page(request, site, who, dossier.read(site.db, site.settings, approval_id))


def _page(request: Request, site: Site, who: Approver, found: Dossier, trouble: Trouble | None = None,
          status: int = 200) -> Response:
    may = approvers.allows(who.role, "approver") and found.approval.status == "pending" and found.left_seconds > 0
    people = [a.name for a in approvers.list_approvers(site.db) if a.revoked_at is None and approvers.allows(a.role, "approver")]
    return page(request, "approval.html", status, d=found, a=found.approval, asked=found.approval.request.get("request") or {},
                facts=json.dumps(found.facts, ensure_ascii=False), may_decide=may, people=people if may else [], trouble=trouble,
                mine=_is_first(found, who), soon=SOON)


def _is_first(found: Dossier, who: Approver) -> bool:
    first = found.approval.first_by
    return first is not None and service.same_person(first, who.name)


@router.post("/{approval_id}/decision")
def decide(approval_id: str, request: Request, site: SiteOf, who: ApproverOf, form: FormOf) -> Response:
    """Make the decision, or say honestly why not: who decided, or what has changed since it was shown."""
    typed = {name: form.text(name, REASON_CHARS) for name in ("decision", "amount", "reason", "customer_reason")}
    try:
        service.decide(site.db, site.ports, approval_id, _verdict(form, who, site, approval_id))
    except (Refused, Unusable) as error:
        now = dossier.read(site.db, site.settings, approval_id)     # raises if there is none
        return _page(request, site, who, now, _trouble(error, now, form, typed), 422 if isinstance(error, Unusable) else 409)
    return see_other(f"/approvals/{approval_id}")


def _verdict(form: Form, who: Approver, site: Site, approval_id: str) -> Verdict:
    """Return what the form says.

    Raises:
        NotFound: no such approval.
        Unusable: a field is missing or malformed.
    """
    kind = form.text("decision", 20)
    reason, told = form.text("reason", REASON_CHARS).strip(), form.text("customer_reason", REASON_CHARS).strip()
    if kind not in ("approve", "less", "reject"):
        raise Unusable("error.decision")
    if kind != "approve" and not reason:
        raise Unusable("error.reason")
    version = form.text("version", 20)
    if not (version.isascii() and version.isdigit()):
        raise Unusable("error.version")
    amount = _smaller(form.text("amount", 40), service.get_approval(site.db, approval_id)) if kind == "less" else None
    return Verdict(kind != "reject", who.name, reason, amount, int(version), told, fingerprint(_seen(form)))


def _smaller(text: str, asked: Approval) -> Decimal:
    """Return the amount of a form, in its bounds.

    Raises:
        Unusable: it is no amount, nothing, or more than was asked.
    """
    try:
        amount = amount_of(text)
    except Unusable:
        raise Unusable("error.amount") from None
    most = requested_amount(asked)
    if amount <= 0 or (most is not None and amount > most):
        raise Unusable("error.bounds")
    return amount


def _seen(form: Form) -> dict[str, str]:
    """Return the facts that the form's page showed; what cannot be read differs from all facts."""
    try:
        found = json.loads(form.text("facts", FACTS_CHARS))
    except (ValueError, RecursionError):
        found = None
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _trouble(error: Exception, now: Dossier, form: Form, typed: dict[str, str]) -> Trouble:
    if isinstance(error, AlreadyDecided):
        return Trouble("decided", typed=typed)
    if isinstance(error, Stale):
        return Trouble("stale", changed=changes(_seen(form), now.facts), typed=typed)
    return Trouble("refused", str(error), typed=typed)


@router.post("/{approval_id}/assign")
def assign(approval_id: str, site: SiteOf, who: ApproverOf, form: FormOf) -> Response:
    """Give the matter to somebody; "" to everybody."""
    name = form.text("to", 100).strip()
    service.assign(site.db, approval_id, name or None, who.name)
    return see_other(f"/approvals/{approval_id}", "assigned")

