"""Every view that a model gets of a ticket is built here, in one order: what is stable first, what to answer last.

All customer text stands in fenced sections; what a node adds (articles, findings) goes before the memory view,
so the newest messages are always the last thing a model reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from supportpilot.agent.courtesy import ends_with_question, is_bare_thanks, might_be_thanks
from supportpilot.agent.handover import handover_note
from supportpilot.agent.state import Ticket, Turn
from supportpilot.config import Settings
from supportpilot.memory.entries import language_of_text as reply_language
from supportpilot.memory.entries import render_recalled, render_turns, shorten
from supportpilot.memory.tokens import counter_for
from supportpilot.prompts.fencing import fence, visible
from supportpilot.prompts.loader import prompt

__all__ = ["Conversation", "Identity", "Memory", "articles", "ends_in_silence", "language_of", "memory_view", "newest", "nothing_to_answer", "perhaps_thanks",
           "reply_language", "request", "sections", "shorten", "trailing_customer_entries"]

_HEADING = re.compile(r"(?:^|(?<=[\r\x85\u2028\u2029]))(?=[\[\uff3b\u3010]\s?KB-)", re.MULTILINE | re.IGNORECASE)
_INDENT = "  "


class Identity(TypedDict):
    """Whose turn it is; every node reads it, so that its calls and effects are charged and keyed right."""

    ticket: Ticket
    turn_id: str


class Conversation(Identity):
    """What every node that speaks to a model, or for one, reads of the state."""

    turn_messages: list[str]
    turns: list[Turn]


class Memory(Conversation, total=False):
    """What the memory view is made of."""

    silent: bool
    profile: str
    summary: str
    summarized_upto: int


def language_of(state: Conversation) -> str:
    """Return the language of the newest messages; if they have no words, of what the customer wrote before."""
    texts = [_text(newest(state)), _text([t for t in state["turns"] if t["role"] == "customer"]),
             state["ticket"]["subject"]]
    for text in texts:
        lang = reply_language(text, default="")
        if lang:
            return lang
    return "zh"


def newest(state: Conversation) -> list[Turn]:
    """Return the customer's unanswered entries: those of this turn that no human colleague has written after.

    Without entries of this turn (a thread driven by hand) it is the customer's entries at the end.
    """
    turns = state["turns"]
    wanted = set(state.get("turn_messages") or ())
    if not any(turn.get("id") in wanted for turn in turns):
        return trailing_customer_entries(turns)
    after_human = next((i + 1 for i in reversed(range(len(turns))) if turns[i].get("author")
                        and turns[i]["role"] == "agent"), 0)
    return [turn for turn in turns[after_human:] if turn["role"] == "customer" and turn.get("id") in wanted]


def trailing_customer_entries(turns: Sequence[Turn]) -> list[Turn]:
    """Return the customer's entries after the last one of an agent, human or not."""
    start = next((i + 1 for i in reversed(range(len(turns))) if turns[i]["role"] == "agent"), 0)
    return list(turns[start:])


def nothing_to_answer(state: Memory) -> bool:
    """Tell whether this turn takes its messages in and says nothing.

    So it does when it was told to, when a colleague has answered already, or when the customer only says thanks
    for an answer that asked nothing.
    """
    block = newest(state)
    if state.get("silent") or not block:
        return True
    return _waits_for_nothing(state) and all(is_bare_thanks(turn["content"]) for turn in block)


def perhaps_thanks(state: Memory) -> bool:
    """Tell whether triage may say that the customer only thanks: a rule would, but for words that it does not know."""
    return _waits_for_nothing(state) and all(
        is_bare_thanks(turn["content"]) or might_be_thanks(turn["content"]) for turn in newest(state))


def ends_in_silence(values: Mapping[str, Any]) -> bool:
    """Tell of a state at its end whether no answer was due: by rule, or by triage's word where that counts."""
    return bool((values.get("triage") or {}).get("only_thanks")) or nothing_to_answer(values)  # type: ignore[arg-type] # as stored


def _waits_for_nothing(state: Conversation) -> bool:
    """There was an answer, and it asked nothing."""
    said = [turn for turn in state["turns"] if turn["role"] == "agent"]
    return bool(said) and not ends_with_question(said[-1]["content"])


def memory_view(state: Memory, settings: Settings, ledger: str = "", recalled: Sequence[int] = ()) -> str:
    """Return the sections basics, profile, ledger, summary, recall, recent, handover and newest; empty ones are left out.

    `recalled` are the indexes of folded entries that are shown again.
    """
    lang = language_of(state)
    block = newest(state)
    shown = {id(turn) for turn in block}
    recent = [turn for turn in state["turns"][state.get("summarized_upto", 0):] if id(turn) not in shown]
    limit, count = settings.context_entry_max_tokens, counter_for(settings.llm_model)
    ticket = state["ticket"]
    basics = (f"email: {_one_line(ticket['customer_email'])}\nsubject: {_one_line(ticket['subject'])}\n"
              f"language: {lang}")
    return sections(
        basics=basics, profile=state.get("profile") or "", ledger=ledger, summary=state.get("summary") or "",
        recall=render_recalled(state["turns"], recalled, lang, limit, count),
        recent=render_turns(recent, lang, limit, count),
        handover=handover_note(state["turns"], lang),
        newest="\n".join(shorten(turn["content"], limit, lang, count) for turn in block),
    )


def articles(hits: Sequence[Mapping[str, Any]]) -> str:
    """Return the retrieved articles as the text of their section; no article can hold a heading of another one."""
    return "\n---\n".join(
        f"[{hit['article_id']}] {_one_line(hit['title'])} ({hit['lang']})\n{_HEADING.sub(_INDENT, visible(hit['text']))}" for hit in hits)


def sections(**texts: str) -> str:
    """Return the given texts as fenced sections in the given order; an empty one is left out."""
    return "\n".join(fence(name, text) for name, text in texts.items() if text.strip())


def request(task: str, lang: str, view: str, **added: str) -> list[dict[str, Any]]:
    """Return the messages of one model call: the task's instructions, then what the node adds, then the view."""
    extra = sections(**added)
    return [
        {"role": "system", "content": prompt(task, lang)},
        {"role": "user", "content": f"{extra}\n{view}" if extra else view},
    ]


def _text(turns: Sequence[Turn]) -> str:
    return "\n".join(turn["content"] for turn in turns)


def _one_line(text: str) -> str:
    return " ".join(text.split())
