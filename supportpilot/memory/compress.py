"""The second memory: the early part of a long conversation as a short list, the latest entries word for word.

Without it every call of every turn would carry the whole conversation again. The list is made from the entries
themselves each time: made from the last list it would lose figures with each fold. An early part that is too long for
one call is read in fixed chunks; what a chunk says is kept by the hash of its entries, so a fold costs about the same
however long the ticket is.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from supportpilot.db.summaries import MadeBy
from supportpilot.errors import Permanent, Transient
from supportpilot.memory.entries import Turns, render_turns
from supportpilot.memory.ports import ChatModel
from supportpilot.memory.rule_summary import readable, rule_summary, source_of
from supportpilot.memory.tokens import estimate_tokens
from supportpilot.memory.verify import SUMMARY_CHARS, Reason, Source, check
from supportpilot.memory.view import Room, fold_end
from supportpilot.prompts.loader import fence, prompt

__all__ = ["Folded", "Notes", "estimate_tokens", "fold", "maybe_compress", "render_turns"]

log = logging.getLogger(__name__)

ATTEMPTS = 2
SOURCE_TOKENS = 6_000       # read at once up to here
CHUNK_TOKENS = 2_000        # a chunk ends with the entry that reaches this
ENTRY_TOKENS = 600          # of one entry, its head and tail
NOTES_TOKENS = 3_000        # of the chunks' notes read at once; over it they are noted down in groups themselves
GROUP = 8
NOTES_VERSION = "1"         # another one makes all kept notes anew
QUOTED_CHARS = 600          # of a refused answer, in the request for another
REPAIR = {"zh": "[repair] 这份要点不能存:$reasons。重写一份,只用 section 里有的内容。",
          "en": "[repair] This list cannot be stored: $reasons. Write it again from what the sections hold."}


class Notes(Protocol):
    """What chunks of a conversation say in short, by the hash of their entries."""

    def get(self, key: str, /) -> str | None: ...

    def put(self, key: str, note: str, /) -> None: ...


@dataclass
class _Unkept:
    """No place to keep notes: each fold reads everything."""

    def get(self, _key: str, /) -> str | None:
        return None

    def put(self, _key: str, _note: str, /) -> None:
        return None


@dataclass(frozen=True)
class Folded:
    """A summary of the first `upto` entries that passed the check, who made it, and why the model's were refused."""

    summary: str
    upto: int
    made_by: MadeBy
    refused: tuple[Reason, ...] = ()


def maybe_compress(
    llm: ChatModel, turns: Turns, summary: str, summarized_upto: int, budget: int = 1200, keep_last: int = 4,
) -> tuple[str, int]:
    """Fold all but the last `keep_last` entries into the summary if the view is over budget.

    Return the new `(summary, summarized_upto)`: `turns[:summarized_upto]` are covered by the summary. If nothing
    has to be folded both stay as they were. One call of the model if its first answer passes the check.
    """
    end = fold_end(turns, summary, summarized_upto, Room(budget, keep_last))
    if end == summarized_upto:
        return summary, summarized_upto
    folded = fold(llm, turns, end)
    return folded.summary, folded.upto


def fold(llm: ChatModel, turns: Turns, end: int, notes: Notes | None = None) -> Folded:
    """Summarise `turns[:end]` from these entries; checked, tried twice, else by rule, also if the model is away."""
    entries = readable(turns[:end])
    source = source_of(entries)
    writer = _Writer(llm, source.lang, _Unkept() if notes is None else notes)
    try:
        answer = writer.write(_sections(writer, entries), source)
    except (Transient, Permanent) as error:
        log.warning("the model gave no summary, the rule's is used: %s", error)
        return Folded(rule_summary(turns[:end]), end, "rule", tuple(writer.refused))
    if answer is None:
        return Folded(rule_summary(turns[:end]), end, "rule", tuple(writer.refused))
    return Folded(answer, end, "model", tuple(writer.refused))


@dataclass
class _Writer:
    """Has short texts written of longer ones, in one language, and checks them."""

    llm: ChatModel
    lang: str
    notes: Notes
    refused: list[Reason] = field(default_factory=list)

    def write(self, sections: Sequence[str], source: Source) -> str | None:
        """Return what the model makes of the sections if it passes the check, within two attempts.

        Raises:
            Transient, Permanent: the model gave no answer.
        """
        limit = SUMMARY_CHARS if source.length is None else max(1, min(SUMMARY_CHARS, source.length - 1))
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": prompt("summary", self.lang, limit=str(limit))},
            {"role": "user", "content": "\n".join(sections)},
        ]
        for _ in range(ATTEMPTS):
            answer = self.llm.chat(messages, temperature=0).content.strip()
            found = check(answer, source)
            if not found:
                return answer
            self.refused += [problem.reason for problem in found if problem.reason not in self.refused]
            reasons = "; ".join(problem.text for problem in found)
            # Not the words: a figure that the source has in another form (a phone number) is the customer's.
            log.warning("refused a summary of the model: %s", ", ".join(problem.reason for problem in found))
            messages = [*messages[:2], {"role": "assistant", "content": answer[:QUOTED_CHARS] or "-"},
                        {"role": "user", "content": REPAIR[self.lang].replace("$reasons", reasons)}]
        return None

    def note(self, sections: Sequence[str], source: Source, turns: Turns) -> str:
        """Return the kept note of a chunk; else have it written and keep it. Raises as `write`."""
        key = _key(self.lang, sections)
        kept = self.notes.get(key)
        if kept is None:
            kept = self.write(sections, source) or rule_summary(turns)
            self.notes.put(key, kept)
        return kept


def _sections(writer: _Writer, entries: Sequence[dict[str, Any]]) -> list[str]:
    """Return the entries as the sections of one request: whole, or notes of the early chunks and the rest."""
    costs = [estimate_tokens(_transcript([entry], writer.lang)) for entry in entries]
    if sum(costs) <= SOURCE_TOKENS:
        return [fence("transcript", _transcript(entries, writer.lang))]
    chunks, start, used = [], 0, 0
    for end, cost in enumerate(costs, 1):
        used += cost
        if used >= CHUNK_TOKENS:
            chunks.append(entries[start:end])
            start, used = end, 0
    notes = [writer.note([fence("transcript", _transcript(chunk, writer.lang))], replace(source_of(chunk), lang=writer.lang), chunk)
             for chunk in chunks]
    early = fence("previous_summary", "\n".join(_condensed(writer, notes)))
    return [early, fence("transcript", _transcript(entries[start:], writer.lang))] if start < len(entries) else [early]


def _condensed(writer: _Writer, notes: list[str]) -> list[str]:
    """Return the notes, whole groups of them noted down as one each while they are too long to be read at once.

    Groups are fixed as chunks are: the first eight notes are the first group whatever follows.
    """
    if len(notes) < GROUP or estimate_tokens("\n".join(notes)) <= NOTES_TOKENS:
        return notes
    whole = len(notes) - len(notes) % GROUP
    shorter = []
    for first in range(0, whole, GROUP):
        text = "\n".join(notes[first:first + GROUP])
        shorter.append(writer.note([fence("previous_summary", text)], Source(text, writer.lang, len(text)), [
            {"role": "agent", "content": note} for note in notes[first:first + GROUP]]))
    return [*_condensed(writer, shorter), *notes[whole:]]


def _transcript(entries: Turns, lang: str) -> str:
    return render_turns(entries, lang, ENTRY_TOKENS)


def _key(lang: str, sections: Sequence[str]) -> str:
    said = json.dumps([NOTES_VERSION, lang, *sections], ensure_ascii=False)
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
