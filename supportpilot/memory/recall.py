"""Which folded entries the newest messages speak of, to be shown again word for word. Lexical, no model. Pure.

Three signs: figures both have (`0006那张` finds INV-202603-0006), a reference (`第二轮说的那个账单号`, 我之前说的), words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from supportpilot.db.segment import terms
from supportpilot.memory.dates import small
from supportpilot.memory.figures import Figure, figures
from supportpilot.memory.masking import masked
from supportpilot.memory.numerals import HAN_NUMERALS
from supportpilot.memory.tokens import estimate_tokens

MOST = 4
ENTRY_OVERHEAD = 6          # the speaker's name and the line break
QUERY_CHARS = 4_000
ENOUGH = 2.0
TAIL_DIGITS = 3
CHARACTER = 0.25            # what a shared character says, where a pair of them says 1
_WEIGHTS = {"id": 12.0, "phone": 10.0, "code": 6.0, "amount": 8.0, "card": 8.0, "date": 4.0, "duration": 2.0, "number": 3.0}

_ROUND = re.compile(rf"第\s?(\d{{1,3}}|[{HAN_NUMERALS}]{{1,4}})\s?(?:轮|回合|条|次(?=说|问|提|发|来))|\b(first|second|third|fourth|fifth|sixth|\d{{1,3}}(?:st|nd|rd|th))\s(?:message|turn|round|mail|email|time\si)\b", re.IGNORECASE)
_OPENING = re.compile(r"(?:最|一)开始|最初|开头|第一次|\b(?:at\sthe\s(?:start|beginning)|at\sfirst|initially|originally)\b", re.IGNORECASE)
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6}
_BACK = re.compile(
    r"之前|以前|刚才|刚刚|前面|上面|早前|先前|上次|上回|早些|最开始|一开始|最初|说过|提过|提到|讲过|发过|告诉过|答应|承诺|说好|还记得|那[个张笔次条份件]|哪[个张笔条]"
    r"|\b(?:earlier|before|previous(?:ly)?|mentioned|told\s(?:you|me)|(?:you|i|we)\s(?:said|wrote|gave|promised)|remember|already)\b", re.IGNORECASE)
_THEIRS = re.compile(r"你们?.{0,6}(?:说|答应|承诺|答复|回复|告诉|保证)|您.{0,6}(?:说|答应|承诺)|客服.{0,6}(?:说|答应|承诺)|\byou\s(?:said|promised|told|wrote)\b", re.IGNORECASE)
_OURS = re.compile(r"我们?.{0,8}(?:说|提|讲|发|给|报|写|告诉)|\bi\s(?:said|mentioned|told|wrote|gave|sent)\b", re.IGNORECASE)
_WANTED = (
    ("id", re.compile(r"[账帐]单号?|单号|发票号?|订单号?|工单号?|编号|号码|\b(?:invoice|bill|order|ticket|number)\b", re.IGNORECASE)),
    ("amount", re.compile(r"金额|多少钱|费用|价格|钱数|那笔|\b(?:amount|how\smuch|price|sum)\b", re.IGNORECASE)),
    ("code", re.compile(r"报错|错误码|错误代码|代码|error|\bcode\b", re.IGNORECASE)),
    ("date", re.compile(r"日期|哪天|几号|什么时候|时间|\b(?:date|when|which\sday)\b", re.IGNORECASE)),
    ("phone", re.compile(r"电话|手机号?|\bphone\b", re.IGNORECASE)),
    ("card", re.compile(r"卡号|尾号|银行卡|\bcard\b", re.IGNORECASE)),
    ("duration", re.compile(r"多久|几天|期限|工作日|答应|承诺|什么时候|\b(?:how\slong|deadline|promised?)\b", re.IGNORECASE)),
)
Scores = list[float]


def recall(
    turns: Sequence[Mapping[str, Any]], upto: int, newest: Sequence[str], room_tokens: int,
    count: Callable[[str], int] = estimate_tokens,
) -> list[int]:
    """Return the indexes, in order, of the few entries of `turns[:upto]` that `newest` speaks of and the room holds."""
    folded = turns[:max(0, upto)]
    asked = masked("\n".join(newest)[:QUERY_CHARS])
    texts = [masked(str(turn.get("content") or "")) for turn in folded]
    if not asked.strip() or not texts or room_tokens <= 0:
        return []
    known = [figures(text, turn.get("at")) for text, turn in zip(texts, folded, strict=True)]
    back = _BACK.search(asked) is not None or _ROUND.search(asked) is not None
    scores = [sum(signs) for signs in zip(
        _by_figures(figures(asked, turns[-1].get("at")), known), _by_reference(asked, folded, known) if back else [0.0] * len(texts),
        _by_words(asked, texts), strict=True)]
    enough = max(1.0 if back else ENOUGH, max(scores) * 0.4)
    chosen: list[int] = []
    room = room_tokens
    for index in sorted(range(len(texts)), key=lambda i: (-scores[i], -i)):
        if scores[index] < enough or len(chosen) == MOST:
            break
        cost = count(texts[index]) + ENTRY_OVERHEAD
        if cost <= room:
            chosen.append(index)
            room -= cost
    return sorted(chosen)


def _by_figures(asked: Sequence[Figure], known: Sequence[Sequence[Figure]]) -> Scores:
    """Score shared figures; one that stands in many entries says less."""
    wanted = {name: _WEIGHTS[f.kind] for f in asked for name in _names(f)}
    tails = {digits for f in asked if f.kind in ("id", "number", "card") and len(digits := _digits(f.value)) >= TAIL_DIGITS}
    shared = []
    for entry in known:
        hits = {name for f in entry for name in _names(f) if name in wanted}
        if tails:
            hits |= {f"…{tail}" for f in entry if f.kind in ("id", "phone", "card", "number") for tail in tails if _digits(f.value).endswith(tail)}
        shared.append(hits)
    often = Counter(name for hits in shared for name in hits)
    return [sum(wanted.get(name, 6.0) / math.sqrt(often[name]) for name in hits) for hits in shared]


def _names(figure: Figure) -> list[str]:
    """Return what a figure can be called: 389 names an amount of 389 yuan; one or two digits name nothing."""
    bare = figure.value.removeprefix("by ").removeprefix("within ").split(" ")[0]
    names = [f"{figure.kind} {figure.value.removeprefix('by ')}"]
    if figure.kind in ("amount", "number"):
        names = [f"= {bare}"]
    return names if len(_digits(figure.value)) >= TAIL_DIGITS or figure.kind in ("amount", "date", "duration") else []


def _digits(text: str) -> str:
    return "".join(ch for ch in text if ch.isdigit())


def _by_reference(asked: str, folded: Sequence[Mapping[str, Any]], known: Sequence[Sequence[Figure]]) -> Scores:
    """Score what is meant by 第二轮, 一开始, and what has a figure of the kind that is asked for."""
    wanted = {kind for kind, words in _WANTED if words.search(asked)}
    named = _rounds(asked)
    rounds = _round_of(folded)
    theirs, ours = bool(_THEIRS.search(asked)), bool(_OURS.search(asked))
    scores = []
    for turn, entry, number in zip(folded, known, rounds, strict=True):
        customer = turn.get("role") == "customer"
        score = 3.0 * sum(kind in wanted for kind in {f.kind for f in entry if not f.value.startswith("KB-")})
        if theirs != ours:
            score *= 1.0 if customer == ours else 0.5
        if number in named:
            score += 8.0 if customer != theirs or ours else 4.0
        scores.append(score)
    return scores


def _rounds(asked: str) -> set[int]:
    named = set[int]()
    for found in _ROUND.finditer(asked):
        if found[1]:
            named.add(small(found[1]) or 0)
        else:
            word = found[2].lower()
            named.add(_ORDINALS.get(word) or int(_digits(word) or 0))
    if _OPENING.search(asked):
        named.add(1)
    return named


def _round_of(folded: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return for each entry which round it belongs to: what the customer wrote at once, and the answer to it."""
    rounds, number, before = [], 0, "agent"
    for turn in folded:
        role = "customer" if turn.get("role") == "customer" else "agent"
        number += role == "customer" and before == "agent"
        rounds.append(number)
        before = role
    return rounds


def _by_words(asked: str, texts: Sequence[str]) -> Scores:
    """Score shared words and pairs of characters, about one for each that few entries have."""
    wanted = set(terms(asked))
    have = [wanted & set(terms(text)) for text in texts]
    often = Counter(term for shared in have for term in shared)
    full = math.log(len(texts) + 1)
    weight = {term: (1.0 if len(term) > 1 else CHARACTER) * (
        max(0.0, math.log((len(texts) + 1) / (n + 0.5)) / full) if len(texts) > 1 else 0.6) for term, n in often.items()}
    return [min(8.0, sum(weight[term] for term in shared)) for shared in have]
