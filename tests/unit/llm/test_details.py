"""One figure that was named before, asked for again: answered from the ledger, never guessed."""

from __future__ import annotations

import pytest

from supportpilot.llm.offline.details import answer
from supportpilot.llm.offline.recall import recap
from supportpilot.memory.ledger import facts, render

SAID = [
    {"role": "customer", "content": "账单 INV-202603-0006 多扣了 1,200.00 元,手机 13812345678,2026年9月1日起报 E3001"},
    {"role": "agent", "content": "您账户下的账单有 INV-202501-0001、INV-202502-0002,工单 T000153 已登记,金额 99.00 元"},
]
LEDGER = {lang: render(facts(SAID, lang), [], 2_000, lang) for lang in ("zh", "en")}


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize(("zh", "en", "said"), [
    ("我之前说的账单号是多少", "which invoice number did i mention", "INV-202603-0006"), ("我之前说的手机号", "my phone", "13812345678"),
    ("之前说的工单号", "the ticket number you gave me", "T000153"), ("说过的金额", "the amount i mentioned", "1,200.00"),
    ("之前说是哪天开始的", "which day did i say", "2026年9月1日"), ("之前的报错码", "the error code i gave", "E3001")])
def test_a_figure_of_the_ledger_is_said_and_the_customer_s_own_comes_alone(lang, zh, en, said):
    text = answer({"ledger": LEDGER[lang]}, zh if lang == "zh" else en, lang)
    assert said in text
    assert "INV-2025" not in text
    assert "99.00" not in text


@pytest.mark.parametrize(("newest", "lang"), [
    ("我之前说的合同号是多少", "zh"), ("我给你们的订单号", "zh"), ("快递单号是多少来着", "zh"), ("我说的卡号", "zh"), ("my contract number", "en"),
    ("the order number i gave", "en")])
def test_a_number_of_another_kind_is_not_taken_for_it(newest, lang):
    text = answer({"ledger": LEDGER[lang], "summary": "- INV-202603-0006"}, newest, lang)
    assert ("请您再发一次" in text) or ("could you please send it again" in text)


def test_a_number_beside_its_noun_in_a_recalled_entry_is_said():
    recall = "客户(早前第3条):我的合同编号是 HT2026-0815,麻烦查一下"
    assert "HT2026-0815" in answer({"recall": recall}, "我之前说的合同号是多少", "zh")


def test_a_message_that_asks_for_no_figure_is_not_answered_here():
    assert answer({"ledger": LEDGER["zh"]}, "怎么邀请同事", "zh") == ""
    assert answer({"ledger": LEDGER["zh"]}, "账单号 INV-202603-0006 怎么开票", "zh") == ""


@pytest.mark.parametrize("colon", [":", "\uff1a"])
def test_a_number_behind_a_colon_of_any_width_is_said(colon):
    assert "HT-2026-01" in answer({"recall": f"客户: 合同编号{colon}HT-2026-01"}, "合同编号是多少", "zh")


def test_asked_for_the_day_of_a_promise_the_open_promise_is_told_and_no_other_date():
    ledger = "- 待兑现:我们会在 3 个工作日内回复您(期限 2026-12-07 23:59)\n- 日期 9月15日 = 2026-09-15:客户称,第1条"
    said = recap({"newest": "你们答应哪天回复我?", "ledger": ledger}, "zh")
    assert "2026-12-07" in said
    assert "9月15日" not in said
    assert "9月15日" in recap({"newest": "我之前说的是哪天?", "ledger": ledger}, "zh")
