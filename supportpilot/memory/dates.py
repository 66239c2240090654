"""Dates as people write them, read against the day of the message: 昨天, 上个月5号, 9月1日, next Monday. Pure.

A value is ISO 8601 (`2026-09-01`, `2026-09`, `2026`, `--09-01` where no year can be known); what cannot be placed
without the day of the message keeps its own words. A day named without a year is the one nearest to the message.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone

from supportpilot.memory.numerals import HAN_NUMERALS, exact

_YEARS = (1970, 9000)     # a clock outside of these is broken, and years near 1 and 9999 have no neighbours
HOME = timezone(timedelta(hours=8))     # where the customers' 昨天 is counted from

_N = rf"\d{{1,3}}|[{HAN_NUMERALS}]{{1,5}}"
_WEEKDAYS = {name: i for i, names in enumerate(("一1", "二2", "三3", "四4", "五5", "六6", "日天7")) for name in names}
_EN_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_EN_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_EN_DAY = r"(mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs(?:day)?)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?)"
_EN_MONTH = (r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?"
             r"|dec(?:ember)?)\.?")
_EN_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
               "ten": 10, "twelve": 12, "fourteen": 14, "fifteen": 15, "twenty": 20, "thirty": 30, "sixty": 60, "ninety": 90}
_DAYS = {"大前": -3, "前": -2, "昨": -1, "今": 0, "本": 0, "当": 0, "明": 1, "后": 2, "大后": 3,
         "day before yesterday": -2, "yesterday": -1, "last night": -1, "today": 0, "tonight": 0, "tomorrow": 1, "day after tomorrow": 2}
_STEPS = {"上上": -2, "上": -1, "前": -2, "去": -1, "这": 0, "本": 0, "今": 0, "当": 0, "下": 1, "明": 1, "次": 1, "下下": 2, "last": -1, "previous": -1,
          "past": -1, "this": 0, "next": 1, "coming": 0, "后": 2}
# Spoken hours only behind a part of the day: 昨天一点都不行 is no time.
_SPOKEN_HOUR = f"(?<=[午晚上晨])[{HAN_NUMERALS}]{{1,3}}(?=点(?![消也都儿]))"
_TIME = (r"(?:[ T\t]{0,3}(上午|下午|晚上|晚|早上|中午|凌晨|傍晚)?[ \t]?(\d{1,2}|" + _SPOKEN_HOUR + r")(?::(\d{2})(?!\d)(?::\d{2}(?!\d)(?:\.\d{1,9}(?!\d))?)?|[点时](?!间)(\d{1,2}(?!\d)分?|半)?)"
         r"(?:[ \t]?(?:Z|UTC|[+-]\d{2}:?\d{2})(?![A-Za-z0-9]))?)?")
_NO_DAY = r"(?!楼|线|窗口|店|柜|仓|机|库|门|桌|房|馆|院|厅|车|员工|客服|会议|文件|项|码)"

Rule = tuple[re.Pattern[str], Callable[[re.Match[str], date | None, str], str | None]]


_BEFORE = re.compile(r"\s?(?:之前|以前|前)(?!台|端|者|面|款|缀|天|后)")
_BY = re.compile(r"(?:\b(?:by|before|until)|不晚于|最晚|最迟|截止(?:日期?)?(?:到|至|是|为)?|不迟于)\s{0,2}$", re.IGNORECASE)


def is_deadline(m: re.Match[str]) -> bool:
    """Tell whether a date is the latest day for something: 9月5日前, by Friday."""
    return bool(_BEFORE.match(m.string, m.end()) or _BY.search(m.string[max(0, m.start() - 8):m.start()]))


def local_day(at: object) -> date | None:
    """Return the customers' calendar day of an entry's `at` (ISO 8601; UTC unless it says otherwise), None if unknown."""
    try:
        moment = at if isinstance(at, datetime) else datetime.fromisoformat(str(at))
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        day = (moment.astimezone(HOME) if not moment.utcoffset() else moment).date()
    except (ValueError, OverflowError):
        return None
    return day if _YEARS[0] <= day.year <= _YEARS[1] else None


def small(text: str) -> int | None:
    """Return a count as written: `3`, `三`, `three`."""
    word = text.strip().lower()
    return int(word) if word.isdecimal() else _EN_NUMBERS.get(word) or exact(word)


def _iso(year: int, month: int, day: int) -> str | None:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None


def _time(groups: tuple[str | None, ...]) -> str | None:
    """Return `THH:MM` of the four groups of `_TIME`, "" without one, None if there is no such time."""
    part, hour, minute, spoken = groups
    if hour is None:
        return ""
    hours = small(hour) or 0
    hours += 12 if part in ("下午", "晚上", "晚", "傍晚") and hours < 12 else 0
    minutes = 30 if spoken == "半" else int((minute or spoken or "0").rstrip("分整") or "0")
    return f"T{hours:02}:{minutes:02}" if hours < 25 and minutes < 60 else None


def _timed(day: str | None, groups: tuple[str | None, ...]) -> str | None:
    clock = _time(groups)
    return None if day is None or clock is None else f"{day}{clock}"


def _near(found: list[str], today: date, *, ahead: bool) -> str | None:
    """Return the day nearest to today, for a deadline the first that is not over."""
    late = [day for day in found if date.fromisoformat(day) >= today] if ahead else []
    return min(late or found, key=lambda day: abs((date.fromisoformat(day) - today).days), default=None)


def _nearest(month: int, day: int, today: date | None, *, ahead: bool = False) -> str | None:
    """Return the month and day in the year that brings it nearest to today."""
    if _iso(2024, month, day) is None:
        return None
    if today is None:
        return f"--{month:02}-{day:02}"
    near = [found for year in (today.year - 1, today.year, today.year + 1)
            if 1 <= year <= 9999 and (found := _iso(year, month, day))]
    return _near(near, today, ahead=ahead)


def _month(today: date, step: int) -> tuple[int, int]:
    index = today.year * 12 + today.month - 1 + step
    return index // 12, index % 12 + 1


def _moved(today: date, days: int) -> str | None:
    try:
        return (today + timedelta(days=days)).isoformat()
    except OverflowError:
        return None


def _full(m: re.Match[str], _: date | None, __: str) -> str | None:
    return _timed(_iso(int(m[1]), int(m[2]), int(m[3])), m.groups()[3:7])


def _solid(m: re.Match[str], _: date | None, __: str) -> str | None:
    return _iso(int(m[1]), int(m[2]), int(m[3]))


def _english_slashes(m: re.Match[str], _: date | None, lang: str) -> str | None:
    first, second, year = int(m[1]), int(m[2]), int(m[3])
    order = ((first, second), (second, first)) if lang == "en" else ((second, first), (first, second))
    return next((found for month, day in order if (found := _iso(year, month, day))), None)


def _year_month(m: re.Match[str], _: date | None, __: str) -> str | None:
    month = exact(m[2]) if not m[2].isdecimal() else int(m[2])
    year = int(m[1]) if m[1].isdecimal() else exact(m[1])
    return f"{year:04}-{month:02}" if year and month and 1 <= month <= 12 else None


def _month_day(m: re.Match[str], today: date | None, _: str) -> str | None:
    step, month, day = m[1], small(m[2]), small(m[3])
    if not month or not day or month > 12:
        return None
    named = _iso(today.year + _STEPS[step], month, day) if step and today else _nearest(month, day, today, ahead=is_deadline(m))
    return _timed(named, m.groups()[3:7])


def _han_full(m: re.Match[str], _: date | None, __: str) -> str | None:
    year, month, day = exact(m[1]), small(m[2]), small(m[3])
    return _iso(year, month, day) if year and month and day and year < 10_000 else None


def _day_of_month(m: re.Match[str], today: date | None, _: str) -> str | None:
    step, day = m[1], small(m[2])
    if not day or day > 31:
        return None
    if today is None:
        return m[0] if step else f"---{day:02}"
    if step:
        return _timed(_iso(*_month(today, _STEPS[step.rstrip("个月份")]), day), m.groups()[2:6])
    near = [found for step in (-1, 0, 1) if (found := _iso(*_month(today, step), day))]
    return _timed(_near(near, today, ahead=is_deadline(m)), m.groups()[2:6])


def _month_alone(m: re.Match[str], today: date | None, _: str) -> str | None:
    if today is None:
        return m[0]
    return _edge(*_month(today, _STEPS[m[1].rstrip("个")]), m[2])


def _bare_month(m: re.Match[str], today: date | None, _: str) -> str | None:
    """Return a month without a year, or its first or last day: 4月, 九月底."""
    month = small(m[1])
    if not month or month > 12:
        return None
    if today is None:
        return f"--{month:02}"
    near = _near([f"{year:04}-{month:02}-15" for year in (today.year - 1, today.year, today.year + 1)], today, ahead=is_deadline(m))
    year = int(near[:4]) if near else today.year
    return _edge(year, month, m[2])


def _edge(year: int, month: int, edge: str | None) -> str | None:
    if not edge:
        return f"{year:04}-{month:02}"
    return _iso(year, month, 1 if edge == "初" else calendar.monthrange(year, month)[1])


def _edge_alone(m: re.Match[str], today: date | None, _: str) -> str | None:
    """Return 月底, 年初, 2026年底 as a day."""
    if m[2] == "月":
        return m[0] if today is None else _edge(today.year, today.month, m[3])
    if not m[1] and today is None:
        return m[0]
    year = int(m[1]) if m[1] else today.year if today else 0
    return f"{year:04}-01-01" if m[3] == "初" else f"{year:04}-12-31"


def _every(m: re.Match[str], _: date | None, __: str) -> str | None:
    """Return 每月5号 as `monthly-05`, 每周一 as `weekly-1`."""
    if m[1]:
        day = small(m[1])
        return f"monthly-{day:02}" if day and day <= 31 else None
    return f"weekly-{_WEEKDAYS[m[2]] + 1}"


def _year_alone(m: re.Match[str], today: date | None, _: str) -> str | None:
    if today is None:
        return m[0]
    year = today.year + _STEPS[m[1]]
    month = small(m[2]) if m[2] else None
    if m[2]:
        return f"{year:04}-{month:02}" if month and month <= 12 else None
    return f"{year:04}-12-31" if m[3] else f"{year:04}"


def _days(m: re.Match[str], today: date | None, _: str) -> str | None:
    if today is None:
        return m[0]
    return _timed(_moved(today, _DAYS[m[1]]), m.groups()[1:5])


def _weekday(m: re.Match[str], today: date | None, _: str) -> str | None:
    if today is None:
        return m[0]
    monday = -today.weekday() + 7 * _STEPS.get(m[1].rstrip("个"), 0)
    return _timed(_moved(today, monday + _WEEKDAYS[m[2]]), m.groups()[2:6])


def _week(m: re.Match[str], today: date | None, _: str) -> str | None:
    if today is None:
        return m[0]
    year, week, _day = (today + timedelta(days=7 * _STEPS[m[1].rstrip("个").lower()])).isocalendar()
    return f"{year:04}-W{week:02}"


def _ago(m: re.Match[str], today: date | None, _: str) -> str | None:
    count = small(m[1])
    if count is None:
        return None
    if today is None:
        return m[0]
    sign = -1 if m[3].lower() in ("前", "以前", "之前", "ago") else 1
    unit = m[2].lower().rstrip("s")
    if unit in ("个月", "month"):
        year, month = _month(today, sign * count)
        return f"{year:04}-{month:02}" if 1 <= year <= 9999 else None
    if unit in ("年", "year"):
        return f"{today.year + sign * count:04}" if 1 <= today.year + sign * count <= 9999 else None
    return _moved(today, sign * count * (1 if unit in ("天", "日", "day") else 7))


def _english_date(m: re.Match[str], today: date | None, _: str) -> str | None:
    name, day, year = (m[1], m[2], m[3]) if m[1] else (m[5], m[4], m[6])
    month = _EN_MONTHS.index(name[:3].lower()) + 1
    return _iso(int(year), month, int(day)) if year else _nearest(month, int(day), today, ahead=is_deadline(m))


def _english_month(m: re.Match[str], _: date | None, __: str) -> str | None:
    return f"{m[2]}-{_EN_MONTHS.index(m[1][:3].lower()) + 1:02}"


def _english_days(m: re.Match[str], today: date | None, _: str) -> str | None:
    return m[0].lower() if today is None else _moved(today, _DAYS[" ".join(m[1].lower().split())])


def _english_weekday(m: re.Match[str], today: date | None, _: str) -> str | None:
    if today is None:
        return m[0].lower()
    return _moved(today, -today.weekday() + 7 * _STEPS[(m[1] or "this").lower()] + _EN_DAYS.index(m[2][:3].lower()))


def _english_month_alone(m: re.Match[str], today: date | None, _: str) -> str | None:
    step = _STEPS[m[1].lower()]
    if today is None:
        return m[0].lower()
    if m[2].lower() == "year":
        return f"{today.year + step:04}"
    year, month = _month(today, step)
    return f"{year:04}-{month:02}"


def _clock(m: re.Match[str], _: date | None, __: str) -> str | None:
    sure = m[1] or m[3] or m[4]     # 3点 alone may be three points
    return _time(m.groups()) if sure else None


def _rule(pattern: str, read: Callable[[re.Match[str], date | None, str], str | None]) -> Rule:
    return re.compile(pattern, re.ASCII | re.IGNORECASE), read


_FREE = r"(?<![A-Za-z0-9.-])"
_LOOSE = rf"(?<![A-Za-z0-9.{HAN_NUMERALS}-])"
# In the order in which they have to run: what is longer first.
NUMERIC: tuple[Rule, ...] = (
    _rule(rf"{_FREE}(\d{{4}})(?:[-/.]|\s?年\s?)(\d{{1,2}})(?:[-/.]|\s?月\s?)(\d{{1,2}})(?!\d|[-/.]\d)(?:\s?[日号])?{_TIME}", _full),
    _rule(rf"{_FREE}(20\d\d)(0[1-9]|1[0-2])([0-3]\d)(?![A-Za-z0-9]|-\d)", _solid),
    _rule(rf"{_FREE}(\d{{1,2}})[/.](\d{{1,2}})[/.](\d{{4}})(?![A-Za-z0-9]|[-/.]\d)", _english_slashes),
)
CHINESE: tuple[Rule, ...] = (
    _rule(rf"每个?月\s?(\d{{1,2}}|[{HAN_NUMERALS}]{{1,3}})\s?[日号]|每个?(?:周|星期|礼拜)([一二三四五六日天1-7])", _every),
    _rule(rf"(?<![{HAN_NUMERALS}])([{HAN_NUMERALS}]{{4}})年([{HAN_NUMERALS}]{{1,2}})月([{HAN_NUMERALS}]{{1,3}})[日号]", _han_full),
    _rule(rf"{_LOOSE}(\d{{4}}|[{HAN_NUMERALS}]{{4}})\s?年\s?(\d{{1,2}}|[{HAN_NUMERALS}]{{1,2}})\s?月份?(?!\s?\d)", _year_month),
    _rule(rf"{_LOOSE}(?:(去|今|明)年\s?)?(\d{{1,2}}|[{HAN_NUMERALS}]{{1,2}})\s?[月/]\s?(\d{{1,2}}|[{HAN_NUMERALS}]{{1,3}})\s?[日号]{_TIME}", _month_day),
    _rule(rf"{_LOOSE}(?:(去|今|明)年\s?)?(\d{{1,2}}|[{HAN_NUMERALS}]{{1,2}})月(\d{{1,2}})(?![\dA-Za-z.%]|[个年天张笔元块次]){_TIME}", _month_day),
    _rule(r"(上上|上|这|本|当|下下|下)个?月份?\s?(底|末|初)(?!\d)", _month_alone),
    _rule(rf"{_LOOSE}(?:((?:上上|上|这|本|当|下下|下)个?月份?)\s?)(\d{{1,2}}|[{HAN_NUMERALS}]{{1,3}})\s?[日号]{_TIME}", _day_of_month),
    _rule(rf"(?<![A-Za-z0-9.{HAN_NUMERALS}第编-])()(\d{{1,2}}|[{HAN_NUMERALS}]{{1,3}})\s?号{_NO_DAY}(?!\s?[\dA-Za-z]){_TIME}", _day_of_month),
    _rule(r"(上上|上|这|本|当|下下|下)个?月()(?!\s?\d)", _month_alone),
    _rule(r"(?<![去今明前后本当上下个\d])(\d{4})?(?<!每)([年月])(底|末|初)", _edge_alone),
    _rule(rf"(去|今|明|前|后|本|当)年(?:\s?(\d{{1,2}}|[{HAN_NUMERALS}]{{1,2}})\s?月份?(?!\s?\d))?(底|末)?", _year_alone),
    _rule(rf"{_LOOSE}(?<!个)(\d{{1,2}}|[{HAN_NUMERALS}]{{1,2}})\s?月份?(底|末|初)?(?!\s?\d)", _bare_month),
    _rule(rf"(大前|前|昨|今|明|大后|后)(?:天|日|晚|早|儿)(?!之内){_TIME}", _days),
    _rule(rf"((?:上上|上|这|本|下下|下)?个?)(?:周|星期|礼拜)([一二三四五六日天1-7])(?![年次个月期\d]){_TIME}", _weekday),
    _rule(r"((?:上上|上|这|本|下下|下)个?)(?:周|星期|礼拜)", _week),
    _rule(rf"{_LOOSE}({_N})\s?(天|日|周|个?星期|个?礼拜|个月|年)\s?(以前|之前|前|以后|之后|后)(?!台|端|者|面|款|缀)", _ago),
)
ENGLISH: tuple[Rule, ...] = (
    _rule(rf"(?<![A-Za-z0-9])(?:{_EN_MONTH}\s{{1,3}}(\d{{1,2}})(?:st|nd|rd|th)?(?![\dA-Za-z])(?:,?\s{{1,3}}(\d{{4}})(?!\d))?"
          rf"|(\d{{1,2}})(?:st|nd|rd|th)?\s{{1,3}}(?:of\s)?{_EN_MONTH}(?![A-Za-z])(?:,?\s{{1,3}}(\d{{4}})(?!\d))?)", _english_date),
    _rule(rf"(?<![A-Za-z0-9]){_EN_MONTH}\s{{1,3}}(\d{{4}})(?![\dA-Za-z])", _english_month),
    _rule(r"(?<![A-Za-z])(day\s{1,3}before\s{1,3}yesterday|day\s{1,3}after\s{1,3}tomorrow|yesterday|today|tonight|tomorrow|last\snight)(?![A-Za-z])", _english_days),
    _rule(rf"(?<![A-Za-z])(?:(last|previous|this|next|coming)\s{{1,3}}){_EN_DAY}(?![A-Za-z])", _english_weekday),
    _rule(r"(?<![A-Za-z])()(monday|tuesday|wednesday|thursday|friday|saturday|sunday)(?![A-Za-z])", _english_weekday),
    _rule(r"(?<![A-Za-z])(last|this|next|previous)\s{1,3}week(?![A-Za-z])", _week),
    _rule(r"(?<![A-Za-z])(last|this|next|previous)\s{1,3}(month|year)(?![A-Za-z])", _english_month_alone),
    _rule(r"(?<![A-Za-z0-9.])(\d{1,3}|a|an|one|two|three|four|five|six|seven|eight|nine|ten)\s{1,3}(days?|weeks?|months?|years?)\s{1,3}(ago|later|from now)(?![A-Za-z])", _ago),
)
CLOCK: tuple[Rule, ...] = (
    _rule(rf"(?<![A-Za-z0-9.:-])(上午|下午|晚上|早上|中午|凌晨|傍晚)?[ \t]?(\d{{1,2}}|{_SPOKEN_HOUR})(?::(\d{{2}})(?![:\d])|点(?!\d?个)(\d{{1,2}}(?!\d)分?|半|整)?)(?![A-Za-z:])", _clock),
)
