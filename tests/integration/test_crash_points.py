"""A process dies at every boundary of a scenario, one after the other: nothing is lost, doubled, torn or stuck.

The boundaries are enumerated (`fixtures/crash/points.py` says which and what is left out): around each write and
commit, each node, each POST. A run that nobody kills names them, then a forked process plays the scenario once for
each name and ends itself there with SIGKILL; the sweeper alone brings the work back to a process that was not there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fixtures.crash.scenarios import SCENARIOS
from fixtures.postgres import PostgresServer

pytestmark = pytest.mark.integration

# What CI leaves out, to end in its 20 minutes: `held` holds every write of `park`; `make test` without CI runs all.
NOT_IN_CI = frozenset({"park", "closing", "expire", "overtaken"})

TESTS = Path(__file__).parent.parent
LANES = 2
LEAST = {"answer": 45, "park": 50, "held": 80, "give_up": 40, "closing": 50, "human": 60, "expire": 30, "overtaken": 45}
LONGEST = 500


def enumerate_points(server: PostgresServer, template: str, lanes: int = LANES, **order: Any) -> list[dict[str, Any]]:
    """Run the scenario's points in parallel lanes, each with a database of its own."""
    with ExitStack() as stack:
        urls = [stack.enter_context(server.clone(template)) for _ in range(lanes)]
        orders = [{**order, "url": url, "lane": i, "lanes": lanes} for i, url in enumerate(urls)]
        with ThreadPoolExecutor(lanes) as pool:
            return list(pool.map(run_lane, orders))


def run_lane(order: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", "fixtures.crash.lane", json.dumps(order)], cwd=TESTS, text=True,
                          capture_output=True, timeout=LONGEST, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def failures(reports: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {point: problems for report in reports for point, problems in report["failures"].items()}


@pytest.mark.timeout(LONGEST)
@pytest.mark.parametrize("scenario", [
    pytest.param(name, marks=pytest.mark.skipif(name in NOT_IN_CI and bool(os.environ.get("CI")), reason="not in CI: time"))
    for name in SCENARIOS])
def test_a_process_may_die_at_any_point_of(
        scenario: str, postgres_server: PostgresServer, migrated_template: str, record_property: Any) -> None:
    reports = enumerate_points(postgres_server, migrated_template, scenario=scenario)
    tried, seconds = sum(r["tried"] for r in reports), max(r["seconds"] for r in reports)
    record_property("crash_points", tried)
    print(f"{scenario}: died at {tried} points in {seconds} s")
    assert failures(reports) == {}
    assert len({frozenset(r["points"]) for r in reports}) == 1      # LangGraph's threads may change the order
    assert tried == len(reports[0]["points"]) >= LEAST[scenario]


@pytest.mark.timeout(LONGEST)
@pytest.mark.parametrize(("only", "wanted"), [
    ("desk.turns", {"before UPDATE desk.turns #1", "before UPDATE desk.turns #2", "before INSERT desk.turns #1",
                    "before UPDATE desk.turns #3"}),       # taken, replaced, made anew, done
    ("COMMIT", {f"{when} COMMIT #{n}" for when in ("before", "after") for n in (1, 2)}),     # of taking, of replacing
])
def test_a_process_may_die_around_each_write_of_a_turn_that_is_replaced(
        only: str, wanted: set[str], postgres_server: PostgresServer, migrated_template: str) -> None:
    reports = enumerate_points(postgres_server, migrated_template, scenario="overtaken", only=only)
    assert failures(reports) == {}
    passed = {p for p in reports[0]["points"] if only in p}
    assert wanted <= passed
    assert sum(r["tried"] for r in reports) == len(passed)


@pytest.mark.timeout(LONGEST)
@pytest.mark.parametrize(("scenario", "rule", "where", "what"), [
    ("answer", "replies_without_their_key", "after node finalize #1", "outbox: ['reply', 'reply'], not ['reply']"),
    ("held", "refunds_without_their_key", "after node approval #1", "refunds: 2, not 1"),
    ("answer", "messages_done_when_they_are_taken", "before INSERT desk.turns #1", "is in 0 turns"),
])
def test_the_enumeration_finds_a_broken_rule_and_names_the_place(
        scenario: str, rule: str, where: str, what: str, postgres_server: PostgresServer, migrated_template: str) -> None:
    report = enumerate_points(postgres_server, migrated_template, lanes=1, scenario=scenario, broken=rule, only=where)[0]
    assert "nobody killed" not in report["failures"]
    assert report["tried"] == 1
    assert what in " | ".join(report["failures"][where])
