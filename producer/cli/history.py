"""`ticket history/replay`: a ticket's snapshots, and what would come out from one of them today."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated, Any

import typer
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from producer.cli.screen import console, line, moment, plain, print_json, safe, say
from producer.cli.session import current_settings, open_database
from producer.cli.ticket import AsJson, TicketId
from producer.cli.ticket_view import describe_request
from supportpilot.agent.deps import Deps
from supportpilot.service import history as service

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
    for (number, turn_id), rows in groupby(found, key=lambda row: (row["turn"], row["turn_id"])):
        table = _snapshot_table(f"turn {number} · {turn_id}")
        for row in rows:
            cells = (row["checkpoint_id"], row["step"], row["written_by"] or "-", ", ".join(row["next"]) or "(end)",
                     moment(row["at"]), f"{row['bytes'] or 0:,}")
            table.add_row(*(Text(line(cell)) for cell in cells))
        console().print(table)


def _snapshot_table(title: str) -> Table:
    table = Table(title=Text(safe(title)), title_justify="left", header_style="bold", box=None, padding=(0, 1))
    for heading in ("checkpoint", "step", "written by", "next", "time", "bytes"):
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
