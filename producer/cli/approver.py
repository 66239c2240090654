"""`approver add/revoke/list`: who may log in to the pages, use the API, and decide."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from producer.cli.screen import line, print_json, print_table, say
from producer.cli.session import current_settings, open_database
from producer.plain import plain
from supportpilot.service import approvers as service

app = typer.Typer(help="People who may log in to the pages and decide.", rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The person's name, as it will stand in the records.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
By = Annotated[str | None, typer.Option(help="Your name; it is recorded. Default: this machine's user.")]

COLUMNS = [("id", "id"), ("name", "name"), ("role", "role"), ("added", "created_at"), ("last login", "seen_at"),
           ("revoked", "revoked_at")]


@app.command()
def add(
    name: Name,
    role: Annotated[str, typer.Option(help=f"One of {', '.join(service.ROLES)}; each may do what those before it may.")] = "approver",
    by: By = None, as_json: AsJson = False,
) -> None:
    """Give a person a token; it is shown this once and is the password of the pages and the API."""
    settings = current_settings()
    with open_database(settings) as db:
        made = service.add(db, name, role, by or _user())
    if as_json:
        print_json(plain(made.approver) | {"token": made.token})
        return
    say(f"{made.approver.name} is {made.approver.role}; the token, shown this once:")
    say(made.token)
    say(f"log in at {settings.public_url.rstrip('/')}/login")


@app.command()
def revoke(name: Name, by: By = None) -> None:
    """Take a person's token away; their sessions end at once."""
    with open_database(current_settings()) as db:
        gone = service.revoke(db, name, by or _user())
    say(f"{line(gone.name)} cannot log in any more")


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List everybody, those who were revoked too."""
    with open_database(current_settings()) as db:
        found = service.list_approvers(db)
    print_json(found) if as_json else print_table("approvers", COLUMNS, found)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):      # no such user id on this machine
        return "operator"
