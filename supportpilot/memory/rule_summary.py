"""A summary by rule: the ledger's figures and sentences copied from the entries, shortened, never reworded. Pure.

Used where no checked summary of the model is at hand, so that no customer waits for one. What it says passes
the check of `verify` by construction: a line that does not is dropped, and with no line left it says only that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from supportpilot.memory.entries import Turns, language_of_text, render_turns
from supportpilot.memory.ledger import Fact, facts
from supportpilot.memory.masking import masked
from supportpilot.memory.verify import SUMMARY_CHARS, Source, check, claimed, orders_its_reader

LABELS = {"zh": ("诉求", "单号金额", "答复承诺", "未解决"), "en": ("Asks", "Figures", "Answers", "Open")}
NOTHING = {"zh": "- 早前对话没有可记的内容", "en": "- nothing to note in the early part"}
SHARES = (0.34, 0.0, 0.38, 0.28)      # of the room that the figures leave; those are never cut
FIGURES_SHARE = 0.4
FIGURES = {"id": 0, "code": 0, "amount": 1, "date": 1}     # the kinds that are named, and what goes first

_BOUNDARY = re.compile(r"[。!?;\uff01\uff1f\uff1b\n]+|\.(?=\s|$)")
# Repeats inside are bounded: a customer who repeats one sign 20,000 times must not stop the process.
_PROMISE = re.compile(r"工作日|小时内|天内|分钟内|预计|承诺|保证|会尽快|会在|将在|稍后|跟进|回复您|提醒|we will|will be|within|by the end", re.IGNORECASE)
_OPEN = re.compile(r"[吗呢么]$|怎么|什么时候|多久|能不能|可以.{0,6}吗|还是|仍然|依然|不行|没有|没收到|失败|\bstill\b|\bnot\b|\bhow\b|\bwhen\b|\?", re.IGNORECASE)
_GREETING = re.compile(r"^(?:您好|你好|在吗|在不在|谢谢|多谢|好的|请问|hi|hello|thanks?|thank you|ok)[,!\uff0c\uff01。.\s]*$", re.IGNORECASE)
_COURTESY = re.compile(r"^(?:您好|你好|请问|hi|hello)[,!\uff0c\uff01\s]+", re.IGNORECASE)
_EDGES = " ,\uff0c、*#>|-"
_CITATION = re.compile(
    r'\s?\[(?:[^\[\]\\\n]|\\.){0,300}\]\([^\s()<>"]{1,500} "KB-[\w-]{1,60}"\)|\s?\[KB-[\w-]{1,60}\]')
_LINK = re.compile(r"\[([^\[\]]{0,300})\]\([^()]{0,600}\)")


def rule_summary(turns: Turns, limit: int = SUMMARY_CHARS) -> str:
    """Return at most `limit` characters: what was asked, figures, what was answered or promised, what is open."""
    return rule_summaries(turns)(limit)


def rule_summaries(turns: Turns) -> Callable[[int], str]:
    """Read the entries once; return what makes the summary of any length of them."""
    plain = readable(turns)
    source, ledger = source_of(plain), facts(plain)
    asked = _sentences(turn for turn in plain if turn["role"] == "customer")
    answered = _sentences(turn for turn in plain if turn["role"] != "customer")

    def within(limit: int) -> str:
        room = limit if source.length is None else max(1, min(limit, source.length - 1))
        figures = _figures(ledger, int(room * FIGURES_SHARE))
        parts = (_asks(asked), figures, _last(answered, _PROMISE), _last(asked[1:], _OPEN))
        lines = [line for line in _bullets(parts, LABELS[source.lang], room) if not check(line, source, room)]
        for text in ("\n".join(lines), NOTHING[source.lang][:room].strip()):
            if not check(text, source, room):
                return text
        return "-"
    return within


def readable(turns: Turns) -> list[dict[str, Any]]:
    """Return the entries as a summary may use them: no links, no secrets."""
    return [{**turn, "content": masked(without_links(str(turn["content"])))} for turn in turns]


def without_citations(turns: Turns) -> list[dict[str, Any]]:
    """Return the entries without the articles that our own replies cite: addresses are no facts of the matter."""
    return [{**turn, "content": _CITATION.sub("", str(turn["content"]))} if turn["role"] == "agent" else dict(turn) for turn in turns]


def source_of(turns: Turns) -> Source:
    """Return what a summary of these (readable) entries is checked against."""
    lang = language_of_text("\n".join(str(turn["content"]) for turn in turns))
    text = render_turns(turns, lang)
    said = "\n".join(str(turn["content"]) for turn in turns if turn["role"] != "customer")
    return Source(text, lang, len(text) if turns else None, said=said)


def without_links(text: str) -> str:
    """Return a text without its citations, other links by their words: addresses are no figures of the matter."""
    return _LINK.sub(r"\1", _CITATION.sub("", text))


def clip(text: str, limit: int) -> str:
    """Return a text cut to `limit` characters, never inside a figure (half an invoice number is another one)."""
    if len(text) <= limit:
        return text
    whole = claimed(text)
    cut = text[:max(0, limit - 1)]
    while cut and claimed(cut).missing_in(whole):
        cut = cut[:-1]
    return f"{cut.rstrip()}…" if cut.strip() else ""


def _sentences(turns: Any) -> list[str]:  # noqa: ANN401 -- an iterable of entries
    found = []
    for turn in turns:
        for piece in _BOUNDARY.split(str(turn["content"])):
            sentence = _COURTESY.sub("", " ".join(piece.split()).strip(_EDGES))
            if sentence and not _GREETING.match(sentence) and not orders_its_reader(sentence):
                found.append(sentence)
    return found


def _figures(ledger: Sequence[Fact], room: int) -> str:
    """Return ids, codes, amounts and dates as far as they fit, in the order they were named.

    What the customer named goes first (the desk may have listed ten invoices), then ids and codes, then the newest.
    """
    named: dict[str, tuple[bool, int, int]] = {}
    for fact in ledger:
        if fact.kind in FIGURES and not fact.value.startswith("KB-"):
            named.setdefault(fact.written, (fact.speaker != "customer", FIGURES[fact.kind], -len(named)))
    kept: list[str] = []
    for figure in sorted(named, key=named.__getitem__):
        if len("、".join([*kept, figure])) <= room:
            kept.append(figure)
    return "、".join(sorted(kept, key=list(named).index))


def _asks(asked: list[str]) -> str:
    """Return the first ask, and the last other one: what it began with, and what it is about now."""
    if not asked:
        return ""
    first, last = asked[0], asked[-1]
    return first if last == first else f"{clip(first, 36)};{last}"


def _last(sentences: list[str], wanted: re.Pattern[str]) -> str:
    telling = [s for s in sentences if wanted.search(s)]
    return (telling or sentences or [""])[-1]


def _bullets(parts: tuple[str, ...], labels: tuple[str, ...], limit: int) -> list[str]:
    fixed = sum(len(f"- {label}:\n") for label, part in zip(labels, parts, strict=True) if part) + len(parts[1])
    rooms = _shared([len(part) for part in parts], max(0, limit - fixed))
    shown = [part if not share else clip(part, room) for part, share, room in zip(parts, SHARES, rooms, strict=True)]
    return [f"- {label}:{text}" for label, text in zip(labels, shown, strict=True) if text]


def _shared(lengths: list[int], room: int) -> list[int]:
    """Return each part's room: its share, and what shorter parts left over."""
    rooms = [min(length, int(room * share)) for length, share in zip(lengths, SHARES, strict=True)]
    for i, share in enumerate(SHARES):
        if share:
            rooms[i] += min(lengths[i] - rooms[i], room - sum(rooms))
    return rooms
