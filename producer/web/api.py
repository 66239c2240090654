"""The same for programs: tickets and decisions as JSON, by bearer token (`supportpilot approver add`)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool

from producer.plain import plain
from producer.web.amounts import amount_of, check_currency
from producer.web.auth import BearerOf, require
from producer.web.body import read_body
from producer.web.errors import answer
from producer.web.ids import plain_ids
from producer.web.state import Site, SiteOf
from supportpilot.db.approvals import Approval
from supportpilot.desk.rules import APPROVAL
from supportpilot.errors import AlreadyDecided, Refused, Stale, Unusable
from supportpilot.service import approval as service
from supportpilot.service import dossier, ticket
from supportpilot.service.approval import Verdict
from supportpilot.service.approvers import Approver

router = APIRouter(prefix="/api", dependencies=[Depends(plain_ids)])

DECISION_BYTES = 20_000
REASON_CHARS = 2000
Words = Annotated[str, Field(max_length=REASON_CHARS)]


class Decision(BaseModel):
    """What `POST /api/approvals/{id}/decision` takes.

    version and facts: as `GET /api/approvals/{id}` showed them; what has changed since makes the decision stale.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    decision: Literal["approve", "reject"]
    amount: str | None = None
    currency: str | None = None
    reason: Words = ""
    customer_reason: Words = ""
    version: int | None = None
    facts: str | None = None


@router.api_route("/tickets/{ticket_id}", methods=["GET", "HEAD"])
def get_ticket(ticket_id: str, site: SiteOf, _: BearerOf) -> JSONResponse:
    """Return what `supportpilot ticket show --json` prints."""
    return JSONResponse(plain(ticket.show(site.db, site.settings, ticket_id)))


@router.api_route("/approvals", methods=["GET", "HEAD"])
def list_approvals(site: SiteOf, _: BearerOf, status: str | None = None) -> JSONResponse:
    """Return approvals, oldest first; `status` narrows them down."""
    if status is not None and status not in APPROVAL:
        return answer(422, f"status must be one of {', '.join(APPROVAL)}")
    return JSONResponse({"approvals": plain(service.list_approvals(site.db, status))})


@router.api_route("/approvals/{approval_id}", methods=["GET", "HEAD"])
def get_approval(approval_id: str, site: SiteOf, _: BearerOf) -> JSONResponse:
    """Return one approval with its evidence, the version and the mark of the facts that a decision sends back."""
    return JSONResponse(plain(dossier.read(site.db, site.settings, approval_id).as_dict()))


@router.post("/approvals/{approval_id}/decision")
async def decide(approval_id: str, request: Request, site: SiteOf, who: BearerOf) -> JSONResponse:
    """Decide: 200; 403 without the role; 409 with a reason when stale or decided; 422 if it cannot be understood."""
    require(who, "approver")
    given = _decision(await read_body(request, DECISION_BYTES))
    return await run_in_threadpool(_decide, site, approval_id, given, who)


def _decision(body: bytes | None) -> Decision:
    """Return what the body says.

    Raises:
        Unusable: it is too large or no decision.
    """
    if body is None:
        raise Unusable(f"a decision has at most {DECISION_BYTES} bytes")
    try:
        return Decision.model_validate(json.loads(body))
    except ValidationError as error:
        first = error.errors()[0]
        raise Unusable(f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}") from None
    except (ValueError, RecursionError):
        raise Unusable("the body is no JSON") from None


def _decide(site: Site, approval_id: str, given: Decision, who: Approver) -> JSONResponse:
    asked = service.get_approval(site.db, approval_id)
    check_currency(asked, given.currency)
    amount: Decimal | None = None if given.amount is None else amount_of(given.amount)
    for text in (given.reason, given.customer_reason):
        if "\x00" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
            raise Unusable("a reason has characters that cannot be stored")
    verdict = Verdict(given.decision == "approve", who.name, given.reason.strip(), amount, given.version,
                      given.customer_reason.strip(), given.facts)
    try:
        return JSONResponse(_shown(service.decide(site.db, site.ports, approval_id, verdict)))
    except Refused as error:
        return _refused(site, approval_id, error)


def _refused(site: Site, approval_id: str, error: Refused) -> JSONResponse:
    """Say why not, and what stands now: who decided, or the version and facts to decide on after reading."""
    if not isinstance(error, Stale | AlreadyDecided):
        raise error
    now = dossier.read(site.db, site.settings, approval_id)
    code = "stale" if isinstance(error, Stale) else "decided"
    return JSONResponse({"error": str(error), "code": code, "version": now.version, "facts": now.fingerprint,
                         "approval": _shown(now.approval)}, status_code=409)


def _shown(approval: Approval) -> dict[str, Any]:
    return {**plain(approval), "waits_for_second": approval.status == "pending" and approval.first_by is not None}
