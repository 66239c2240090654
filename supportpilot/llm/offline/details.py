"""One figure that was named before: from the ledger and from what was said; asked for again if it is not in sight. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from supportpilot.llm.offline.lexicon import AMOUNT, INVOICE_NUMBER, error_codes
from supportpilot.llm.offline.text import conversation

FACT = re.compile(
    r"^- (?P<kind>单号|报错码|金额|日期|电话|尾号|number|error code|amount|date|phone|ending in) (?P<value>.+?)(?:×\d+)?(?: \([^()]*\))?[::] ?"
    r"(?P<said>客户称|客服|the customer's claim|agent)", re.MULTILINE)
CLAIMS = frozenset({"客户称", "the customer's claim"})
PHONE = re.compile(r"(?<!\d)1[3-9]\d{9}(?!\d)")
TAIL = re.compile(r"(?:尾号|末四位|后四位|ending in|\*{4})\s?(\d{4})(?!\d)", re.IGNORECASE)
DAY = re.compile(r"\d{4}-\d{1,2}-\d{1,2}|(?:\d{4}\s?年)?\d{1,2}\s?月\s?\d{1,2}\s?[日号]")
TICKET = re.compile(r"(?<![A-Za-z0-9])T\d{6}(?!\d)")
CODE_AFTER = r"(?:号码?|编号|number|no\.?)?\s?(?:是|为|[:：]|is)?\s?([A-Za-z0-9][A-Za-z0-9-]{3,40})"


@dataclass(frozen=True)
class _Detail:
    """A figure that one may ask for: the words that ask for it, the ledger's kinds, and how to find it in a text."""

    words: re.Pattern[str]
    kinds: frozenset[str]
    find: Callable[[str], list[str]]
    fits: Callable[[str], bool] = lambda _value: True


def _named(noun: str) -> Callable[[str], list[str]]:
    pattern = re.compile(f"(?:{noun}){CODE_AFTER}", re.IGNORECASE)
    return lambda text: [found for found in pattern.findall(text) if any(ch.isdigit() for ch in found)]


def _of_noun(asks: str, noun: str) -> _Detail:
    """A number that only its noun tells apart from others: the ledger does not say which it is."""
    return _Detail(re.compile(asks), frozenset(), _named(noun))


_IDS = frozenset({"单号", "number"})
DETAILS = (
    _Detail(re.compile(r"手机号?|电话|phone"), frozenset({"电话", "phone"}), PHONE.findall),
    _Detail(re.compile(r"尾号|卡号|card (?:number|no)"), frozenset({"尾号", "ending in"}), TAIL.findall),
    _Detail(re.compile(r"报错码|错误码|错误代码|error code"), frozenset({"报错码", "error code"}), error_codes),
    _Detail(re.compile(r"金额|多少钱|amount"), frozenset({"金额", "amount"}), AMOUNT.findall),
    _Detail(re.compile(r"哪天|几号|日期|which (?:date|day)"), frozenset({"日期", "date"}), DAY.findall),
    _of_noun(r"合同(?:编?号)|contract (?:number|no)", "合同|contract"),
    _of_noun(r"订单(?:编?号)|order (?:number|no)", "订单|order"),
    _of_noun(r"(?:快递|运单|物流)(?:单?号)|tracking (?:number|no)", "快递|运单|物流|tracking"),
    _Detail(re.compile(r"工单(?:编?号)|ticket (?:number|no)"), _IDS, TICKET.findall, lambda value: bool(TICKET.fullmatch(value))),
    _Detail(re.compile(r"账单号|帐单号|发票号|(?:invoice|bill) (?:number|no)"), _IDS, INVOICE_NUMBER.findall,
            lambda value: bool(INVOICE_NUMBER.fullmatch(value))),
    _Detail(re.compile(r"编号|单号|号码"), _IDS, INVOICE_NUMBER.findall, lambda value: not value.startswith("KB-")),
)


def answer(sections: dict[str, str], newest: str, lang: str) -> str:
    """Answer a normalised message that asks for one figure; "" if it asks for none, or names one itself."""
    wanted = next((detail for detail in DETAILS if detail.words.search(newest)), None)
    if wanted is None or INVOICE_NUMBER.search(newest):
        return ""
    if found := _claimed(wanted, sections) or _anywhere(wanted, sections):
        shown = ("、" if lang == "zh" else ", ").join(dict.fromkeys(found))
        return f"之前的对话里提到的是:{shown}。" if lang == "zh" else f"What was mentioned earlier: {shown}."
    return ("我这里看不到您之前提到的这个信息,为避免弄错,请您再发一次。" if lang == "zh"
            else "I cannot see that detail from earlier; to avoid a mistake, could you please send it again?")


def _claimed(wanted: _Detail, sections: dict[str, str]) -> list[str]:
    """Return what the customer named: the desk may have listed ten others."""
    facts = [m["value"] for m in FACT.finditer(sections.get("ledger", ""))
             if m["kind"] in wanted.kinds and m["said"] in CLAIMS and wanted.fits(m["value"])]
    said = [line.text for name in ("recall", "recent") for line in conversation(sections.get(name, "")) if line.customer]
    return [*facts, *(found.strip() for text in said for found in wanted.find(text))]


def _anywhere(wanted: _Detail, sections: dict[str, str]) -> list[str]:
    facts = [m["value"] for m in FACT.finditer(sections.get("ledger", "")) if m["kind"] in wanted.kinds and wanted.fits(m["value"])]
    texts = [sections.get(name, "") for name in ("recall", "summary", "recent")]
    return [*facts, *(found.strip() for text in texts for found in wanted.find(text))]
