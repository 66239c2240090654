"""Two rankings into one by reciprocal rank; pure. Scores of different searches cannot be added, ranks can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from supportpilot.types import Hit

RANK_CONSTANT = 60


def fuse(legs: Sequence[Sequence[Hit]], k: int) -> list[Hit]:
    """Return the `k` best articles of all legs, each once; its score is the sum of 1 / (60 + rank).

    The piece shown is the one of the leg that ranks the article highest; of equals, the earlier leg goes first.
    """
    scores: dict[str, float] = {}
    shown: dict[str, tuple[int, int, Hit]] = {}
    for number, leg in enumerate(legs):
        for rank, hit in enumerate(leg, start=1):
            scores[hit.article_id] = scores.get(hit.article_id, 0.0) + 1 / (RANK_CONSTANT + rank)
            best = shown.get(hit.article_id)
            if best is None or (rank, number) < best[:2]:
                shown[hit.article_id] = (rank, number, hit)
    order = sorted(shown, key=lambda name: (-scores[name], shown[name][:2]))
    return [replace(shown[name][2], score=scores[name]) for name in order[:k]]
