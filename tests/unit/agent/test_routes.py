from __future__ import annotations

import itertools
from typing import get_args, get_type_hints

import pytest

from supportpilot.agent import routes

REASONS = [{}, {"handoff_reason": ""}, {"handoff_reason": "why"}]
TRIAGES = [{}, {"triage": None}, {"triage": {}}, *(
    {"triage": {"needs_human": human, "needs_account_data": data}}
    for human in (True, False) for data in (True, False))]
CUSTOMERS = [{}, {"customer": None}, {"customer": {"id": "C1"}}]
REVIEWS = [{}, {"review": None}, {"review": {"passed": True}}, {"review": {"passed": False, "problems": ["p"]}}]
REFUNDS = [{}, {"refund_request": None}, {"refund_request": {"status": "pending"}}, {"refund_request": {"status": "paid"}}]
ROUTERS = [routes.after_classify, routes.after_retrieve, routes.after_act, routes.after_draft, routes.after_check,
           routes.after_approval]


def states():
    for parts in itertools.product(REASONS, TRIAGES, CUSTOMERS, REVIEWS, REFUNDS):
        merged = {}
        for part in parts:
            merged |= part
        yield merged


@pytest.mark.parametrize("router", ROUTERS, ids=lambda router: router.__name__)
def test_every_state_leads_to_a_declared_node_and_a_reason_always_to_the_handoff(router):
    declared = set(get_args(get_type_hints(router)["return"]))
    for state in states():
        target = router(state)
        assert target in declared
        if state.get("handoff_reason"):
            assert target == "handoff"


def test_without_a_triage_the_turn_ends_silently():
    assert routes.after_classify({"triage": {}}) == "finalize"


def test_a_stranger_asking_about_an_account_gets_a_draft_without_account_data():
    state = {"triage": {"needs_account_data": True}, "customer": None}
    assert routes.after_retrieve(state) == "draft"


@pytest.mark.parametrize(("refund", "target"), [({"status": "pending"}, "approval"), ({"status": "paid"}, "finalize"),
                                                (None, "finalize")])
def test_only_a_pending_refund_goes_through_a_human(refund, target):
    assert routes.after_check({"review": {"passed": True}, "refund_request": refund}) == target


def test_a_failed_review_beats_a_pending_refund():
    state = {"review": {"passed": False}, "refund_request": {"status": "pending"}}
    assert routes.after_check(state) == "draft"
