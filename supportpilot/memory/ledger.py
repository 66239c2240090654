"""The facts ledger: every figure of a conversation with who wrote it, where, and how often. Pure and total.

It is recomputed whole from the entries each time, so nothing drifts: the ledgers of any slices, joined, are the
ledger of the whole. What a customer wrote is shown as the customer's claim, never as a fact of the desk.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from supportpilot.memory.figures import figures
from supportpilot.memory.masking import SECRET_MARK, masked, narrow
from supportpilot.memory.numerals import plain
from supportpilot.memory.tokens import estimate_tokens

SPELLINGS = " | "       # no figure has it
LONGEST_NUMBER = 40
SHORT = 3
_RUN = re.compile(r"[0-9]{1,4000000}")
_NUMBER = re.compile(r"[0-9]{1,40}(?:\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure of one speaker.

    `value` is canonical, `shown` as first written (masked; a later spelling with other digits is added), `turn` the entry that first has it, `count` how often it
    was written. `about` names the bill of an amount, the event of a date. `later`: of two values of one thing the
    one named last, or one that was said to correct another. `place` orders facts within an entry; `last` is the
    latest mention.
    """

    kind: str
    value: str
    shown: str
    speaker: str
    turn: int
    count: int = 1
    later: bool = False
    about: str = ""
    corrects: bool = False
    place: int = 0
    last: tuple[int, int] = (0, 0)

    @property
    def written(self) -> str:
        """The first spelling, alone."""
        return self.shown.split(SPELLINGS)[0]


def facts(turns: Sequence[Mapping[str, Any]], lang: str = "zh", first: int = 0) -> tuple[Fact, ...]:
    """Return the facts of the entries in the order they were first named; `first` is the index of `turns[0]`."""
    return joined([_of_entry(turn, first + i, lang) for i, turn in enumerate(turns)])


def joined(ledgers: Iterable[Sequence[Fact]]) -> tuple[Fact, ...]:
    """Return one ledger of several, each made of the entries that follow the last one's."""
    same: dict[tuple[str, str, str, str], list[Fact]] = {}
    for ledger in ledgers:
        for fact in ledger:
            same.setdefault((fact.kind, fact.value, fact.speaker, fact.about), []).append(fact)
    return _later_marked(sorted(map(_one, same.values()), key=lambda fact: (fact.turn, fact.place)))


def _one(mentions: Sequence[Fact]) -> Fact:
    if len(mentions) == 1:
        return mentions[0]
    first = mentions[0]
    return replace(first, shown=_spellings(first.value, [fact.shown for fact in mentions]), count=sum(fact.count for fact in mentions),
                   last=max(fact.last for fact in mentions), corrects=any(fact.corrects for fact in mentions))


def _spellings(value: str, shown: Sequence[str]) -> str:
    """Return the first spelling, and each further one with digits that neither it nor the value has (`389.50`)."""
    kept: list[str] = []
    for spelling in dict.fromkeys(part for text in shown for part in text.split(SPELLINGS)):
        have = "\n".join([narrow(text) for text in (value, *kept)])
        if not kept or any(run not in have for run in _RUN.findall(narrow(spelling))):
            kept.append(spelling)
    return SPELLINGS.join(kept)


def _of_entry(turn: Mapping[str, Any], index: int, lang: str) -> list[Fact]:
    speaker = "customer" if turn.get("role") == "customer" else "agent"
    found = figures(masked(str(turn.get("content") or "")), turn.get("at"), lang)
    return [Fact(f.kind, f.value, _one_line(f.shown), speaker, index, about=f.about, corrects=f.corrects, place=place, last=(index, place))
            for place, f in enumerate(found)]


def _one_line(text: str) -> str:
    return text if text.isalnum() else " ".join(text.split())


def _later_marked(found: Sequence[Fact]) -> tuple[Fact, ...]:
    newest: dict[tuple[str, str], Fact] = {}
    several = set[tuple[str, str]]()
    for fact in found:
        thing = (fact.kind, fact.about)
        have = newest.get(thing)
        if have is not None and fact.about and have.value != fact.value:
            several.add(thing)
        if have is None or fact.last > have.last:
            newest[thing] = fact
    return tuple(_marked(fact, fact.corrects or (
        (fact.kind, fact.about) in several and newest[fact.kind, fact.about].value == fact.value)) for fact in found)


def _marked(fact: Fact, later: bool) -> Fact:  # noqa: FBT001 -- one flag, and its name says it
    return fact if fact.later == later else replace(fact, later=later)


# -- as the view shows it --

_GROUPS = {"id": 1, "code": 1, "amount": 2, "date": 2}
_KINDS = {
    "zh": {"id": "单号", "code": "报错码", "amount": "金额", "date": "日期", "duration": "时长", "phone": "电话", "card": "尾号", "number": "数字", "article": "文章"},
    "en": {"id": "number", "code": "error code", "amount": "amount", "date": "date", "duration": "duration", "phone": "phone", "card": "ending in",
           "number": "figure", "article": "article"},
}
_SAID = {"zh": {"customer": "客户称", "agent": "客服", "both": "客户称,客服也写过"}, "en": {"customer": "the customer's claim", "agent": "agent", "both": "the customer's claim, the agent wrote it too"}}
EVENTS: dict[str, dict[str, str]] = {
    "zh": {"expiry": "到期", "renewal": "续费", "charge": "扣款", "invoice": "开票", "payment": "付款", "refund": "退款", "arrival": "到账", "authorisation": "授权",
           "start": "开始", "cancellation": "停用", "upgrade": "变更套餐", "answer": "答复"},
    "en": {},
}
_OPEN = {"zh": "待兑现:", "en": "promised, open: "}
_LATER = {"zh": ",后说", "en": ", said later"}
_ENTRY = {"zh": "{said},第{n}条{later}", "en": "{said}, entry {n}{later}"}


def render(
    facts: Sequence[Fact], commitments: Sequence[str], room_tokens: int, lang: str = "zh",
    count: Callable[[str], int] = estimate_tokens,
) -> str:
    """Return the ledger for the view, a fact a line, as much as `room_tokens` holds; "" if nothing fits.

    Order: open commitments, ids and codes, amounts and dates, the rest; in each what the customer named, the newest first.
    """
    lines, used = [], 0
    for line in [*(f"- {_OPEN[lang]}{' '.join(text.split())}" for text in commitments), *_lines(facts, lang)]:
        cost = count(f"{line}\n")
        if used + cost > room_tokens:
            continue
        lines.append(line)
        used += cost
    while lines and count("\n".join(lines)) > room_tokens:
        lines.pop()
    return "\n".join(lines)


def _lines(facts: Sequence[Fact], lang: str) -> list[str]:
    belongs: dict[tuple[str, str], str] = {}
    for fact in facts:
        if fact.about:
            belongs[fact.kind, fact.value] = fact.about
    together: dict[tuple[str, str, str], list[Fact]] = {}
    for fact in facts:
        if fact.shown.startswith(SECRET_MARK):
            continue        # that there was a password helps nobody
        about = fact.about or belongs.get((fact.kind, fact.value), "")
        together.setdefault((fact.kind, fact.value, about), []).append(fact if fact.about == about else replace(fact, about=about))
    told = sorted(together.values(), key=_place)
    return [_line(same, lang) for same in told]


def _place(same: Sequence[Fact]) -> tuple[float, bool, tuple[int, ...]]:
    """Return what orders the lines: what the customer named goes before the ten bills that the desk may have listed."""
    return _group(same[0]), all(fact.speaker != "customer" for fact in same), tuple(-n for n in max(fact.last for fact in same))


def _group(fact: Fact) -> float:
    """Return the place of a fact's kind; articles behind bills, the numbers of a list of steps at the very end."""
    if fact.value.startswith("KB-"):
        return 1.5
    bare = fact.kind == "number" and fact.written.isdecimal() and len(fact.written) < SHORT
    return 4 if bare else _GROUPS.get(fact.kind, 3)


def _line(same: Sequence[Fact], lang: str) -> str:
    fact = min(same, key=lambda other: (other.turn, other.place))
    times = sum(other.count for other in same)
    kind = _KINDS[lang]["article" if fact.value.startswith("KB-") else fact.kind]
    often = f"×{times}" if fact.kind == "code" and times > 1 else ""
    said = _SAID[lang]["both" if len({other.speaker for other in same}) > 1 else fact.speaker]
    later = _LATER[lang] if any(other.later for other in same) else ""
    entry = _ENTRY[lang].format(said=said, n=fact.turn + 1, later=later)
    return f"- {kind} {_worded(fact)}{often}{_thing(fact.about, lang)}:{entry}" if lang == "zh" else f"- {kind} {_worded(fact)}{often}{_thing(fact.about, lang)}: {entry}"


def _worded(fact: Fact) -> str:
    """Return a fact as written, with its canonical form where the writing does not say it all."""
    if fact.kind in ("id", "code", "card", "phone"):
        return fact.written if fact.value.startswith("KB-") else fact.value
    told = _numbers(fact.value) <= _numbers(fact.written.replace(",", ""))
    return fact.written if told else f"{fact.written} = {fact.value}"


def _numbers(text: str) -> set[Decimal]:
    return {plain(Decimal(found)) for found in _NUMBER.findall(narrow(text)) if len(found) < LONGEST_NUMBER}


def _thing(about: str, lang: str) -> str:
    """Return what a fact is about, an event in the language of the ticket."""
    event, _, bill = about.partition(" ")
    return f" ({' '.join(part for part in (EVENTS[lang].get(event, event), bill) if part)})" if about else ""
