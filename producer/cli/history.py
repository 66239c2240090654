"""`ticket history/replay`: a ticket's snapshots, and what would come out from one of them today."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated, Any

import typer
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from producer.cli.screen import console, line, print_json, safe, say
from producer.cli.session import current_settings, open_database
from producer.cli.ticket import AsJson, TicketId
from producer.cli.ticket_view import describe_request
from producer.plain import plain
from supportpilot.agent.deps import Deps
from supportpilot.service import history as service

COLUMNS = ("checkpoint", "step", "written by", "next", "time", "bytes")
# What wrote a snapshot is what comes next in the line below it.
LEFT_OUT, WIDE = ("step", "written by"), 110
DIFF_STYLES = {"-": "red", "+": "green"}


def history(ticket: TicketId, as_json: AsJson = False) -> None:
    """List a ticket's snapshots, newest first: each can be replayed."""
    settings = current_settings()
    with open_database(settings) as db:
        found = service.history(db, Deps.over(db, settings), ticket)
    if as_json:
        print_json(found)
    elif found:
        _print_snapshots(found)
    else:
        say("snapshots: none")


def replay(
    ticket: TicketId,
    checkpoint: Annotated[str, typer.Option(help="Snapshot to start from, as `ticket history` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Run a ticket again from a snapshot, in a fork: sends nothing, changes nothing, pays for itself."""
    settings = current_settings()
    with open_database(settings) as db:
        deps = Deps.over(db, settings)
        try:
            found = service.replay(db, deps, ticket, checkpoint)
        finally:
            deps.close()
    if as_json:
        print_json(found)
    else:
        _print(plain(found))


def _print_snapshots(found: list[dict[str, Any]]) -> None:
    columns = [name for name in COLUMNS if name not in LEFT_OUT or console().width >= WIDE]
    for (number, turn_id), rows in groupby(found, key=lambda row: (row["turn"], row["turn_id"])):
        snapshots = list(rows)
        table = _snapshot_table(f"turn {number} · {turn_id} · {snapshots[-1]['at'][:10]}", columns)
        for row in snapshots:
            cells = _cells(row)
            table.add_row(*(Text(line(cells[name])) for name in columns))
        console().print(table)


def _cells(row: dict[str, Any]) -> dict[str, object]:
    return {"checkpoint": row["checkpoint_id"], "step": row["step"], "written by": row["written_by"] or "-",
            "next": ", ".join(row["next"]) or "(end)", "time": f"{row['at'][11:19]}Z", "bytes": f"{row['bytes'] or 0:,}"}


def _snapshot_table(title: str, columns: list[str]) -> Table:
    table = Table(title=Text(safe(title)), title_justify="left", header_style="bold", box=None, padding=(0, 1))
    for heading in columns:
        # An id that is broken over two lines cannot be copied.
        table.add_column(heading, no_wrap=heading == "checkpoint", overflow="fold",
                         justify="right" if heading in ("step", "bytes") else "left")
    return table


def _print(found: dict[str, Any]) -> None:
    screen = console()
    then = found["original"]
    screen.print(Panel(Text(safe(found["reply"]) or "(no reply)"), title=Text(f"replayed: {found['outcome']}"), title_align="left"))
    if found["request"]:
        screen.print(Text(f"stops here: {describe_request(found['request'])}; nobody is asked"))
    if found["same"]:
        screen.print(Text(f"the same as then: {safe(then['outcome'])}", style="green"))
    else:
        title = f"then {safe(then['outcome'] or 'unfinished')} (-) · now {found['outcome']} (+)"
        screen.print(Panel(_diff(found["diff"]), title=Text(title), title_align="left", border_style="dim"))
    say(f"{found['fork']} · {' > '.join(found['steps']) or 'nothing was left to run'} · cost ¥{float(found['cost_cny']):.6f}")


def _diff(lines: list[str]) -> Text:
    return Text("\n").join(Text(safe(text), style=DIFF_STYLES.get(text[:1], "dim")) for text in lines)
