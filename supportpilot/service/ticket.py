"""What people do with a ticket: look at it, answer it, give it back, close it."""

from __future__ import annotations

import uuid
from typing import Any

from supportpilot.config import Settings
from supportpilot.db import approvals, audit, commitments, erasures, inbox, leases, llm_calls, outbox, tickets, turns
from supportpilot.db.outbox import OutboxEntry
from supportpilot.db.pool import Connection, Database, Row
from supportpilot.db.tickets import TicketRow
from supportpilot.desk import rules
from supportpilot.desk.takeover import take_over
from supportpilot.desk.turns import reply_key, withdraw_approval
from supportpilot.errors import Refused, Unusable
from supportpilot.memory.checkpoint import count_checkpoints, thread_values
from supportpilot.memory.commitments import Said, calendar_of, promised
from supportpilot.memory.entries import Turns, language_of_text
from supportpilot.memory.ledger import facts
from supportpilot.memory.rule_summary import without_citations
from supportpilot.service.intake import file_human_reply
from supportpilot.types import InboundMessage, Ports

MAX_REPLY_CHARS = 20_000


def list_tickets(db: Database, status: str | None = None, limit: int = 50) -> list[Row]:
    """Return tickets, last written first."""
    with db.connection() as conn:
        return tickets.rows(conn, status=status, limit=limit)


def show(db: Database, settings: Settings, ticket_id: str) -> dict[str, Any]:
    """Return all that is known about a ticket: conversation, memory, approvals, cost.

    Raises:
        NotFound: no such ticket.
    """
    del settings
    values = thread_values(db, ticket_id)
    with db.connection() as conn:
        ticket = _get(conn, ticket_id)
        last = turns.last_turn(conn, ticket_id)
        return {
            **_face(ticket, last, values),
            "turns": values.get("turns", []), "held": _held(conn, ticket_id, values.get("turns", [])),
            "summary": values.get("summary", ""),
            "summarized_upto": values.get("summarized_upto", 0), "view": values.get("view") or {},
            "ledger": _ledger(values.get("turns") or [], values.get("summarized_upto", 0)),
            "profile": values.get("profile", ""), "context": values.get("context", ""),
            "tool_log": values.get("tool_log", []),
            "approvals": [_approval(a) for a in approvals.rows(conn, ticket_id=ticket_id)],
            "commitments": commitments.rows(conn, ticket_id=ticket_id),
            "notes": inbox.notes(conn, ticket_id),
            "outbox": outbox.rows(conn, ticket_id=ticket_id)[::-1],
            "cost_cny": llm_calls.cost_of_ticket(conn, ticket_id),
            "pending_messages": [_pending(m) for m in inbox.pending(conn, ticket_id)],
            "checkpoints": count_checkpoints(conn, ticket_id),
            "audit": audit.of_ticket(conn, ticket_id),
        }


def _face(ticket: TicketRow, last: Row | None, values: dict[str, Any]) -> dict[str, Any]:
    return {
        "ticket_id": ticket.id, "status": ticket.status, "outcome": (last or {}).get("outcome"),
        "customer": values.get("customer") or {"id": ticket.customer_id, "email": ticket.contact,
                                               "name": ticket.contact_name},
        "channel": ticket.channel, "conversation_id": ticket.conversation_id, "linked_to": ticket.linked_to,
        "subject": ticket.subject, "handoff_reason": ticket.handoff_reason, "reply": values.get("reply", ""),
        "turn_status": (last or {}).get("status"), "last_error": (last or {}).get("last_error"),
    }


def _ledger(entries: Turns, upto: int) -> list[dict[str, Any]]:
    """Return every figure of the conversation; `turn` is the index of the entry that has it first."""
    lang = language_of_text("\n".join(str(entry["content"]) for entry in entries))
    return [{"kind": fact.kind, "value": fact.value, "shown": fact.shown, "speaker": fact.speaker, "turn": fact.turn,
             "count": fact.count, "later": fact.later, "about": fact.about, "folded": fact.turn < upto}
            for fact in facts(without_citations(entries), lang)]


def _approval(a: approvals.Approval) -> dict[str, Any]:
    return {"id": a.id, "status": a.status, "version": a.version, "request": a.request.get("request"),
            "amount": a.amount, "decided_by": a.decided_by, "reason": a.reason, "expires_at": a.expires_at}


def _pending(m: inbox.StoredMessage) -> dict[str, Any]:
    return {"id": m.id, "seq": m.seq, "author": m.author, "author_name": m.author_name, "body": m.body,
            "received_at": m.received_at}


def _held(conn: Connection, ticket_id: str, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the conversation lacks yet, in order and in its form; `state` says whether it waits or was given up."""
    known = {entry.get("id") for entry in entries}
    return [{"id": m.id, "role": "customer" if m.author == "customer" else "agent", "content": m.body,
             "at": m.received_at.isoformat(), "state": state, **({"author": m.author_name} if m.author == "human" else {})}
            for m, state in inbox.unfinished(conn, ticket_id) if m.id not in known]


def _get(conn: Connection, ticket_id: str) -> TicketRow:
    ticket = tickets.get(conn, ticket_id)
    if ticket is None:
        raise erasures.absent(conn, ticket_id)
    return ticket


def _locked(conn: Connection, ticket_id: str) -> TicketRow:
    ticket = tickets.lock(conn, ticket_id)
    if ticket is None:
        raise erasures.absent(conn, ticket_id)
    return ticket


def reply(db: Database, ports: Ports, ticket_id: str, body: str, by: str, command_id: str | None = None) -> str:
    """Answer as a human; the ticket becomes theirs. Returns the outbox row's key.

    `command_id` makes a repeated call the same reply.

    Raises:
        NotFound: no such ticket.
        Refused: the command's id was used on another ticket.
        Unusable: the text is empty, too long or has characters that cannot be stored.
    """
    text = _clean(body)
    key = f"human:{command_id or uuid.uuid4()}"
    with db.transaction() as conn:
        ticket = _locked(conn, ticket_id)
        used_on = outbox.ticket_of_key(conn, key)
        if used_on == ticket_id:
            return key
        if used_on is not None:
            raise Refused(f"this command's id was used on {used_on} already; nothing was sent to {ticket_id}")
        filed = file_human_reply(conn, ticket, InboundMessage(
            channel="desk", external_id=key, contact=ticket.contact, body=text, contact_name=by, author="human"))
        take_over(conn, ticket, filed.status, filed.seq, by)
        promises = promised(Said(text, leases.clock(conn), calendar_of(commitments.locale_of(conn, ticket_id))))
        commitments.put_reply(conn, OutboxEntry(ticket_id, None, key, "human", text, author=by), promises)
        audit.record(conn, by, "ticket.reply", ticket_id=ticket_id, subject=filed.message_id)
        unsent = outbox.next_unsent(conn, ticket_id)
    if unsent:
        ports.schedule_delivery(unsent)
    return key


def _clean(body: str) -> str:
    text = body.strip()
    if not text:
        raise Unusable("the reply is empty")
    if len(text) > MAX_REPLY_CHARS:
        raise Unusable(f"the reply is longer than {MAX_REPLY_CHARS} characters")
    if "\x00" in text or any("\ud800" <= ch <= "\udfff" for ch in text):
        raise Unusable("the reply has characters that cannot be stored (NUL or half of a surrogate pair)")
    return text


def release(db: Database, ports: Ports, ticket_id: str, by: str = "operator") -> int:
    """Give an escalated ticket back to the agent; return how many messages wait for it.

    Dead messages become pending again, a pending approval is withdrawn, withheld replies that no human has
    overtaken are queued again.

    Raises:
        NotFound: no such ticket.
        Refused: the agent has it already.
    """
    with db.transaction() as conn:
        ticket = _locked(conn, ticket_id)
        after = rules.ticket_after(ticket.status, "release")
        withdraw_approval(conn, ticket_id, by)
        inbox.revive(conn, ticket_id)
        inbox.make_due(conn, ticket_id)
        outbox.release_withheld(conn, ticket_id)
        tickets.set_status(conn, ticket_id, after)
        audit.record(conn, by, "ticket.release", ticket_id=ticket_id)
        waiting = inbox.pending(conn, ticket_id)
        if not waiting:
            tickets.set_status(conn, ticket_id, rules.ticket_after(after, "silence"))
        unsent = outbox.next_unsent(conn, ticket_id)
    if waiting:
        ports.schedule_turn(ticket_id, waiting[0].id, 0.0)
    if unsent:
        ports.schedule_delivery(unsent)
    return len(waiting)


def resolve(db: Database, ports: Ports, ticket_id: str, by: str = "operator") -> str:
    """Close the matter now; return the ticket's status.

    On a human's ticket one silent turn takes the held messages into the conversation first. Whoever resolves a ticket
    says that its promises are kept, but for those whose day is still to come.

    Raises:
        NotFound: no such ticket.
        Refused: an approval is pending, or an answer is being made.
    """
    with db.transaction() as conn:
        ticket = _locked(conn, ticket_id)
        after = rules.ticket_after(ticket.status, "resolve")
        if approvals.pending_of_ticket(conn, ticket_id) is not None:
            raise Refused(f"a refund of {ticket_id} waits for its approval: decide it first")
        if turns.open_turn(conn, ticket_id) is not None:
            raise Refused(f"a turn of {ticket_id} is still running; try again when it is done")
        held = inbox.pending(conn, ticket_id)
        if held and ticket.status != "escalated":
            raise Refused(f"{len(held)} message(s) of {ticket_id} wait for an answer; try again when they have it")
        audit.record(conn, by, "ticket.resolve", ticket_id=ticket_id)
        for commitment_id in commitments.keep_of_ticket(conn, ticket_id, by):
            audit.record(conn, by, "commitment.kept", ticket_id=ticket_id, subject=commitment_id)
        if held:
            turns.create(conn, ticket_id, held, taken_over_seq=ticket.taken_over_seq, silent=True)
        else:
            tickets.set_status(conn, ticket_id, after)
    if held:
        ports.schedule_turn(ticket_id, held[0].id, 0.0)
        return "resolving"
    if ticket.customer_id:
        ports.schedule_profile(ticket.customer_id)
    return after


def outcome_of_message(db: Database, message_id: str) -> dict[str, Any] | None:
    """Return {"outcome", "reply", "turn_id"} once the message's turn has ended or parked, else None."""
    with db.connection() as conn:
        turn = turns.of_message(conn, message_id)
        if turn is None or turn["status"] in {"running", "replaced"}:
            return None
        key = reply_key(turn["turn_id"])
        said = outbox.body_of(conn, key)
        if said is None and turn["status"] == "waiting":
            said = next((r["body"] for r in outbox.rows(conn, ticket_id=turn["ticket_id"])
                         if r["turn_id"] == turn["turn_id"] and r["kind"] == "notice"), None)
        return {"outcome": turn["outcome"], "reply": said or "", "turn_id": turn["turn_id"]}
