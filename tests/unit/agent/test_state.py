from __future__ import annotations

from typing import get_type_hints

import pytest
from fakes import FakeLLM, FakeTools, make_deps

from supportpilot.agent.nodes import NODES
from supportpilot.agent.nodes.load_customer import load_customer
from supportpilot.agent.state import Kept, PerTurn, add_log, add_turns, fresh_turn, state_fields


def test_every_field_is_either_kept_or_reset():
    kept, per_turn = set(get_type_hints(Kept)), set(get_type_hints(PerTurn))
    assert kept & per_turn == set()
    assert kept | per_turn == state_fields()
    assert set(fresh_turn()) == per_turn


def test_a_new_turn_starts_without_anything_of_the_last_one():
    deps = make_deps(FakeLLM({}), FakeTools())
    old = {"ticket": {"id": "T1", "customer_email": "a@example.com", "subject": "s", "body": "b"}, "turn_id": "t2",
           "turns": [{"id": "M1", "role": "customer", "content": "hi"}], "turn_messages": ["M1"],
           "review": {"passed": False, "problems": ["old"]}, "refund_request": {"status": "pending"}}

    update = load_customer(old, deps)

    assert {key: update[key] for key in fresh_turn()} == fresh_turn()


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.__name__)
def test_every_node_declares_whose_turn_it_is_and_only_known_fields(node):
    hints = get_type_hints(node)
    assert {"ticket", "turn_id"} <= set(get_type_hints(hints["state"])) <= state_fields()
    assert set(get_type_hints(hints["return"])) <= state_fields()


def test_an_entry_whose_id_is_there_is_not_added_again():
    have = add_turns([], [{"id": "M1", "role": "customer", "content": "a"}])
    assert add_turns(have, [{"id": "M1", "role": "customer", "content": "a"}]) == have


def test_two_equal_entries_without_ids_are_both_kept():
    entry = {"role": "customer", "content": "在吗"}
    both = add_turns([], [entry, entry])
    assert len(both) == 2
    assert both[0]["id"] != both[1]["id"]


def test_the_calls_of_a_replaced_turn_are_taken_out_and_those_of_others_stay():
    have = [{"name": "a", "turn_id": "1"}, {"name": "b", "turn_id": "2"}, {"name": "c"}]
    assert add_log(have, [{"forget_turn": "2"}]) == [{"name": "a", "turn_id": "1"}, {"name": "c"}]
    assert add_log(have, [{"name": "d", "turn_id": "2"}]) == [*have, {"name": "d", "turn_id": "2"}]
    assert add_log([], [{"forget_turn": "2"}]) == []


def test_a_turn_notes_how_many_answers_had_not_helped_when_it_began():
    update = load_customer({"ticket": {"id": "T1", "customer_email": "a@example.com", "subject": "", "body": "x"}, "turn_id": "1",
                            "turn_messages": [], "turns": [], "unsolved": 1}, make_deps(FakeLLM({}), FakeTools()))
    assert update["unsolved_before"] == 1
