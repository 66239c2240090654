"""Two rankings become one by rank alone."""

from __future__ import annotations

import pytest

from supportpilot.kb.fusion import fuse
from supportpilot.types import Hit


def leg(*names: str, text: str = "") -> list[Hit]:
    return [Hit(name, name, text or name, 100.0 - rank) for rank, name in enumerate(names)]


def ids(hits: list[Hit]) -> list[str]:
    return [hit.article_id for hit in hits]


def test_an_article_that_both_legs_name_goes_before_the_first_of_either():
    assert ids(fuse([leg("a", "c"), leg("b", "c")], 5)) == ["c", "a", "b"]


def test_the_score_is_the_sum_of_one_over_sixty_plus_rank():
    found = {hit.article_id: hit.score for hit in fuse([leg("a", "b"), leg("b")], 5)}
    assert found == {"a": pytest.approx(1 / 61), "b": pytest.approx(1 / 61 + 1 / 62)}


def test_of_equals_the_earlier_leg_goes_first():
    assert ids(fuse([leg("z"), leg("a")], 5)) == ["z", "a"]


def test_scores_of_a_leg_do_not_matter():
    loud = [Hit("b", "b", "b", 9_999.0), Hit("a", "a", "a", 9_998.0)]
    assert ids(fuse([leg("a", "b"), loud], 5)) == ["a", "b"]


def test_the_piece_shown_is_the_one_of_the_leg_that_ranks_the_article_higher():
    hits = fuse([leg("x", "a", text="by words"), leg("a", "x", text="by meaning")], 5)
    assert {hit.article_id: hit.text for hit in hits} == {"x": "by words", "a": "by meaning"}


def test_no_more_than_asked_for_and_each_article_once():
    assert ids(fuse([leg("a", "b", "c"), leg("c", "b", "a")], 2)) == ["a", "c"]
    assert fuse([], 5) == fuse([[], []], 5) == []
