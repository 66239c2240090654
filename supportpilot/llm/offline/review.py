"""The check of a draft by rules: what can be counted, nothing of taste. Pure."""

from __future__ import annotations

import re
from typing import Any

from supportpilot.llm.offline.lexicon import AMOUNT, CITATION, INVOICE_NUMBER
from supportpilot.llm.offline.text import CJK, articles, language, normal, sentences

MOST_PROMISES, PROMISE_CHARS = 5, 200
PROMISES = re.compile(
    r"(?:我们|同事|客服|工程师|专员)(?:会|将).{0,24}(?:回复|答复|联系|处理|提醒|通知|跟进|修复|退款)"
    r"|\b(?:we|a colleague)(?:['’]ll| will) (?!not)(?:\w+ )?(?:reply|get back|contact|fix|refund|remind|notify|follow up)", re.IGNORECASE)
NO_PROMISE = re.compile(r"如果|若|请|之前|上次|刚才|您说|[“\"「?\uff1f]|\b(?:if|please|before:|earlier|so far|you (?:said|wrote))\b", re.IGNORECASE)
SOURCES_LEFT_OUT = frozenset({"draft", "problems", "previous_draft"})


def review(sections: dict[str, str]) -> dict[str, Any]:
    """Return the fields of `Review` for the section `draft`."""
    text = sections.get("draft", "")
    lang = language(sections)
    if not text.strip():
        return _verdict(["草稿是空的。" if lang == "zh" else "The draft is empty."])
    verdict = _verdict([*_citations(sections, text, lang), *_figures(sections, text, lang), *_language(text, lang)])
    listed = _commitments(text)
    return {**verdict, "commitments": listed} if listed else verdict


def _commitments(text: str) -> list[dict[str, str]]:
    """List the plain promises of a draft; what is quoted, repeated or depends on something is left out."""
    found = [s for s in sentences(text) if PROMISES.search(s) and not NO_PROMISE.search(s)]
    return [{"text": s[:PROMISE_CHARS], "due": ""} for s in found[:MOST_PROMISES]]


def _verdict(problems: list[str]) -> dict[str, Any]:
    return {"passed": not problems, "problems": problems}


def _citations(sections: dict[str, str], text: str, lang: str) -> list[str]:
    known = {a.id for a in articles(sections.get("articles", ""))}
    unknown = [c for c in dict.fromkeys(CITATION.findall(text)) if c not in known]
    said = "引用了资料里没有的 {}。" if lang == "zh" else "It cites {}, which is not among the articles."
    return [said.format(c) for c in unknown]


def _figures(sections: dict[str, str], text: str, lang: str) -> list[str]:
    source = normal("\n".join(body for name, body in sections.items() if name not in SOURCES_LEFT_OUT))
    squeezed = source.replace(" ", "").replace(",", "")
    plain = CITATION.sub("", text)
    numbers = [n for n in INVOICE_NUMBER.findall(plain) if normal(n) not in source]
    amounts = [a for a in AMOUNT.findall(plain) if _digits(a) not in squeezed]
    said = "{} 没有出现在资料、查证结果或客户的话里。" if lang == "zh" else "{} stands in no article, finding or message."
    return [said.format(figure) for figure in dict.fromkeys([*numbers, *amounts])]


def _digits(amount: str) -> str:
    return "".join(ch for ch in amount if ch.isdigit() or ch == ".").strip(".").removesuffix(".00")


def _language(text: str, lang: str) -> list[str]:
    plain = CITATION.sub("", text)
    han = sum(len(run) for run in CJK.findall(plain))
    latin = sum(ch.isascii() and ch.isalpha() for ch in plain)
    if lang == "zh" and han * 4 < latin:
        return ["应当用中文回复。"]
    if lang == "en" and han > latin:
        return ["The reply must be in English."]
    return []
