"""The profile by rule, what a profile in a model's words may say, and which rows each sentence came from. Pure.

The template is free and never wrong, so a customer whose profile is missing or out of date is served with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from supportpilot.memory.profile_check import in_another_language, problems, rows_behind

PROFILE_CHARS = {"zh": 100, "en": 300}
NOTE_CHARS = {"zh": 40, "en": 120}
MONTHS_SHOWN = 4
ITEM_CHARS = {"zh": 40, "en": 120}
CYCLES = {"zh": {"monthly": "月付", "yearly": "年付"}, "en": {"monthly": " monthly", "yearly": " yearly"}}
STATES = {"zh": {"trial": "试用中", "past_due": "已逾期"}, "en": {"trial": " (trial)", "past_due": " (past due)"}}
TOPICS = {"billing": "费用", "refund": "退款", "invoice": "发票", "account": "账号", "technical": "功能",
          "plan_change": "套餐", "api": "接口", "other": "其他"}

_MONTH = re.compile(r"(\d{4})-(\d{2})")
# A stop ends a sentence; in English only before a blank, else 389.50 would be two.
_ENDS = re.compile("(?<=[\u3002!?;\uff01\uff1f\uff1b])\\s*|(?<=[.!?;])\\s+")

Facts = Mapping[str, Any]


class Sentence(NamedTuple):
    """One sentence of a profile and the rows that it came from, e.g. `biz.tickets T000034`."""

    text: str
    rows: list[str]


def language(facts: Facts) -> str:
    """Return the language that the customer's profile is written in."""
    return "en" if facts["customer"].get("locale") == "en" else "zh"


def template(facts: Facts) -> str:
    """Return the profile by rule: plan, VIP, error codes with counts and months, promises, wishes, notes."""
    return joined(by_rule(facts), language(facts))


def by_rule(facts: Facts) -> list[Sentence]:
    """Return the sentences of the profile by rule, human notes last.

    At most `PROFILE_CHARS`: whole sentences that do not fit are left out, never cut. What cannot be said without
    breaking the check of a model's wording (a noted text that gives orders) is left out too.
    """
    lang, notes = language(facts), notes_of(facts)
    room = PROFILE_CHARS[lang] - _length(notes, lang)
    kept: list[Sentence] = []
    for variants in (_who(facts, lang), *_repeated(facts, lang), *_noted(facts, lang), *_topics(facts, lang)):
        for text in variants:
            sentence = Sentence(text, rows_behind(text, facts))
            if sentence.rows and not problems(text, facts, (), room) and _length([*kept, sentence], lang) <= room:
                kept.append(sentence)
                break
    return [*kept, *notes]


def fitted(text: str, facts: Facts) -> list[Sentence]:
    """Return the sentences of a model's profile with their rows; the last ones are left out if they do not fit."""
    lang = language(facts)
    room = PROFILE_CHARS[lang] - _length(notes_of(facts), lang)
    said = [part.strip() for part in _ENDS.split(text) if part.strip()]
    sentences = [Sentence(part, rows_behind(part, facts)) for part in said]
    while len(sentences) > 1 and _length(sentences, lang) > room:
        sentences.pop()
    return sentences


def refused(sentences: Sequence[Sentence], facts: Facts, plans: Sequence[str] = ()) -> list[str]:
    """Return why a model's sentences may not be stored; [] if they may."""
    lang = language(facts)
    room = PROFILE_CHARS[lang] - _length(notes_of(facts), lang)
    found = problems(joined(sentences, lang), facts, plans, room)
    found += in_another_language(joined(sentences, lang), lang)
    return found + [f"no record says: {sentence.text[:40]}" for sentence in sentences if not sentence.rows]


def notes_of(facts: Facts) -> list[Sentence]:
    """Return the human notes that fit into half of a profile, the newest first; they are never worded anew."""
    lang, kept = language(facts), list[Sentence]()
    for note in facts.get("notes", ()):
        text = f"同事备注:{note['text']}。" if lang == "zh" else f"Colleague's note: {note['text']}."
        sentence = Sentence(text, [f"biz.profile_overrides {note['id']}"])
        if _length([*kept, sentence], lang) <= PROFILE_CHARS[lang] // 2:
            kept.append(sentence)
    return kept


def joined(sentences: Sequence[Sentence], lang: str) -> str:
    """Return the sentences as one text."""
    text = ""
    for sentence in sentences:
        # A model's sentence may end without a stop: nothing may run on into the next one.
        if text and text[-1] not in "。.!?;\uff01\uff1f\uff1b":
            text += "。" if lang == "zh" else "."
        text += (" " if lang == "en" and text else "") + sentence.text
    return text


def _length(sentences: Sequence[Sentence], lang: str) -> int:
    return len(joined(sentences, lang)) + (2 if sentences else 0)     # what joins them to the next


# the sentences: each a list of variants, the fullest first ---------------------------------------------

def _who(facts: Facts, lang: str) -> list[str]:
    vip = bool(facts["customer"].get("is_vip"))
    current = [s for s in facts["subscriptions"] if s.get("plan") and s.get("status") != "cancelled"]
    hidden = any(not s.get("plan") for s in facts["subscriptions"])
    named = list(dict.fromkeys(f"{s['plan']}{CYCLES[lang].get(s.get('billing_cycle') or '', '')}"
                               f"{STATES[lang].get(s.get('status', ''), '')}" for s in current[:2]))
    said = [named, named[:1]] if len(named) > 1 else [named]
    if not named and hidden:
        return ([f"VIP{'' if lang == 'en' else ' 客户'}{_stop(lang)}"] if vip else [])
    if lang == "en":
        return [f"{', '.join(names) or 'No subscription'}{', VIP' if vip else ''}." for names in said]
    return [f"{'、'.join(names) or '没有订阅的'}{' VIP ' if vip else ''}客户。" for names in said]


def _repeated(facts: Facts, lang: str) -> Iterator[list[str]]:
    for problem in facts["problems"]:
        code, times, months = problem["error_code"], problem["times"], problem["months"]
        said = f"{code} {times} time{'s' if times > 1 else ''}" if lang == "en" else f"{code} 已出现 {times} 次"
        yield [*([f"{said}({when}){_stop(lang)}" if lang == "zh" else f"{said} ({when})."] if (when := _when(months, lang)) else []),
               f"{said}{_stop(lang)}"]


def _when(months: Sequence[str], lang: str) -> str:
    if len(months) > MONTHS_SHOWN:
        return f"last in {months[-1]}" if lang == "en" else f"最近是{_months(months[-1:], lang)}"
    return _months(months, lang)


def _months(months: Sequence[str], lang: str) -> str:
    if lang == "en":
        return ", ".join(months)
    said, last = [], ""
    for year, month in (m.groups() for month in months if (m := _MONTH.match(month))):
        said.append(f"{year + '年' if year != last else ''}{int(month)}月")
        last = year
    return "、".join(said)


def _noted(facts: Facts, lang: str) -> Iterator[list[str]]:
    zh = lang == "zh"
    for promise in facts["promises"]:
        if len(promise["text"]) <= ITEM_CHARS[lang]:
            yield [_promise(promise, lang)]
    for wish in facts["wishes"]:
        if len(wish["text"]) <= ITEM_CHARS[lang]:
            yield [f"希望{wish['text'].removeprefix('希望')}。" if zh else f"Wishes: {wish['text']}."]
    for bank in facts["bank_connections"]:
        over = bank["state"] == "expired"
        yield [f"{bank['bank']}授权{'已' if over else '将'}于 {bank['on']} 到期。" if zh
               else f"{bank['bank']}: authorisation {'expired' if over else 'expires'} on {bank['on']}."]


def _promise(promise: Mapping[str, Any], lang: str) -> str:
    if lang == "zh":
        due = f"(期限 {promise['due']}{',已过' if promise['overdue'] else ''})" if promise["due"] else ""
        return f"已答应:{promise['text']}{due}。"
    due = f" (due {promise['due']}{', passed' if promise['overdue'] else ''})" if promise["due"] else ""
    return f"Promised: {promise['text']}{due}."


def _topics(facts: Facts, lang: str) -> Iterator[list[str]]:
    counted = [(t["category"], t["times"]) for t in facts["topics"]]
    say: Callable[[Sequence[tuple[str, int]]], str] = (
        (lambda found: f"Also asked about: {', '.join(f'{name} {n}' for name, n in found)}.") if lang == "en" else
        (lambda found: f"其他咨询:{'、'.join(f'{TOPICS.get(name, name)} {n} 次' for name, n in found)}。"))
    if counted:
        yield [say(counted[:n]) for n in (len(counted), 3, 1) if n <= len(counted)]


def _stop(lang: str) -> str:
    return "." if lang == "en" else "。"
