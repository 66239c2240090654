"""The states of a ticket, an approval and an outbox row as tables: a move that is not here does not exist."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Literal

from supportpilot.errors import Refused

TicketStatus = Literal["open", "answered", "waiting_approval", "escalated", "resolved"]
TicketEvent = Literal["message", "thanks", "answer", "silence", "park", "escalate", "release", "resolve"]

# What a message, a finished turn or a person makes of a ticket. An escalated ticket is a human's: a turn that
# was begun before is finished, but only `release` and `resolve` take it out of the human's hands.
TICKET: dict[str, dict[str, str]] = {
    "open": {"message": "open", "thanks": "open", "answer": "answered", "silence": "answered", "park": "waiting_approval",
             "escalate": "escalated", "resolve": "resolved"},
    "answered": {"message": "open", "thanks": "answered", "answer": "answered", "silence": "answered", "park": "waiting_approval",
                 "escalate": "escalated", "resolve": "resolved"},
    "waiting_approval": {"message": "waiting_approval", "thanks": "waiting_approval", "answer": "answered", "silence": "answered",
                         "park": "waiting_approval", "escalate": "escalated"},
    "escalated": {"message": "escalated", "thanks": "escalated", "answer": "escalated", "silence": "escalated", "park": "escalated",
                  "escalate": "escalated", "release": "open", "resolve": "resolved"},
    "resolved": {"message": "open", "thanks": "resolved", "answer": "answered", "silence": "resolved", "park": "waiting_approval",
                 "escalate": "escalated", "resolve": "resolved"},
}

APPROVAL: dict[str, dict[str, str]] = {
    "pending": {"approve": "approved", "reject": "rejected", "expire": "expired", "withdraw": "withdrawn"},
    "approved": {}, "rejected": {}, "expired": {}, "withdrawn": {},
}

OUTBOX: dict[str, dict[str, str]] = {
    "queued": {"claim": "sending", "withhold": "withheld"},
    "sending": {"accept": "accepted", "retry": "queued", "lose": "unknown", "give_up": "failed", "withhold": "withheld"},
    "unknown": {"claim": "sending", "withhold": "withheld"},
    "failed": {"requeue": "queued"},
    "withheld": {"requeue": "queued"},
    "accepted": {},
}

@dataclass(frozen=True)
class Patience:
    """How long a channel's reply is tried: so many attempts, with waits that double from `first` to `longest` seconds."""

    attempts: int
    first: float
    longest: float


REMIND_AT = (0.5, 0.9)                                    # shares of an approval's time
WITHHELD_KINDS = frozenset({"reply", "notice", "ack"})   # handoff and human rows are always sent
DELIVERY_MAX_ATTEMPTS = 12                                # with the waits below: a little over an hour
BACKOFF_FIRST_SECONDS = 5.0
BACKOFF_LONGEST_SECONDS = 900.0
PATIENCE = {"email": Patience(79, 30.0, 3600.0)}          # 72 hours: mail servers put off strangers, and go away for a night
SETBACK_LONGEST_SECONDS = 60.0

_REFUSALS = {
    ("waiting_approval", "resolve"): "a refund waits for its approval: decide it first (`supportpilot approvals list`)",
    ("open", "release"): "the agent has this ticket already; nothing to release",
    ("answered", "release"): "the agent has this ticket already; nothing to release",
    ("resolved", "release"): "this ticket is resolved; a new message of the customer opens it again",
    ("waiting_approval", "release"): "the agent has this ticket and waits for an approval; nothing to release",
}


def ticket_after(status: str, event: TicketEvent) -> str:
    """Return a ticket's status after an event.

    Raises:
        Refused: the event is not possible in this status.
    """
    after = TICKET[status].get(event)
    if after is None:
        raise Refused(_REFUSALS.get((status, event), f"{event} is not possible while the ticket is {status}"))
    return after


def approval_after(status: str, event: str) -> str | None:
    """Return an approval's status after an event, None if the event is not possible."""
    return APPROVAL[status].get(event)


def outbox_after(status: str, event: str) -> str | None:
    """Return an outbox row's status after an event, None if the event is not possible."""
    return OUTBOX[status].get(event)


def folded_name(name: str) -> str:
    """Return a person's name as it is compared: `Li Wei` and ` li  wei` are one person."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def backoff_seconds(attempts: int) -> float:
    """Return the wait before the next attempt, doubling from 5 s to 15 min; `attempts` is how many were made."""
    return _doubled(BACKOFF_FIRST_SECONDS, BACKOFF_LONGEST_SECONDS, attempts)


def patience(channel: str) -> Patience:
    """Return how long a channel's reply is tried."""
    return PATIENCE.get(channel) or Patience(DELIVERY_MAX_ATTEMPTS, BACKOFF_FIRST_SECONDS, BACKOFF_LONGEST_SECONDS)


def delivery_wait(channel: str, attempts: int) -> float:
    """Return the wait before a reply's next attempt; `attempts` is how many were made."""
    how = patience(channel)
    return _doubled(how.first, how.longest, attempts)


def _doubled(first: float, longest: float, attempts: int) -> float:
    doubled: float = first * 2 ** max(0, min(attempts, 20) - 1)
    return min(doubled, longest)


def setback_seconds(setbacks: int) -> float:
    """Return the wait after an uncounted failure: it grows, so that an outage with thousands of tickets is no storm.

    It stays short, so that everybody is answered soon after it.
    """
    return min(backoff_seconds(setbacks), SETBACK_LONGEST_SECONDS)
