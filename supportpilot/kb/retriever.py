"""Search over the knowledge base by words, and by meaning where `EMBEDDING_MODEL` is set.

The second leg may fail at any time; the first one then stands alone.
"""

from __future__ import annotations

import logging
import time

from supportpilot.config import Settings
from supportpilot.db import embeddings
from supportpilot.db.articles import search_terms
from supportpilot.db.llm_calls import record_call
from supportpilot.db.pool import Connection, Database
from supportpilot.db.segment import language, terms
from supportpilot.errors import Misconfigured, Permanent, Transient
from supportpilot.kb.fusion import fuse
from supportpilot.llm.embedding import EmbeddingClient, Vector
from supportpilot.types import Hit, LLMCall

log = logging.getLogger(__name__)

MAX_QUERY_TERMS = 300     # a pasted log file is cut here
LEG_DEPTH = 20            # articles each leg names before they are fused
QUERY_SECONDS = 5.0       # a customer waits, and there is another leg
PAUSE_SECONDS = 30.0      # after a failure the provider is not asked for so long


class HybridRetriever:
    """Finds articles; articles in the question's language come first, others stay reachable."""

    def __init__(self, db: Database | Connection, settings: Settings | None = None) -> None:
        self._db = db if isinstance(db, Database) else Database.over(db)
        self._meaning = MeaningLeg(self._db, settings) if settings and settings.embedding_model else None

    def search(self, query: str, k: int = 5) -> list[Hit]:
        """Return up to `k` hits, one per article, best first; nothing if nothing fits.

        Raises:
            Unavailable: the database is away.
        """
        if k < 1:
            return []
        near = self._meaning.search(query, max(k, LEG_DEPTH)) if self._meaning else []
        if not near:
            return self._by_words(query, k)
        return fuse([self._by_words(query, max(k, LEG_DEPTH)), near], k)

    def _by_words(self, query: str, limit: int) -> list[Hit]:
        wanted = list(dict.fromkeys(terms(query)))[:MAX_QUERY_TERMS]
        if not wanted:
            return []
        with self._db.connection() as conn:
            return search_terms(conn, wanted, language(query), limit)

    def close(self) -> None:
        """Close the connections to the model provider, if there are any; the database stays its owner's."""
        if self._meaning is not None:
            self._meaning.close()


class MeaningLeg:
    """The search by embeddings of the current model; finds nothing rather than fail."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db = db
        self._least = settings.embedding_min_similarity
        hasty = {"llm_timeout_seconds": min(QUERY_SECONDS, settings.llm_timeout_seconds), "llm_max_retries": 0}
        self._client = EmbeddingClient(
            settings.model_copy(update=hasty), settings.embedding_model or "", node="retrieve", report=self._record)
        self._paused_until = 0.0
        self._said_missing = False

    def search(self, query: str, limit: int) -> list[Hit]:
        """Return the nearest articles; nothing if none is near, none is embedded, or the provider is in trouble."""
        if not query.strip() or time.monotonic() < self._paused_until or not self._anything_there():
            return []
        vector = self._embedded(query)
        if vector is None:
            return []
        with self._db.connection() as conn:
            return embeddings.nearest(conn, self._client.model, vector, language(query), limit, self._least)

    def close(self) -> None:
        """Close the connections to the provider."""
        self._client.close()

    def _anything_there(self) -> bool:
        """A question is not paid for as long as there is nothing to compare it with."""
        with self._db.connection() as conn:
            there = embeddings.has_table(conn) and embeddings.has_model(conn, self._client.model)
        if not there and not self._said_missing:
            log.warning("nothing is embedded with %s yet: searching by words alone; `supportpilot doctor` says why",
                        self._client.model)
        self._said_missing = not there
        return there

    def _embedded(self, query: str) -> Vector | None:
        try:
            return self._client.embed([query])[0]
        except (Transient, Permanent, Misconfigured) as error:
            self._paused_until = time.monotonic() + PAUSE_SECONDS
            log.warning("searching by words alone for %d s: %s", PAUSE_SECONDS, error)
            return None

    def _record(self, call: LLMCall) -> None:
        with self._db.transaction() as conn:
            record_call(conn, call)
