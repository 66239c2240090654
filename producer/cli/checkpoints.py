"""`checkpoints prune/reset`: fewer snapshots of each conversation, or none at all."""

from __future__ import annotations

from typing import Annotated

import typer

from producer.cli.screen import print_json, say
from producer.cli.session import confirm, current_settings, open_database
from producer.cli.ticket import AsJson
from supportpilot.errors import Misconfigured
from supportpilot.memory.checkpoint import reset_checkpoints
from supportpilot.service import retention
from supportpilot.service.retention import Pruned

app = typer.Typer(help="The graph's snapshots in Postgres.", rich_markup_mode=None, no_args_is_help=False)
UNITS = ("bytes", "kB", "MB", "GB", "TB")


@app.callback()
def group() -> None:
    """Keep the commands below one name."""


@app.command()
def prune(
    ticket: Annotated[str | None, typer.Option(help="Only this ticket.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All tickets; so it is without --ticket too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete snapshots that nobody needs, as the worker does after each turn; safe while turns run.

    Open tickets keep all of an unfinished turn, the newest turn's steps, the end of the last turns and fewer of the
    older ones; tickets resolved for RETENTION_DAYS their last snapshot.
    """
    if ticket is not None and every:
        raise Misconfigured("--ticket or --all, not both")
    settings = current_settings()
    shown = Lines(dry_run=dry_run, quiet=as_json)
    with open_database(settings) as db:
        found = ([retention.prune(db, settings, ticket, dry_run=dry_run)] if ticket is not None
                 else retention.prune_all(db, settings, dry_run=dry_run))
        for one in found:
            shown.add(one)
    if as_json:
        print_json([{"ticket_id": one.ticket_id, "kept": one.left, "deleted": one.deleted.snapshots,
                     "bytes": one.deleted.bytes, "dry_run": dry_run} for one in shown.seen])
    else:
        shown.end()


class Lines:
    """Says what becomes of each ticket as soon as it has, and the sum at the end."""

    def __init__(self, *, dry_run: bool, quiet: bool) -> None:
        self.seen: list[Pruned] = []
        self._verb, self._quiet = "would delete" if dry_run else "deleted", quiet

    def add(self, one: Pruned) -> None:
        """Take in what became of a ticket."""
        self.seen.append(one)
        gone = one.deleted
        if gone.snapshots and not self._quiet:
            say(f"{one.ticket_id}: {self._verb} {gone.snapshots} of {gone.snapshots + one.left} snapshots, {size(gone.bytes)}")

    def end(self) -> None:
        """Say what became of all of them."""
        gone = [one.deleted for one in self.seen if one.deleted.snapshots]
        if gone:
            say(f"{self._verb} {sum(one.snapshots for one in gone)} snapshots of {len(gone)} tickets, "
                f"{size(sum(one.bytes for one in gone))}")
        else:
            say("nothing to prune")


def size(count: float) -> str:
    """Return a number of bytes for people."""
    unit = 0
    while count >= 1000 and unit < len(UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.0f} {UNITS[unit]}" if unit == 0 or count >= 10 else f"{count:.1f} {UNITS[unit]}"


@app.command()
def reset(yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Delete the snapshots of all tickets; conversations start again from nothing."""
    settings = current_settings()
    with open_database(settings) as db:
        confirm("The memory of every conversation is deleted.", yes=yes)
        count = reset_checkpoints(db.url)
    say(f"cleared {count} checkpoints")
