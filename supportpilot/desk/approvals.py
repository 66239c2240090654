"""Deciding a refund: the first decision wins, and nobody approves what the customer has just withdrawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from supportpilot.db import approvals, audit, inbox, notifications, tickets
from supportpilot.db.approvals import Approval, Decided
from supportpilot.db.pool import Connection
from supportpilot.desk import evidence, rules
from supportpilot.errors import AlreadyDecided, NotFound, Refused, Stale


@dataclass(frozen=True)
class Verdict:
    """A human's decision. `amount` in CNY, at most what was asked; `seen_version`: highest customer `seq` seen.

    customer_reason: what the customer is told besides. seen_facts: `evidence.fingerprint` of the facts that were shown;
    None: nobody showed any.
    """

    approved: bool
    by: str
    reason: str = ""
    amount: Decimal | None = None
    seen_version: int | None = None
    customer_reason: str = ""
    seen_facts: str | None = None


def requested_amount(approval: Approval) -> Decimal | None:
    """Return the amount that the agent asked for, None if the request has none."""
    request = approval.request.get("request") or {}
    try:
        return Decimal(str(request["amount"]))
    except (KeyError, InvalidOperation, TypeError):
        return None


def decide(conn: Connection, approval_id: str, verdict: Verdict) -> Approval:
    """Write a decision under the lock of the ticket row, which hands out `seq`.

    Above the row's limit the first approval is kept and the row stays pending until another person approves the same
    amount on the same version; to reject, one person is enough.

    Raises:
        NotFound: no such approval.
        Stale: the customer has written since the version that was seen, or the facts are not those that were seen.
        AlreadyDecided: decided, expired or withdrawn (the same person's same verdict again is no error).
        Refused: the amount is not possible, or the version is higher than any message.
    """
    approval = approvals.get(conn, approval_id)
    if approval is None:
        raise NotFound(f"no approval {approval_id}; see `supportpilot approvals list`")
    ticket = tickets.lock(conn, approval.ticket_id)
    approval = approvals.lock(conn, approval_id)
    if approval is None:    # else the reason would be written down after the ticket was erased
        raise NotFound(f"no approval {approval_id} any more: its ticket was erased")
    status = rules.approval_after(approval.status, "approve" if verdict.approved else "reject")
    if status is None:
        if _said_before(approval, verdict):
            return approval
        raise AlreadyDecided(_decided_text(approval))
    if approvals.time_is_up(conn, approval_id):
        raise AlreadyDecided(f"{approval_id} has expired; the ticket goes to a human")
    seen = _check_version(conn, approval, verdict, ticket.last_seq if ticket else approval.version)
    amount = _check_amount(approval, verdict)
    shown = _check_facts(conn, approval, verdict)
    _write(conn, approval, Decided(status, verdict.by, verdict.reason, amount, seen, verdict.customer_reason,
                                    evidence.fingerprint(shown)), shown)
    return approvals.get(conn, approval_id) or approval


def _write(conn: Connection, approval: Approval, decided: Decided, shown: evidence.Facts) -> None:
    """Write a decision, or the first of two approvals, with an audit row that says what was seen."""
    action = f"approval.{decided.status}"
    if decided.status == "approved" and needs_two(approval, decided.amount):
        if not _agrees(approval, decided):
            if _repeats(approval, decided):
                return
            approvals.note_first(conn, approval.id, decided)
            action = "approval.first"
        else:
            approvals.decide(conn, approval.id, replace(
                decided, customer_reason=decided.customer_reason or approval.customer_reason))
    else:
        approvals.forget_first(conn, approval.id)
        approvals.decide(conn, approval.id, decided)
    audit.record(conn, decided.by, action, ticket_id=approval.ticket_id, subject=approval.id, detail={
        "reason": decided.reason, "customer_reason": decided.customer_reason, "amount": str(decided.amount) if decided.amount else None,
        "seen_version": decided.seen_version, "seen": dict(shown), "seen_facts": decided.seen_facts})


def needs_two(approval: Approval, amount: Decimal | None) -> bool:
    """Say whether paying so much needs two different people."""
    return approval.two_person_above is not None and amount is not None and amount > approval.two_person_above


def _repeats(approval: Approval, decided: Decided) -> bool:
    """Say whether this is the first approval once more: the same person, on the same grounds, with the same words."""
    return (approval.first_by is not None and rules.folded_name(approval.first_by) == rules.folded_name(decided.by)
            and _same_grounds(approval, decided)
            and (approval.first_reason, approval.customer_reason) == (decided.reason, decided.customer_reason))


def _agrees(approval: Approval, decided: Decided) -> bool:
    """Say whether another person has approved the same amount on the same version and the same facts."""
    return (approval.first_by is not None and rules.folded_name(approval.first_by) != rules.folded_name(decided.by)
            and _same_grounds(approval, decided))


def _same_grounds(approval: Approval, decided: Decided) -> bool:
    return (approval.first_amount, approval.first_version, approval.first_facts) == (
        decided.amount, decided.seen_version, decided.seen_facts)


def _said_before(approval: Approval, verdict: Verdict) -> bool:
    wanted = "approved" if verdict.approved else "rejected"
    amount = requested_amount(approval) if verdict.approved and verdict.amount is None else verdict.amount
    same_amount = amount is None or approval.amount is None or amount == approval.amount
    return approval.status == wanted and verdict.by in (approval.decided_by, approval.first_by) and same_amount


def _check_facts(conn: Connection, approval: Approval, verdict: Verdict) -> evidence.Facts:
    now = evidence.facts(conn, approval)
    if verdict.seen_facts is not None and verdict.seen_facts != evidence.fingerprint(now):
        raise Stale("what the decision rests on has changed since it was shown: look again, then decide")
    return now


def assign(conn: Connection, approval_id: str, name: str | None, by: str) -> Approval:
    """Say whose matter an undecided approval is; None: everybody's.

    Raises:
        NotFound: no such approval.
        AlreadyDecided: it is decided.
    """
    approval = approvals.get(conn, approval_id)
    if approval is None:
        raise NotFound(f"no approval {approval_id}; see `supportpilot approvals list`")
    tickets.lock(conn, approval.ticket_id)
    approval = approvals.lock(conn, approval_id)
    if approval is None:
        raise NotFound(f"no approval {approval_id} any more: its ticket was erased")
    if approval.status != "pending":
        raise AlreadyDecided(_decided_text(approval))
    if approval.assigned_to == name:
        return approval
    approvals.assign(conn, approval_id, name)
    audit.record(conn, by, "approval.assigned", ticket_id=approval.ticket_id, subject=approval_id, detail={"to": name})
    return approvals.get(conn, approval_id) or approval


def _decided_text(approval: Approval) -> str:
    by = f" by {approval.decided_by}" if approval.decided_by else ""
    at = f" at {approval.decided_at:%Y-%m-%d %H:%M} UTC" if approval.decided_at else ""
    return f"{approval.id} is already {approval.status}{by}{at}"


def _check_version(conn: Connection, approval: Approval, verdict: Verdict, last_seq: int) -> int:
    """Return the version that was seen; a number above every message would never be stale."""
    seen = approval.version if verdict.seen_version is None else verdict.seen_version
    latest = inbox.highest_customer_seq(conn, approval.ticket_id)
    if latest > seen:
        raise Stale(f"the customer has written again: read `supportpilot ticket show {approval.ticket_id}`, "
                    f"then decide with --version {latest}")
    if seen > last_seq:
        raise Refused(f"{approval.ticket_id} has no message {seen}; its last is {last_seq}: "
                      f"read it, then decide with --version {last_seq}")
    return seen


def _check_amount(approval: Approval, verdict: Verdict) -> Decimal | None:
    asked = requested_amount(approval)
    if not verdict.approved:
        return None
    amount = asked if verdict.amount is None else verdict.amount
    if amount is None:
        return None
    if not amount.is_finite() or amount <= 0 or (asked is not None and amount > asked):
        raise Refused(f"the amount must be above 0 and at most {asked}")
    if amount != round(amount, 2):      # the table would round it, and pay other than was decided
        raise Refused(f"the amount must be in whole cents and at most {asked}")
    return amount


def expire(conn: Connection, approval_id: str) -> Approval | None:
    """Let a pending approval whose time ran out become a decision of its own; None if somebody was faster."""
    approval = approvals.get(conn, approval_id)
    if approval is None:
        return None
    tickets.lock(conn, approval.ticket_id)
    approval = approvals.lock(conn, approval_id)
    status = None if approval is None else rules.approval_after(approval.status, "expire")
    if approval is None or status is None or not approvals.time_is_up(conn, approval_id):
        return None
    approvals.forget_first(conn, approval_id)
    approvals.decide(conn, approval_id, Decided(status, "clock", "nobody decided in time", None, approval.version))
    audit.record(conn, "clock", "approval.expired", ticket_id=approval.ticket_id, subject=approval_id)
    return approvals.get(conn, approval_id)


def remind(conn: Connection, approval_id: str) -> Approval | None:
    """Note that half, or nine tenths, of an undecided approval's time is gone; None if that was noted or it is decided.

    The audit row is the reminder's memory: under the row's lock it is asked again, so two at once note it once. In the
    same transaction colleagues' notification is queued.
    """
    approval = approvals.get(conn, approval_id)
    if approval is None:
        return None
    tickets.lock(conn, approval.ticket_id)
    approvals.lock(conn, approval_id)
    share = dict(approvals.to_remind(conn, rules.REMIND_AT, approval_id=approval_id)).get(approval_id)
    if share is None:
        return None
    audit.record(conn, "clock", "approval.reminder", ticket_id=approval.ticket_id, subject=approval_id,
                 detail={"share": share, "expires_at": approval.expires_at})
    notifications.put(conn, "reminder", approval.ticket_id, approval_id, f"approval:{approval_id}:reminder:{share:g}")
    return approval
