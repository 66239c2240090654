"""A directory of Markdown files into the knowledge base."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from supportpilot.db.articles import Article, upsert_article
from supportpilot.db.frontmatter import parse_article
from supportpilot.db.pool import Connection
from supportpilot.errors import Misconfigured


@dataclass(frozen=True)
class Folder:
    """What a directory holds: articles, and a line (`file:line: what is wrong`) for each file that is none."""

    articles: list[Article]
    problems: list[str]


def read_directory(path: Path) -> Folder:
    """Read every `.md` file below a directory, in the order of their names; of two with one id the first counts.

    Raises:
        Misconfigured: no such directory, or no file in it.
    """
    try:
        files = sorted(path.rglob("*.md")) if path.is_dir() else None
    except OSError as error:        # a name that is too long, a folder that may not be read
        raise Misconfigured(f"{str(path)[:80]}: {error.strerror}") from None
    if files is None:
        raise Misconfigured(f"{path}: not a directory")
    if not files:
        raise Misconfigured(f"{path}: no .md file in it")
    seen: dict[str, str] = {}
    found = Folder([], [])
    for file in files:
        name = str(file.relative_to(path))
        try:
            article = parse_article(_text(file, name), name)
        except Misconfigured as problem:
            found.problems.append(str(problem))
            continue
        if article.id in seen:
            found.problems.append(f"{name}:1: id {article.id} is already used by {seen[article.id]}")
            continue
        seen[article.id] = name
        found.articles.append(article)
    return found


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
