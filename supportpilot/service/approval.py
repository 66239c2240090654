"""Decisions on refunds: who, what, and the wake-up after it."""

from __future__ import annotations

import logging

from supportpilot.db import approvals, approvers
from supportpilot.db.approvals import Approval
from supportpilot.db.pool import Database, Row
from supportpilot.desk import approvals as desk
from supportpilot.desk import rules
from supportpilot.desk.approvals import Verdict
from supportpilot.errors import NotFound
from supportpilot.types import Ports

__all__ = ["Verdict", "assign", "board", "count_pending", "decide", "expire_due", "get_approval", "list_approvals", "remind_due", "same_person"]

log = logging.getLogger(__name__)


def decide(db: Database, ports: Ports, approval_id: str, verdict: Verdict) -> Approval:
    """Write a human's decision and wake the ticket; still pending if a second person has to agree.

    Raises as `desk.approvals.decide`.
    """
    with db.transaction() as conn:
        approval = desk.decide(conn, approval_id, verdict)
    if approval.status == "pending":
        log.info("approval %s: %s approves, a second person has to agree", approval.id, verdict.by)
        return approval
    ports.schedule_resume(approval.ticket_id, approval.id)
    log.info("approval %s %s by %s", approval.id, approval.status, verdict.by)
    return approval


def assign(db: Database, approval_id: str, name: str | None, by: str) -> Approval:
    """Say whose matter an undecided approval is; None: everybody's.

    Raises:
        NotFound: no such approval, or nobody of that name may decide.
        AlreadyDecided: it is decided.
    """
    with db.transaction() as conn:
        to = None if name is None else approvers.by_name(conn, rules.folded_name(name))
        if name is not None and (to is None or to.role not in ("approver", "admin")):
            raise NotFound(f"nobody called {name[:60]!r} may decide; see `supportpilot approver list`")
        return desk.assign(conn, approval_id, to.name if to else None, by)


def same_person(one: str, other: str) -> bool:
    """Say whether two names are one person's, however they are typed."""
    return rules.folded_name(one) == rules.folded_name(other)


def board(db: Database, *, decided: bool = False, assigned_to: str | None = None) -> list[Row]:
    """Return approvals for a list of them, with who asks: the undecided ones by what expires first, else newest first."""
    with db.connection() as conn:
        return approvals.board(conn, decided=decided, assigned_to=assigned_to)


def list_approvals(db: Database, status: str | None = None) -> list[Approval]:
    """Return approvals, oldest first; `status` narrows them down."""
    with db.connection() as conn:
        return approvals.rows(conn, status=status)


def count_pending(db: Database) -> int:
    """Return how many approvals wait for a decision."""
    with db.connection() as conn:
        return approvals.count_pending(conn)


def get_approval(db: Database, approval_id: str) -> Approval:
    """Return one approval.

    Raises:
        NotFound: no such id.
    """
    with db.connection() as conn:
        approval = approvals.get(conn, approval_id)
    if approval is None:
        raise NotFound(f"no approval {approval_id}; see `supportpilot approvals list`")
    return approval


def expire_due(db: Database, ports: Ports) -> int:
    """Let approvals whose time ran out become handoffs; return how many."""
    with db.connection() as conn:
        ids = approvals.expired(conn)
    count = 0
    for approval_id in ids:
        with db.transaction() as conn:
            approval = desk.expire(conn, approval_id)
        if approval is not None:
            count += 1
            ports.schedule_resume(approval.ticket_id, approval.id)
    return count


def remind_due(db: Database) -> int:
    """Remind of approvals whose time is half, or nine tenths, gone: one audit row and one log line each; return how many."""
    with db.connection() as conn:
        due = approvals.to_remind(conn, rules.REMIND_AT)
    count = 0
    for approval_id, share in due:
        with db.transaction() as conn:
            approval = desk.remind(conn, approval_id)
        if approval is not None:
            count += 1
            log.warning("approval %s of ticket %s is undecided after %.0f %% of its time; it expires at %s",
                        approval.id, approval.ticket_id, share * 100, approval.expires_at.isoformat(timespec="minutes"))
    return count
