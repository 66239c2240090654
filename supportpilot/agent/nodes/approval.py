"""Wait for a human's decision on a refund, then carry it out.

On resume the node starts again from its top, so nothing stands before `interrupt`; what follows is keyed.
"""

from __future__ import annotations

from typing import Any, TypedDict

from langgraph.types import interrupt

from supportpilot.agent.context import Conversation, language_of
from supportpilot.agent.deps import Deps
from supportpilot.prompts.loader import prompt


class ApprovalIn(Conversation):
    refund_request: dict[str, Any] | None
    customer: dict[str, Any] | None
    draft: str
    findings: str


class ApprovalOut(TypedDict, total=False):
    approval: dict[str, Any]
    followup: str
    handoff_reason: str


def approval(state: ApprovalIn, deps: Deps) -> ApprovalOut:
    """Return the decision and the text that tells the customer; no decision in time, or no payment, is a handoff.

    Raises:
        LeaseLost: another worker has the ticket.
        Transient: the database is away.
    """
    decision: dict[str, Any] = interrupt({
        "kind": "refund", "request": state.get("refund_request") or {}, "customer": state.get("customer") or {},
        "draft": state.get("draft", ""), "findings": state.get("findings", ""),
    })
    if decision.get("expired"):
        return {"approval": decision, "handoff_reason": "approval expired"}
    wanted = dict(state.get("refund_request") or {})
    if decision.get("amount") is not None:
        wanted["amount"] = str(decision["amount"])
    approved = decision.get("approved") is True
    result = deps.decide_refund(
        state["ticket"]["id"], approved, decision.get("approver") or "", decision.get("reason") or "",
        request=wanted, approval_id=decision.get("approval_id"))
    if result.get("status") == "refused":
        return {"approval": decision, "handoff_reason": f"refund refused: {result.get('reason', '')}"}
    text = prompt(
        "followup_approved" if approved else "followup_rejected", language_of(state),
        invoice_number=str(result.get("invoice_number") or wanted.get("invoice_number", "")),
        amount=str(result.get("amount") or wanted.get("amount", "")),
        currency=str(result.get("currency") or wanted.get("currency", "CNY")))
    if decision.get("customer_reason"):
        text += "\n\n" + prompt("followup_reason", language_of(state), reason=str(decision["customer_reason"]))
    return {"approval": decision, "followup": text}
