"""Whether a text may be kept as memory: every figure in it must stand in its source. Pure.

A figure that a model made up, once stored, is quoted to the customer for the rest of the ticket. Each refusal has a
reason code, which is stored with what was kept instead.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Literal, NamedTuple

from supportpilot.memory.entries import HAN_PER_WORD, letters
from supportpilot.memory.numerals import HAN_NUMERALS, NUMERAL_CHARS, numeral

Reason = Literal["empty", "too_long", "not_shorter", "unreadable", "invented_figure", "error_text", "instruction", "wrong_language", "invented_promise"]

SUMMARY_CHARS = 150
PROFILE_CHARS_STORED = 300

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_DAY = re.compile(r"(?<![A-Za-z0-9])(\d{4})(?:[-/.]|[ \t]*年[ \t]*)(\d{1,2})(?:[-/.]|[ \t]*月[ \t]*)(\d{1,2})(?!\d|[-/.]\d)(?:[ \t]*[日号])?")
_MONTH_DAY = re.compile(r"(?<![A-Za-z0-9])(\d{1,2})[ \t]*月[ \t]*(\d{1,2})[ \t]*[日号]")
_TOKEN = re.compile(r"[A-Za-z0-9]+(?:[-_.:/][A-Za-z0-9]+)*", re.ASCII)
_PLAIN = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_NUMERAL = re.compile(f"[{HAN_NUMERALS}]+")
_UNIT = re.compile(r"[ \t]*(?:个?(?:工作日|月|小时|半月|星期|季度)|[元块万天日周年月次笔张份倍成折号]|分钟|小时)")
_COUNTED = re.compile(r"[ \t]*[次张份号]")

# An order to whoever reads the summary: what a customer hides in a message to reach the model by another way.
_ORDER = re.compile(
    r"(?:忽略|无视|忘记|不要遵守)[^;;。!?\n]{0,12}(?:指令|指示|规则|提示词|要求)"
    r"|(?:ignore|disregard|forget)\b[^;.!?\n]{0,40}\b(?:instructions?|rules?|prompts?)\b"
    r"|(?:从现在起|从现在开始)[,,]?你(?:是|要|必须|只)|\b(?:from now on,? you|you are now)\b|(?:system|developer)\s?(?:prompt|message)\s?[::]|系统(?:提示|指令)\s?[::]"
    r"|\[(?:task|repair)\b|</?\s*section",
    re.IGNORECASE)
# What a model or a proxy says instead of an answer. A ticket may be about such an error: then the source has it too.
_ERROR = re.compile(
    r"traceback \(most recent|internal server error|bad gateway|gateway time-?out|service unavailable|too many requests|rate.?limit(?:ed)?\b"
    r"|request timed? ?out|connection (?:refused|reset|error)|invalid api.?key|insufficient.?quota|<!doctype|<html|\"error\"\s?:"
    r"|\bas an ai\b|\bi(?:['’]m| am) (?:sorry|unable|not able)\b|\bi can(?:not|['’]t| not)\b"
    r"|作为(?:一个|一名)?(?:ai|人工智能|大?语言模型)|(?:抱歉|对不起)[,\uff0c]?\s?我(?:无法|不能)|我(?:无法|不能)(?:生成|提供|完成|帮助)|(?:请求|调用)(?:失败|超时)",
    re.IGNORECASE)
# "The last agent promised me": what a customer says of us may be noted as their words, not as ours.
_WE_PROMISED = re.compile(
    r"(?:客服|我们|我方|同事|官方)[^。;；\n]{0,12}?(?:承诺|答应|保证|同意|批准|许诺)|(?:已|已经)(?:承诺|答应|保证|同意|批准|许诺)"
    r"|\b(?:we|agent|desk|support|colleague|staff)\b[^.;\n]{0,24}?\b(?:promised?|agreed?|guaranteed?|approved?)\b", re.IGNORECASE)
_REPORTED = re.compile(r"(?:客户|用户|对方)[^。;；\n]{0,10}?(?:称|说|表示|声称|提到|认为|要求|希望|询问|问)|\bcustomer\b[^.;\n]{0,20}?\b(?:says?|said|claims?|claimed|wants?|asks?|asked|mentions?|states?)\b", re.IGNORECASE)
_PROMISING = re.compile(
    r"承诺|答应|保证|同意|批准|许诺|会(?:在|尽快|为|给|帮|把|于|及时|第一时间)|将(?:在|于|为|给|尽快)|工作日|小时内|天内|分钟内|稍后|尽快|预计|提醒|跟进"
    r"|\b(?:promise|agree|guarantee|approve|will|within|shall)|['’]ll\b", re.IGNORECASE)
_HIDDEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_UNREADABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
HOPELESS = 20           # times the limit: not worth reading further
FEW_WORDS, FEW_HAN = 4, 8       # product names and codes have no language


@dataclass(frozen=True)
class Figures:
    """The figures of a text: codes (letters and digits), dates, numbers."""

    codes: frozenset[str]
    days: frozenset[str]
    numbers: frozenset[Decimal]

    def missing_in(self, source: Figures) -> list[str]:
        """Return those that a source does not have."""
        return sorted([*(self.codes - source.codes), *(self.days - source.days),
                       *(f"{n:f}" for n in self.numbers - source.numbers)])


class Problem(NamedTuple):
    """Why a text may not be stored: the code, and the same for the model that is asked again."""

    reason: Reason
    text: str


@dataclass(frozen=True)
class Source:
    """All that a text was made from. `lang` is the language it has to be in; `length` what it has to be shorter than.

    `known` are its figures where they come from rows and not from `text`; `said` is what the desk itself wrote, None
    where nobody can tell.
    """

    text: str = ""
    lang: str = ""
    length: int | None = None
    known: Figures | None = None
    said: str | None = None

    @cached_property
    def figures(self) -> Figures:
        """What the source supports."""
        return supported(self.text) if self.known is None else self.known

    @cached_property
    def lowered(self) -> str:
        """The source in lower case."""
        return self.text.lower()


def claimed(text: str) -> Figures:
    """Return what a text claims; a Chinese numeral counts where a unit follows it (`三次`, `五个工作日`)."""
    return _figures(text, loose=False)


def supported(text: str) -> Figures:
    """Return what a source supports: also years and months of its dates, and every Chinese numeral."""
    return _figures(text, loose=True)


def orders_its_reader(text: str) -> bool:
    """Tell whether a text holds an instruction to the model that will read it."""
    return _ORDER.search(unicodedata.normalize("NFKC", _HIDDEN.sub("", text))) is not None


def check(text: str, source: Source, limit: int = SUMMARY_CHARS) -> list[Problem]:
    """Return why exactly this text may not be stored, [] if it may."""
    if not text.strip():
        return [Problem("empty", "it is empty")]
    found = []
    if len(text) > limit:
        found.append(Problem("too_long", f"it has {len(text)} characters, at most {limit} are allowed"))
        if len(text) > limit * HOPELESS:
            return found
    elif source.length is not None and len(text) >= source.length:
        found.append(Problem("not_shorter", f"it is not shorter than what it sums up ({source.length} characters)"))
    if _UNREADABLE.search(text):
        found.append(Problem("unreadable", "it has control characters"))
    missing = claimed(text).missing_in(source.figures)
    if missing:
        found.append(Problem("invented_figure", f"the source does not have: {', '.join(missing[:5])}"))
    if source.known is None and any(error.group().lower() not in source.lowered for error in _ERROR.finditer(text)):
        found.append(Problem("error_text", "it is the text of an error"))
    return [*found, *_wording(text, source)]


def _wording(text: str, source: Source) -> Iterator[Problem]:
    """Yield what is wrong with a text's words, its figures and length aside."""
    if orders_its_reader(text):
        yield Problem("instruction", "it gives its reader orders")
    if _promises_for_nobody(text, source):
        yield Problem("invented_promise", "it says that we promised something, which only the customer says")
    if _in_another_language(text, source.lang):
        yield Problem("wrong_language", f"it is not in the language of the conversation ({source.lang})")


def problems(text: str, source: str | Figures, limit: int = SUMMARY_CHARS) -> list[str]:
    """Return why a text may not be stored in words, [] if it may. `source` is all that it was made from."""
    made_from = Source(source) if isinstance(source, str) else Source(known=source)
    return [problem.text for problem in check(text, made_from, limit)]


def _promises_for_nobody(text: str, source: Source) -> bool:
    """Tell whether a text says that the desk promised something although the desk wrote nothing of the kind."""
    if source.said is None or _PROMISING.search(source.said):
        return False
    return any(_WE_PROMISED.search(line) and not _REPORTED.search(line) for line in text.splitlines())


def _in_another_language(text: str, lang: str) -> bool:
    han, words = letters(text)
    if lang == "zh":
        return words >= FEW_WORDS and han * HAN_PER_WORD < words
    return lang == "en" and han >= FEW_HAN and han * HAN_PER_WORD >= words


def _figures(text: str, *, loose: bool) -> Figures:
    plain = unicodedata.normalize("NFKC", _THOUSANDS.sub("", text))
    days, rest = _take_days(plain, loose=loose)
    codes, numbers = set[str](), set[Decimal]()
    for token in _TOKEN.findall(rest):
        if _PLAIN.fullmatch(token):
            numbers.add(_number(token))
        elif any(ch.isdigit() for ch in token):
            codes.add(token.upper())
    numbers.update(_numerals(rest, loose=loose))
    if loose:
        numbers.update(_number(part) for day in _all_days(plain) for part in day[:-1])
        codes.update(f"{int(year)}-{int(month):02}" for year, month, _ in _DAY.findall(plain))
    return Figures(frozenset(codes), frozenset(days), frozenset(numbers))


def _all_days(text: str) -> Iterator[tuple[str, ...]]:
    yield from (found.groups() for found in _DAY.finditer(text))
    yield from (found.groups() for found in _MONTH_DAY.finditer(text))


def _take_days(text: str, *, loose: bool) -> tuple[set[str], str]:
    """Return the dates as `year-month-day` and `month-day` (a source's full date supports both), and the rest."""
    days = set[str]()
    for year, month, day in _DAY.findall(text):
        days.add(f"{int(year)}-{int(month):02}-{int(day):02}")
        if loose:
            days.add(f"{int(month):02}-{int(day):02}")
    rest = _DAY.sub(" ", text)
    days.update(f"{int(month):02}-{int(day):02}" for month, day in _MONTH_DAY.findall(rest))
    return days, _MONTH_DAY.sub(" ", rest)


def _number(text: str) -> Decimal:
    value = Decimal(text)
    return value.normalize() if value else Decimal(0)


def _numerals(text: str, *, loose: bool) -> Iterator[Decimal]:
    for found in _NUMERAL.finditer(text):
        run, end = found.group(), found.end()
        if len(run) > NUMERAL_CHARS:
            continue
        if loose:
            yield from (Decimal(numeral(run)), Decimal(numeral(run.rstrip("万亿萬億"))))
        elif run != "一" and _UNIT.match(text, end):
            yield Decimal(numeral(run))
        elif run == "一" and _UNIT.match(text, end) and not _COUNTED.match(text, end):
            yield Decimal(1)
