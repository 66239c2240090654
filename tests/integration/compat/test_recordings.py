"""Threads that a release has stored are shown, continued, resumed and finished by this one: node names and state keys last."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeLLM
from fixtures import compat
from fixtures.office import CONTACT, DRAFT, TRIAGE, Office
from fixtures.postgres import PostgresServer

from supportpilot.agent import graph as graphs
from supportpilot.agent.nodes import NODES
from supportpilot.agent.state import state_fields
from supportpilot.db.migrate import migrate
from supportpilot.db.pool import Database
from supportpilot.memory.checkpoint import checkpointer_over
from supportpilot.service import approval, ticket
from supportpilot.service.approval import Verdict

pytestmark = pytest.mark.integration

# Channels that langgraph itself makes.
INTERNAL = ("branch:to:", "__")


@pytest.fixture(params=compat.recordings(), ids=lambda path: path.stem)
def recorded(request: pytest.FixtureRequest) -> dict[str, Any]:
    path: Path = request.param
    return compat.read(path)


@pytest.fixture
def old_db(recorded: dict[str, Any], postgres_server: PostgresServer) -> Iterator[Database]:
    """A database as that release left it, brought up to date."""
    with postgres_server.clone("template0") as url:
        compat.load(recorded, url, migrate)
        with Database(url) as db:
            yield db


def office_of(db: Database, answer: str = DRAFT) -> Office:
    return Office(db, FakeLLM(TRIAGE, [], answer))


def decide(office: Office, ticket_id: str) -> None:
    (asked,) = [a for a in approval.list_approvals(office.db, "pending") if a.ticket_id == ticket_id]
    approval.decide(office.db, office.ports, asked.id, Verdict(approved=True, by="li"))


def test_there_is_a_recording() -> None:
    assert compat.recordings()


def test_every_stored_state_key_and_node_name_is_still_there(recorded: dict[str, Any]) -> None:
    channels = {row["channel"] for row in recorded["rows"]["public.checkpoint_blobs"]}
    channels |= {key for row in recorded["rows"]["public.checkpoints"] for key in row["checkpoint"]["channel_values"]}
    seen = {key for row in recorded["rows"]["public.checkpoints"] for key in row["checkpoint"]["versions_seen"]}
    nodes = {name.removeprefix("branch:to:") for name in channels if name.startswith("branch:to:")}
    nodes |= {name for name in seen if not name.startswith("__")}
    assert {"approval", "draft"} <= nodes
    assert nodes - {node.__name__ for node in NODES} == set(), "a node was renamed or removed"
    assert {name for name in channels if not name.startswith(INTERNAL)} - state_fields() == set(), "a state key is gone"


def test_a_finished_thread_is_shown_and_goes_on(recorded: dict[str, Any], old_db: Database) -> None:
    office, ticket_id = office_of(old_db, "入口在 设置 > 银行 [KB-bank-001]。"), recorded["threads"]["finished"]
    shown = ticket.show(old_db, office.settings, ticket_id)
    assert [[t["role"], t["content"]] for t in shown["turns"]] == recorded["said"]
    assert shown["status"] == "answered"
    office.write("还是找不到", ticket_id=ticket_id, contact="finished@example.com", message_id="new")
    assert office.work(ticket_id) == "resolved"
    assert [[t["role"], t["content"]] for t in office.thread(ticket_id)["turns"]][:-2] == recorded["said"]
    assert "入口在" in office.outbox(ticket_id)[-1][1]
    assert recorded["said"][0][1] in office.llm.asked("draft")[-1]


def test_a_waiting_thread_is_resumed_by_its_decision_and_pays_once(recorded: dict[str, Any], old_db: Database) -> None:
    office, ticket_id = office_of(old_db), recorded["threads"]["waiting"]
    assert office.status(ticket_id) == "waiting_approval"
    decide(office, ticket_id)
    assert office.work(ticket_id) == "resolved"
    assert office.work(ticket_id) == "nothing due, or somebody has it"
    refunds = office.rows("SELECT invoice_id, amount FROM biz.refunds")
    assert [(r["invoice_id"], r["amount"]) for r in refunds] == [("INV-1", Decimal("300.00"))]
    kinds = [kind for kind, _ in office.outbox(ticket_id)]
    assert kinds == ["notice", "reply"]
    assert "300.00" in office.outbox(ticket_id)[-1][1]
    assert office.status(ticket_id) == "answered"


def test_a_message_to_a_waiting_thread_is_held_until_the_decision(recorded: dict[str, Any], old_db: Database) -> None:
    office, ticket_id = office_of(old_db), recorded["threads"]["waiting"]
    office.write("多久到账?", ticket_id=ticket_id, contact=CONTACT, message_id="new")
    assert office.work(ticket_id) == "nothing due, or somebody has it"
    (asked,) = approval.list_approvals(old_db, "pending")
    approval.decide(old_db, office.ports, asked.id, Verdict(approved=False, by="li", seen_version=2))
    assert office.work(ticket_id) == "resolved; resolved"
    assert [kind for kind, _ in office.outbox(ticket_id)] == ["notice", "ack", "reply", "reply"]


def test_a_thread_left_in_mid_turn_is_finished_from_where_it_stood(recorded: dict[str, Any], old_db: Database) -> None:
    office, ticket_id = office_of(old_db), recorded["threads"]["mid_turn"]
    assert office.work(ticket_id) == "resolved"
    assert office.llm.asked("triage") == []
    assert office.roles(ticket_id) == ["customer", "agent"]
    assert [kind for kind, _ in office.outbox(ticket_id)] == ["reply"]
    row = office.one("SELECT status, crashes FROM desk.turns WHERE ticket_id = %s", ticket_id)
    assert (row["status"], row["crashes"]) == ("done", 1)


# what a rename would do -------------------------------------------------------------------------------

def rename(office: Office, old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the office a graph in which one node has another name."""
    class Renamed(graphs.StateGraph):  # type: ignore[type-arg, misc]
        def add_node(self, name: str, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
            return super().add_node(_name(name), *args, **kwargs)

        def add_edge(self, start: Any, end: str) -> Any:
            return super().add_edge(_name(start), _name(end))

        def add_conditional_edges(self, source: str, path: Any, path_map: Any = None) -> Any:  # type: ignore[override]
            return super().add_conditional_edges(_name(source), path, {name: _name(name) for name in path_map})

    def _name(name: str) -> str:
        return f"{name}_renamed" if name == old else name

    monkeypatch.setattr(graphs, "StateGraph", Renamed)
    office.rt = dataclasses.replace(office.rt, graph=graphs.build_graph(office.deps, checkpointer_over(office.db)))


def test_a_decision_whose_node_was_renamed_is_no_success(
        recorded: dict[str, Any], old_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    office, ticket_id = office_of(old_db), recorded["threads"]["waiting"]
    rename(office, "approval", monkeypatch)
    decide(office, ticket_id)
    assert "did not reach the conversation" in office.work(ticket_id)
    assert office.rows("SELECT 1 FROM biz.refunds") == []
    assert office.one("SELECT status FROM desk.turns WHERE ticket_id = %s", ticket_id)["status"] == "dead"
    assert office.one("SELECT applied_at FROM desk.approvals")["applied_at"] is None
    assert office.status(ticket_id) == "escalated"
    reason = office.one("SELECT handoff_reason FROM biz.tickets WHERE id = %s", ticket_id)["handoff_reason"]
    assert "A000001 (approved)" in reason
    assert "by hand" in reason
    assert [kind for kind, _ in office.outbox(ticket_id)] == ["notice", "handoff"]


def test_a_turn_whose_next_node_was_renamed_is_no_success(
        recorded: dict[str, Any], old_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    office, ticket_id = office_of(old_db), recorded["threads"]["mid_turn"]
    rename(office, "draft", monkeypatch)
    assert "ended before there was an answer" in office.work(ticket_id)
    assert office.status(ticket_id) == "escalated"
    assert [kind for kind, _ in office.outbox(ticket_id)] == ["handoff"]
    assert office.one("SELECT state FROM desk.inbox WHERE ticket_id = %s", ticket_id)["state"] == "dead"


def test_a_new_turn_whose_first_node_is_gone_does_not_pass_with_the_last_ones_outcome(
        recorded: dict[str, Any], old_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    office, ticket_id = office_of(old_db), recorded["threads"]["finished"]
    real = office.rt.graph.invoke
    monkeypatch.setattr(office.rt.graph, "invoke", lambda what, config, **kw: office.rt.graph.update_state(
        config, what, as_node="finalize") if isinstance(what, dict) else real(what, config, **kw))
    office.write("还是找不到", ticket_id=ticket_id, contact="finished@example.com", message_id="new")
    assert "ended before there was an answer" in office.work(ticket_id)
    assert office.status(ticket_id) == "escalated"
