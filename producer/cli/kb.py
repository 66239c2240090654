"""`kb import`, `kb search`: the knowledge base."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from producer.cli.screen import complain, line, print_json, print_table, say
from producer.cli.session import current_settings, open_database, waking_ports
from supportpilot.db import embeddings
from supportpilot.kb.importer import import_articles, read_directory
from supportpilot.kb.retriever import HybridRetriever

app = typer.Typer(help="The knowledge base: import articles, search them.", rich_markup_mode=None)


@app.command("import")
def import_(directory: Annotated[Path, typer.Argument(help="Folder of Markdown files with front matter (id, title, url, lang).")]) -> None:
    """Import a folder of Markdown articles; an article of the same id is replaced.

    A file that is no article is named and left out, the others go in, and the exit code is 1.
    """
    settings = current_settings()
    folder = read_directory(directory)
    with open_database(settings) as db:
        if settings.embedding_model:
            with db.transaction() as conn:
                embeddings.ensure_table(conn)
        with db.transaction() as conn:
            count = import_articles(conn, folder.articles)
    if settings.embedding_model:
        with waking_ports(settings) as ports:
            ports.schedule_embed()
    for problem in folder.problems:
        complain(problem)
    say(f"imported {count} articles from {directory}" + (f", {len(folder.problems)} left out" if folder.problems else ""))
    if folder.problems:
        raise typer.Exit(1)


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
