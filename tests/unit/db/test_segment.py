"""Terms and pieces: what a search can find at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supportpilot.db.segment import CHUNK_CHARACTERS, language, sections, terms


def test_chinese_text_becomes_pairs_of_neighbouring_characters_and_these_alone() -> None:
    assert terms("银行流水") == ["银行", "行流", "流水", "银", "行", "流", "水"]


def test_no_pair_crosses_a_character_that_only_holds_the_sentence_together() -> None:
    assert terms("我的发票") == ["发票", "发", "票"]


def test_characters_that_say_little_do_not_stand_alone() -> None:
    assert terms("没有个票") == ["没有", "有个", "个票", "票"]


def test_the_forms_of_an_english_word_meet() -> None:
    assert terms("expired expires expiring") == terms("expire") * 3


@pytest.mark.parametrize("written", ["E3001", "e3001", "E 3001", "E-3001", "\uff25\uff13\uff10\uff10\uff11", "提示E3001", "提示E-3001"])
def test_an_error_code_is_one_term_however_it_is_written(written: str) -> None:
    assert {"e3001", "3001"} <= set(terms(written))


def test_an_english_plural_meets_its_singular_and_small_words_are_left_out() -> None:
    assert terms("Where are the invoices?") == terms("invoice")


def test_both_spellings_of_authorise_meet() -> None:
    assert terms("authorization authorize") == terms("authorisation authorise")


def test_terms_are_counted_as_often_as_they_occur() -> None:
    assert terms("退款,退款").count("退款") == 2


@pytest.mark.parametrize("text", ["", "。。。", "👍", "的了吗", "\u200b"])
def test_text_without_a_word_has_no_terms(text: str) -> None:
    assert terms(text) == []


@pytest.mark.parametrize(("text", "expected"), [
    ("E3001 银行", "zh"), ("my bank feed", "en"), ("E3001", "zh"), ("", "zh"), ("refund 退款", "zh"),
])
def test_the_language_of_a_question(text: str, expected: str) -> None:
    assert language(text) == expected


def test_short_sections_stay_in_one_piece_with_their_headings() -> None:
    [piece] = sections("开头。\n\n## 怎么恢复\n点按钮。\n\n## 注意\n等一会。")
    assert piece.heading == "怎么恢复"
    assert "## 注意\n等一会。" in piece.text


def test_long_sections_are_cut_at_their_headings() -> None:
    body = "\n\n".join(f"## 第 {n} 节\n{'说明' * 200}" for n in range(3))
    assert [piece.heading for piece in sections(body)] == ["第 0 节", "第 1 节", "第 2 节"]


def test_a_section_that_is_too_long_is_cut_at_blank_lines_and_keeps_its_heading() -> None:
    body = "## 步骤\n" + "\n\n".join("长" * 400 for _ in range(3))
    assert [piece.heading for piece in sections(body)] == ["步骤"] * 3


@given(st.text())
def test_any_text_can_be_cut_into_terms(text: str) -> None:
    assert all(term and term == term.lower() for term in terms(text))


@given(st.lists(st.text(alphabet="a银#\n ", max_size=CHUNK_CHARACTERS), max_size=8))
def test_cutting_an_article_loses_no_word(parts: list[str]) -> None:
    body = "\n\n".join(parts)
    kept = "".join(piece.text for piece in sections(body))
    assert [kept.count(letter) for letter in "a银"] == [body.count(letter) for letter in "a银"]
