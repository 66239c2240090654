"""Upkeep: send again what Postgres says is due."""

from __future__ import annotations

import logging

from supportpilot.config import Settings
from supportpilot.db import events, leases
from supportpilot.db.pool import Database
from supportpilot.desk import sweep as desk
from supportpilot.service.live import KEEP_SECONDS
from supportpilot.types import Ports

log = logging.getLogger(__name__)


def sweep(db: Database, ports: Ports, settings: Settings) -> dict[str, int]:
    """Publish wake-ups for due messages, turns and replies; return how many of each ({} if another sweep runs)."""
    with db.transaction() as conn:
        if not leases.sweep_alone(conn):
            return {}
        due = desk.find_due(conn, settings.sweep_seconds)
        events.drop_old(conn, KEEP_SECONDS)
    for ticket_id, message_id in due.messages:
        ports.schedule_turn(ticket_id, message_id, 0.0)
    for ticket_id, approval_id in due.resumes:
        ports.schedule_resume(ticket_id, approval_id)
    for reply_id in due.replies:
        ports.schedule_delivery(reply_id)
    counts = {"messages": len(due.messages), "resumes": len(due.resumes), "replies": len(due.replies)}
    if any(counts.values()):
        log.info("swept messages=%(messages)d resumes=%(resumes)d replies=%(replies)d", counts)
    return counts
