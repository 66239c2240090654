"""The cost board's table."""

from __future__ import annotations

from decimal import Decimal

import pytest

from supportpilot.db.llm_calls import cost_of_ticket, record_call
from supportpilot.db.pool import Connection
from supportpilot.types import LLMCall

pytestmark = pytest.mark.integration


def call(ticket: str | None, cost: str, node: str = "draft") -> LLMCall:
    return LLMCall("offline-rules", 100, 20, 10, Decimal(cost), 5, ticket, "turn-1", node, {"newest": 40})


def test_a_ticket_costs_the_sum_of_its_calls_and_nothing_of_its_neighbours(conn: Connection) -> None:
    for one in (call("T000001", "0.00000012"), call("T000001", "0.5"), call("T000002", "7")):
        record_call(conn, one)
    assert cost_of_ticket(conn, "T000001") == Decimal("0.50000012")
    assert cost_of_ticket(conn, "T000009") == 0


def test_the_parts_of_a_prompt_are_kept(conn: Connection) -> None:
    record_call(conn, call(None, "1"))
    row = conn.execute("SELECT parts, ticket_id FROM desk.llm_calls").fetchone()
    assert row == {"parts": {"newest": 40}, "ticket_id": None}
