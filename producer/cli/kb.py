"""`kb import`, `kb search`: the knowledge base."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from producer.cli.screen import line, print_json, print_table, say
from producer.cli.session import current_settings, open_database
from supportpilot.kb.importer import import_articles, read_directory
from supportpilot.kb.retriever import HybridRetriever

app = typer.Typer(help="The knowledge base: import articles, search them.", rich_markup_mode=None)


@app.command("import")
def import_(directory: Annotated[Path, typer.Argument(help="Folder of Markdown files with front matter (id, title, url, lang).")]) -> None:
    """Import a folder of Markdown articles; an article of the same id is replaced."""
    articles = read_directory(directory)
    with open_database(current_settings()) as db, db.transaction() as conn:
        count = import_articles(conn, articles)
    say(f"imported {count} articles from {directory}")


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="Words, a question or an error code.")],
    limit: Annotated[int, typer.Option("--limit", "-k", min=1, max=50, help="How many hits.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Search the knowledge base as the agent does, best first."""
    settings = current_settings()
    with open_database(settings) as db:
        hits = HybridRetriever(db, settings).search(query, limit)
    if as_json:
        print_json(hits)
        return
    print_table(f"hits for {line(query, 40)}",
                [("article", "article_id"), ("title", "title"), ("lang", "lang"), ("score", "score"), ("text", "text")], hits)
