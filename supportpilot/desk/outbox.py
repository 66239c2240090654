"""Sending in order and once: a claim has an end, and one that ran out is `unknown`, never simply `queued`.

Without the claim two deliverers would send the same reply; if an expired claim became `queued` again, a reply
that may have arrived would be treated as one that certainly has not.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from supportpilot.db import audit, mails, outbox, rates, tickets
from supportpilot.db.outbox import OutboxRow
from supportpilot.db.pool import Connection
from supportpilot.db.tickets import TicketRow
from supportpilot.desk import rules
from supportpilot.desk.takeover import hand_up

LONGEST_ERROR = 300
LOST_CLAIM = "claimed by somebody else"
DIED = "every attempt ended with its deliverer"


@dataclass(frozen=True)
class Claimed:
    """A row that this process may send until `until`."""

    row: OutboxRow
    until: datetime


@dataclass(frozen=True)
class Skipped:
    """Nothing to send; `next_id` is the ticket's row that should be tried instead, if any."""

    why: str
    next_id: str | None = None


@dataclass(frozen=True)
class SendResult:
    """What a channel says: `event` is accept, retry, lose (may have arrived), give_up or withhold."""

    event: str
    error: str | None = None
    provider_id: str | None = None


def claim(conn: Connection, reply_id: str, seconds: float, per_minute: int = 0) -> Claimed | Skipped:
    """Claim a row for `seconds`, if it is due, the ticket's oldest unsent one and not withheld.

    per_minute: how many the channel lets out in a minute; a row that is one too many waits. 0: no limit.
    """
    ticket_id = outbox.ticket_of(conn, reply_id)
    if ticket_id is None:
        return Skipped("no such row")
    ticket = tickets.lock(conn, ticket_id)
    row = outbox.lock(conn, reply_id)
    if row is None or row.status not in {"queued", "sending", "unknown"}:
        return Skipped("already closed", outbox.next_unsent(conn, ticket_id))
    earlier = outbox.unfinished_before(conn, ticket_id, row.position)
    if earlier is not None:
        return Skipped("an earlier row of the ticket goes first", earlier)
    if not outbox.is_due(conn, reply_id):
        return Skipped("not due, or being sent by somebody")
    if row.status == "sending" and row.attempts >= rules.patience(row.channel).attempts:
        outbox.set_status(conn, reply_id, "failed", DIED)
        if ticket is not None:
            give_to_human(conn, Claimed(row, row.claimed_until or outbox.NEVER), ticket, DIED)
        return Skipped("given up", outbox.next_unsent(conn, ticket_id))
    if row.status == "sending":
        outbox.set_status(conn, reply_id, "unknown")
    if row.kind in rules.WITHHELD_KINDS and outbox.taken_over(conn, reply_id):
        outbox.set_status(conn, reply_id, "withheld")
        return Skipped("a human has the ticket; kept as a note", outbox.next_unsent(conn, ticket_id))
    wait = rates.take(conn, row.channel, per_minute, waited=row.waits > 0) if per_minute else 0.0
    if wait:
        outbox.postpone(conn, reply_id, wait)
        return Skipped(f"the channel's rate: waits {wait:.0f} s")
    until = outbox.claim(conn, reply_id, seconds)
    return Claimed(row, until)


def may_still_send(conn: Connection, claimed: Claimed, seconds: float) -> bool:
    """Ask once more, just before sending: the claim outlasts a send of `seconds`, and no human took the ticket since."""
    if not outbox.still_claimed(conn, claimed.row.id, claimed.until, seconds):
        return False
    if claimed.row.kind in rules.WITHHELD_KINDS and outbox.taken_over(conn, claimed.row.id):
        outbox.close_claim(conn, claimed.row.id, claimed.until, {"status": "withheld"})
        return False
    return True


def close(conn: Connection, claimed: Claimed, result: SendResult) -> str:
    """Write what came of a send and return the row's new status."""
    attempts = claimed.row.attempts + 1
    event = result.event
    if event in {"retry", "lose"} and attempts >= rules.patience(claimed.row.channel).attempts:
        event = "give_up"
    if event == "retry" and claimed.row.unanswered:
        event = "lose"      # this attempt certainly did not arrive, an earlier one may have
    status = rules.OUTBOX["sending"][event]
    wait = rules.delivery_wait(claimed.row.channel, attempts) if status in {"queued", "unknown"} else 0.0
    written = outbox.close_claim(conn, claimed.row.id, claimed.until,
                                 {"status": status, "error": result.error, "provider_id": result.provider_id,
                                  "retry_seconds": wait,
                                  "unanswered": None if result.event == "lose" else claimed.row.unanswered})
    if written and result.event in {"retry", "give_up"} and not claimed.row.unanswered:
        mails.forget_unsent(conn, claimed.row.id)
    return status if written else LOST_CLAIM


def give_to_human(conn: Connection, claimed: Claimed, ticket: TicketRow, error: str | None) -> None:
    """Give the locked ticket of a row that failed for good to a human: its customer cannot be answered."""
    row = claimed.row
    audit.record(conn, "delivery", "reply.failed", ticket_id=row.ticket_id, subject=row.id)
    if row.kind == "reply" and ticket.status != "escalated":
        hand_up(conn, row.ticket_id, ticket.status, f"reply {row.id} could not be sent: {error}"[:LONGEST_ERROR],
                f"reply:{row.id}:{claimed.until.isoformat()}")      # a reply can fail anew after a retry


def next_unsent(conn: Connection, ticket_id: str) -> str | None:
    """Return the ticket's oldest row that waits to be sent."""
    return outbox.next_unsent(conn, ticket_id)
