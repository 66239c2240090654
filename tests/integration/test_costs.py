"""The cost board: every view of it sums to what the calls have cost."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from fixtures.llm import OfflineLLM

from producer.cli.main import run
from supportpilot.config import Settings, get_settings
from supportpilot.db.llm_calls import record_call
from supportpilot.db.pool import Connection, Database
from supportpilot.llm.client import LLMClient
from supportpilot.service.costs import board
from supportpilot.types import LLMCall

pytestmark = pytest.mark.integration
PRICES = {"big": (Decimal(2), Decimal(1), Decimal(8)), "default": (Decimal(1), Decimal(1), Decimal(1))}


@pytest.fixture
def settings() -> Settings:
    return Settings(llm_prices=PRICES)


def pay(conn: Connection, cost: str, model: str = "big", ticket: str | None = "T000001", node: str | None = "draft",
        tokens: tuple[int, int, int] = (100, 25, 0), **parts: int) -> None:
    sent, received, cached = tokens
    record_call(conn, LLMCall(model=model, tokens_in=sent, tokens_out=received, tokens_cached=cached, parts=parts,
                              cost_cny=Decimal(cost), ms=1, ticket_id=ticket, turn_id="t", node=node))


@pytest.fixture
def several(conn: Connection) -> Decimal:
    """Calls of two tickets, a fork and nobody on two days; their sum."""
    pay(conn, "0.00000007", articles=1, newest=1, instructions=1, tokens=(3, 7, 0))
    pay(conn, "0.5", model="small", node="classify", profile=50, newest=50)
    pay(conn, "0.25", ticket="T000002", summary=30, recent=70, tokens=(100, 0, 40))
    pay(conn, "0.125", ticket="fork:1", tools=99, other=1)
    pay(conn, "0.00000001", ticket=None, node=None)
    conn.execute("UPDATE desk.llm_calls SET created_at = '2026-11-30T23:59:59Z' WHERE ticket_id = 'T000002'")
    return Decimal("0.87500008")


@pytest.mark.parametrize("by", ["ticket", "node", "day", "model", "part"])
def test_every_view_sums_to_what_the_calls_have_cost(db: Database, settings: Settings, several: Decimal, by: str) -> None:
    rows = board(db, settings, by)
    assert sum(row["cost_cny"] for row in rows) == several
    assert sum(row["tokens_in"] for row in rows) == 403
    assert sum(row["tokens_out"] for row in rows) == 82
    assert sum(row["share"] for row in rows) == pytest.approx(1, abs=0.001)


def test_tickets_forks_and_calls_of_nobody_have_a_line_each_dearest_first(db: Database, settings: Settings, several: Decimal) -> None:
    assert [(row["key"], row["cost_cny"]) for row in board(db, settings, "ticket")] == [
        ("T000001", Decimal("0.50000007")), ("T000002", Decimal("0.25")), ("fork:1", Decimal("0.125")),
        (None, Decimal("0.00000001"))]


def test_days_are_utc_and_in_order(db: Database, settings: Settings, several: Decimal) -> None:
    days = [row["key"] for row in board(db, settings, "day")]
    assert days[0] == "2026-11-30"
    assert days == sorted(days)
    assert len(days) == 2


def test_a_call_is_shared_out_by_the_prices_of_input_and_output(db: Database, conn: Connection, settings: Settings) -> None:
    pay(conn, "0.0004", profile=25, newest=75)      # 100 at 2 and 25 at 8: half of it is input
    found = {row["key"]: (row["tokens_in"], row["tokens_out"], row["cost_cny"]) for row in board(db, settings, "part")}
    assert found == {"output": (0, 25, Decimal("0.0002")), "newest": (75, 0, Decimal("0.00015")),
                     "profile": (25, 0, Decimal("0.00005"))}


def test_a_call_whose_prices_have_changed_keeps_its_cost(db: Database, conn: Connection) -> None:
    pay(conn, "0.0004", profile=100)
    dear = Settings(llm_prices={"default": (Decimal(50), Decimal(50), Decimal(50))})
    assert sum(row["cost_cny"] for row in board(db, dear, "part")) == Decimal("0.0004")


def test_calls_without_parts_without_output_and_for_nothing_are_shared_out_too(
        db: Database, conn: Connection, settings: Settings) -> None:
    pay(conn, "0.1", tokens=(10, 0, 0))
    pay(conn, "0", tokens=(0, 0, 0))
    free = Settings(llm_prices={"default": (Decimal(0), Decimal(0), Decimal(0))})
    for prices in (settings, free):
        assert [(row["key"], row["tokens_in"], row["cost_cny"]) for row in board(db, prices, "part")] == [
            ("other", 10, Decimal("0.1"))]


def test_parts_are_scaled_to_what_the_provider_counted(offline_llm: OfflineLLM) -> None:
    calls: list[LLMCall] = []
    llm = LLMClient(offline_llm.settings(), report=calls.append)
    tool = {"type": "function", "function": {"name": "list_invoices", "parameters": {"type": "object", "properties": {}}}}
    user = '<section name="profile">\n专业版\n</section>\n<section name="newest">\nE3001\n</section>'
    llm.chat([{"role": "system", "content": "[task:act]"}, {"role": "user", "content": user}], tools=[tool])
    llm.close()
    assert set(calls[0].parts) == {"instructions", "profile", "newest", "tools"}
    assert sum(calls[0].parts.values()) == calls[0].tokens_in


# the command line

@pytest.fixture
def configured(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    get_settings.cache_clear()


def test_the_board_has_bars_a_total_and_what_memory_costs(
        several: Decimal, configured: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["costs", "--by", "part"]) == 0
    out = capsys.readouterr().out
    assert "█" in out
    assert "total" in out
    assert "¥0.875000" in out
    assert "memory" in out


def test_the_board_shows_the_dearest_and_says_how_many_more(
        several: Decimal, configured: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["costs", "--limit", "1"]) == 0
    out = capsys.readouterr().out
    assert "T000001" in out
    assert "T000002" not in out
    assert "3 more" in out
    assert "¥0.875000" in out


def test_an_empty_board_is_a_word_and_an_empty_list(configured: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["costs"]) == 0
    assert capsys.readouterr().out == "costs by ticket: none\n"
    assert run(["costs", "--by", "part", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_an_unknown_view_is_wrong_usage(configured: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["costs", "--by", "moon"]) == 2
    assert "--by" in capsys.readouterr().err
