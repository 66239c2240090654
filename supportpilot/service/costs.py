"""The cost board: what all model calls have cost, by what one wants to see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

from supportpilot.config import Settings
from supportpilot.db import forks, llm_calls
from supportpilot.db.pool import Database, Row
from supportpilot.llm.usage import apportion

CostsBy = Literal["ticket", "node", "day", "model", "part"]

# Sections of the prompts that are there because the agent remembers: the three memories, and what makes them.
MEMORY_PARTS = frozenset({"profile", "ledger", "summary", "recall", "recent", "facts", "previous_summary", "transcript"})
DECIMALS = 8    # as desk.llm_calls stores a cost


def board(db: Database, settings: Settings, by: CostsBy) -> list[dict[str, Any]]:
    """Return calls, tokens, cost and its share of the whole: days in order, all others dearest first.

    Costs are in CNY and sum to what the calls have cost, tokens to what the providers counted. A replay is a ticket
    of its own; `fork_of` names the one it replayed.
    """
    with db.connection() as conn:
        if by == "part":
            return _shared(_whole_units(llm_calls.costs_by_part(conn, settings.llm_prices)))
        found = llm_calls.costs(conn, by)
        if by == "ticket":
            origins = forks.tickets_of(conn, [row["key"] for row in found if row["key"]])
            found = [{**row, "fork_of": origins.get(row["key"])} for row in found]
    return _shared(sorted(found, key=lambda row: str(row["key"])) if by == "day" else found)


def _whole_units(rows: Sequence[Row]) -> list[Row]:
    """Round the fractions of the parts so that their sums stay what they were."""
    costs, sent = _apportioned(rows, "cost_cny", DECIMALS), _apportioned(rows, "tokens_in", 0)
    return [{**row, "cost_cny": costs[row["key"]], "tokens_in": int(sent[row["key"]]), "memory": row["key"] in MEMORY_PARTS}
            for row in rows]


def _apportioned(rows: Sequence[Row], column: str, decimals: int) -> Mapping[str, Decimal]:
    weights = {row["key"]: Decimal(row[column]) for row in rows}
    units = apportion(weights, int(sum(weights.values(), Decimal(0)).scaleb(decimals).to_integral_value()))
    return {key: Decimal(units.get(key, 0)).scaleb(-decimals) for key in weights}


def _shared(rows: Sequence[Row]) -> list[dict[str, Any]]:
    total = sum((row["cost_cny"] for row in rows), Decimal(0))
    return [{**row, "share": (row["cost_cny"] / total if total else Decimal(0)).quantize(Decimal("0.0001"))} for row in rows]
