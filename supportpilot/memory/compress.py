"""The second memory: the early part of a long conversation as a short list, the latest entries word for word.

Without it every call of every turn would carry the whole conversation again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from supportpilot.memory.ports import ChatModel
from supportpilot.memory.tokens import estimate_tokens, is_han
from supportpilot.prompts.loader import fence, prompt

__all__ = ["estimate_tokens", "maybe_compress", "render_turns"]

SUMMARY_CHARS = {"zh": 150, "en": 600}
SUMMARY_CHARS_STORED = 1_000    # what a model that ignores the limit may put into every later view
SPEAKERS = {"zh": {"customer": "客户", "agent": "客服"}, "en": {"customer": "Customer", "agent": "Agent"}}
COLON = {"zh": ":", "en": ": "}


def render_turns(turns: Sequence[Mapping[str, Any]], lang: str = "zh") -> str:
    """Return the entries as one transcript, a speaker a line; further lines of an entry are indented.

    The indentation keeps a customer from writing a line that looks like the agent's.
    """
    return "\n".join(f"{_speaker(turn, lang)}{COLON[lang]}{_indented(str(turn['content']))}" for turn in turns)


def maybe_compress(
    llm: ChatModel, turns: Sequence[Mapping[str, Any]], summary: str, summarized_upto: int,
    budget: int = 1200, keep_last: int = 4,
) -> tuple[str, int]:
    """Fold all but the last `keep_last` entries into the summary if the view is over budget, with one model call.

    Return the new `(summary, summarized_upto)`: `turns[:summarized_upto]` are covered by the summary. If nothing
    has to be folded, or the model says nothing, both stay as they were.

    Raises:
        Transient: the model is away.
    """
    pending = turns[summarized_upto:]
    folding = pending[:-keep_last] if keep_last else pending
    if not folding or estimate_tokens(summary + render_turns(pending)) <= budget:
        return summary, summarized_upto
    answer = llm.chat(_request(folding, summary), temperature=0).content.strip()
    if not answer:
        return summary, summarized_upto
    return answer[:SUMMARY_CHARS_STORED], summarized_upto + len(folding)


def _request(folding: Sequence[Mapping[str, Any]], summary: str) -> list[dict[str, Any]]:
    transcript = "".join(str(turn["content"]) for turn in folding)
    lang = "zh" if any(map(is_han, transcript)) else "en"
    sections = [fence("previous_summary", summary)] if summary else []
    sections.append(fence("transcript", render_turns(folding, lang)))
    return [
        {"role": "system", "content": prompt("summary", lang, limit=str(SUMMARY_CHARS[lang]))},
        {"role": "user", "content": "\n".join(sections)},
    ]


def _speaker(turn: Mapping[str, Any], lang: str) -> str:
    name = SPEAKERS[lang][turn["role"]]
    author = " ".join(str(turn.get("author") or "").split())
    return f"{name}({author})" if author and turn["role"] == "agent" else name


def _indented(text: str) -> str:
    return "\n  ".join(text.strip().splitlines())
