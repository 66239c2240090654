"""What a command needs before it can work: settings, an open database, ports that wake the workers up."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from supportpilot.config import Settings, get_settings
from supportpilot.db.pool import Database, connect
from supportpilot.errors import Misconfigured, Unavailable
from supportpilot.types import Ports
from worker.publish import flush, make_ports

NOTHING_RUNS = "nothing is running here: start it with `supportpilot up`, or set DATABASE_URL"
POOL_SIZE = 3
FLUSH_SECONDS = 3.0


def current_settings() -> Settings:
    """Return the settings: environment first, then what `up` wrote. Raises Misconfigured if a value is malformed."""
    return get_settings()


def database_url(settings: Settings) -> str:
    """Return the database's URL.

    Raises:
        Misconfigured: none is configured and nothing runs.
    """
    if not settings.database_url:
        raise Misconfigured(NOTHING_RUNS)
    return settings.database_url


@contextmanager
def open_database(settings: Settings) -> Iterator[Database]:
    """Lend a small pool, after one connection has shown that somebody answers (a pool would only wait).

    Raises:
        Misconfigured: no database is configured.
        Unavailable: it is away.
    """
    url = database_url(settings)
    try:
        connect(url).close()
    except Unavailable as error:
        raise Unavailable(f"{error}; start it with `supportpilot up` or check DATABASE_URL") from error
    with Database(url, max_size=POOL_SIZE) as db:
        yield db


@contextmanager
def waking_ports(settings: Settings) -> Iterator[Ports]:
    """Lend ports; before the command ends, what it asked for is sent (or left to the sweeper)."""
    yield make_ports(settings)
    flush(FLUSH_SECONDS)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is lost.

    Raises:
        Misconfigured: nobody can be asked and `--yes` is missing.
        typer.Abort: the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Misconfigured(f"{question} Say so with --yes")
    typer.confirm(question, abort=True, err=True)
