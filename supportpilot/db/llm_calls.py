"""What every model call has cost; `desk.llm_calls` is the truth of all cost boards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Literal

from psycopg.types.json import Jsonb

from supportpilot.db.pool import Connection, Row
from supportpilot.types import LLMCall

By = Literal["ticket", "node", "model", "day"]


def record_call(conn: Connection, call: LLMCall) -> None:
    """Keep one paid call; one of an erased ticket is forgotten, however late its turn reports it.

    The ticket's row is locked, so a report and an erasure never pass each other unseen. What has no ticket (a
    profile, a script) is kept as it is.
    """
    conn.execute(
        """
        WITH owner AS (
            SELECT coalesce((SELECT f.ticket_id FROM desk.forks f WHERE f.thread_id = %(ticket)s), %(ticket)s) AS id
        ), held AS MATERIALIZED (
            SELECT t.id FROM biz.tickets t WHERE t.id = (SELECT id FROM owner) FOR KEY SHARE
        )
        INSERT INTO desk.llm_calls
            (ticket_id, turn_id, node, model, tokens_in, tokens_out, tokens_cached, parts, cost_cny, ms)
        SELECT %(ticket)s, %(turn)s, %(node)s, %(model)s, %(sent)s, %(received)s, %(cached)s, %(parts)s, %(cost)s, %(ms)s
        WHERE EXISTS (SELECT 1 FROM held)
           OR NOT EXISTS (SELECT 1 FROM biz.tickets t WHERE t.id = (SELECT id FROM owner)
                          UNION ALL SELECT 1 FROM desk.erased_tickets e WHERE e.thread_id = %(ticket)s)
        """,
        {"ticket": call.ticket_id, "turn": call.turn_id, "node": call.node, "model": call.model, "sent": call.tokens_in,
         "received": call.tokens_out, "cached": call.tokens_cached, "parts": Jsonb(call.parts), "cost": call.cost_cny,
         "ms": call.ms})


def answered_since_failure(conn: Connection, model: str, turn_id: str) -> bool:
    """Say whether the model has answered anybody since the turn's last failure (or since the turn was made)."""
    row = conn.execute(
        """
        SELECT (SELECT created_at FROM desk.llm_calls WHERE model = %s ORDER BY id DESC LIMIT 1)
               > coalesce(failed_at, created_at) AS answered
        FROM desk.turns WHERE turn_id = %s
        """, (model, turn_id)).fetchone()
    return bool(row and row["answered"])


def cost_of_ticket(conn: Connection, ticket_id: str) -> Decimal:
    """Return what a ticket has cost so far in CNY, calls repeated after a crash included."""
    row = conn.execute(
        "SELECT coalesce(sum(cost_cny), 0) AS cost FROM desk.llm_calls WHERE ticket_id = %s", (ticket_id,)
    ).fetchone()
    return Decimal(row["cost"]) if row else Decimal(0)


def costs(conn: Connection, by: By) -> list[Row]:
    """Return calls, tokens and cost by ticket, node, model or day (UTC), dearest first; `key` is None outside a turn."""
    return conn.execute(
        "SELECT CASE %(by)s WHEN 'ticket' THEN ticket_id WHEN 'node' THEN node WHEN 'model' THEN model"
        " ELSE to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') END AS key,"
        " count(*) AS calls, sum(tokens_in) AS tokens_in, sum(tokens_out) AS tokens_out,"
        " sum(tokens_cached) AS tokens_cached, sum(cost_cny) AS cost_cny, sum(ms) AS ms"
        " FROM desk.llm_calls GROUP BY 1 ORDER BY cost_cny DESC, key",
        {"by": by},
    ).fetchall()


def costs_by_part(conn: Connection, prices: Mapping[str, Sequence[Decimal]]) -> list[Row]:
    """Return calls, tokens and cost by what the tokens came from; `output` is what the models wrote.

    A call's cost is shared out by the prices of its input and output, the input's share by tokens: cost and tokens
    come as fractions. A call without parts is all `other`.
    """
    return conn.execute(
        """
        WITH priced AS (
            SELECT c.id, c.tokens_in, c.tokens_out, c.cost_cny,
                   coalesce(c.tokens_cached * (p.price ->> 1)::numeric
                            + greatest(0, c.tokens_in - c.tokens_cached) * (p.price ->> 0)::numeric, c.tokens_in) AS sent,
                   coalesce(c.tokens_out * (p.price ->> 2)::numeric, c.tokens_out) AS received,
                   CASE WHEN e.total > 0 THEN c.parts ELSE '{"other": 1}' END AS parts,
                   CASE WHEN e.total > 0 THEN e.total ELSE 1 END AS total
            FROM desk.llm_calls c
            CROSS JOIN LATERAL (SELECT sum(value::numeric) AS total FROM jsonb_each_text(c.parts)) AS e
            CROSS JOIN LATERAL (SELECT coalesce(%(prices)s::jsonb -> c.model, %(prices)s::jsonb -> 'default') AS price) AS p
        ), split AS (
            SELECT *, CASE WHEN sent + received > 0 THEN cost_cny * sent / (sent + received) ELSE cost_cny END AS cost_in
            FROM priced
        ), shares AS (
            SELECT id, key, tokens_in * value::numeric / total AS sent, 0 AS received, cost_in * value::numeric / total AS cost
            FROM split CROSS JOIN LATERAL jsonb_each_text(parts)
            UNION ALL
            SELECT id, 'output', 0, tokens_out, cost_cny - cost_in FROM split WHERE tokens_out > 0
        )
        SELECT key, count(DISTINCT id) AS calls, sum(sent) AS tokens_in, sum(received) AS tokens_out, sum(cost) AS cost_cny
        FROM shares GROUP BY key ORDER BY cost_cny DESC, key
        """,
        {"prices": Jsonb({model: [str(price) for price in row] for model, row in prices.items()})},
    ).fetchall()
