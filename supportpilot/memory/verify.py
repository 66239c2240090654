"""Whether a text may be kept as memory: every figure in it must stand in its source. Pure.

A figure that a model made up, once stored, is quoted to the customer for the rest of the ticket.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

SUMMARY_CHARS = 150
PROFILE_CHARS_STORED = 300

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_DAY = re.compile(r"(?<![A-Za-z0-9])(\d{4})(?:[-/.]|[ \t]*年[ \t]*)(\d{1,2})(?:[-/.]|[ \t]*月[ \t]*)(\d{1,2})(?!\d|[-/.]\d)(?:[ \t]*[日号])?")
_MONTH_DAY = re.compile(r"(?<![A-Za-z0-9])(\d{1,2})[ \t]*月[ \t]*(\d{1,2})[ \t]*[日号]")
_TOKEN = re.compile(r"[A-Za-z0-9]+(?:[-_.:/][A-Za-z0-9]+)*", re.ASCII)
_PLAIN = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_NUMERAL = re.compile(r"[零〇一二两三四五六七八九十百千万亿壹贰叁肆伍陆柒捌玖拾佰仟]+")
_UNIT = re.compile(r"[ \t]*(?:个?(?:工作日|月|小时|半月|星期|季度)|[元块万天日周年月次笔张份倍成折号]|分钟|小时)")
_COUNTED = re.compile(r"[ \t]*[次张份号]")
NUMERAL_CHARS = 40      # a longer row of Chinese numerals is no number, and Python refuses to read 5,000 digits
_VALUES = dict(zip("零〇一二两三四五六七八九壹贰叁肆伍陆柒捌玖", (0, 0, 1, 2, 2, *range(3, 10), *range(1, 10)), strict=True))
_SCALES = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1000, "仟": 1000}
_LARGE = {"万": 10_000, "亿": 100_000_000}

# An order to whoever reads the summary: what a customer hides in a message to reach the model by another way.
_ORDER = re.compile(
    r"(?:忽略|无视|忘记|不要遵守)[^;;。!?\n]{0,12}(?:指令|指示|规则|提示词|要求)"
    r"|(?:ignore|disregard|forget)\b[^;.!?\n]{0,40}\b(?:instructions?|rules?|prompts?)\b"
    r"|\[(?:task|repair)\b|</?\s*section",
    re.IGNORECASE)


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


def claimed(text: str) -> Figures:
    """Return what a text claims; a Chinese numeral counts where a unit follows it (`三次`, `五个工作日`)."""
    return _figures(text, loose=False)


def supported(text: str) -> Figures:
    """Return what a source supports: also years and months of its dates, and every Chinese numeral."""
    return _figures(text, loose=True)


def orders_its_reader(text: str) -> bool:
    """Tell whether a text holds an instruction to the model that will read it."""
    return _ORDER.search(unicodedata.normalize("NFKC", text)) is not None


def problems(text: str, source: str | Figures, limit: int = SUMMARY_CHARS) -> list[str]:
    """Return why a text may not be stored, [] if it may. `source` is all that it was made from."""
    if not text.strip():
        return ["it is empty"]
    found = []
    if len(text) > limit:
        found.append(f"it has {len(text)} characters, at most {limit} are allowed")
    missing = claimed(text).missing_in(supported(source) if isinstance(source, str) else source)
    if missing:
        found.append(f"the source does not have: {', '.join(missing[:5])}")
    if orders_its_reader(text):
        found.append("it gives its reader orders")
    return found


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
            yield from (Decimal(_value(run)), Decimal(_value(run.rstrip("万亿"))))
        elif run != "一" and _UNIT.match(text, end):
            yield Decimal(_value(run))
        elif run == "一" and _UNIT.match(text, end) and not _COUNTED.match(text, end):
            yield Decimal(1)


def _value(run: str) -> int:
    """Return the value of a Chinese numeral; a mere row of digits (`二〇二六`) is read digit by digit."""
    if not any(ch in _SCALES or ch in _LARGE for ch in run):
        return int("".join(str(_VALUES[ch]) for ch in run) or "0")
    total = section = digit = 0
    for ch in run:
        if ch in _VALUES:
            digit = _VALUES[ch]
        elif ch in _SCALES:
            section += (digit or 1) * _SCALES[ch]
            digit = 0
        else:
            total = (total + section + digit or 1) * _LARGE[ch]
            section = digit = 0
    return total + section + digit
