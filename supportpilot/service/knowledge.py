"""The knowledge base's background work; a search never waits for it."""

from __future__ import annotations

import logging

from supportpilot.config import Settings
from supportpilot.db.pool import Database
from supportpilot.errors import Misconfigured
from supportpilot.kb.embedding import embed_missing

log = logging.getLogger(__name__)


def embed(db: Database, settings: Settings) -> str:
    """Embed what is not embedded yet and return what happened, for the log; nothing to tell is an empty text.

    A server without pgvector is one line in the log at every run, no failure: the search goes on by words.

    Raises:
        Unavailable: the provider or the database is away; the next run goes on.
        Transient, Permanent: as the provider's answer says.
    """
    if not settings.embedding_model:
        return ""
    try:
        done = embed_missing(db, settings, settings.embedding_model)
    except Misconfigured as error:
        log.warning("nothing is embedded: %s", error)
        return ""
    if done is None or not (done.embedded or done.refused or done.cleared):
        return ""
    more = "" if done.complete else ", more to come"
    return f"{settings.embedding_model}: embedded {done.embedded}, refused {done.refused}, cleared {done.cleared}{more}"
