"""What a profile may say: nothing that the facts do not hold. Pure.

A wrong profile misleads every later ticket, so each figure, plan, payment cycle, flag and state is held against the
facts, and a sentence that no row stands behind (a judgement, a guess) is not stored.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from supportpilot.memory import verify
from supportpilot.memory.numerals import numeral
from supportpilot.memory.verify import Figures, Source, supported
from supportpilot.prompts.fencing import visible

Facts = Mapping[str, Any]

CYCLES = {"monthly": re.compile(r"月付|按月付|包月|monthly|per month"), "yearly": re.compile(r"年付|按年付|包年|yearly|annual|per year")}
STATES = {"trial": re.compile(r"试用|trial"), "past_due": re.compile(r"已?逾期|欠费|past[ -]due|overdue|in arrears"),
          "cancelled": re.compile(r"已?取消|已退订|cancel+ed")}
TOPIC_WORDS = {
    "billing": "费用|账单|扣款|billing", "refund": "退款|refund", "invoice": "发票|开票|invoice", "account": "账号|账户|登录|成员|account|login",
    "technical": "功能|技术|使用问题|technical", "plan_change": "套餐|续费|plan change|plan_change", "api": "接口|api", "other": "其他|other"}
_PLAN = re.compile(r"[\u4e00-\u9fff]{2}版")
_VIP = re.compile(r"vip|贵宾|尊享|大客户", re.IGNORECASE)
_NO_VIP = re.compile(r"(?:非|不是|并非|未标注|not an? |no |non-?)\s?(?:vip|贵宾|大客户)", re.IGNORECASE)
_TIMES_EN = {"once": 1, "twice": 2, "thrice": 3, **{f"{word} times": n for n, word in enumerate(
    ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 2)}}
_COUNT = re.compile(r"([\d一二两三四五六七八九十百]+)\s*(?:次|回|遍)|(\d+)\s*(?:times?|x)\b|\b(" + "|".join(_TIMES_EN) + r")\b")
COUNT_CHARS = 6
_CODE = re.compile(r"(?<![a-z0-9])[a-z]\d{3,5}(?![a-z0-9])")
_JUDGEMENT = re.compile(
    r"脾气|暴躁|难缠|难搞|难伺候|不讲理|无理取闹|刁钻|态度(?:差|恶劣|不好)|素质|斤斤计较|爱抱怨|爱投诉|挑剔|急躁|没耐心|小气|愚|笨|懒|不靠谱|不诚实|狡猾|友善|好说话|性格|情绪|很生气|不懂技术"
    r"|可能是因为|估计是|大概是|应该是|疑似|怀疑|猜测|推测|似乎|好像"
    r"|\b(?:rude|angry|annoy\w*|difficult customer|demanding|impatient|aggressive|stupid|lazy|cheap|dishonest|friendly|polite|moody|stubborn|complains? a lot)\b"
    r"|\b(?:probably|presumably|seems?|apparently|maybe|perhaps|likely|i think|i guess)\b")
_ENDED = re.compile(r"已.{0,24}?(?:到期|过期|失效)|expired|已失效")
_ENDS = re.compile(r"(?:将|即将|快).{0,24}?(?:到期|过期|失效)|expires|will expire|about to expire")
_PROMISED = re.compile(r"答应|承诺|许诺|promis|commit")
_WISHED = re.compile(r"希望|想|要求?|愿|需要|wish|want|hope|prefer|ask")
_SOLVED = re.compile(r"解决|恢复|处理|通过|办法|solv|fix|restor|re-?authori|works?")
_CLAUSE = re.compile(r"[^,;\u3002!?\n]+")       # after NFKC


def problems(text: str, facts: Facts, plans: Sequence[str] = (), limit: int = verify.PROFILE_CHARS_STORED) -> list[str]:
    """Return what a profile says that the facts do not; [] if it may be stored. `plans` are all plans of the house."""
    source = Source(known=_known(facts))
    found = [problem.text for problem in verify.check(text, source, limit)]
    flat = unicodedata.normalize("NFKC", text).lower()
    return list(dict.fromkeys([
        *found, *_disguises(text, facts), *_vip(flat, facts), *_plans(flat, facts, plans), *_cycles(flat, facts), *_states(flat, facts),
        *_counts(flat, facts), *_banks(flat, facts),
        *(f"a judgement or a guess: {m.group()}" for m in _JUDGEMENT.finditer(_without_quotes(flat, facts)))]))


def in_another_language(text: str, lang: str) -> list[str]:
    """Return what is wrong with a model's language, [] if it is the customer's."""
    source = Source(known=supported(text), lang=lang)
    return [found.text for found in verify.check(text, source, len(text)) if found.reason == "wrong_language"]


def _quotable(facts: Facts) -> list[str]:
    """Return the noted texts that a profile may repeat: what stands in them is theirs."""
    said = [*(p["text"] for p in facts["promises"]), *(w["text"] for w in facts["wishes"]),
            *(text for p in facts["problems"] for text in p["resolutions"])]
    return [unicodedata.normalize("NFKC", text).lower() for text in said if text]


def _without_quotes(flat: str, facts: Facts) -> str:
    for text in sorted(_quotable(facts), key=len, reverse=True):
        flat = flat.replace(text, " ")
    return flat


def _known(facts: Facts) -> Figures:
    """The figures of the facts, and what can be counted in them."""
    figures = supported("\n".join(_strings(facts)))
    months = [month for p in facts["problems"] for month in p["months"]]
    counted = {n for n in (*_totals(facts), len(facts["subscriptions"]), len(facts["wishes"]), len(facts["promises"]),
                         *(int(part) for month in months for part in month.split("-"))) if n}
    return replace(figures, numbers=figures.numbers | {Decimal(n).normalize() for n in counted})


SKIPPED = frozenset({"id", "rows", "tickets", "notes", "corrections", "open_ended"})     # ids are no figures to be quoted


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name not in SKIPPED:
                yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
    elif value is not None and not isinstance(value, bool):
        yield " ".join(str(value).split())


def _totals(facts: Facts) -> set[int]:
    """Return every number of times that the facts support."""
    coded, other = [p["times"] for p in facts["problems"]], [t["times"] for t in facts["topics"]]
    return {*coded, *other, sum(coded), sum(other), sum(coded) + sum(other)}


def _disguises(text: str, facts: Facts) -> Iterator[str]:
    """Signs that nobody sees, and letters that only look like ours, would carry a word past all checks by words."""
    if visible(text) != text or any(unicodedata.category(ch) == "Cf" for ch in text):     # joiners of emoji too
        yield "signs that cannot be seen"
    known = set("".join(_strings(facts)))
    foreign = {ch for ch in text if ch.isalpha() and ch not in known and not unicodedata.name(ch, "").startswith(("CJK", "LATIN", "FULLWIDTH LATIN"))}
    if foreign:
        yield f"letters of another script: {' '.join(sorted(foreign))}"


def _vip(flat: str, facts: Facts) -> Iterator[str]:
    flag, without_no = facts["customer"].get("is_vip"), _NO_VIP.sub(" ", flat)
    if _VIP.search(without_no) and not flag:
        yield "the customer is not a VIP" if flag is False else "nothing may be said about VIP"
    if without_no != flat and flag is not False:
        yield "the customer is a VIP" if flag else "nothing may be said about VIP"


def _plans(flat: str, facts: Facts, plans: Sequence[str]) -> Iterator[str]:
    own = [s for s in facts["subscriptions"] if s.get("plan")]
    names = {unicodedata.normalize("NFKC", str(s["plan"])).lower() for s in own}
    text = flat
    others = {unicodedata.normalize("NFKC", plan).lower() for plan in plans} - names
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, " ")
    yield from (f"no plan {name}" for name in sorted(others) if name and re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", text))
    yield from (f"no plan {name}" for name in dict.fromkeys(_PLAN.findall(text)))
    ended = {unicodedata.normalize("NFKC", str(s["plan"])).lower() for s in own} - {
        unicodedata.normalize("NFKC", str(s["plan"])).lower() for s in own if s["status"] != "cancelled"}
    yield from (f"{name} is cancelled" for name in sorted(ended) if name in flat and not STATES["cancelled"].search(flat))


def _cycles(flat: str, facts: Facts) -> Iterator[str]:
    paid = {s.get("billing_cycle") for s in facts["subscriptions"]}
    yield from (f"nothing is paid {found.group()}" for cycle, pattern in CYCLES.items() if cycle not in paid
                for found in pattern.finditer(flat))


def _states(flat: str, facts: Facts) -> Iterator[str]:
    have = {s.get("status") for s in facts["subscriptions"]}
    text = _without_quotes(flat, facts)
    if any(p["overdue"] for p in facts["promises"]):
        have |= {"past_due"}
    yield from (f"no subscription is {state}" for state, pattern in STATES.items() if state not in have and pattern.search(text))


def _counts(flat: str, facts: Facts) -> Iterator[str]:
    times = Counter({p["error_code"].lower(): p["times"] for p in facts["problems"]})
    totals, text = _totals(facts), _without_quotes(flat, facts)
    for clause in re.findall(r"[^;\u3002!?\n]+", text):
        codes = list(_CODE.finditer(clause))
        for found in _COUNT.finditer(clause):
            said = _number(found)
            before = [code.group() for code in codes if code.start() < found.start()] or [code.group() for code in codes]
            if before and times[before[-1]] != said:
                yield f"{before[-1].upper()} did not come {found.group()}"
            elif not before and said not in totals:
                yield f"nothing came {found.group()}"


def _number(found: re.Match[str]) -> int:
    zh, digits, english = found.groups()
    if english:
        return _TIMES_EN[english]
    run = digits or zh
    if len(run) > COUNT_CHARS or (run.isascii() != run.isdigit()):
        return -1
    return int(run) if run.isascii() else int(numeral(run))


def _banks(flat: str, facts: Facts) -> Iterator[str]:
    for bank in facts["bank_connections"]:
        name = unicodedata.normalize("NFKC", str(bank["bank"])).lower()
        others = [b for b in facts["bank_connections"] if b["state"] != bank["state"]]
        for clause in _CLAUSE.findall(flat):
            wrong = _ENDED if bank["state"] == "expires" else _ENDS
            if name in clause and wrong.search(clause) and not any(b["bank"] == bank["bank"] for b in others):
                yield f"the authorisation of {bank['bank']} {'has not ended yet' if bank['state'] == 'expires' else 'has ended'}"


# which rows a sentence came from ------------------------------------------------------------------------

def rows_behind(sentence: str, facts: Facts) -> list[str]:
    """Return the rows that stand behind a sentence: those whose code, plan, flag, month, noted words or subject it has."""
    flat = unicodedata.normalize("NFKC", sentence).lower()
    found = [*_account_rows(flat, facts), *_problem_rows(flat, facts), *_noted_rows(flat, facts)]
    return list(dict.fromkeys(found or _topic_rows(flat, facts)))


def _account_rows(flat: str, facts: Facts) -> Iterator[str]:
    customer = facts["customer"]
    if _VIP.search(flat):
        yield from customer.get("rows") or [f"biz.customers {customer['id']}"]
    if not facts["subscriptions"] and re.search(r"没有订阅|无订阅|未订阅|no subscription", flat):
        yield f"biz.customers {customer['id']}"
    for s in facts["subscriptions"]:
        plan = unicodedata.normalize("NFKC", str(s["plan"] or "")).lower()
        marks = [CYCLES.get(s.get("billing_cycle") or ""), STATES.get(s["status"])]
        if (plan and plan in flat) or any(mark and mark.search(flat) for mark in marks) or (
                s["status"] == "cancelled" and re.search(r"没有订阅|no subscription", flat)):
            yield from [*([f"biz.subscriptions {s['id']}"] if s["id"] else []), *s.get("rows", [])]


def _problem_rows(flat: str, facts: Facts) -> Iterator[str]:
    for p in facts["problems"]:
        if p["error_code"].lower() in flat or (
                _SOLVED.search(flat) and any(_shares(flat, text, hinted=True) for text in p["resolutions"])) or (
                not _CODE.search(flat) and _says_month(flat, p["months"])):
            yield from [*(f"biz.tickets {ticket}" for ticket in p["tickets"]), *p.get("rows", [])]


def _noted_rows(flat: str, facts: Facts) -> Iterator[str]:
    for name, hint in (("promises", _PROMISED), ("wishes", _WISHED)):
        for noted in facts[name]:
            if _shares(flat, noted["text"], hinted=bool(hint.search(flat))):
                yield from noted["rows"]
    for bank in facts["bank_connections"]:
        if bank["on"] in flat or (str(bank["bank"]).lower() in flat and re.search(r"授权|到期|过期|authori|expir", flat)):
            yield f"biz.bank_connections {bank['id']}"


def _topic_rows(flat: str, facts: Facts) -> Iterator[str]:
    for topic in facts["topics"]:
        if re.search(TOPIC_WORDS.get(topic["category"], re.escape(topic["category"])), flat):
            yield from (f"biz.tickets {ticket}" for ticket in topic["tickets"])


def _says_month(flat: str, months: Sequence[str]) -> bool:
    return any(re.search(rf"(?<!\d){int(month[5:])}\s*月|{month}", flat) for month in months)


def _shares(flat: str, text: str, *, hinted: bool) -> bool:
    """Tell whether a sentence has a noted text or much of its pairs of letters; less will do if another word hints at it."""
    noted = " ".join(unicodedata.normalize("NFKC", text).lower().split())
    pairs, found = _pairs(noted), _pairs(noted) & _pairs(flat)
    if not noted or noted in flat:
        return bool(noted)
    enough = len(found) * 4 >= min(len(pairs), len(_pairs(flat))) if hinted else len(found) * 2 >= len(pairs)
    return bool(pairs) and len(found) >= min(2, len(pairs)) and enough


def _pairs(text: str) -> set[str]:
    words = re.findall(r"[a-z0-9]{3,}", text)
    runs = re.findall(r"[\u3400-\u9fff]+", text)
    return {*words, *(run[i:i + 2] for run in runs for i in range(len(run) - 1))}
