"""Demo data: an invented bookkeeping service for small firms, its customers, their tickets, its help centre.

Ticket numbers start again with every seed, so what was remembered about a number has to go in the same
transaction: otherwise the next T000153 would go on with a conversation of the last T000153.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files

from psycopg import sql

from supportpilot.db.articles import Article, upsert_article
from supportpilot.db.frontmatter import parse_article
from supportpilot.db.pool import Connection, Database, connect
from supportpilot.db.seed import rows
from supportpilot.errors import Misconfigured, Refused

VERSION = "1"
ARTICLES_UPDATED_AT = datetime(2026, 10, 1, 1, 0, tzinfo=UTC)
CHECKPOINT_TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")


@dataclass(frozen=True)
class SeedReport:
    """What stands in the database now, and how many checkpoints were cleared for it."""

    customers: int
    tickets: int
    articles: int
    checkpoints_cleared: int


def seed(url: str) -> SeedReport:
    """Replace everything in the database at `url` by the demo data, in one transaction.

    Raises:
        Refused: the database holds data that no seed put there.
        Misconfigured: the database has no schema yet.
        Unavailable: the database is away, or somebody uses the tables for too long.
    """
    articles = demo_articles()
    with connect(url) as single, Database.over(single).transaction() as conn:
        _check_schema(conn)
        conn.execute("LOCK TABLE biz.customers, biz.tickets, kb.articles, desk.demo_data IN ACCESS EXCLUSIVE MODE")
        if not is_demo(conn) and not is_empty(conn):
            raise Refused("this database holds data that seed did not put there; nothing was changed")
        cleared = _clear(conn)
        customers = rows.insert_customers(conn)
        tickets = rows.insert_tickets(conn)
        for article in articles:
            upsert_article(conn, article, ARTICLES_UPDATED_AT)
        conn.execute("INSERT INTO desk.demo_data (version) VALUES (%s)", (VERSION,))
    return SeedReport(customers, tickets, len(articles), cleared)


def is_empty(conn: Connection) -> bool:
    """Tell whether the database holds no customer, no ticket and no article."""
    row = conn.execute(
        "SELECT NOT EXISTS (SELECT 1 FROM biz.customers) AND NOT EXISTS (SELECT 1 FROM biz.tickets) "
        "AND NOT EXISTS (SELECT 1 FROM kb.articles) AS empty").fetchone()
    return bool(row and row["empty"])


def is_demo(conn: Connection) -> bool:
    """Tell whether a seed has filled this database, so that another one may replace it."""
    return conn.execute("SELECT 1 AS yes FROM desk.demo_data").fetchone() is not None


def demo_articles() -> list[Article]:
    """Read the demo's help centre."""
    folder = files("supportpilot.db.seed") / "articles"
    found = [item for item in folder.iterdir() if item.name.endswith(".md")]
    return [parse_article(item.read_text(encoding="utf-8"), item.name) for item in sorted(found, key=lambda i: i.name)]


def _check_schema(conn: Connection) -> None:
    row = conn.execute("SELECT to_regclass('desk.demo_data') AS found").fetchone()
    if row is None or row["found"] is None:
        raise Misconfigured("the database has no tables yet: run `supportpilot migrate` first")


def _clear(conn: Connection) -> int:
    """Empty all tables of ours and restart their numbers; RESTART rolls back with the rest, setval would not."""
    tables = conn.execute(
        """
        SELECT schemaname, tablename FROM pg_tables
        WHERE schemaname IN ('biz', 'kb', 'desk') OR (schemaname = 'public' AND tablename = ANY(%s))
        """, (list(CHECKPOINT_TABLES),)).fetchall()
    cleared = _count_checkpoints(conn) if any(table["tablename"] == "checkpoints" for table in tables) else 0
    names = [sql.Identifier(table["schemaname"], table["tablename"]) for table in tables]
    conn.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY").format(sql.SQL(", ").join(names)))
    sequences = conn.execute("SELECT schemaname, sequencename FROM pg_sequences WHERE schemaname IN ('biz', 'kb', 'desk')")
    for sequence in sequences.fetchall():
        name = sql.Identifier(sequence["schemaname"], sequence["sequencename"])
        conn.execute(sql.SQL("ALTER SEQUENCE {} RESTART").format(name))
    return cleared


def _count_checkpoints(conn: Connection) -> int:
    row = conn.execute("SELECT count(*) AS n FROM checkpoints").fetchone()
    return int(row["n"]) if row else 0
