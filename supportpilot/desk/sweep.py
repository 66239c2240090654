"""What must be woken again: whatever Postgres says is due and nobody holds.

Without it a flushed Redis, a lost publish or a killed worker would leave messages lying until somebody complains.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from supportpilot.db import erasures, inbox, mails, notifications, outbox, turns
from supportpilot.db.pool import Connection

BATCH = 500


@dataclass(frozen=True)
class Due:
    """Ids to publish: (ticket, message), (ticket, approval), outbox ids, erasures, ids of stored mails, (what, id) to tell colleagues of."""

    messages: list[tuple[str, str]] = field(default_factory=list)
    resumes: list[tuple[str, str]] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)
    erasures: list[str] = field(default_factory=list)
    notices: list[tuple[str, str]] = field(default_factory=list)
    mails: list[str] = field(default_factory=list)


def find_due(conn: Connection, grace_seconds: float) -> Due:
    """Mark what is due as woken and return it; each row has a growing grace, so a backlog is not queued each tick."""
    return Due(
        messages=inbox.wake_due(conn, grace_seconds, BATCH) + turns.wake_orphans(conn, grace_seconds, BATCH),
        resumes=turns.wake_resumable(conn, grace_seconds, BATCH),
        replies=outbox.wake_due(conn, grace_seconds, BATCH),
        erasures=erasures.wake_due(conn, grace_seconds, BATCH),
        notices=notifications.wake_due(conn, grace_seconds, BATCH),
        mails=mails.wake_due(conn, grace_seconds, BATCH),
    )
