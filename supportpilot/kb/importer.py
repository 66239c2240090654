"""A directory of Markdown files into the knowledge base."""

from __future__ import annotations

from pathlib import Path

from supportpilot.db.articles import Article, upsert_article
from supportpilot.db.frontmatter import parse_article
from supportpilot.db.pool import Connection
from supportpilot.errors import Misconfigured


def read_directory(path: Path) -> list[Article]:
    """Read every `.md` file below a directory, in the order of their names.

    Raises:
        Misconfigured: no such directory, no file in it, an id used twice, or a malformed file (`file:line: what`).
    """
    if not path.is_dir():
        raise Misconfigured(f"{path}: not a directory")
    seen: dict[str, str] = {}
    articles: list[Article] = []
    for file in sorted(path.rglob("*.md")):
        name = str(file.relative_to(path))
        article = parse_article(_text(file, name), name)
        if article.id in seen:
            raise Misconfigured(f"{name}:1: id {article.id} is already used by {seen[article.id]}")
        seen[article.id] = name
        articles.append(article)
    if not articles:
        raise Misconfigured(f"{path}: no .md file in it")
    return articles


def import_articles(conn: Connection, articles: list[Article]) -> int:
    """Store the articles, all or none, and return how many; those with other ids stay as they are."""
    with conn.transaction():
        for article in articles:
            upsert_article(conn, article)
    return len(articles)


def _text(file: Path, name: str) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Misconfigured(f"{name}:1: not UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise Misconfigured(f"{name}:1: cannot be read: {error.strerror}") from None
