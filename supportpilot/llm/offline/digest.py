"""Summaries by rules: pieces copied from the source, counted, never reworded figures. Pure."""

from __future__ import annotations

import re

from supportpilot.llm.offline.lexicon import AMOUNT, INVOICE_NUMBER, concepts_in, error_codes
from supportpilot.llm.offline.recall import PROMISE, plain
from supportpilot.llm.offline.text import bare, clip, conversation, language_of, normal, sentences
from supportpilot.llm.offline.triage import UNSOLVED

SUMMARY_CHARS = 150
LIMIT = re.compile(r"(\d{2,4})\s?(?:字|个字|characters|chars)")
BULLET = re.compile(r"^- (诉求|单号金额|答复承诺|未解决|Asks|Figures|Answers|Open):\s?(.*)$")
LABELS = {"zh": ("诉求", "单号金额", "答复承诺", "未解决"), "en": ("Asks", "Figures", "Answers", "Open")}
# Shares of the room after the figures, which are never cut.
# What a part leaves over goes to the next.
SHARES = (0.38, 0.0, 0.36, 0.26)


def summary(sections: dict[str, str], system: str) -> str:
    """Return bullets of what a transcript holds: asks, figures, answers and promises, what is open."""
    transcript, before = sections.get("transcript", ""), sections.get("previous_summary", "")
    limit = min(_limit(system, SUMMARY_CHARS), SUMMARY_CHARS)
    lang = language_of(transcript or before)
    old = {m.group(1): m.group(2) for line in before.splitlines() if (m := BULLET.match(line.strip()))}
    lines = conversation(transcript)
    asked = [s for line in lines if line.customer for s in sentences(bare(line.text))]
    answered = [bare(plain(s)) for line in lines if not line.customer for s in sentences(line.text)]
    parts = (_asks(asked), _figures(f"{before}\n{transcript}", limit), _answers(answered), _open(asked))
    kept = [part or old.get(label, "") for part, label in zip(parts, LABELS[lang], strict=True)]
    if not old and before and not kept[0]:
        kept[0] = before.splitlines()[0].removeprefix("- ")
    return _bullets(kept, LABELS[lang], limit)


def _limit(system: str, default: int) -> int:
    found = LIMIT.findall(system)
    return int(found[-1]) if found else default


def _asks(asked: list[str]) -> str:
    """Return the first sentence with a matter in it, and the last other one with another matter."""
    telling = [s for s in asked if concepts_in(normal(s)) or error_codes(s)] or asked
    if not telling:
        return ""
    first = telling[0]
    other = [s for s in telling[1:] if concepts_in(normal(s)) - concepts_in(normal(first))]
    return ";".join([clip(first, 34), *[clip(s, 26) for s in other[-1:]]])


def _figures(text: str, limit: int) -> str:
    found = [*INVOICE_NUMBER.findall(text), *AMOUNT.findall(text), *error_codes(text)]
    kept: list[str] = []
    for figure in dict.fromkeys(f.strip() for f in found):
        if len("、".join([*kept, figure])) <= limit * 2 // 5:
            kept.append(figure)
    return "、".join(kept)


def _answers(answered: list[str]) -> str:
    promised = [s for s in answered if PROMISE.search(s)]
    return (promised or answered or [""])[-1]


def _open(asked: list[str]) -> str:
    stuck = [s for s in asked if UNSOLVED.search(normal(s)) or s.endswith(("?", "?")) or re.search(r"吗|呢|怎么|什么时候", s)]
    return (stuck or asked or [""])[-1]


def _bullets(parts: list[str], labels: tuple[str, ...], limit: int) -> str:
    used = sum(len(label) + 4 for label, part in zip(labels, parts, strict=True) if part) + len(parts[1])
    room = max(0, limit - used)
    bullets, owed = [], 0
    for label, part, share in zip(labels, parts, SHARES, strict=True):
        mine = int(room * share) + owed
        shown = clip(part, mine) if share else part
        owed = max(0, mine - len(shown)) if share else owed
        if shown:
            bullets.append(f"- {label}:{shown}")
    return "\n".join(bullets)[:limit] or "- (empty)"
