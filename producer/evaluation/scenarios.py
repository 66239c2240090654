"""Scenarios with gold facts, read from data; each is judged by what the view, the reply and the database hold at its end."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from producer.evaluation.bench import opened
from supportpilot.config import Settings
from supportpilot.errors import SupportPilotError


@dataclass(frozen=True)
class Gold:
    """One fact: `place` has to match `has`, and must not match `lacks` (regular expressions; one of the two is given)."""

    fact: str
    place: str
    has: str = ""
    lacks: str = ""

    def holds(self, text: str) -> bool:
        """Say whether a text has, or lacks, what it should."""
        if self.has:
            return re.search(self.has, text, re.DOTALL) is not None
        return re.search(self.lacks, text, re.DOTALL) is None


@dataclass(frozen=True)
class Scenario:
    """What one customer and the desk do, and the facts that hold afterwards; `budget` replaces CONTEXT_BUDGET_TOKENS."""

    name: str
    about: str
    customer: str
    steps: Sequence[Mapping[str, Any]]
    gold: Sequence[Gold]
    budget: int | None = None


@dataclass(frozen=True)
class Missed:
    """A fact that did not hold, and what stood in its place."""

    fact: str
    place: str
    found: str


@dataclass(frozen=True)
class Result:
    """How a scenario ended; `error` is the line of a failure that stopped it."""

    name: str
    about: str
    facts: int
    missed: Sequence[Missed]
    error: str = ""

    @property
    def passed(self) -> bool:
        """Whether every fact held."""
        return not self.missed and not self.error


def scenarios() -> list[Scenario]:
    """Return all scenarios of the package's data."""
    rows = json.loads((files("producer.evaluation") / "memory.json").read_text(encoding="utf-8"))
    return [Scenario(row["name"], row["about"], row["customer"], row["steps"], [
        Gold(gold["fact"], gold["in"], gold.get("has", ""), gold.get("lacks", "")) for gold in row["gold"]], row.get("budget")) for row in rows]


def run(scenario: Scenario, settings: Settings) -> Result:
    """Play a scenario on the database of `settings` and judge it; what a model or a service fails with is its result."""
    own = settings if scenario.budget is None else settings.model_copy(update={"context_budget_tokens": scenario.budget})
    try:
        with opened(own, scenario.customer) as bench:
            for step in scenario.steps:
                bench.do(step)
            places = bench.places()
    except SupportPilotError as error:
        return Result(scenario.name, scenario.about, len(scenario.gold), [], str(error) or type(error).__name__)
    missed = [Missed(gold.fact, gold.place, places[gold.place]) for gold in scenario.gold if not gold.holds(places[gold.place])]
    return Result(scenario.name, scenario.about, len(scenario.gold), missed)
