"""Embeds what is not embedded yet: new articles, changed ones, all of them after a change of the model.

Idempotent: a piece counts as done if its vector is of this model and of its present wording. Of two runs at once
the second leaves; if both went through, they would write the same.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from supportpilot.config import Settings
from supportpilot.db import embeddings
from supportpilot.db.embeddings import Piece
from supportpilot.db.llm_calls import record_call
from supportpilot.db.pool import Database
from supportpilot.errors import Permanent
from supportpilot.llm.embedding import BATCH_TEXTS, EmbeddingClient, Vector
from supportpilot.types import LLMCall

log = logging.getLogger(__name__)

RUN_SECONDS = 60.0   # a run leaves its slot to others then; the next one goes on from there


@dataclass(frozen=True)
class EmbedReport:
    """What a run has done."""

    embedded: int = 0
    refused: int = 0     # pieces that the provider does not take
    cleared: int = 0     # vectors of other models and of pieces that are no more
    complete: bool = False


def embed_missing(db: Database, settings: Settings, model: str) -> EmbedReport | None:
    """Embed pieces in batches until none is left or the time is over; None if another run is at it.

    Vectors of an earlier model are deleted as soon as this one's are complete.

    Raises:
        Misconfigured: pgvector is missing, or no provider is configured.
        Unavailable: the provider or the database is away.
        Transient, Permanent: as the provider's answer says; what was embedded before stays.
    """
    with db.transaction() as conn:
        embeddings.ensure_table(conn)

    def report(call: LLMCall) -> None:
        with db.transaction() as conn:
            record_call(conn, call)

    client = EmbeddingClient(settings, model, node="kb.embed", report=report)
    with db.connection() as holder:
        if not embeddings.try_embedding(holder):
            return None
        try:
            return _run(db, client)
        finally:
            client.close()
            embeddings.end_embedding(holder)


def _run(db: Database, client: EmbeddingClient) -> EmbedReport:
    """No transaction is open while the provider is asked."""
    until, after, embedded, refused = time.monotonic() + RUN_SECONDS, ("", -1), 0, 0
    while time.monotonic() < until:
        with db.connection() as conn:
            batch = embeddings.pending(conn, client.model, BATCH_TEXTS, after)
        if not batch:
            return _finish(db, client.model, embedded, refused)
        done = _embed(client, batch)
        with db.transaction() as conn:
            embeddings.store(conn, client.model, [piece for piece, _ in done], [vector for _, vector in done])
        embedded, refused = embedded + len(done), refused + len(batch) - len(done)
        after = (batch[-1].article_id, batch[-1].position)
    return EmbedReport(embedded, refused)


def _finish(db: Database, model: str, embedded: int, refused: int) -> EmbedReport:
    with db.transaction() as conn:
        return EmbedReport(embedded, refused, embeddings.clear_others(conn, model), complete=True)


def _embed(client: EmbeddingClient, batch: list[Piece]) -> list[tuple[Piece, Vector]]:
    """Embed a batch; if it is refused, piece by piece, so that one bad text holds nobody up.

    Raises:
        Permanent: every piece is refused, so it is not the texts that are wrong.
    """
    try:
        return list(zip(batch, client.embed([piece.text for piece in batch]), strict=True))
    except Permanent as error:
        refusal = error
    done: list[tuple[Piece, Vector]] = []
    for piece in batch if len(batch) > 1 else []:
        try:
            done.append((piece, client.embed([piece.text])[0]))
        except Permanent as error:
            refusal = error
            log.warning("piece %d of %s is not embedded: %s", piece.position, piece.article_id, error)
    if not done:
        raise refusal
    return done
