"""`checkpoints reset`: forget every conversation's snapshots."""

from __future__ import annotations

from typing import Annotated

import typer

from producer.cli.screen import say
from producer.cli.session import confirm, current_settings, open_database
from supportpilot.memory.checkpoint import reset_checkpoints

app = typer.Typer(help="The graph's snapshots in Postgres.", rich_markup_mode=None, no_args_is_help=False)


@app.callback()
def group() -> None:
    """Keep `reset` a command of its own although it is the only one."""


@app.command()
def reset(yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Delete the snapshots of all tickets; conversations start again from nothing."""
    settings = current_settings()
    with open_database(settings) as db:
        confirm("The memory of every conversation is deleted.", yes=yes)
        count = reset_checkpoints(db.url)
    say(f"cleared {count} checkpoints")
