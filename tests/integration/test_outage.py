"""An hour without a model: nobody is given up, and afterwards everybody is answered."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from fakes import FakeLLM
from fixtures.office import DRAFT, TRIAGE, Office

from supportpilot.db.llm_calls import record_call
from supportpilot.db.pool import Database
from supportpilot.errors import Unavailable
from supportpilot.llm.client import LLMClient
from supportpilot.llm.retrying import ProviderTrouble
from supportpilot.types import LLMCall

if TYPE_CHECKING:
    from fixtures.llm import OfflineLLM

PROCESSES, TICKETS, ROUNDS = 6, 8, 20


def office_of(db: Database, model: OfflineLLM) -> Office:
    """One process: its own client, so its own breaker."""
    made = Office(db)

    def report(call: LLMCall) -> None:
        with db.transaction() as conn:
            record_call(conn, call)

    settings = model.settings(llm_max_retries=0, llm_timeout_seconds=0.5)
    made.deps.llm = LLMClient(settings, report=report)
    made.deps.small_llm = LLMClient(settings, model="offline-rules-small", report=report)
    return made


@pytest.mark.parametrize("trouble", ["500", "429", "cut", "timeout"])
def test_in_an_outage_of_a_model_no_ticket_uses_up_its_attempts_and_afterwards_all_are_answered(
    db: Database, offline_llm: OfflineLLM, trouble: str,
) -> None:
    offices = [office_of(db, offline_llm) for _ in range(PROCESSES)]
    tickets = [offices[0].write("E3001 怎么办", contact=f"c{n}@example.com").ticket_id for n in range(TICKETS)]
    offline_llm.control(error=trouble, times=100_000)
    for _ in range(ROUNDS):     # each round is a time at which every ticket's turn is due
        for number, ticket_id in enumerate(tickets):
            offices[number % PROCESSES].work(ticket_id)
        tickets = tickets[1:] + tickets[:1]     # the next round another process has it
        db_now_due(offices[0])

    worst = offices[0].one("SELECT max(attempts) AS attempts, max(setbacks) AS setbacks FROM desk.turns")
    assert worst["attempts"] <= 1
    assert worst["setbacks"] > 5
    asked = len(offline_llm.requests())
    assert asked < TICKETS * ROUNDS, "the breaker left the model alone"

    offline_llm.reset()
    for made in offices:
        for client in (made.deps.llm, made.deps.small_llm):
            client._breaker._closed_until_probe = None      # the rest of 30 s is over
    for ticket_id in tickets:
        db_now_due(offices[0])
        offices[0].work(ticket_id)
    assert {offices[0].status(t) for t in tickets} == {"answered"}
    assert all(len(offices[0].outbox(t)) == 1 for t in tickets)


def db_now_due(office: Office) -> None:
    office.execute("UPDATE desk.turns SET next_attempt_at = clock_timestamp() WHERE status = 'running'")


def test_uncounted_failures_wait_longer_each_time_up_to_a_minute(db: Database) -> None:
    office = Office(db, FakeLLM(TRIAGE, [], DRAFT, fail={"triage": Unavailable("503")}))
    ticket_id = office.write("您好").ticket_id
    waits = []
    for _ in range(6):
        office.work(ticket_id)
        waits.append(office.one("SELECT extract(epoch FROM next_attempt_at - failed_at)::float AS wait FROM desk.turns")["wait"])
        db_now_due(office)
    assert [round(w) for w in waits] == [5, 10, 20, 40, 60, 60]


def test_a_message_that_alone_makes_a_working_model_fail_is_given_up_at_the_bound(db: Database, offline_llm: OfflineLLM) -> None:
    office = office_of(db, offline_llm)
    poison = Office(db, FakeLLM(TRIAGE, [], DRAFT, fail={"triage": _trouble("offline-rules-small")}))
    ticket_id = office.write("怪信").ticket_id
    for number in range(poison.settings.max_attempts + 1):      # at the first nobody has been answered yet
        other = office.write("E3001 怎么办", contact=f"o{number}@example.com").ticket_id
        office.work(other)      # the same model answers somebody else
        poison.work(ticket_id)
        db_now_due(office)
    assert office.status(ticket_id) == "escalated"
    assert [kind for kind, _ in office.outbox(ticket_id)] == ["handoff"]


def _trouble(model: str) -> ProviderTrouble:
    trouble = ProviderTrouble("500")
    trouble.model = model
    return trouble


def test_the_answer_of_another_model_does_not_count_against_a_turn(db: Database) -> None:
    office = Office(db, FakeLLM(TRIAGE, [], DRAFT, fail={"triage": _trouble("gold")}))
    ticket_id = office.write("您好").ticket_id
    for _ in range(7):
        with db.transaction() as conn:
            record_call(conn, LLMCall("silver", 1, 1, 0, Decimal(0), 1))
        office.work(ticket_id)
        db_now_due(office)
    assert office.one("SELECT attempts, status FROM desk.turns") == {"attempts": 0, "status": "running"}
    office.llm.fail.clear()
    office.work(ticket_id)
    assert office.status(ticket_id) == "answered"


def test_a_call_paid_twice_is_counted_twice_and_answers_once(db: Database, offline_llm: OfflineLLM) -> None:
    dying, second = office_of(db, offline_llm), office_of(db, offline_llm)
    asked = dying.deps.llm.chat

    def paid_and_killed(*args: Any, **options: Any) -> Any:
        asked(*args, **options)
        raise KeyboardInterrupt

    dying.deps.llm.chat = paid_and_killed  # type: ignore[method-assign]
    ticket_id = dying.write("E3001 怎么办").ticket_id
    with pytest.raises(KeyboardInterrupt):
        dying.work(ticket_id)
    dying.execute("UPDATE desk.leases SET expires_at = clock_timestamp() - interval '1 s'")
    assert second.work(ticket_id) == "resolved"
    drafts = second.one("SELECT count(*) AS n, count(DISTINCT turn_id) AS turns FROM desk.llm_calls WHERE node = 'draft'")
    assert drafts == {"n": 2, "turns": 1}
    assert len(second.outbox(ticket_id)) == 1
