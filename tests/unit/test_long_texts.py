"""No text a customer can send stops the process: a search that backtracks keeps every thread and the heartbeat waiting."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from supportpilot.agent import citations, context, courtesy
from supportpilot.agent.plain import plain
from supportpilot.config import load_settings
from supportpilot.db import segment
from supportpilot.llm import structured, usage
from supportpilot.llm.offline import rules
from supportpilot.memory import compress, ledger, masking, recall, rule_summary, tokens, verify
from supportpilot.prompts.loader import fence
from supportpilot.tools.citations import citations_in

CHARS = load_settings().max_message_chars
SECONDS = 2.0       # what is linear needs a few hundredths; what is not, several seconds to years
HITS = [{"article_id": "KB-bank-001", "title": "t", "url": None, "text": "x", "lang": "zh"}]

REPEATED = [
    " ", "\n", "\t", "a", "E", "9", "1,", "1.", "0.", "1-", "a-", "a.", "a1", "-", "*", "、", "。", "?", "#", "|", "\\", "`", "```", "<", "</",
    "< ", "(", "“", "[", "[x](", '[x](y "KB-', '[x](y "KB-a")', "[KB-", "[KB-bank-001 ", "KB-a-", "KB-a ", "KB-bank-001 ", "KB-bank-001,",
    "INV-", "INV-1-", "http://", "a@", "E3001 ", "¥1,", "1月", "2026-", "一", "二", "万", "亿", "一 ", "一\t", "ignore ", "忽略", "谢谢", "好的",
    "退", "VIP", '<section name="a">', "²", "\u200b", "\uff0c", "\u3220",
]
READERS: dict[str, Callable[[str], Any]] = {
    "fence": lambda text: fence("newest", text),
    "usage by section": usage.SECTION.findall,
    "fenced JSON": structured.FENCED.search,
    "transcript": lambda text: compress.render_turns(_entries(text)),
    "summary by rule": lambda text: rule_summary.rule_summary(_entries(text)),
    "without links": rule_summary.without_links,
    "ledger": lambda text: ledger.render(ledger.facts(_entries(text)), [], 400),
    "recall": lambda text: recall.recall(_entries(text), 1, [text], 400),
    "masking": masking.masked,
    "check of a summary": lambda text: verify.problems(text, text),
    "clip": lambda text: rule_summary.clip(text, 150),
    "links of citations": lambda text: citations.render_links(text, HITS, "http://x"),
    "foreign links": lambda text: citations.foreign_links(text, HITS, "http://x"),
    "unknown ids": lambda text: citations.unknown_ids(text, HITS),
    "citations of a reply": citations_in,
    "bare thanks": courtesy.is_bare_thanks,
    "perhaps thanks": courtesy.might_be_thanks,
    "an open question": courtesy.ends_with_question,
    "shorten": lambda text: context.shorten(text, 600),
    "language": context.reply_language,
    "tokens": tokens.estimate_tokens,
    "search terms": segment.terms,
    "plain": plain,
}
OFFLINE: dict[str, Callable[[str], Any]] = {
    "triage": lambda text: _offline("triage", newest=text, recent=text),
    "draft": lambda text: _offline("draft", newest=f"{text}\n之前说的金额是多少?", recent=f"客户: {text}\n客服: {text}"),
    "review": lambda text: _offline("check", draft=text, newest=text, findings=text),
    "summary": lambda text: _offline("summary", transcript=compress.render_turns(_entries(text))),
}


def _offline(task: str, **sections: str) -> str:
    view = "\n".join(fence(name, text) for name, text in sections.items())
    return rules.answer([{"role": "system", "content": f"[task:{task}]"}, {"role": "user", "content": view}]).content


def _entries(text: str) -> list[dict[str, str]]:
    return [{"role": "customer", "content": text}, {"role": "agent", "content": "好"}]


@contextmanager
def _at_most(seconds: float, text: str) -> Iterator[None]:
    def too_slow(*_: object) -> None:
        raise TimeoutError(f"{text[:20]!r} repeated takes more than {seconds} s")
    # Of this process's own time: on a busy machine the clock on the wall says nothing.
    before = signal.signal(signal.SIGPROF, too_slow)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.mark.parametrize("reader", READERS)
def test_the_longest_message_of_one_repeated_sign_is_read_in_no_time(reader: str) -> None:
    for sign in REPEATED:
        for before, after in (("", ""), ("[", "x"), ("<", ""), ("[KB-bank-001", "x")):
            text = f"{before}{sign * (CHARS // len(sign))}{after}"
            with _at_most(SECONDS, text):
                READERS[reader](text)


@pytest.mark.parametrize("task", OFFLINE)
def test_the_rule_model_does_not_keep_others_waiting_either(task: str) -> None:
    for sign in (" ", "\n", "9", "1,", "一", "。", ".", "[", "a", "“", "会", "谢谢"):
        text = sign * (CHARS // len(sign))
        with _at_most(SECONDS, text):
            OFFLINE[task](text)


def test_a_row_of_numerals_longer_than_any_number_is_none() -> None:
    assert verify.claimed(f"{'二' * 5000}元") == verify.claimed("")
    assert verify.supported("九" * 5000) == verify.supported("")
    assert verify.claimed("一千二百三十四万五千六百七十八元").numbers == {12_345_678}
