"""Figures with a unit: money, durations, percentages, counts. Pure.

Values: `389.5 CNY`, `3 working days`, `within 3 working days`, `3-5 working days`, `5%`; a count keeps its bare number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal

from supportpilot.memory.dates import small
from supportpilot.memory.numerals import HAN_DIGITS, HAN_NUMERALS, amount, exact

Read = Callable[[re.Match[str], date | None, str], tuple[str, str] | None]

_NUM = r"(?:\d{1,3}(?:,\d{3}){1,6}|\d{1,24})(?:\.\d{1,8})?"
_HAN = f"[{HAN_NUMERALS}]{{1,40}}"
_NO_NUM = r"(?<![A-Za-z0-9.])(?<!\d,)"
_NO_HAN = f"(?<![{HAN_NUMERALS}第])"
_SYMBOLS = {"¥": "CNY", "$": "USD", "us$": "USD", "hk$": "HKD", "€": "EUR", "£": "GBP", "cny": "CNY", "rmb": "CNY", "usd": "USD", "hkd": "HKD", "eur": "EUR"}
_WORDS = {"元": "CNY", "块": "CNY", "块钱": "CNY", "圆": "CNY", "人民币": "CNY", "元人民币": "CNY", "cny": "CNY", "rmb": "CNY", "yuan": "CNY", "美元": "USD", "美金": "USD",
          "usd": "USD", "dollar": "USD", "dollars": "USD", "港币": "HKD", "港元": "HKD", "hkd": "HKD", "欧元": "EUR", "eur": "EUR", "euro": "EUR", "euros": "EUR"}
_UNITS = {
    "工作日": "working days", "交易日": "working days", "自然日": "days", "天": "days", "日": "days", "小时": "hours", "钟头": "hours", "分钟": "minutes",
    "秒": "seconds", "秒钟": "seconds", "周": "weeks", "星期": "weeks", "礼拜": "weeks", "月": "months", "季度": "quarters", "年": "years", "day": "days",
    "hour": "hours", "hr": "hours", "minute": "minutes", "min": "minutes", "week": "weeks", "month": "months", "quarter": "quarters", "year": "years",
}
_ZH_UNIT = r"个?(?:工作日|交易日|自然日|小时|钟头|星期|礼拜|季度)|个月|分钟|秒钟?|天|周(?![一二三四五六日末])|年(?![0-9一二三四五六七八九十]{1,2}月)|日(?=之?以?内)"
_EN_NUM = r"\d{1,4}(?:\.\d)?|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|fourteen|fifteen|twenty|thirty|sixty|ninety"
_MEASURE_AHEAD = rf"(?![{HAN_NUMERALS}个次天月年日号人张份笔位条台家户元块小分周星工点])"
_MONEY_CUE = re.compile(r"(?:[扣付交花退收转充价费钱款卖赔欠亏共]|金额|合计|总计|单价|余额)(?:了|是|为|我|你们?|共|:)?\s?$")


def _money(value: Decimal | None, currency: str) -> tuple[str, str] | None:
    return None if value is None else ("amount", f"{value:f} {currency}")


def _prefixed(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    return _money(amount(m[2] + (m[3] or "")), _SYMBOLS[m[1].lower()])


def _suffixed(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    value = amount(m["n"] + (m["scale"] or ""))
    currency = _WORDS.get(m["unit"].lower(), "CNY")
    if value is not None and m["tenths"]:
        value += Decimal(small(m["tenths"]) or 0) / 10 + Decimal(m["cents"] or 0) / 100
    if value is not None and m["from"]:
        start = amount(m["from"])
        return None if start is None else ("amount", f"{start:f}-{value:f} {currency}")
    return _money(value, currency)


def _spoken(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    whole = exact(m[1])
    if whole is None or (m[1] + m[2] == "一块" and not m[3]):      # 一块: together, or a patch
        return None
    cents = Decimal(exact(m[3]) or 0) / 10 if m[3] else Decimal(0)
    return _money(whole + cents + (Decimal(exact(m[4]) or 0) / 100 if m[4] else 0), _WORDS.get(m[2], "CNY"))


def _small_change(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    value = small(m[1])
    return None if value is None else _money(Decimal(value) / 10, "CNY")


def _bare_han(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    value = exact(m[0])
    if value is None or value < 20 or not any(ch in "十百千万亿拾佰仟萬億" for ch in m[0]):
        return None
    return ("amount", f"{value} CNY") if _MONEY_CUE.search(m.string[max(0, m.start() - 5):m.start()]) else ("number", str(value))


_FEW = re.compile(f"([{HAN_DIGITS}])([{HAN_DIGITS}])")


def _count_of(text: str | None) -> Decimal | None:
    if not text:
        return None
    if text == "半":
        return Decimal("0.5")
    if text[0].isdigit():
        return Decimal(text)
    value = small(text)
    return None if value is None else Decimal(value)


def _lasting(count: Decimal | None, upto: Decimal | None, unit: str, *, deadline: bool) -> tuple[str, str] | None:
    if count is None:
        return None
    unit = _UNITS[unit.lower().removeprefix("个")]
    span = f"{count:f}" if upto is None else f"{count:f}-{upto:f}"
    return "duration", f"{'within ' if deadline else ''}{span} {unit}"


def _duration(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    few = _FEW.fullmatch(m[1])
    if few and not m[2]:        # 两三天: two or three; 五二天 is nothing
        low, high = exact(few[1]) or 0, exact(few[2]) or 0
        return _lasting(Decimal(low), Decimal(high), m[4], deadline=bool(m[6])) if high == low + 1 else None
    count, upto = _count_of(m[1]), _count_of(m[2])
    half = Decimal("0.5") if m[3] or m[5] else Decimal(0)
    return _lasting(None if count is None else count + half, upto, m[4], deadline=bool(m[6]))


def _short(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    return _lasting(Decimal(m[1]), None, "min" if m[2].lower() == "min" else "hr", deadline=bool(m[3]))


def _half(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    return _lasting(Decimal("0.5"), None, m[1], deadline=bool(m[2]))


def _english_duration(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    working = m[4] and m[4].lower() in ("working", "business") and m[5].lower() == "day"
    return _lasting(_count_of(m[2]), _count_of(m[3]), "工作日" if working else m[5], deadline=bool(m[1]))


def _percent(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    value = amount(m[1])
    return None if value is None else ("number", f"{value:f}%")


def _counted(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    value = amount(m[1])
    if value is None or (m[1] == "一"):
        return None
    return "number", f"{value:f}"


def _number(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    value = amount(m[0])
    return None if value is None else ("number", f"{value:f}")


def _rule(pattern: str, read: Read) -> tuple[re.Pattern[str], Read]:
    return re.compile(pattern, re.ASCII | re.IGNORECASE), read


_CURRENCY = r"人民币|美元|美金|港币|港元|欧元|(?:CNY|RMB|USD|HKD|EUR|yuan|dollars?|euros?)(?![A-Za-z])"
_RANGE = r"\s?(?:-|~|到|至)\s?"
PREFIXED: tuple[tuple[re.Pattern[str], Read], ...] = (
    _rule(rf"(?<![A-Za-z])(US\$|HK\$|[¥$€£]|(?:CNY|RMB|USD|HKD|EUR))\s?({_NUM})(?![\d])([万千亿wk](?![A-Za-z]))?", _prefixed),
)
SUFFIXED: tuple[tuple[re.Pattern[str], Read], ...] = (
    _rule(rf"{_NO_NUM}(?:(?P<from>{_NUM})\s?[-~至]\s?)?(?P<n>{_NUM})\s?(?P<scale>[万千百亿]{{1,2}}\d?|[wk])?[多余来]?\s?"
          rf"(?P<unit>元人民币|{_CURRENCY}|块钱|[元块圆](?!素))"
          rf"(?:(?P<tenths>\d(?![\d.])|[{HAN_DIGITS}]{_MEASURE_AHEAD})(?:毛|角)?(?:(?P<cents>\d(?!\d))分?)?)?", _suffixed),
    _rule(rf"{_NO_HAN}({_HAN})[多余]?(块钱|{_CURRENCY}|[元块圆](?!素))(?:零?([{HAN_DIGITS}])(?:[毛角]|{_MEASURE_AHEAD})(?:([{HAN_DIGITS}])分?{_MEASURE_AHEAD})?)?整?", _spoken),
    _rule(rf"{_NO_NUM}(?<![{HAN_NUMERALS}])(\d|[{HAN_DIGITS}])[毛角](?:钱|(?![色度落]))", _small_change),
    _rule(rf"{_NO_NUM}({_NUM})\s?%", _percent),
    _rule(rf"百分之({_NUM}|{_HAN})", _percent),
    _rule(rf"{_NO_NUM}{_NO_HAN}(\d{{1,6}}(?:\.\d{{1,2}})?|{_HAN})(?:{_RANGE}(\d{{1,6}}|{_HAN}))?[多余来]?\s?(?:个(半)(?=[月小星礼钟]))?(?:个多)?({_ZH_UNIT}|月(?<=[半多]月)|小时|钟头|星期|礼拜)(半)?(之?以?内)?", _duration),
    _rule(rf"{_NO_NUM}(\d{{1,4}})\s?(h|hrs?|min)(?![A-Za-z])(之?以?内)?", _short),
    _rule(rf"(?<![{HAN_NUMERALS}个多大小上下前后])半(个月|个?小时|个?钟头|(?<!了半)天|年)(之?以?内)?", _half),
    _rule(rf"{_NO_NUM}({_NUM})\s?[次个张份笔条位人台家户席倍折页件款种项轮遍套点期]", _counted),
    _rule(rf"{_NO_HAN}(?<!番)({_HAN})[次张份笔人台户家席倍折页遍]", _counted),
    _rule(f"第({_HAN})[次期页]", _counted),
    _rule(rf"{_NO_HAN}[{HAN_NUMERALS}]{{2,40}}", _bare_han),
    _rule(rf"{_NO_NUM}(?:\d{{1,3}}(?:,\d{{3}}){{1,6}}(?:\.\d{{1,8}})?|\d{{1,24}}\.\d{{1,8}}|\d{{1,24}}\s?[万亿](?:\d(?!\d))?)(?![A-Za-z0-9]|[.,:/-]\d)", _number),
)
ENGLISH: tuple[tuple[re.Pattern[str], Read], ...] = (
    _rule(rf"(?:(within|in)\s(?:the\snext\s)?)?(?<![A-Za-z0-9.])({_EN_NUM})(?:\s?(?:-|to|or)\s?(\d{{1,4}}))?[ -]{{1,2}}(?:(working|business|calendar)[ -])?(day|hour|minute|week|month|quarter|year|hr|min)s?(?![A-Za-z])", _english_duration),
)
