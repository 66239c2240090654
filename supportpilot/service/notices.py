"""Telling colleagues: what is due about an approval or a ticket goes to every target, each once as far as that can be known.

Chat services know no idempotency key: a process killed between a send and its mark sends to that target once more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from supportpilot.config import Settings
from supportpilot.db import leases, notifications
from supportpilot.db.notifications import Notification
from supportpilot.db.pool import Connection, Database, Row
from supportpilot.desk import rules
from supportpilot.notify import links, targets, texts
from supportpilot.notify.links import LinkState
from supportpilot.notify.targets import Message, Result

log = logging.getLogger(__name__)

CLAIM_MARGIN_SECONDS = 10.0
HANDOFF_LINK_DAYS = 7
NOBODY = "NOTIFY_URLS is not set"


@dataclass(frozen=True)
class Claimed:
    """A notification that this process may send until `until`, and the targets that have not got it: name -> (number, address)."""

    row: Notification
    until: datetime
    message: Message
    targets: dict[str, tuple[int, str]]


def notify(db: Database, settings: Settings, subject_id: str) -> str:
    """Send what is due about an approval or a ticket; return what happened, "" if there was nothing to do.

    Raises:
        Unavailable: the database is away; the claim runs out and the sweeper asks again.
    """
    with db.transaction() as conn:
        claimed = _claim(conn, settings, subject_id)
    return claimed if isinstance(claimed, str) else _send(db, settings, claimed)


def _claim(conn: Connection, settings: Settings, subject_id: str) -> Claimed | str:
    """Take the newest of the subject's queued rows; an older one says nothing that it does not say."""
    queued = [row for row in notifications.lock_queued(conn, subject_id) if not row.held]
    for older in queued[:-1]:
        notifications.close(conn, older.id, "dropped", "a newer one says more")
    if not queued or not queued[-1].due:
        return ""
    row = queued[-1]
    urls = settings.notify_targets()
    if row.moot or not urls:
        notifications.close(conn, row.id, "dropped", row.moot or NOBODY)
        return f"{row.id} dropped: {row.moot or NOBODY}"
    if row.attempts >= rules.DELIVERY_MAX_ATTEMPTS:
        notifications.close(conn, row.id, "failed", "every attempt ended with its sender")
        return f"{row.id} given up"
    key = notifications.make_key(conn)
    wanted = {targets.name_of(key, url): (number, url) for number, url in enumerate(urls, 1)}
    until = notifications.claim(conn, row.id, settings.notify_timeout_seconds + targets.START_SECONDS + CLAIM_MARGIN_SECONDS)
    return Claimed(row, until, _message(settings, key, row), {
        name: target for name, target in wanted.items() if row.targets.get(name, {}).get("state") != "sent"})


def _message(settings: Settings, key: bytes, row: Notification) -> Message:
    language = settings.notify_language
    if row.kind == "handoff":
        ends = row.created_at + timedelta(days=HANDOFF_LINK_DAYS)
        path, since = f"/tickets/{row.ticket_id}", row.created_at
    else:
        ends = row.expires_at or row.now
        path, since = f"/approvals/{row.subject_id}", row.asked_at or row.created_at
    values = {"ticket": row.ticket_id, "amount": texts.amount(language, row.request),
              "age": texts.span(language, since, row.now), "left": texts.span(language, row.now, ends)}
    return texts.message(language, row.kind, row.subject_id, values, links.signed(key, settings.public_url, path, ends))


def _send(db: Database, settings: Settings, claimed: Claimed) -> str:
    names = {number: name for name, (number, _) in claimed.targets.items()}
    failed: list[Result] = []
    for result in targets.send(list(claimed.targets.values()), claimed.message, settings.notify_timeout_seconds):
        outcome = {"state": "sent" if result.ok else "failed", "service": result.service, "number": result.number, "error": result.error}
        with db.transaction() as conn:      # one by one: a sender that dies repeats only what it had not noted yet
            notifications.mark(conn, claimed.row.id, names[result.number], outcome)
        if not result.ok:
            failed.append(result)
    return _close(db, claimed, failed)


def _close(db: Database, claimed: Claimed, failed: list[Result]) -> str:
    row, attempts = claimed.row, claimed.row.attempts + 1
    state = "sent" if not failed else "failed" if attempts >= rules.DELIVERY_MAX_ATTEMPTS else "queued"
    error = "; ".join(f"{result.number} {result.service}: {result.error}" for result in failed) or None
    with db.transaction() as conn:
        ours = notifications.close_claim(conn, row.id, claimed.until, {
            "state": state, "error": error, "retry_seconds": rules.backoff_seconds(attempts) if state == "queued" else 0.0})
    if failed:
        log.log(logging.ERROR if state == "failed" else logging.WARNING, "notification %s of %s %s, attempt %d: %s",
                row.id, row.subject_id, "failed for good" if state == "failed" else "is tried again", attempts, error)
    return f"{row.id} {row.kind} {state if ours else 'claimed by somebody else'}" + (f": {error}" if error else "")


# for people -----------------------------------------------------------------------------------------

def send_test(settings: Settings) -> Iterator[Result]:
    """Send a test message to each target and yield what came of it, in the order of the answers."""
    urls = list(enumerate(settings.notify_targets(), 1))
    yield from targets.send(urls, texts.sample(settings.notify_language), settings.notify_timeout_seconds)


def judge_link(db: Database, path: str, signature: str) -> LinkState:
    """Say whether the `s` of a page's address is ours and still in time: for a sentence on the login page, never a right."""
    with db.connection() as conn:
        return links.judge(notifications.read_key(conn), path, signature, leases.clock(conn))


def list_notifications(db: Database) -> list[Row]:
    """Return notifications, newest first."""
    with db.connection() as conn:
        return notifications.rows(conn)


def latest_by_target(conn: Connection, settings: Settings, hours: float) -> list[dict[str, Any]]:
    """Return the newest outcome of each target of the settings, in their order; {} for one that had nothing to do."""
    key = notifications.read_key(conn)
    found = notifications.latest(conn, hours)
    return [found.get(targets.name_of(key, url), {}) if key else {} for url in settings.notify_targets()]
