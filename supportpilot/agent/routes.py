"""Which node comes next. Pure and total: a router that raised would make a retried turn end early, without an error.

Whoever decides that a human must take over writes `handoff_reason`; every router looks at it first.
"""

from __future__ import annotations

from typing import Literal

from supportpilot.agent.state import SupportState


def after_classify(state: SupportState) -> Literal["retrieve", "handoff", "finalize"]:
    """Go on with what was classified; without a triage, or if it sees nothing but thanks, there is nothing to answer."""
    triage = state.get("triage") or {}
    if state.get("handoff_reason") or triage.get("needs_human"):
        return "handoff"
    return "retrieve" if triage and not triage.get("only_thanks") else "finalize"


def after_retrieve(state: SupportState) -> Literal["act", "draft", "handoff"]:
    """Look at the account only if the answer needs it and the sender has one."""
    if state.get("handoff_reason"):
        return "handoff"
    return "act" if (state.get("triage") or {}).get("needs_account_data") and state.get("customer") else "draft"


def after_act(state: SupportState) -> Literal["draft", "handoff"]:
    """Write, unless the tools ended with a wish for a human."""
    return "handoff" if state.get("handoff_reason") else "draft"


def after_draft(state: SupportState) -> Literal["check", "handoff"]:
    """Review what was written, if anything was."""
    return "handoff" if state.get("handoff_reason") else "check"


def after_check(state: SupportState) -> Literal["approval", "finalize", "draft", "handoff"]:
    """Send a passed draft, through a human first if it comes with a refund; `check` itself ends the revisions."""
    if state.get("handoff_reason"):
        return "handoff"
    if not (state.get("review") or {}).get("passed"):
        return "draft"
    return "approval" if (state.get("refund_request") or {}).get("status") == "pending" else "finalize"


def after_approval(state: SupportState) -> Literal["finalize", "handoff"]:
    """Tell the customer what was decided; without a decision a human has to."""
    return "handoff" if state.get("handoff_reason") else "finalize"
