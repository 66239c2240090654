"""`costs`: what the model calls have cost, as a table with bars."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from producer.cli.screen import console, line, print_json, say
from producer.cli.session import current_settings, open_database
from producer.cli.ticket import AsJson
from supportpilot.service.costs import CostsBy, board

BAR_CHARS = (8, 24)     # in a narrow and in a wide terminal
OTHER_CHARS = 72        # of all other columns
KEY_CHARS = 22
OUTSIDE = "(outside a turn)"


def costs(
    by: Annotated[CostsBy, typer.Option(help="What to add up by; `part`: what the tokens came from.")] = "ticket",
    limit: Annotated[int, typer.Option(min=1, help="Lines shown; the total is always of all.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Show what the model calls have cost in CNY."""
    settings = current_settings()
    with open_database(settings) as db:
        rows = board(db, settings, by)
    if as_json:
        print_json(rows)
    elif rows:
        _print(by, rows, limit)
    else:
        say(f"costs by {by}: none")


def _print(by: str, rows: list[dict[str, Any]], limit: int) -> None:
    shown = rows[-limit:] if by == "day" else rows[:limit]
    dearest, bars = max(row["cost_cny"] for row in rows), _bars()
    table = _table(by, rows)
    for row in shown:
        table.add_row(Text(_key(row)), f"{row['tokens_in']:,}", f"{row['tokens_out']:,}", _money(row["cost_cny"]),
                      f"{row['share']:.1%}", Text(bars(row["cost_cny"], dearest), style="cyan"))
    console().print(table)
    if len(shown) < len(rows):
        say(f"{len(rows) - len(shown)} more; see them with --limit or --json")
    if by == "part":
        memory, total = (sum((row["cost_cny"] for row in found), Decimal(0))
                         for found in ([row for row in rows if row["memory"]], rows))
        say(f"memory (profile, ledger, summary, recalled and earlier entries, and what makes them) cost {_money(memory)}: "
            f"{memory / total if total else 0:.1%} of all")


def _table(by: str, rows: list[dict[str, Any]]) -> Table:
    sent, received, cost = (sum(row[name] for row in rows) for name in ("tokens_in", "tokens_out", "cost_cny"))
    table = Table(title=f"costs by {by}", title_justify="left", header_style="bold", show_footer=True, box=SIMPLE, pad_edge=False)
    table.add_column(by, "total", overflow="fold", min_width=min(KEY_CHARS, max(len(_key(row)) for row in rows)))
    for heading, footer in (("tokens in", f"{sent:,}"), ("tokens out", f"{received:,}"), ("CNY", _money(cost)), ("share", "")):
        table.add_column(heading, footer, no_wrap=True, justify="right")
    table.add_column("", no_wrap=True)
    return table


def _key(row: dict[str, Any]) -> str:
    if row.get("fork_of"):
        return line(f"{row['fork_of']} fork {row['key'].removeprefix('fork:')[:8]}")
    return line(row["key"] or OUTSIDE)


def _money(amount: Decimal) -> str:
    return f"¥{amount:,.6f}"


def _bars() -> Callable[[Decimal, Decimal], str]:
    screen = console()
    longest = min(max(screen.width - OTHER_CHARS, BAR_CHARS[0]), BAR_CHARS[1])
    block = "█" if screen.encoding.startswith("utf") else "#"
    return lambda value, most: block * (round(longest * value / most) if most else 0)
