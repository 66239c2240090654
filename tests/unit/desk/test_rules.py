"""The states as tables: every (state, event) pair of ticket, approval and outbox is written down here once more.

What is not in `EXPECTED` must not be possible, so a new move needs a line here and is seen in review.
"""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from supportpilot.desk import rules
from supportpilot.errors import Refused

TICKET_EVENTS = get_args(rules.TicketEvent)
APPROVAL_EVENTS = ("approve", "reject", "expire", "withdraw")
OUTBOX_EVENTS = ("claim", "accept", "retry", "lose", "give_up", "withhold", "requeue")

EXPECTED_TICKET = {
    ("open", "message"): "open", ("open", "answer"): "answered", ("open", "silence"): "answered",
    ("open", "park"): "waiting_approval", ("open", "escalate"): "escalated", ("open", "resolve"): "resolved",
    ("answered", "message"): "open", ("answered", "answer"): "answered", ("answered", "silence"): "answered",
    ("answered", "park"): "waiting_approval", ("answered", "escalate"): "escalated", ("answered", "resolve"): "resolved",
    ("waiting_approval", "message"): "waiting_approval", ("waiting_approval", "answer"): "answered",
    ("waiting_approval", "silence"): "answered", ("waiting_approval", "park"): "waiting_approval",
    ("waiting_approval", "escalate"): "escalated",
    ("escalated", "message"): "escalated", ("escalated", "answer"): "escalated", ("escalated", "silence"): "escalated",
    ("escalated", "park"): "escalated", ("escalated", "escalate"): "escalated", ("escalated", "release"): "open",
    ("escalated", "resolve"): "resolved",
    ("resolved", "message"): "open", ("resolved", "answer"): "answered", ("resolved", "silence"): "resolved",
    **{(state, "thanks"): state for state in ("open", "answered", "waiting_approval", "escalated", "resolved")},
    ("resolved", "park"): "waiting_approval", ("resolved", "escalate"): "escalated", ("resolved", "resolve"): "resolved",
}
EXPECTED_APPROVAL = {
    ("pending", "approve"): "approved", ("pending", "reject"): "rejected",
    ("pending", "expire"): "expired", ("pending", "withdraw"): "withdrawn",
}
EXPECTED_OUTBOX = {
    ("queued", "claim"): "sending", ("queued", "withhold"): "withheld",
    ("sending", "accept"): "accepted", ("sending", "retry"): "queued", ("sending", "lose"): "unknown",
    ("sending", "give_up"): "failed", ("sending", "withhold"): "withheld",
    ("unknown", "claim"): "sending", ("unknown", "withhold"): "withheld",
    ("failed", "requeue"): "queued", ("withheld", "requeue"): "queued",
}


def _ticket_after(status: str, event: str) -> str | None:
    try:
        return rules.ticket_after(status, event)
    except Refused:
        return None


MACHINES = [
    ("ticket", rules.TICKET, TICKET_EVENTS, EXPECTED_TICKET, _ticket_after),
    ("approval", rules.APPROVAL, APPROVAL_EVENTS, EXPECTED_APPROVAL, rules.approval_after),
    ("outbox", rules.OUTBOX, OUTBOX_EVENTS, EXPECTED_OUTBOX, rules.outbox_after),
]
PAIRS = [(name, state, event, expected.get((state, event)), after)
         for name, table, events, expected, after in MACHINES for state, event in product(table, events)]


@pytest.mark.parametrize(("machine", "state", "event", "expected", "after"), PAIRS,
                         ids=[f"{name}-{state}-{event}" for name, state, event, *_ in PAIRS])
def test_every_pair_of_state_and_event_leads_where_it_is_written_and_nowhere_else(machine, state, event, expected, after):
    assert after(state, event) == expected


@pytest.mark.parametrize(("name", "table", "events", "expected", "after"), MACHINES, ids=lambda m: m if isinstance(m, str) else "")
def test_no_table_has_an_event_or_state_that_no_test_knows(name, table, events, expected, after):
    assert {event for moves in table.values() for event in moves} <= set(events)
    assert {state for moves in table.values() for state in moves.values()} <= set(table)


def test_the_ticket_table_has_the_states_of_the_type():
    assert set(rules.TICKET) == set(get_args(rules.TicketStatus))


@pytest.mark.parametrize(("state", "event"), [(s, e) for s, e in product(rules.TICKET, TICKET_EVENTS) if (s, e) not in EXPECTED_TICKET])
def test_an_impossible_event_is_refused_in_one_line_that_says_why(state, event):
    with pytest.raises(Refused) as error:
        rules.ticket_after(state, event)
    assert str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("event", ["answer", "silence", "park", "escalate", "message"])
def test_only_release_and_resolve_take_a_ticket_out_of_a_humans_hands(event):
    assert rules.ticket_after("escalated", event) == "escalated"


def test_what_a_human_says_and_the_handoff_are_never_withheld():
    assert {"reply", "notice", "ack"} == rules.WITHHELD_KINDS


def test_the_wait_doubles_from_five_seconds_to_a_quarter_of_an_hour():
    waits = [rules.backoff_seconds(attempts) for attempts in range(1, 11)]
    assert waits == [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]
    assert rules.backoff_seconds(10**6) == 900
    assert rules.backoff_seconds(0) == 5


def test_a_reply_is_tried_for_about_an_hour_before_it_fails():
    total = sum(rules.backoff_seconds(n) for n in range(1, rules.DELIVERY_MAX_ATTEMPTS))
    assert 3_600 / 2 < total < 3 * 3_600
