"""Databases for one use on a server of our own: a template with the demo data, copies of it."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from psycopg import sql

from supportpilot.db.migrate import migrate
from supportpilot.db.pool import connect, translated
from supportpilot.db.seed import seed

TEMPLATE = "template_demo"


def demo_template(server_url: str) -> str:
    """Make the template on a server that has none yet and return its name.

    Raises:
        Unavailable: the server is away.
    """
    url = _create(server_url, TEMPLATE, "template0")
    migrate(url)
    seed(url)
    return TEMPLATE


def copy_of(server_url: str, template: str, name: str) -> str:
    """Create the database `name` as a copy of a template that nobody is connected to; return its URL. Raises as `demo_template`."""
    return _create(server_url, name, template)


def _create(server_url: str, name: str, template: str) -> str:
    with translated(), connect(server_url) as conn:
        conn.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
    return urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
