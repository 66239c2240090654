"""Taking, parking, releasing and failing a turn: one transaction each, the lease row locked first.

Taker and releaser both lock the lease row before they look for work in a second statement; a conditional UPDATE
instead strands messages that arrive at the instant of release. Nothing here commits: `service/` owns the
transactions. Lock order: lease row, ticket row, then inbox, turns, approvals, outbox.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from supportpilot.config import Settings
from supportpilot.db import (
    approvals,
    audit,
    commitments,
    erasures,
    inbox,
    leases,
    llm_calls,
    notifications,
    outbox,
    tickets,
    turns,
)
from supportpilot.db.approvals import Asked
from supportpilot.db.outbox import OutboxEntry
from supportpilot.db.pool import Connection
from supportpilot.db.turns import TurnRow
from supportpilot.desk import rules
from supportpilot.errors import LeaseLost, NotFound, Overtaken, Refused
from supportpilot.prompts.promises import fixed_promises

log = logging.getLogger(__name__)

Notice: TypeAlias = Callable[[Connection, str], str]   # (conn, ticket_id) -> what the customer is told

@dataclass(frozen=True)
class Work:
    """A turn that this process may run, and the token that proves it."""

    ticket_id: str
    token: str
    turn: TurnRow


@dataclass(frozen=True)
class Failure:
    """Why an attempt failed: `counts` as an attempt or as a `crash`, `final` if trying again cannot help.

    `model`: the model that failed; it counts only if that one has answered somebody since the turn failed before.
    Else it is an outage, and not the turn's fault.
    `handed_back`: nothing failed, the process is about to stop.
    """

    error: str
    counts: bool = True
    final: bool = False
    crash: bool = False
    model: str = ""
    handed_back: bool = False


def reply_key(turn_id: str) -> str:
    """Return the idempotency key of a turn's one answer (reply or handoff notice)."""
    return f"turn:{turn_id}:reply"


def take(conn: Connection, settings: Settings, ticket_id: str, holder: str, notice: Notice) -> Work | None:
    """Take the ticket if nobody has it and there is work; `notice` goes out if a turn is given up here.

    Raises:
        NotFound: no such ticket.
        Busy: the lease row stayed locked; ask again in a few seconds.
    """
    lease = leases.lock(conn, ticket_id)
    if lease is None:
        raise erasures.absent(conn, ticket_id)
    if lease.live:
        return None
    turn = _next_turn(conn, ticket_id, killed=lease.token is not None)
    if turn is not None and turn.crashes > settings.max_crashes:
        leases.free(conn, ticket_id)
        give_up(conn, turn, f"killed {turn.crashes} times in mid-turn", notice)
        return None
    if turn is None:
        if lease.token is not None:
            leases.free(conn, ticket_id)
        return None
    token = leases.grant(conn, ticket_id, holder, settings.lease_seconds, settings.turn_deadline_seconds)
    return Work(ticket_id, token, turn)


def _next_turn(conn: Connection, ticket_id: str, *, killed: bool) -> TurnRow | None:
    """Continue an orphaned turn, else resume a decided one, else make one of the runnable messages."""
    turn = turns.orphaned(conn, ticket_id)
    if turn is not None:
        turns.start(conn, turn.turn_id, crashed=killed)
        return turns.open_turn(conn, ticket_id)
    turn = turns.resumable(conn, ticket_id)
    if turn is not None:
        turns.start(conn, turn.turn_id)
        return turns.open_turn(conn, ticket_id)
    # Locked before it is judged: a human who took over between two readings would be written into the turn as known
    # to it, and the turn's reply be sent over their head.
    ticket = tickets.lock(conn, ticket_id)
    messages = inbox.runnable(conn, ticket_id)
    if not messages or ticket is None:
        return None
    return turns.create(conn, ticket_id, messages, taken_over_seq=ticket.taken_over_seq)


def _hold(conn: Connection, work: Work) -> None:
    lease = leases.lock(conn, work.ticket_id)
    if lease is None or lease.token != work.token:
        raise LeaseLost(f"the lease of {work.ticket_id} is gone; nothing is written")


def park(conn: Connection, work: Work, settings: Settings, interrupt_id: str, payload: dict[str, Any],
         notice: str | None) -> str:
    """Leave the turn waiting for a human and return the approval's id.

    The customer's notice and the ticket's status are left alone if a human has the ticket already.

    Raises:
        LeaseLost: another worker has the ticket; nothing is written.
        Overtaken: the customer has written again before anybody was asked.
    """
    _hold(conn, work)
    ticket = tickets.lock(conn, work.ticket_id)
    if ticket is None:
        raise NotFound(f"no ticket {work.ticket_id}")
    if turns.overtaken(conn, work.turn.turn_id):
        raise Overtaken(f"{work.ticket_id} was written to before its refund was asked for")
    asked = Asked(work.ticket_id, work.turn.turn_id, interrupt_id, payload, work.turn.highest_seq,
                  Decimal(str(settings.approval_two_person_cny)))
    approval = approvals.create(conn, asked, settings.approval_expires_hours)
    if ticket.status != "escalated":
        tickets.set_status(conn, work.ticket_id, rules.ticket_after(ticket.status, "park"))
        if notice:
            outbox.put(conn, OutboxEntry(work.ticket_id, work.turn.turn_id, f"approval:{approval.id}:notice", "notice",
                                         notice))
    turns.park(conn, work.turn.turn_id)
    inbox.set_state(conn, work.turn.message_ids, "done")
    leases.free(conn, work.ticket_id)
    audit.record(conn, "agent", "approval.requested", ticket_id=work.ticket_id, subject=approval.id)
    notifications.put(conn, "approval", work.ticket_id, approval.id, f"approval:{approval.id}:asked")
    return approval.id


def release(conn: Connection, work: Work, settings: Settings, outcome: str, entry_ids: set[str]) -> Work | None:
    """Close a finished turn; return the next one under the same lease, or free the lease.

    Only messages whose ids are in the stored conversation become done.

    Raises:
        LeaseLost: another worker has the ticket; nothing is written.
    """
    _hold(conn, work)
    ticket = tickets.lock(conn, work.ticket_id)
    if ticket is None:
        raise NotFound(f"no ticket {work.ticket_id}")
    turn = work.turn
    inbox.set_state(conn, [m for m in turn.message_ids if m in entry_ids], "done")
    turns.finish(conn, turn.turn_id, "done", outcome)
    approvals.mark_applied(conn, turn.turn_id)
    answered = _has_reply(conn, turn)
    status = _status_after_turn(ticket.status, turn, outcome, answered=answered)
    tickets.set_status(conn, work.ticket_id, status)
    if status == "answered" and not answered:       # thanks that only triage knew for such
        tickets.close_again(conn, work.ticket_id, turn.message_ids)
    return _go_on(conn, work, settings)


def _go_on(conn: Connection, work: Work, settings: Settings) -> Work | None:
    """Return the next turn under the same lease, its deadline set anew, or free the lease."""
    following = _next_turn(conn, work.ticket_id, killed=False)
    if following is None:
        leases.free(conn, work.ticket_id)
        return None
    leases.extend(conn, work.token, settings.lease_seconds, settings.turn_deadline_seconds)
    return Work(work.ticket_id, work.token, following)


def replace(conn: Connection, work: Work, settings: Settings) -> Work | None:
    """Put a new turn with all of the ticket's runnable messages in the place of an overtaken one, and return it.

    While the customer is still writing (quiet window) nothing is runnable: the lease is freed, and the turn is made when
    the last line's wake-up comes. Its messages are pending as before, earlier than the new ones, so that it has them
    all. The turn itself is returned if it has to go on: judged again under the locks, a new message is not enough.

    Raises:
        LeaseLost: another worker has the ticket; nothing is written.
    """
    _hold(conn, work)
    if tickets.lock(conn, work.ticket_id) is None:
        raise NotFound(f"no ticket {work.ticket_id}")
    if not turns.overtaken(conn, work.turn.turn_id):
        return work
    turns.finish(conn, work.turn.turn_id, "replaced", None)
    return _go_on(conn, work, settings)


def _has_reply(conn: Connection, turn: TurnRow) -> bool:
    return outbox.body_of(conn, reply_key(turn.turn_id)) is not None


def _status_after_turn(status: str, turn: TurnRow, outcome: str, *, answered: bool) -> str:
    if turn.silent:
        return "resolved"
    if outcome == "escalated":
        return rules.ticket_after(status, "escalate")
    return rules.ticket_after(status, "answer" if answered else "silence")


def fail(conn: Connection, work: Work, settings: Settings, failure: Failure, notice: Notice) -> str:
    """Note a failed attempt and free the lease; at the bound the turn is given up. Returns what was done.

    Raises:
        LeaseLost: another worker has the ticket; nothing is written.
    """
    _hold(conn, work)
    counts = failure.counts and not _outage(conn, work.turn, failure)
    attempts, setbacks = work.turn.attempts + int(counts), 0 if counts else work.turn.setbacks + 1
    wait = 0.0 if failure.handed_back else rules.backoff_seconds(attempts) if counts else rules.setback_seconds(setbacks)
    running = turns.fail_attempt(conn, work.turn.turn_id, turns.FailedAttempt(
        failure.error[:500], wait, attempts=int(counts), crashes=int(failure.crash), setbacks=setbacks))
    leases.free(conn, work.ticket_id)
    if not running:
        return "not running any more"
    crashes = work.turn.crashes + int(failure.crash)
    if failure.final or attempts >= settings.max_attempts or crashes > settings.max_crashes:
        return give_up(conn, work.turn, failure.error, notice)
    return f"again in {wait:.0f} s"


def _outage(conn: Connection, turn: TurnRow, failure: Failure) -> bool:
    return bool(failure.model) and not llm_calls.answered_since_failure(conn, failure.model, turn.turn_id)


def give_up(conn: Connection, turn: TurnRow, reason: str, notice: Notice) -> str:
    """Make the turn and its messages dead letters, hand the ticket to a human, tell the customer.

    If the customer has this turn's answer already, only the thread lacks it: the turn is kept as `closing`.
    The lease row is locked by the caller.
    """
    ticket = tickets.lock(conn, turn.ticket_id)
    if ticket is None:
        raise NotFound(f"no ticket {turn.ticket_id}")
    if _has_reply(conn, turn):
        return _close_without_graph(conn, turn, reason, ticket.status)
    turns.finish(conn, turn.turn_id, "dead", "escalated", reason[:500])
    inbox.set_state(conn, turn.message_ids, "dead", reason[:500])
    approvals.withdraw(conn, turn.ticket_id)
    notifications.put_handoff_of_turn(conn, turn.ticket_id, turn.turn_id)
    tickets.set_status(conn, turn.ticket_id, rules.ticket_after(ticket.status, "escalate"))
    tickets.set_handoff_reason(conn, turn.ticket_id, f"given up: {reason[:300]}")
    if not turn.silent:
        text = notice(conn, turn.ticket_id)
        commitments.put_reply(conn, OutboxEntry(turn.ticket_id, turn.turn_id, reply_key(turn.turn_id), "handoff", text),
                              fixed_promises(text))
    audit.record(conn, "worker", "turn.given_up", ticket_id=turn.ticket_id, subject=turn.turn_id,
                 detail={"reason": reason[:500]})
    log.error("turn given up ticket=%s turn=%s; its last_error says why", turn.ticket_id, turn.turn_id)
    return "given up"


def _close_without_graph(conn: Connection, turn: TurnRow, reason: str, status: str) -> str:
    if not turn.closing:
        turns.set_closing(conn, turn.turn_id)
        return "closing"
    turns.finish(conn, turn.turn_id, "done", None, reason[:500])
    inbox.set_state(conn, turn.message_ids, "done")
    approvals.mark_applied(conn, turn.turn_id)
    tickets.set_status(conn, turn.ticket_id, rules.ticket_after(status, "answer"))
    audit.record(conn, "worker", "turn.closed_without_thread", ticket_id=turn.ticket_id, subject=turn.turn_id,
                 detail={"reason": reason[:500]})
    return "closed; the thread lacks the answer"


def withdraw_approval(conn: Connection, ticket_id: str, actor: str) -> int:
    """Withdraw the ticket's pending approval together with its turn and that turn's messages; return how many.

    The messages become dead, so that `ticket release` can bring them back.
    """
    withdrawn = approvals.withdraw(conn, ticket_id)
    for turn_id in withdrawn:
        turn = turns.open_turn(conn, ticket_id)
        if turn is None or turn.turn_id != turn_id:
            raise Refused(f"the approval of {ticket_id} is being decided right now; look again")
        turns.finish(conn, turn_id, "dead", None, "approval withdrawn")
        inbox.set_state(conn, turn.message_ids, "dead", "approval withdrawn")
        audit.record(conn, actor, "approval.withdrawn", ticket_id=ticket_id, subject=turn_id)
    return len(withdrawn)
