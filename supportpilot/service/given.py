"""What a turn is given: its messages as entries, the ticket, and what another turn's leftovers must not touch."""

from __future__ import annotations

from typing import Any

from supportpilot.agent.state import SupportState, Turn
from supportpilot.db import inbox, tickets, turns
from supportpilot.db.inbox import StoredMessage
from supportpilot.db.pool import Connection
from supportpilot.desk.turns import Work
from supportpilot.errors import NotFound


def given_to(conn: Connection, work: Work, values: dict[str, Any]) -> SupportState:
    """Return the input of a turn; `values` is what its thread holds now.

    Raises:
        NotFound: the ticket is gone.
    """
    messages = inbox.by_ids(conn, work.turn.message_ids)
    ticket = tickets.get(conn, work.ticket_id)
    if ticket is None:
        raise NotFound(f"no ticket {work.ticket_id}")
    given: SupportState = {
        "ticket": {"id": ticket.id, "customer_email": ticket.contact, "subject": ticket.subject, "body": ticket.body},
        "turn_id": work.turn.turn_id, "turn_messages": unanswered(messages), "silent": work.turn.silent,
        "turns": [_entry(m) for m in messages], **_taken_back(conn, work, values),
    }
    # A human had the ticket: a complaint from before, or one that a dead turn has counted, is not counted again.
    came_back = any(m.author == "human" for m in messages) or turns.follows_dead(conn, work.turn.turn_id)
    return {**given, "unsolved": 0} if came_back else given


def _taken_back(conn: Connection, work: Work, values: dict[str, Any]) -> SupportState:
    """Return what undoes the part of a replaced turn that stays across turns; the rest starts anew by itself."""
    if not values or values.get("outcome"):     # the last turn came to its end
        return {}
    left = values.get("turn_id")
    if left not in turns.replaced_before(conn, work.turn.turn_id):
        return {}
    return {"unsolved": values.get("unsolved_before", values.get("unsolved", 0)), "tool_log": [{"forget_turn": left}]}


def unanswered(messages: list[StoredMessage]) -> list[str]:
    """Return the ids of the customer's messages that no human has answered after them."""
    last_human = max((m.seq for m in messages if m.author == "human"), default=0)
    return [m.id for m in messages if m.author == "customer" and m.seq > last_human]


def _entry(message: StoredMessage) -> Turn:
    entry: Turn = {"id": message.id, "role": "customer" if message.author == "customer" else "agent",
                   "content": message.body, "at": message.received_at.isoformat()}
    if message.author == "human":
        entry["author"] = message.author_name
    return entry
