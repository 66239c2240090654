"""What a model sees of a ticket: facts and summary of the early part, recalled entries, the latest ones. Pure.

The budget counts summary, rendered ledger and unfolded entries. Over it all but the last entries are folded; what is
over it even then is irreducible, and shown as that: nothing is cut to hide it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from supportpilot.config import Settings
from supportpilot.memory.entries import Turns, render_recalled, render_turns, shorten
from supportpilot.memory.ledger import Fact, facts, render
from supportpilot.memory.recall import recall
from supportpilot.memory.rule_summary import rule_summaries, without_citations
from supportpilot.memory.tokens import TokenCounter, counter_for, estimate_tokens
from supportpilot.memory.verify import SUMMARY_CHARS

SHARE = 3                               # of the budget: a third for the ledger, a third for what is recalled
RULE_CHARS = (SUMMARY_CHARS, 100, 60)   # a summary by rule gets shorter while the view is over budget


@dataclass(frozen=True)
class Room:
    """What a view may cost, and how it is counted. `commitments` are the lines of what was promised and is open."""

    budget: int = 1200
    keep_last: int = 4
    entry_tokens: int | None = None
    count: TokenCounter = estimate_tokens
    commitments: tuple[str, ...] = ()
    lang: str = "zh"

    def cost(self, text: str) -> int:
        """Return the tokens of a text; nothing costs nothing."""
        return self.count(text) if text else 0

    @property
    def share(self) -> int:
        """The most that the ledger may take, or what is recalled."""
        return self.budget // SHARE


def room_of(settings: Settings, keep_last: int = 0, commitments: Sequence[str] = (), lang: str = "zh") -> Room:
    """Return the configured room, counted as the main model counts; at least `keep_last` entries stay."""
    return Room(
        settings.context_budget_tokens, max(settings.context_keep_last, keep_last), settings.context_entry_max_tokens,
        counter_for(settings.llm_model), tuple(commitments), lang)


@dataclass(frozen=True)
class Remembered:
    """The memory of one view.

    tokens: what counts against the budget, and what is recalled.
    recalled: indexes of folded entries that are shown again word for word.
    by_rule: some of the summary was made for this view, by rule.
    """

    summary: str
    upto: int
    ledger: str
    recalled: tuple[int, ...]
    tokens: int
    irreducible: bool
    by_rule: bool


def ledger_of(turns: Turns, upto: int, room: Room, tokens: int | None = None) -> str:
    """Return the facts of the folded entries, and what was promised, as the view shows them."""
    return _Early(turns, room).ledger(upto, tokens)


@dataclass
class _Early:
    """The folded entries of one view; their facts are read once, though they may be shown in less room later."""

    turns: Turns
    room: Room
    _known: dict[int, tuple[Fact, ...]] = field(default_factory=dict)

    def ledger(self, upto: int, tokens: int | None = None) -> str:
        room = self.room
        if not upto and not room.commitments:
            return ""
        if upto not in self._known:
            self._known[upto] = facts(without_citations(self.turns[:upto]), room.lang)
        return render(self._known[upto], room.commitments, room.share if tokens is None else tokens, room.lang, room.count)


def unfolded(turns: Turns, upto: int, room: Room) -> int:
    """Return the tokens of the entries that are shown word for word."""
    return room.cost(render_turns(turns[upto:], room.lang, room.entry_tokens, room.count))


def fold_end(turns: Turns, summary: str, upto: int, room: Room) -> int:
    """Return how many entries the next summary has to cover; `upto` if the view is within the budget as it is."""
    return _fold_end(_Early(turns, room), summary, upto)


def _fold_end(early: _Early, summary: str, upto: int) -> int:
    turns, room = early.turns, early.room
    end = max(upto, len(turns) - room.keep_last)
    if end == upto:
        return upto
    used = room.cost(summary) + unfolded(turns, upto, room)
    if used <= room.budget and (used := used + room.cost(early.ledger(upto))) <= room.budget:
        return upto
    return end


def remember(turns: Turns, stored: tuple[str, int] | None, newest: Sequence[str], room: Room) -> Remembered:
    """Return the memory of a view from the stored summary; what it leaves over budget is folded by rule."""
    summary, upto = stored or ("", 0)
    early = _Early(turns, room)
    end = _fold_end(early, summary, upto)
    ledger, recent = early.ledger(end), unfolded(turns, end, room)
    if end > upto:
        summary = _with_rule(summary, turns[upto:end], room, room.budget - room.cost(ledger) - recent)
    fixed = room.cost(summary) + recent
    irreducible = fixed + room.cost(ledger) > room.budget
    recalled = _recalled(turns, end, newest, room, _recall_room(room, fixed, ledger, irreducible=irreducible))
    shown = room.cost(_rendered(turns, recalled, room))
    if recalled and not irreducible:
        ledger = early.ledger(end, min(room.share, room.budget - fixed - shown))
    return Remembered(summary, end, ledger, recalled, fixed + room.cost(ledger) + shown, irreducible, end > upto)


def _with_rule(summary: str, turns: Turns, room: Room, left: int) -> str:
    shown, within = summary, rule_summaries(turns)
    for limit in RULE_CHARS:
        shown = "\n".join(part for part in (summary, within(limit)) if part)
        if room.cost(shown) <= left:
            break
    return shown


def _recall_room(room: Room, fixed: int, ledger: str, *, irreducible: bool) -> int:
    """Return what may be recalled: the rest of the budget, or of the ledger's room as much as makes a third.

    A view that is over budget whatever one does gets a third more: else a small budget would recall nothing at all.
    """
    if irreducible:
        return room.share
    free = room.budget - fixed
    return max(free - room.cost(ledger), min(free, room.share))


def _recalled(turns: Turns, upto: int, newest: Sequence[str], room: Room, tokens: int) -> tuple[int, ...]:
    limit = room.entry_tokens

    def as_shown(text: str, /) -> int:
        return room.count(text if limit is None else shorten(text, limit, room.lang, room.count))
    found = tuple(recall(turns, upto, newest, tokens, as_shown)) if upto else ()
    while found and room.cost(_rendered(turns, found, room)) > tokens:
        found = found[1:]
    return found


def _rendered(turns: Turns, indexes: Sequence[int], room: Room) -> str:
    return render_recalled(turns, indexes, room.lang, room.entry_tokens, room.count)
