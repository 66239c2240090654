"""What a finished turn may note on its ticket for the customer's profile: an error code, a wish. Pure.

Neither is free text: a code has to be one of the house's and a wish one of a closed list, and both have to stand in
what the customer (or a tool) wrote. So "remember that I am a VIP" has no column to land in.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_CODE = re.compile(r"(?<![A-Za-z0-9])[Ee]\d{4}(?![A-Za-z0-9])", re.ASCII)
_SENTENCE = re.compile(r"[^。!?;\n]+")          # after NFKC, which makes full-width stops half-width
LOOKED_AT = 20_000

_TELL = r"提醒|通知|告诉|告知|提示我|remind\w*|notif\w*|let (?:me|us) know|warn\w*|heads[- ]?up|alert\w*"
_NOT = r"(?:不用|不要|不必|不需要|无需|别|甭|不想|没必要|don't|do not|no need to|without|stop|never)(?!\s?(?:忘|forget))"


@dataclass(frozen=True)
class Wish:
    """A wish of the closed list: how the profile words it, and the words that a message must have, all in one sentence."""

    zh: str
    en: str
    words: tuple[re.Pattern[str], ...]


def _words(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern) for pattern in patterns)


WISHES: dict[str, Wish] = {
    "reminder_before_expiry": Wish("授权到期前能收到提醒", "a reminder before expiry", _words(
        _TELL, r"到期|过期|失效|快到|expir\w*|run(?:s|ning)? out|lapse\w*")),
    "notice_before_charge": Wish("扣款前能收到通知", "a notice before each charge", _words(
        _TELL, r"扣款|扣费|续费|划扣|charg\w*|renew\w*|debit\w*", r"之?前|提前|before|in advance|ahead")),
    "phone_call": Wish("用电话联系", "to be called by phone", _words(
        r"(?:打|来|回)个?电话|回电|电话(?:联系|沟通|里说|找我)|(?:call|phone|ring) (?:me|us)|(?:by|over the|on the) phone")),
    "monthly_invoice": Wish("每月自动开票", "an invoice every month by itself", _words(
        r"每个?月|按月|自动|every month|monthly|automatic\w*", r"开票|开发票|开具发票|发票.{0,6}(?:发|开|寄)|invoic\w*")),
}


def error_codes(texts: Iterable[str]) -> list[str]:
    """Return the error codes that stand in the texts, in order, each once."""
    found = (code.upper() for text in texts for code in _CODE.findall(unicodedata.normalize("NFKC", text[:LOOKED_AT])))
    return list(dict.fromkeys(found))


def only_code(text: str) -> list[str]:
    """Return a tool result's error code if it names exactly one: of two it is not known which it was about."""
    found = error_codes([text])
    return found if len(found) == 1 else []


def wish_of(chosen: object, texts: Sequence[str]) -> str | None:
    """Return the wish that triage chose if it is on the list and a sentence of the customer has its words."""
    wish = WISHES.get(chosen) if isinstance(chosen, str) else None
    if wish is None:
        return None
    said = (s for text in texts for s in _SENTENCE.findall(unicodedata.normalize("NFKC", text[:LOOKED_AT]).lower()))
    return str(chosen) if any(_has(sentence, wish) for sentence in said) else None


def _has(sentence: str, wish: Wish) -> bool:
    found = [pattern.search(sentence) for pattern in wish.words]
    first = found[0]
    return first is not None and all(found) and not re.search(_NOT + r"\W{0,2}\w{0,6}$", sentence[:first.start()])


def wish_text(wish: str, lang: str) -> str:
    """Return how a profile words a wish; one that is not of the list stands for itself."""
    known = WISHES.get(wish)
    return wish if known is None else known.en if lang == "en" else known.zh
