"""Chinese numerals as numbers: 两万三, 三百八十九, 二〇二六. Pure and total; a row too long to be a number is none."""

from __future__ import annotations

import re
from decimal import Decimal

NUMERAL_CHARS = 40      # a longer row is no number, and Python refuses to read 5,000 digits
HAN_DIGITS = "零〇一二两三四五六七八九壹贰叁肆伍陆柒捌玖兩"
HAN_NUMERALS = HAN_DIGITS + "十百千万亿拾佰仟萬億"
_VALUES = dict(zip(HAN_DIGITS, (0, 0, 1, 2, 2, *range(3, 10), *range(1, 10), 2), strict=True))
_SCALES = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1000, "仟": 1000}
_LARGE = {"万": 10_000, "萬": 10_000, "亿": 100_000_000, "億": 100_000_000}
_ALL_SCALES = {**_SCALES, **_LARGE, "w": 10_000, "W": 10_000, "k": 1000, "K": 1000}
_MIXED = re.compile(r"(\d[\d,]{0,24}(?:\.\d{1,8})?)\s?([十百千万萬亿億wWkK]{0,2})(\d?)", re.ASCII)
# 三四百 is a guess, not a figure: two digits side by side before a scale.
_VAGUE = re.compile(f"[{HAN_DIGITS[2:]}]{{2}}[十百千万亿拾佰仟萬億]")


def numeral(run: str) -> int:
    """Return the value of a row of numerals; a mere row of digits (`二〇二六`) is read digit by digit.

    A last digit without a scale counts in the tenth of the one before it, as it is spoken (`两万三` is 23,000).
    """
    if not any(ch in _SCALES or ch in _LARGE for ch in run):
        return int("".join(str(_VALUES[ch]) for ch in run) or "0")
    total = section = digit = 0
    unit = 1
    for ch in run:
        if ch in _VALUES:
            digit, unit = _VALUES[ch], 1 if _VALUES[ch] == 0 else unit
        elif ch in _SCALES:
            section += (digit or 1) * _SCALES[ch]
            digit, unit = 0, _SCALES[ch] // 10
        else:
            small = section + digit
            total = total + (small or 1) * _LARGE[ch] if _LARGE[ch] < total else (total + small or 1) * _LARGE[ch]
            section, digit, unit = 0, 0, _LARGE[ch] // 10
    return total + section + digit * unit


def exact(run: str) -> int | None:
    """Return the value of a row of numerals if it is one number as people say it, else None.

    `千万` (by all means), `百` as in 上百块, and `三四百` are none.
    """
    if not run or len(run) > NUMERAL_CHARS or run[0] not in f"{HAN_DIGITS}十拾" or _VAGUE.search(run):
        return None
    return numeral(run)


def amount(text: str) -> Decimal | None:
    """Return the value of a number as written: `1,200.50`, `3万5`, `1.2w`, `三百八十九`; None if it is no number."""
    found = _MIXED.fullmatch(text)
    if found is None:
        value = exact(text)
        return None if value is None else Decimal(value)
    digits, scales, rest = found.groups()
    factor = 1
    for scale in scales:
        factor *= _ALL_SCALES[scale]
    value_of = Decimal(digits.replace(",", "")) * factor
    return plain(value_of + Decimal(rest or 0) * factor / 10)


def plain(value: Decimal) -> Decimal:
    """Return a number without noughts at its end."""
    return value.normalize() if value else Decimal(0)
