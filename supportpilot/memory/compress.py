"""The second memory: the early part of a long conversation as a short list, the latest entries word for word.

Without it every call of every turn would carry the whole conversation again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from supportpilot.db.summaries import MadeBy
from supportpilot.memory.ports import ChatModel
from supportpilot.memory.rule_summary import rule_summary, without_links
from supportpilot.memory.tokens import estimate_tokens, is_han
from supportpilot.memory.verify import SUMMARY_CHARS, problems
from supportpilot.prompts.loader import fence, prompt

__all__ = ["Folded", "estimate_tokens", "fold", "fold_by_rule", "fold_end", "maybe_compress", "render_turns"]

log = logging.getLogger(__name__)

ATTEMPTS = 2
RULE_CHARS = (SUMMARY_CHARS, 100, 60)
SPEAKERS = {"zh": {"customer": "客户", "agent": "客服"}, "en": {"customer": "Customer", "agent": "Agent"}}
COLON = {"zh": ":", "en": ": "}
REPAIR = {"zh": "[repair] 这份要点不能存:$reasons。重写一份,只用 section 里有的内容。",
          "en": "[repair] This list cannot be stored: $reasons. Write it again from what the sections hold."}


@dataclass(frozen=True)
class Folded:
    """A summary of the first `upto` entries that passed the check, and who made it."""

    summary: str
    upto: int
    made_by: MadeBy


def render_turns(turns: Sequence[Mapping[str, Any]], lang: str = "zh") -> str:
    """Return the entries as one transcript, a speaker a line; further lines of an entry are indented.

    The indentation keeps a customer from writing a line that looks like the agent's.
    """
    return "\n".join(f"{_speaker(turn, lang)}{COLON[lang]}{_indented(str(turn['content']))}" for turn in turns)


def fold_end(turns: Sequence[Mapping[str, Any]], summary: str, upto: int, budget: int, keep_last: int) -> int:
    """Return how many entries the next summary has to cover; `upto` if the view is within the budget as it is."""
    end = max(upto, len(turns) - keep_last)
    if end == upto or estimate_tokens(summary + render_turns(turns[upto:])) <= budget:
        return upto
    return end


def maybe_compress(
    llm: ChatModel, turns: Sequence[Mapping[str, Any]], summary: str, summarized_upto: int,
    budget: int = 1200, keep_last: int = 4,
) -> tuple[str, int]:
    """Fold all but the last `keep_last` entries into the summary if the view is over budget.

    Return the new `(summary, summarized_upto)`: `turns[:summarized_upto]` are covered by the summary. If nothing
    has to be folded both stay as they were. One call of the model if its first answer passes the check.

    Raises:
        Transient: the model is away.
    """
    end = fold_end(turns, summary, summarized_upto, budget, keep_last)
    if end == summarized_upto:
        return summary, summarized_upto
    folded = fold(llm, turns, summary, summarized_upto, end)
    return folded.summary, folded.upto


def fold(llm: ChatModel, turns: Sequence[Mapping[str, Any]], summary: str, upto: int, end: int) -> Folded:
    """Summarise `turns[:end]` from the last summary and the entries after it; checked, tried twice, else by rule.

    Raises:
        Transient: the model is away.
    """
    folding = [{**turn, "content": without_links(str(turn["content"]))} for turn in turns[upto:end]]
    lang = "zh" if any(is_han(ch) for turn in folding for ch in turn["content"]) else "en"
    source = f"{summary}\n{render_turns(folding, lang)}"
    messages = _request(folding, summary, lang)
    for _ in range(ATTEMPTS):
        answer = llm.chat(messages, temperature=0).content.strip()
        found = problems(answer, source)
        if not found:
            return Folded(answer, end, "model")
        log.warning("refused a summary of the model: %s", "; ".join(found))
        messages = [*messages, {"role": "assistant", "content": answer or "-"},
                    {"role": "user", "content": REPAIR[lang].replace("$reasons", "; ".join(found))}]
    return Folded(rule_summary(turns[:end]), end, "rule")


def fold_by_rule(turns: Sequence[Mapping[str, Any]], summary: str, upto: int, end: int, budget: int) -> str:
    """Return the summary of `turns[:end]` without a model: the one given, and below it a rule's of the rest.

    The rule's part gets shorter while the view would be over budget.
    """
    shown = summary
    for limit in RULE_CHARS:
        shown = "\n".join(part for part in (summary, rule_summary(turns[upto:end], limit)) if part)
        if estimate_tokens(shown + render_turns(turns[end:])) <= budget:
            break
    return shown


def _request(folding: Sequence[Mapping[str, Any]], summary: str, lang: str) -> list[dict[str, Any]]:
    sections = [fence("previous_summary", summary)] if summary else []
    sections.append(fence("transcript", render_turns(folding, lang)))
    return [
        {"role": "system", "content": prompt("summary", lang, limit=str(SUMMARY_CHARS))},
        {"role": "user", "content": "\n".join(sections)},
    ]


def _speaker(turn: Mapping[str, Any], lang: str) -> str:
    name = SPEAKERS[lang][turn["role"]]
    author = " ".join(str(turn.get("author") or "").split())
    return f"{name}({author})" if author and turn["role"] == "agent" else name


def _indented(text: str) -> str:
    return "\n  ".join(text.strip().splitlines())
