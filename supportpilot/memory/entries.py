"""Entries of a conversation as text: who said it, in which language, and how much of a giant one. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from supportpilot.memory.tokens import TokenCounter, estimate_tokens, is_han

Turns = Sequence[Mapping[str, Any]]

SPEAKERS = {"zh": {"customer": "客户", "agent": "客服"}, "en": {"customer": "Customer", "agent": "Agent"}}
COLON = {"zh": ":", "en": ": "}
EARLIER = {"zh": "早前第{n}条", "en": "earlier, entry {n}"}
COMMA = {"zh": ",", "en": ", "}
OMITTED = {"zh": "\n[……中间省略 {n} 个字符……]\n", "en": "\n[… {n} characters left out …]\n"}
HEAD_SHARE = 0.65
HAN_PER_WORD = 4        # a Chinese sentence may quote a long English error message

_WORD = re.compile(r"[A-Za-z]{2,}")


def language_of_text(text: str, default: str = "zh") -> str:
    """Return `zh` or `en` by the letters of a text, `default` if it has none."""
    han, words = letters(text)
    if not han and not words:
        return default
    return "zh" if han * HAN_PER_WORD >= words else "en"


def letters(text: str) -> tuple[int, int]:
    """Return how many Han characters and how many Latin words a text has."""
    return sum(map(is_han, text)), len(_WORD.findall(text))


def render_turns(
    turns: Turns, lang: str = "zh", entry_tokens: int | None = None, count: TokenCounter = estimate_tokens,
) -> str:
    """Return the entries as one transcript, a speaker a line; further lines of an entry are indented.

    The indentation keeps a customer from writing a line that looks like the agent's. With `entry_tokens` a longer
    entry is shown as `shorten` does.
    """
    return "\n".join(
        f"{_speaker(turn, lang)}{COLON[lang]}{_indented(_shown(turn, lang, entry_tokens, count))}" for turn in turns)


def render_recalled(
    turns: Turns, indexes: Sequence[int], lang: str = "zh", entry_tokens: int | None = None,
    count: TokenCounter = estimate_tokens,
) -> str:
    """Return some entries word for word, each marked as an earlier one with its number."""
    lines = []
    for index in indexes:
        turn = turns[index]
        mark = COMMA[lang].join(part for part in (EARLIER[lang].format(n=index + 1), _author(turn)) if part)
        name = SPEAKERS[lang][turn["role"]]
        lines.append(f"{name}({mark}){COLON[lang]}{_indented(_shown(turn, lang, entry_tokens, count))}")
    return "\n".join(lines)


def shorten(text: str, max_tokens: int, lang: str = "zh", count: TokenCounter = estimate_tokens) -> str:
    """Return a text as it is, or its head and tail with the number of characters left out between them."""
    total = count(text)
    if total <= max_tokens:
        return text
    keep = int(len(text) * max_tokens / total)
    while True:
        head = int(keep * HEAD_SHARE)
        tail = keep - head
        cut = text[:head] + OMITTED[lang].format(n=len(text) - keep) + text[len(text) - tail:]
        if keep <= 0 or count(cut) <= max_tokens:
            return cut
        keep = int(keep * 0.9)


def _shown(turn: Mapping[str, Any], lang: str, entry_tokens: int | None, count: TokenCounter) -> str:
    text = str(turn["content"])
    return text if entry_tokens is None else shorten(text, entry_tokens, lang, count)


def _speaker(turn: Mapping[str, Any], lang: str) -> str:
    author = _author(turn)
    return f"{SPEAKERS[lang][turn['role']]}({author})" if author else SPEAKERS[lang][turn["role"]]


def _author(turn: Mapping[str, Any]) -> str:
    return " ".join(str(turn.get("author") or "").split()) if turn["role"] == "agent" else ""


def _indented(text: str) -> str:
    return "\n  ".join(text.strip().splitlines())
