"""What a draft is sent back for."""

from __future__ import annotations

import json
from typing import Any

from fixtures.prompts import BANK, PROFILE, drafted, english, prompt

from supportpilot.llm.offline import rules


def reviewed(draft: str, **sections: str) -> dict[str, Any]:
    given = {"articles": BANK, "draft": draft, **sections}
    found = json.loads(rules.answer(prompt("check", **{"newest": "提示 E3001", **given})).content)
    assert isinstance(found, dict)
    return found


def test_a_sound_draft_passes() -> None:
    assert reviewed("您好,请重新授权 [KB-bank-001]。") == {"passed": True, "problems": []}


def test_an_unknown_citation_fails() -> None:
    verdict = reviewed("请重新授权 [KB-bank-999]。")
    assert verdict["passed"] is False
    assert "KB-bank-999" in verdict["problems"][0]


def test_an_invented_invoice_or_amount_fails_and_a_known_one_passes() -> None:
    assert reviewed("账单 INV-202611-0044 已记录。")["passed"] is False
    assert reviewed("金额 8888.00 元。")["passed"] is False
    assert reviewed("账单 INV-202611-0044(299.00 元)。", findings="invoice: INV-202611-0044 金额 299.00")["passed"] is True


def test_an_empty_draft_fails() -> None:
    assert reviewed("")["passed"] is False


def test_the_wrong_language_fails() -> None:
    assert reviewed("Please authorise your bank account again.")["passed"] is False
    assert reviewed("请重新授权。", basics=english(), newest="E3001?")["passed"] is False


def test_own_drafts_pass_their_own_review() -> None:
    text = drafted("银行流水又同步失败了,提示E3001", profile=PROFILE, articles=BANK)
    assert reviewed(text, profile=PROFILE)["passed"] is True
