"""Upkeep: send again what Postgres says is due."""

from __future__ import annotations

import logging

from supportpilot.config import Settings
from supportpilot.db import audit, erasures, events, leases, notifications, tickets
from supportpilot.db.pool import Database
from supportpilot.desk import sweep as desk
from supportpilot.service.live import KEEP_SECONDS
from supportpilot.service.notices import NOBODY
from supportpilot.types import Ports

log = logging.getLogger(__name__)

SETTLE_BATCH = 500


def sweep(db: Database, ports: Ports, settings: Settings) -> dict[str, int]:
    """Publish wake-ups for due messages, turns, replies, mails and notices; return how many of each ({} if another sweep runs)."""
    with db.transaction() as conn:
        if not leases.sweep_alone(conn):
            return {}
        if not settings.notify_targets():
            notifications.drop_all(conn, NOBODY)
        due = desk.find_due(conn, settings.sweep_seconds)
        events.drop_old(conn, KEEP_SECONDS)
        erasures.forget_old(conn, settings.erased_ids_days)
    for ticket_id, message_id in due.messages:
        ports.schedule_turn(ticket_id, message_id, 0.0)
    for ticket_id, approval_id in due.resumes:
        ports.schedule_resume(ticket_id, approval_id)
    for reply_id in due.replies:
        ports.schedule_delivery(reply_id)
    for erasure_id in due.erasures:
        ports.schedule_erase(erasure_id)
    for about, subject_id in due.notices:
        ports.schedule_notify(about, subject_id)
    for mail_id in due.mails:
        ports.schedule_mail(mail_id)
    counts = {"messages": len(due.messages), "resumes": len(due.resumes), "replies": len(due.replies),
              "erasures": len(due.erasures), "mails": len(due.mails), "notices": len(due.notices)}
    if any(counts.values()):
        log.info("swept messages=%(messages)d resumes=%(resumes)d replies=%(replies)d erasures=%(erasures)d mails=%(mails)d "
                 "notices=%(notices)d", counts)
    return counts


def settle(db: Database, ports: Ports, settings: Settings) -> int:
    """Resolve answered tickets that were quiet for RESOLVE_AFTER_HOURS; return how many.

    Not while a message, an approval, a turn or a reply of the ticket is open. Two at once share the work.
    """
    with db.transaction() as conn:
        waiting = tickets.lock_quiet(conn, settings.resolve_after_hours, SETTLE_BATCH)
        settled = tickets.settle(conn, waiting, settings.resolve_after_hours)
        for ticket_id, _ in settled:
            audit.record(conn, "desk", "ticket.settled", ticket_id=ticket_id)
    for customer_id in dict.fromkeys(customer_id for _, customer_id in settled if customer_id):
        ports.schedule_profile(customer_id)
    if settled:
        log.info("settled tickets=%d", len(settled))
    return len(settled)
