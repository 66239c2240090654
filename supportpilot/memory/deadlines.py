"""By when? The moment that a few words name, counted from a clock. Pure, total, Chinese and English.

The rules, in words: docs/three-memories.md, "Commitments". Public holidays are not known.
"""

from __future__ import annotations

import calendar as months
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

SHANGHAI = timezone(timedelta(hours=8), "Asia/Shanghai")     # no summer time, so it needs no time-zone data
ZONES = {
    "zh-hk": "Asia/Hong_Kong", "zh-tw": "Asia/Taipei", "en-sg": "Asia/Singapore", "ja-jp": "Asia/Tokyo",
    "en-au": "Australia/Sydney", "en-gb": "Europe/London", "en-ie": "Europe/Dublin", "de-de": "Europe/Berlin",
    "fr-fr": "Europe/Paris", "en-us": "America/New_York", "en-ca": "America/Toronto", "en-in": "Asia/Kolkata",
    "ar-ae": "Asia/Dubai", "ar-sa": "Asia/Riyadh",
}
WEEKENDS = {"ar-sa": frozenset({4, 5})}
FURTHEST = timedelta(days=366)
MOST = 100      # in one sentence; more is no promise but a list
DAY_END, WORK_END, NOON = time(23, 59, 59), time(18), time(12)


@dataclass(frozen=True)
class Calendar:
    """Where the customer's days begin and which of them are worked on; Monday is 0."""

    zone: tzinfo = SHANGHAI
    weekend: frozenset[int] = frozenset({5, 6})


CHINA = Calendar()


@dataclass(frozen=True)
class Deadline:
    """A time that a text names: `at` (UTC), the words' place, and whether they can only mean a limit ("before", "within")."""

    at: datetime
    start: int
    end: int
    limit: bool


def calendar_of(locale: str) -> Calendar:
    """Return Monday to Friday in Shanghai, unless the locale names a region with days of its own."""
    key = locale.lower().replace("_", "-")
    name = ZONES.get(key)
    if name is None:
        return CHINA
    try:
        return Calendar(ZoneInfo(name), WEEKENDS.get(key, Calendar.weekend))
    except ZoneInfoNotFoundError:       # a machine without time-zone data
        return Calendar(weekend=WEEKENDS.get(key, Calendar.weekend))


def deadlines(words: str, now: datetime, calendar: Calendar) -> list[Deadline]:
    """Return the times that the words name, in order; none that is past or more than a year away."""
    local = now.astimezone(calendar.zone)
    found: list[Deadline] = []
    for pattern, rule in RULES:
        for match in pattern.finditer(words):
            if len(found) >= MOST or any(match.start() < d.end and d.start < match.end() for d in found):
                continue
            at = _sensible(rule(match, local, calendar), local)
            if at is not None:
                found.append(Deadline(at.astimezone(UTC), match.start(), match.end(), _is_limit(match)))
    return sorted(found, key=lambda d: d.start)


_LIMIT = re.compile(r"前|内|最迟|最晚|不晚于|within|before|by |until|later than|in |end of|eod|cob|close of", re.IGNORECASE)


def _is_limit(match: re.Match[str]) -> bool:
    return bool(_LIMIT.search(match.group()))


def _sensible(at: datetime | None, now: datetime) -> datetime | None:
    """An hour of today that has passed means today; anything else that has passed was not meant as a time to come."""
    if at is not None and at <= now and at.date() == now.date():
        at = datetime.combine(now.date(), DAY_END, now.tzinfo)
    return at if at is not None and now < at <= now + FURTHEST else None


# numbers --------------------------------------------------------------------------------------------

_DIGITS = {c: i for i, c in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_WORDS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "couple of": 2, "a couple of": 2, "three": 3, "four": 4, "five": 5, "six": 6,
    "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30,
    "twenty-four": 24, "twenty four": 24, "forty-eight": 48, "forty eight": 48, "seventy-two": 72, "seventy two": 72,
}


def number(text: str) -> int | None:
    """Return the value of digits, a Chinese numeral below 100 or a small English one."""
    word = text.strip().lower()
    if word.isdecimal():        # full-width digits, too
        return int(word)
    if word in _WORDS:
        return _WORDS[word]
    tens, ten, ones = word.partition("十")
    if ten:
        return _DIGITS.get(tens or "一", 0) * 10 + _DIGITS.get(ones or "零", 0)
    return _DIGITS.get(word)


# moments --------------------------------------------------------------------------------------------

def _at(day: datetime, hour: time = DAY_END) -> datetime:
    return datetime.combine(day.date(), hour, day.tzinfo)


def _works(day: datetime, calendar: Calendar) -> bool:
    return day.weekday() not in calendar.weekend


def _workdays(now: datetime, count: int, calendar: Calendar) -> datetime:
    """The end of the count-th working day after today."""
    day = now
    for _ in range(min(count, 300)):
        day += timedelta(days=1)
        while not _works(day, calendar):
            day += timedelta(days=1)
    return _at(day)


def _month_end(now: datetime, ahead: int = 0) -> datetime:
    year, month = divmod(now.year * 12 + now.month - 1 + ahead, 12)
    return _at(now.replace(year=year, month=month + 1, day=months.monthrange(year, month + 1)[1]))


def _months_on(now: datetime, count: int) -> datetime:
    end = _month_end(now, count)
    return end.replace(day=min(now.day, end.day))


def _week_end(now: datetime, calendar: Calendar, ahead: int = 0) -> datetime:
    """The last working day of the week; on the weekend itself its last day."""
    monday = now - timedelta(days=now.weekday()) + timedelta(weeks=ahead)
    worked = [d for d in (monday + timedelta(days=i) for i in range(7)) if _works(d, calendar)]
    return _at(worked[-1] if worked[-1].date() >= now.date() else monday + timedelta(days=6))


def _weekday(now: datetime, wanted: int, ahead: int | None) -> datetime:
    """A weekday of this or a later week; without a week named, the next one that comes."""
    if ahead is None:
        return now + timedelta(days=(wanted - now.weekday()) % 7)
    return now - timedelta(days=now.weekday()) + timedelta(days=wanted, weeks=ahead)


def _date(now: datetime, year: str | None, month: int, day: int) -> datetime | None:
    """A date; without a year the next one that comes."""
    try:
        found = now.replace(year=int(year) if year else now.year, month=month, day=day)
        return found if year or found.date() >= now.date() else found.replace(year=now.year + 1)
    except ValueError:
        return None


def _span(count: int, unit: str, now: datetime, calendar: Calendar) -> datetime:
    """`count` units from now: working days and days end with the day, hours and minutes are exact."""
    if unit in ("workday", "day", "week", "month"):
        return {"workday": lambda: _workdays(now, count, calendar), "day": lambda: _at(now + timedelta(days=count)),
                "week": lambda: _at(now + timedelta(weeks=count)), "month": lambda: _months_on(now, min(count, 24))}[unit]()
    return _later(now, timedelta(hours=count) if unit == "hour" else timedelta(minutes=count))


def _later(now: datetime, wait: timedelta) -> datetime:
    """A wait of hours is the same in the night when the clocks change."""
    return (now.astimezone(UTC) + wait).astimezone(now.tzinfo)


# Chinese --------------------------------------------------------------------------------------------

_N = r"(\d{1,4}|[零一二两三四五六七八九十]{1,3})"
_RANGE = rf"(?:(?:\d{{1,4}}|[一二两三四五六七八九十]{{1,3}})\s*(?:-|－|–|—|~|～|至|到)\s*)?{_N}"
_IN = r"\s*(?:之内|以内|内|之后|以后|后|左右)"
_BEFORE = r"(?:\s*(?:之前|以前|前|内|之内|以内))?"
_UNITS = {"工作日": "workday", "工作天": "workday", "小时": "hour", "钟头": "hour", "分钟": "minute", "天": "day", "日": "day",
          "周": "week", "星期": "week", "礼拜": "week", "月": "month"}
_PART = r"\s*(早上|早晨|上午|中午|午间|下午|傍晚|晚上|晚间|夜里|下班)?"
_CLOCK = r"(?:\s*(\d{1,2}|[一二两三四五六七八九十]{1,3})\s*(?:[:：](\d{2})|[点时](?:钟|整)?\s*(半|\d{1,2}(?=\s*分)|(?!\d))分?))?"
_PARTS = {"早上": NOON, "早晨": NOON, "上午": NOON, "中午": NOON, "午间": NOON, "下午": WORK_END, "傍晚": WORK_END,
          "下班": WORK_END}
_AFTERNOON = frozenset({"下午", "傍晚", "晚上", "晚间", "夜里"})
_DAYS = {"今天": 0, "今日": 0, "当天": 0, "当日": 0, "今": 0, "明天": 1, "明日": 1, "明": 1, "次日": 1, "后天": 2, "大后天": 3}
_LAST = r"(?:最迟|最晚|不晚于)?\s*(?:在|于)?\s*"


def _hour(part: str | None, hour: str | None, minute: str | None, half: str | None) -> time:
    """The end of a part of the day, or the hour that is named in it."""
    value = number(hour) if hour else None
    if value is None or value > 24:
        return _PARTS.get(part or "", DAY_END)
    if value < 12 and part in _AFTERNOON:
        value += 12
    minutes = 30 if half == "半" else int(minute or half or 0)
    return DAY_END if value == 24 else time(value, min(minutes, 59))


def _zh_span(m: re.Match[str], now: datetime, calendar: Calendar) -> datetime | None:
    count = number(m[1])
    return None if count is None else _span(count, _UNITS[m[2]], now, calendar)


def _zh_half(m: re.Match[str], now: datetime, _calendar: Calendar) -> datetime | None:
    count = (number(m[1]) or 0) if m[1] else 0
    unit = m[2]
    if unit in ("小时", "钟头"):
        return _later(now, timedelta(hours=count, minutes=30))
    return _at(now + timedelta(days=30 * count + 15)) if unit == "月" else _later(now, timedelta(days=count, hours=12))


def _zh_day(m: re.Match[str], now: datetime, _calendar: Calendar) -> datetime | None:
    part = {"早": "早上", "晚": "晚上"}.get(m[2] or "", m[3])
    return _at(now + timedelta(days=_DAYS[m[1]]), _hour(part, m[4], m[5], m[6]))


def _zh_weekday(m: re.Match[str], now: datetime, _calendar: Calendar) -> datetime | None:
    ahead = None if not m[1] else m[1].count("下")
    wanted = "一二三四五六日".index(m[2].replace("天", "日"))
    return _at(_weekday(now, wanted, ahead), _hour(m[3], m[4], m[5], m[6]))


def _zh_date(m: re.Match[str], now: datetime, _calendar: Calendar) -> datetime | None:
    day = _date(now, m[1], int(m[2]), int(m[3]))
    return None if day is None else _at(day, _hour(m[4], m[5], m[6], m[7]))


def _zh_numbered_day(m: re.Match[str], now: datetime, _calendar: Calendar) -> datetime | None:
    ahead = 0 if int(m[1]) >= now.day else 1
    month = _month_end(now, ahead)
    day = _date(month, str(month.year), month.month, int(m[1]))
    return None if day is None else _at(day)


def _zh_period(m: re.Match[str], now: datetime, calendar: Calendar) -> datetime | None:
    text = m.group()
    if "年" in text:
        return _at(now.replace(month=12, day=31))
    if "月" in text:
        return _month_end(now, 1 if "下" in text else 0)
    if "周末" in text:
        return _week_end(now, calendar)
    return _week_end(now, calendar, text.count("下"))


def _zh_hour(m: re.Match[str], now: datetime, _calendar: Calendar) -> datetime | None:
    """An hour without a day: the next one that comes."""
    at = _at(now, _hour(m[1], m[2], m[3], m[4]))
    return at if at > now else at + timedelta(days=1)


def _zh_work_end(_m: re.Match[str], now: datetime, calendar: Calendar) -> datetime | None:
    if _works(now, calendar) and now.time() < WORK_END:
        return _at(now, WORK_END)
    return _at(_workdays(now, 1, calendar), WORK_END)


# English --------------------------------------------------------------------------------------------

_EN_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_EN_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_EN_N = r"(\d{1,4}|(?:a )?couple of|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty(?:[- ]four)?|thirty|forty[- ]eight|seventy[- ]two)"
_BY = r"\b(?:by|before|until|no later than|not later than|at the latest)\s+"
_EN_PART = r"(?:\s+(?:at\s+)?(morning|noon|midday|lunchtime|afternoon|evening|night))?"
_EN_CLOCK = r"(\d{1,2})(?::(\d{2}))?\s*(a\.?m|p\.?m)?\b\.?"
_EN_PARTS = {"morning": NOON, "noon": NOON, "midday": NOON, "lunchtime": NOON, "afternoon": WORK_END}
_DAY_NAME = r"(mon|tue|wed|thu|fri|sat|sun)(?:s|r|rs|nes|ur)?(?:day)?\b"
_MONTH_NAME = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\b\.?"
_EN_DAY = {"today": 0, "tonight": 0, "tomorrow": 1, "the day after tomorrow": 2}


def _en_hour(hour: str, minute: str | None, half: str | None) -> time | None:
    value = int(hour)
    if half and half.lower().startswith("p") and value < 12:
        value += 12
    return time(value, int(minute or 0)) if value < 24 and int(minute or 0) < 60 else None


def _en_span(m: re.Match[str], now: datetime, calendar: Calendar) -> datetime | None:
    count = number(m[1])
    unit = m[3].lower().removesuffix("s").replace("hr", "hour").replace("minute", "min").replace("min", "minute")
    if count is None:
        return None
    return _span(count, "workday" if m[2] and unit == "day" else unit, now, calendar)


def _en_half_hour(_m: re.Match[str], now: datetime, _calendar: Calendar) -> datetime | None:
    return _later(now, timedelta(minutes=30))


def _en_day(m: re.Match[str], now: datetime, _calendar: Calendar) -> datetime | None:
    day = now + timedelta(days=_EN_DAY[" ".join(m[1].lower().split())])
    return _at(day, _EN_PARTS.get((m[2] or "").lower(), DAY_END))


def _en_clock_day(m: re.Match[str], now: datetime, _calendar: Calendar) -> datetime | None:
    hour = _en_hour(m[1], m[2], m[3])
    if hour is None:
        return None
    if m[4]:
        return _at(now + timedelta(days=_EN_DAY[m[4].lower()]), hour)
    if m[5]:
        return _at(_weekday(now, _EN_DAYS.index(m[5].lower()), None), hour)
    at = _at(now, hour)
    return at if at > now else at + timedelta(days=1)


def _en_day_clock(m: re.Match[str], now: datetime, _calendar: Calendar) -> datetime | None:
    hour = _en_hour(m[2], m[3], m[4])
    return None if hour is None else _at(now + timedelta(days=_EN_DAY[m[1].lower()]), hour)


def _en_weekday(m: re.Match[str], now: datetime, _calendar: Calendar) -> datetime | None:
    ahead = 1 if (m[1] or "").lower().strip() == "next" else None
    return _at(_weekday(now, _EN_DAYS.index(m[2].lower()), ahead), _EN_PARTS.get((m[3] or "").lower(), DAY_END))


def _en_end(m: re.Match[str], now: datetime, calendar: Calendar) -> datetime | None:
    ahead, unit = int((m[1] or "").strip().lower() == "next"), m[2].lower()
    if unit == "week":
        return _week_end(now, calendar, ahead)
    if unit == "month":
        return _month_end(now, ahead)
    if unit == "year":
        return _at(now.replace(month=12, day=31))
    if unit == "tomorrow":
        return _at(now + timedelta(days=1))
    return _zh_work_end(m, now, calendar) if "business" in unit else _at(now)


def _en_date(m: re.Match[str], now: datetime, _calendar: Calendar) -> datetime | None:
    month, day = (m[2], m[3]) if m[2] else (m[5], m[4])
    found = _date(now, m[6], _EN_MONTHS.index(month[:3].lower()) + 1, int(day))
    return None if found is None else _at(found)


def _iso(m: re.Match[str], now: datetime, _calendar: Calendar) -> datetime | None:
    day = _date(now, m[1], int(m[2]), int(m[3]))
    hour = _en_hour(m[4], m[5], None) if m[4] else DAY_END
    return None if day is None or hour is None else _at(day, hour)


Rule = Callable[[re.Match[str], datetime, Calendar], datetime | None]


def _rules() -> Iterator[tuple[str, Rule]]:
    """The most exact first: what one rule has read, none after it reads again."""
    yield r"(?<!\d)(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[ T]+(\d{1,2}):(\d{2}))?" + _BEFORE, _iso
    yield (_LAST + r"(?:(\d{4})\s*年\s*)?(?<!\d)(\d{1,2})\s*月\s*(\d{1,2})\s*[日号]" + _PART + _CLOCK
           + _BEFORE + r"(?!\s*(?:的|付|支付|扣|发生|提交|购买|续费|开通))", _zh_date)
    yield _LAST + r"(大后天|今天|今日|当天|当日|明天|明日|次日|后天|今(?=[早晚])|明(?=[早晚]))([早晚](?!上|晨|间))?" + _PART + _CLOCK + _BEFORE + r"(?!的|已)", _zh_day
    yield _LAST + r"(本|这个?|下下?个?)?(?:周|星期|礼拜)([一二三四五六日天])" + _PART + _CLOCK + _BEFORE + r"(?!的|已)", _zh_weekday
    yield _RANGE + r"\s*个?\s*(工作日|工作天)(?:" + _IN + r")?", _zh_span
    yield r"(?:" + _N + r"\s*个?)?半\s*个?\s*(小时|钟头|天|月)" + _IN, _zh_half
    yield r"(?<![年月\d第])" + _RANGE + r"\s*个?\s*(小时|钟头|分钟|天|日|周|星期|礼拜)" + _IN, _zh_span
    yield _RANGE + r"\s*个\s*(月)" + _IN, _zh_span
    yield r"(?:下个?|本|这个?)?月(?:底|末)" + _BEFORE + r"|(?:本|这个?|下个?)月" + _BEFORE + r"(?!的|\d)|年(?:底|末)(?:之?前)?|年内", _zh_period
    yield r"(?:本|这个?|下个?)(?:周|星期|礼拜)(?![一二三四五六日天的])" + _BEFORE + r"|周末\s*之?前", _zh_period
    yield _LAST + r"(?<!\d)(\d{1,2})\s*号\s*(?:之前|以前|前)", _zh_numbered_day
    yield r"下班(?:之)?前", _zh_work_end
    yield r"(?:最迟|最晚)?\s*(早上|上午|中午|下午|傍晚|晚上)" + _CLOCK + r"\s*(?:之前|以前|前)", _zh_hour
    yield (_BY + r"(?:the )?" + _EN_CLOCK + r"\s+(?:on\s+)?(?:(tomorrow|today)|" + _DAY_NAME + r")", _en_clock_day)
    yield r"\b(tomorrow|today)\s+(?:by|before|at)\s+" + _EN_CLOCK, _en_day_clock
    yield (r"\b(by|before|on|until)\s+(?:the )?(?:" + _MONTH_NAME + r"\s+(\d{1,2})(?:st|nd|rd|th)?\b|(\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?"
           + _MONTH_NAME + r")(?:,?\s+(\d{4}))?", _en_date)
    yield (r"\b(?:by|before|until)?\s*(?:the )?(?:end of|close of)\s+(?:the\s+)?((?:this|next)\s+)?(business(?: day)?|day|today|tomorrow|week|month|year)\b", _en_end)
    yield r"\b(?:by|before)\s+()(business(?=\s*closes?)|cob|eod)\b", lambda m, n, c: _zh_work_end(m, n, c) if m[2].lower() != "eod" else _at(n)
    yield (r"\b(?:within|in|over|after)\s+(?:the\s+)?(?:next\s+)?(?:(?:\d{1,3}|one|two|three|four|five)\s*(?:-|–|to|or)\s*)?" + _EN_N
           + r"\s*(business |working |work)?\s*(days?|hours?|hrs?|minutes?|mins?|weeks?|months?)\b", _en_span)
    yield (r"(?:(?:\d{1,3}|one|two|three|four|five)\s*(?:-|–|to|or)\s*)?\b" + _EN_N + r"\s*(business |working )(days?)\b", _en_span)
    yield r"\b(?:within|in)\s+half an hour\b", _en_half_hour
    yield r"(?:\b(?:by|before|until|on)\s+)?\b(the day after tomorrow|tomorrow|today|tonight)\b(?!'s)" + _EN_PART, _en_day
    yield r"\b(?:by|before|until|on|latest|than)\s+((?:next|this|coming)\s+)?" + _DAY_NAME + _EN_PART, _en_weekday
    yield r"\b(next )" + _DAY_NAME + _EN_PART, _en_weekday
    yield r"\b(?:by\s+)?((?:this|next)\s+)(week|month)\b", _en_end
    yield _BY + _EN_CLOCK + r"()()(?!\s*(?:days?|hours?|%|per))", _en_clock_day
    yield _BY + r"(?:noon|midday)()\b", lambda _m, n, _c: _at(n, NOON) if n.time() < NOON else _at(n + timedelta(days=1), NOON)


RULES: tuple[tuple[re.Pattern[str], Rule], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), rule) for pattern, rule in _rules())
