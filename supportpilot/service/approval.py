"""Decisions on refunds: who, what, and the wake-up after it."""

from __future__ import annotations

import logging

from supportpilot.db import approvals
from supportpilot.db.approvals import Approval
from supportpilot.db.pool import Database
from supportpilot.desk import approvals as desk
from supportpilot.desk import rules
from supportpilot.desk.approvals import Verdict
from supportpilot.errors import NotFound
from supportpilot.types import Ports

__all__ = ["Verdict", "decide", "expire_due", "get_approval", "list_approvals", "remind_due"]

log = logging.getLogger(__name__)


def decide(db: Database, ports: Ports, approval_id: str, verdict: Verdict) -> Approval:
    """Write a human's decision and wake the ticket. Raises as `desk.approvals.decide`."""
    with db.transaction() as conn:
        approval = desk.decide(conn, approval_id, verdict)
    ports.schedule_resume(approval.ticket_id, approval.id)
    log.info("approval %s %s by %s", approval.id, approval.status, verdict.by)
    return approval


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
