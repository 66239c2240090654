"""Texts into vectors, by the configured provider: in small batches, bounded, counted like every other call."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

import openai
from openai.types import CreateEmbeddingResponse

from supportpilot.config import Settings
from supportpilot.llm.client import connect
from supportpilot.llm.retrying import ProviderTrouble, persistently, translated
from supportpilot.llm.usage import Ledger, Tokens, cost_of, estimate
from supportpilot.types import LLMCall, current_scope

Vector = list[float]

BATCH_TEXTS = 10            # some providers take no more in one request
LONGEST_TEXT_CHARS = 2_000  # some models read 2,048 tokens at most; pieces of articles are far shorter


class EmbeddingClient:
    """Embeds with one model; safe with threads, and cheap until its first call.

    Args:
        settings: provider, prices, time-outs.
        model: the embedding model.
        node: who the calls are charged to outside a turn; inside one it is the turn's node.
        report: gets every paid call.
    """

    def __init__(
        self, settings: Settings, model: str, *, node: str, report: Callable[[LLMCall], None] | None = None,
    ) -> None:
        self.model = model
        self.ledger = Ledger()
        self._settings, self._node, self._report = settings, node, report
        self._lock = threading.Lock()
        self._openai: openai.OpenAI | None = None

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector a text, all of the same length.

        Raises:
            Misconfigured: no provider is configured.
            Unavailable: the provider cannot be reached.
            Transient: time-out, 429, 5xx or an unusable answer, also after the configured repeats.
            Permanent: the provider rejects a text.
        """
        short = [text[:LONGEST_TEXT_CHARS] for text in texts]
        return [vector for start in range(0, len(short), BATCH_TEXTS)
                for vector in self._batch(short[start:start + BATCH_TEXTS])]

    def close(self) -> None:
        """Close the connections to the provider; the next call opens new ones."""
        with self._lock:
            if self._openai is not None:
                self._openai.close()
            self._openai = None

    def _batch(self, texts: list[str]) -> list[Vector]:
        return persistently(self._settings)(self._ask, texts)

    def _ask(self, texts: list[str]) -> list[Vector]:
        started = time.monotonic()
        with translated(self.model):
            reply: object = self._provider().embeddings.create(model=self.model, input=texts, encoding_format="float")
        if not isinstance(reply, CreateEmbeddingResponse):
            raise ProviderTrouble("the model provider's answer holds no embeddings; does OPENAI_BASE_URL end in /v1?")
        self._count(texts, reply, started)
        return _vectors(reply, len(texts))

    def _count(self, texts: list[str], reply: CreateEmbeddingResponse, started: float) -> None:
        scope = current_scope()
        node = (scope.node if scope else "") or self._node
        counted = getattr(reply.usage, "prompt_tokens", None)    # some providers leave the usage out
        tokens = Tokens(sum(map(estimate, texts)) if counted is None else counted, 0)
        call = LLMCall(
            model=self.model, tokens_in=tokens.sent, tokens_out=0, tokens_cached=0,
            cost_cny=cost_of(self._settings, self.model, tokens), ms=round((time.monotonic() - started) * 1000),
            ticket_id=(scope.ticket_id or None) if scope else None, turn_id=(scope.turn_id or None) if scope else None,
            node=node, parts={"embedding": tokens.sent},
        )
        self.ledger.add(call)
        if scope is not None:
            scope.spent.append(call.cost_cny)
        if self._report is not None:
            self._report(call)

    def _provider(self) -> openai.OpenAI:
        with self._lock:
            if self._openai is None:
                self._openai = connect(self._settings)
            return self._openai


def _vectors(reply: CreateEmbeddingResponse, wanted: int) -> list[Vector]:
    """Return the vectors in the order of the texts.

    Raises:
        ProviderTrouble: one is missing, or they cannot be compared with each other.
    """
    found = [item.embedding for item in sorted(reply.data or [], key=lambda item: item.index)]
    lengths = {len(vector) for vector in found}
    if len(found) != wanted or len(lengths) != 1 or 0 in lengths:
        raise ProviderTrouble(f"the model provider answers {len(found)} embeddings of {len(lengths)} lengths to {wanted} texts")
    if not all(math.isfinite(number) for vector in found for number in vector):
        raise ProviderTrouble("the model provider's embeddings hold a value that is no number")
    return found
