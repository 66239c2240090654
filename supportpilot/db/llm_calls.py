"""What every model call has cost; `desk.llm_calls` is the truth of all cost boards."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from psycopg.types.json import Jsonb

from supportpilot.db.pool import Connection, Row
from supportpilot.types import LLMCall

By = Literal["ticket", "node", "model"]


def record_call(conn: Connection, call: LLMCall) -> None:
    """Keep one paid call."""
    conn.execute(
        "INSERT INTO desk.llm_calls"
        " (ticket_id, turn_id, node, model, tokens_in, tokens_out, tokens_cached, parts, cost_cny, ms)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (call.ticket_id, call.turn_id, call.node, call.model, call.tokens_in, call.tokens_out, call.tokens_cached,
         Jsonb(call.parts), call.cost_cny, call.ms),
    )


def cost_of_ticket(conn: Connection, ticket_id: str) -> Decimal:
    """Return what a ticket has cost so far in CNY, calls repeated after a crash included."""
    row = conn.execute(
        "SELECT coalesce(sum(cost_cny), 0) AS cost FROM desk.llm_calls WHERE ticket_id = %s", (ticket_id,)
    ).fetchone()
    return Decimal(row["cost"]) if row else Decimal(0)


def costs(conn: Connection, by: By) -> list[Row]:
    """Return calls, tokens and cost by ticket, node or model, dearest first; `key` is None outside a turn."""
    return conn.execute(
        "SELECT CASE %(by)s WHEN 'ticket' THEN ticket_id WHEN 'node' THEN node ELSE model END AS key,"
        " count(*) AS calls, sum(tokens_in) AS tokens_in, sum(tokens_out) AS tokens_out,"
        " sum(tokens_cached) AS tokens_cached, sum(cost_cny) AS cost_cny, sum(ms) AS ms"
        " FROM desk.llm_calls GROUP BY 1 ORDER BY cost_cny DESC, key",
        {"by": by},
    ).fetchall()
