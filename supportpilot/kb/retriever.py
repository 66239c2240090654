"""Search over the knowledge base: the question's words against the articles' words, nothing else to run."""

from __future__ import annotations

from supportpilot.config import Settings
from supportpilot.db.articles import search_terms
from supportpilot.db.pool import Connection, Database
from supportpilot.db.segment import language, terms
from supportpilot.types import Hit

MAX_QUERY_TERMS = 200     # a pasted log file is cut here


class HybridRetriever:
    """Finds articles; articles in the question's language come first, others stay reachable."""

    def __init__(self, db: Database | Connection, settings: Settings | None = None) -> None:
        self._db = db if isinstance(db, Database) else Database.over(db)
        self._settings = settings

    def search(self, query: str, k: int = 5) -> list[Hit]:
        """Return up to `k` hits, one per article, best first; nothing if nothing fits.

        Raises:
            Unavailable: the database is away.
        """
        wanted = list(dict.fromkeys(terms(query)))[:MAX_QUERY_TERMS]
        if not wanted or k < 1:
            return []
        with self._db.connection() as conn:
            return search_terms(conn, wanted, language(query), k)
