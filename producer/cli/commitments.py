"""`commitments …`: what replies have promised, what is overdue, and that a promise was kept or dropped."""

from __future__ import annotations

from typing import Annotated

import typer

from producer.cli.screen import print_json, print_table, say
from producer.cli.session import current_settings, open_database
from supportpilot.errors import Misconfigured
from supportpilot.service import commitments as service

app = typer.Typer(invoke_without_command=True, help="What replies have promised: list them, see what is overdue, mark them kept or dropped.")

COLUMNS = [("id", "id"), ("ticket", "ticket_id"), ("state", "state"), ("due", "due_at"), ("promise", "text"), ("closed by", "closed_by")]


@app.callback()
def list_(
    context: typer.Context,
    overdue: Annotated[bool, typer.Option("--overdue", help="Only those whose time is up.")] = False,
    ticket: Annotated[str | None, typer.Option(help="All of one ticket, kept ones too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the open promises, the earliest due first; `done` marks one kept, `drop` takes one back."""
    if context.invoked_subcommand is not None:
        return
    with open_database(current_settings()) as db:
        rows = service.list_commitments(db, ticket_id=ticket, overdue=overdue)
    if as_json:
        print_json(rows)
    else:
        print_table("commitments", COLUMNS, rows)


@app.command()
def done(
    commitment: Annotated[str, typer.Argument(help="Id of a promise, e.g. P000003.")],
    by: Annotated[str, typer.Option(help="Your name, for the record.")],
) -> None:
    """Mark a promise kept."""
    _named(by)
    with open_database(current_settings()) as db:
        was = service.done(db, commitment, by.strip())
    say(f"{commitment} was {was} already" if was else f"{commitment} is kept")


@app.command()
def drop(
    commitment: Annotated[str, typer.Argument(help="Id of a promise, e.g. P000003.")],
    by: Annotated[str, typer.Option(help="Your name, for the record.")],
    reason: Annotated[str, typer.Option(help="Why it does not hold, for the record.")],
) -> None:
    """Drop what is no promise, or what nobody needs any more."""
    _named(by)
    if not reason.strip():
        raise Misconfigured("--reason must say why")
    with open_database(current_settings()) as db:
        was = service.drop(db, commitment, by.strip(), reason.strip())
    say(f"{commitment} was {was} already" if was else f"{commitment} is dropped")


def _named(by: str) -> None:
    if not by.strip():
        raise Misconfigured("--by must be a name")
