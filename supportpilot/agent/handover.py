"""Where a human colleague had the ticket, told to the model when it has it again. Pure.

A transcript that only says "handed over" has made agents run and say nothing after the ticket came back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SHOWN = 3
WORDS = {
    "zh": {"taken": "{begin}起由同事接手", "said": "{names}最后答复于{end},随后工单交回给你",
           "silent": "同事没有答复,工单已交回给你", "over": "当时转人工的原因已不再有效;newest 由你照常处理。",
           "someone": "同事", "then": "某时", "stop": "。", "comma": "、", "semi": ";"},
    "en": {"taken": "From {begin} a colleague had the ticket", "said": "{names} wrote last at {end}, then it came back to you",
           "silent": "nobody answered, then it came back to you",
           "over": "The reason for handing it over is no longer in force; `newest` is yours to deal with as usual.",
           "someone": "the colleague", "then": "an unknown time", "stop": ".", "comma": ", ", "semi": "; "},
}


@dataclass
class Stretch:
    """The entries from a handoff, or a colleague's first word, to the colleague's last word."""

    begin: str = ""
    end: str = ""
    names: list[str] = field(default_factory=list)


def stretches(turns: Sequence[Mapping[str, Any]]) -> list[Stretch]:
    """Return the times when a human had the ticket, oldest first; the agent's next own entry ends each."""
    found: list[Stretch] = []
    current: Stretch | None = None
    for turn in turns:
        if turn["role"] != "agent":
            continue
        author, handed_over = str(turn.get("author") or ""), bool(turn.get("handed_over"))
        if not author and not handed_over:
            current = None
            continue
        if current is None or handed_over:
            current = Stretch(begin=str(turn.get("at") or ""))
            found.append(current)
        if author:
            current.end = str(turn.get("at") or "")
            current.names += [author] if author not in current.names else []
    return found


def handover_note(turns: Sequence[Mapping[str, Any]], lang: str) -> str:
    """Return what the view says about the last times a human had the ticket; empty if none ever had."""
    had = stretches(turns)
    words = WORDS[lang]
    lines = [_line(stretch, words) for stretch in had[-SHOWN:]]
    return "\n".join([*lines, words["over"]]) if lines else ""


def _line(stretch: Stretch, words: Mapping[str, str]) -> str:
    names = words["comma"].join(" ".join(name.split()) for name in stretch.names) or words["someone"]
    came_back = words["said"].format(names=names, end=_minute(stretch.end, words)) if stretch.names else words["silent"]
    return words["taken"].format(begin=_minute(stretch.begin, words)) + words["semi"] + came_back + words["stop"]


def _minute(at: str, words: Mapping[str, str]) -> str:
    return f"{at[:16].replace('T', ' ')} UTC" if at else words["then"]
