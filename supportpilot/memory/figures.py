"""The figures of one message: ids, codes, amounts, dates, durations, phones, card tails, every other run of digits. Pure.

The rules run in order over a working copy; what one has read is blotted out for the rest, and the last rule takes
every digit that is left, so no figure is read twice and none is lost. Each search is linear, its repeats bounded.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from supportpilot.memory import dates, measures
from supportpilot.memory.masking import narrow
from supportpilot.memory.numerals import HAN_NUMERALS

BLOT = "\x1f"       # no rule matches it, and it is no letter


class Figure(NamedTuple):
    """A figure where it stands in a message; `about` is the bill or the event it belongs to, `corrects` a cue before it."""

    start: int
    end: int
    kind: str
    value: str
    shown: str
    about: str = ""
    corrects: bool = False


Read = Callable[[re.Match[str], date | None, str], tuple[str, str] | None]
_EDGE = r"(?<![A-Za-z0-9_])"
_END = r"(?![A-Za-z0-9])"
_CURRENCY_WORDS = frozenset(("cny", "rmb", "usd", "hkd", "eur", "gbp", "jpy"))
_NO_ID = frozenset(("http", "https", "utf", "iso", "sha", "md", "base", "rfc", "win", "ios", "ipv", "tls", "aes", "rsa"))
_ID_NOUN = (r"(?:账单|帐单|发票|订单|工单|流水|合同|凭证|交易|退款单?|支付|商户|客户|会员|运单|快递|申请|审批|单|编|票)(?:编?号码?|编码|ID|id)|单号|编号|票号"
            r"|(?:invoice|bill|order|ticket|case|reference|ref|transaction|contract|tracking)\s{0,2}(?:no\b\.?|number\b|id\b|#)")
_LOOSE_NOUN = r"账单|帐单|发票|订单|工单|\b(?:invoice|bill|order|ticket|case)\b"
_UNIT_AHEAD = r"(?!\s?(?:元|块|年|月|日|号|天|个|次|张|份|笔|条|%|分|万|千|[-/.:]?\d|days?\b|times\b|hours?\b|yuan\b))"


def _masked(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    return ("card" if m[1] == "****" else "number", m[2]) if any(ch.isdigit() for ch in m[2]) else None


def _code(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    return "code", "".join(part for part in m.groups() if part).upper().replace(" ", "")


def _lettered(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    prefix = re.split(r"[-_\d]", m[0], maxsplit=1)[0].lower()
    if prefix in _CURRENCY_WORDS or not _NO_ID.isdisjoint(re.split(r"[-_\d]", m[0].lower())) or (prefix[:3] in _MONTH_NAMES and len(prefix) in (3, 4)):
        return None
    return "id", m[0].upper()


def _id(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    return ("id", m["v"].upper()) if any(ch.isdigit() for ch in m["v"]) else None


def _tail(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    return ("phone" if m[1] else "card"), m["v"].upper()


def _phone(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    digits = re.sub(r"[^\d]", "", m[0])
    return "phone", digits[2:] if digits.startswith("86") and len(digits) == 13 else digits


def _dated(read: Callable[[re.Match[str], date | None, str], str | None]) -> Read:
    def rule(m: re.Match[str], today: date | None, lang: str) -> tuple[str, str] | None:
        value = read(m, today, lang)
        return None if value is None else ("date", f"by {value}" if dates.is_deadline(m) else value)
    return rule


def _token(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    token = m[0]
    if token.isdecimal():
        return "number", token
    digits = sum(ch.isdigit() for ch in token)
    if not digits:
        return None
    named = any(ch.isalpha() for ch in token) and not any(ch in ".:/+" for ch in token)
    return ("id", token.upper()) if named and digits >= 4 and len(token) - digits <= 12 else ("number", token)


def _rest(m: re.Match[str], _: date | None, __: str) -> tuple[str, str] | None:
    return "number", m[0]


_MONTH_NAMES = frozenset(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"))


def _rule(pattern: str, read: Read) -> tuple[re.Pattern[str], Read]:
    return re.compile(pattern, re.ASCII | re.IGNORECASE), read


# What a text must have for a group of rules to be worth running.
_DIGIT = re.compile(r"\d")
_CLOCK = re.compile(r"[\d点]")
_LATIN = re.compile(r"[A-Za-z]{3}")
_HAN_DAY = re.compile("[年月号天日周期拜晚早儿]")
_HAN_COUNT = re.compile(f"[\\d{HAN_NUMERALS}半]")
_NAMED: tuple[tuple[re.Pattern[str], Read], ...] = (
    _rule(r"(?<!\*)(\*{4}|\*{6})(?!\*)([!-)+-~]{1,4})(?![A-Z0-9])", _masked),
    *((pattern, read) for pattern, read in measures.PREFIXED),
    _rule(rf"{_EDGE}(E)[ _-]?(\d{{4}})(?![A-Za-z0-9]|-\d)", _code),
    _rule(rf"{_EDGE}(ERR(?:OR)?)[_-]?(\d{{2,6}}){_END}", _code),
    _rule(rf"{_EDGE}[A-Z]{{2,10}}(?:[-_][A-Z]{{1,20}}){{0,3}}[-_][A-Z]{{0,3}}\d[A-Z0-9]{{0,40}}(?:[-_][A-Z0-9]{{1,40}}){{0,6}}(?![A-Z0-9])", _lettered),
    _rule(rf"{_EDGE}[A-Z]\d{{6,7}}{_END}", _lettered),
    _rule(rf"(?:报错|错误|异常|返回|状态)码?(?:代码)?(?:号|是|为|提示|显示)?:?\s{{0,2}}(?P<v>\d{{3,6}})(?![A-Z0-9.%]|-\d){_UNIT_AHEAD}", _code),
    _rule(rf"\b(?:error|status)(?:\s(?:code|no\.?|number))?[:#]?\s{{0,2}}(?:is\s)?(?P<v>\d{{3,6}})(?![A-Z0-9.%]|-\d){_UNIT_AHEAD}", _code),
    _rule(rf"(?:{_ID_NOUN})[:#]?\s{{0,3}}(?:是|为|:|\bis\b)?\s{{0,3}}(?P<v>[A-Z0-9](?:[A-Z0-9_-]{{0,48}}[A-Z0-9])?)(?![A-Z0-9_-])", _id),
    _rule(rf"(?:{_LOOSE_NOUN})[:#]?\s{{0,2}}#?(?P<v>\d{{3,40}}(?:-\d{{2,20}}){{0,3}})(?![A-Z0-9]){_UNIT_AHEAD}", _id),
    _rule(rf"#(?P<v>\d{{3,20}}){_END}", _id),
    _rule(rf"(手机号?码?|电话(?:号码?)?|phone\s)?(?:尾号|末四位|后四位|末尾|ending\s(?:in|with)|last\s(?:four|4)(?:\sdigits)?)(?:数字)?(?:是|为|:|\sis)?\s{{0,3}}(?P<v>\d{{3}}[\dX]){_END}", _tail),
    _rule(r"(?<![A-Za-z0-9.-])(?:\+?86[ -]?)?1[3-9]\d(?:[ -]?\d{4}){2}(?![A-Za-z0-9]|[.-]\d)", _phone),
    _rule(r"(?<![A-Za-z0-9.-])(?:400[ -]?\d{3}[ -]?\d{4}|\(?0\d{2,3}\)?[ -]?\d{7,8})(?![A-Za-z0-9]|[.-]\d)", _phone),
)
_LEFT: tuple[tuple[re.Pattern[str], Read], ...] = (
    _rule(rf"{_EDGE}[A-Z0-9](?:[A-Z0-9_]{{0,60}}[A-Z0-9])?(?:[.:/+-][A-Z0-9]{{1,40}}(?![A-Z0-9_])){{0,12}}(?![A-Z0-9_])", _token),
    _rule(r"\d{1,4000000}", _rest),
)
_GROUPS: tuple[tuple[re.Pattern[str], tuple[tuple[re.Pattern[str], Read], ...]], ...] = (
    (_DIGIT, _NAMED),
    (_DIGIT, tuple((pattern, _dated(read)) for pattern, read in dates.NUMERIC)),
    (_HAN_DAY, tuple((pattern, _dated(read)) for pattern, read in dates.CHINESE)),
    (_LATIN, tuple((pattern, _dated(read)) for pattern, read in dates.ENGLISH)),
    (_CLOCK, tuple((pattern, _dated(read)) for pattern, read in dates.CLOCK)),
    (_LATIN, measures.ENGLISH),
    (_HAN_COUNT, measures.SUFFIXED),
    (_DIGIT, _LEFT),
)


def figures(text: str, at: object = None, lang: str = "zh") -> list[Figure]:
    """Return the figures of a masked text in the order they stand there; `at` is when it was written."""
    plain, today = narrow(text), dates.local_day(at)
    working = plain
    found: list[Figure] = []
    for needed, rules in _GROUPS:
        if needed.search(working) is None:
            continue
        for pattern, read in rules:
            spans = [Figure(start, end, kind, value, text[start:end])
                     for start, end, kind, value in _found(pattern, read, working, today, lang)]
            if spans:
                working = _blotted(working, spans)
                found += spans
    found.sort()
    return _related(found, plain) if found else []


def _found(
    pattern: re.Pattern[str], read: Read, text: str, today: date | None, lang: str,
) -> Iterator[tuple[int, int, str, str]]:
    group: str | int = "v" if "v" in pattern.groupindex else 0
    for found in pattern.finditer(text):
        result = read(found, today, lang)
        if result is not None:
            yield *found.span(group), *result


def _blotted(text: str, spans: Sequence[Figure]) -> str:
    parts, end = [], 0
    for span in spans:
        parts += [text[end:span.start], BLOT * (span.end - span.start)]
        end = span.end
    return "".join([*parts, text[end:]])


# -- what a figure is about --

_STOP = re.compile(r"[。!?;\n]")
_EVENTS: tuple[tuple[str, str], ...] = (
    ("expiry", r"到期|过期|失效|expir\w{0,4}"), ("renewal", r"续费|续订|renew\w{0,4}"), ("charge", r"扣[款费了]|划扣|charged?"),
    ("invoice", r"开票|开具|开的?发票|invoiced"), ("payment", r"付款|支付|打款|转账|汇款|交的?费|paid|payment"), ("refund", r"退款|退费|退回|refund\w{0,3}"),
    ("arrival", r"到账|arriv\w{0,3}"), ("authorisation", r"授权|authori[sz]\w{0,5}"), ("start", r"开通|启用|生效|开始|start\w{0,3}"),
    ("cancellation", r"取消|停用|注销|cancel\w{0,6}"), ("upgrade", r"升级|降级|upgrad\w{0,3}|downgrad\w{0,3}"), ("answer", r"回复|答复|反馈|回电|联系|reply|respond"),
)
_EVENT = re.compile("|".join(f"(?P<{name}>{words})" for name, words in _EVENTS), re.IGNORECASE)
_CUE = re.compile(
    r"更正|纠正|(?:^|[,。!;\s])(?:哦|噢|啊|呃|等等)?不对[,。!\s]|(?:说|写|打|记|填)错|搞错|弄错|改[成为到]|换[成为]|应该是|应为|其实是|实际是|准确(?:地|的)?说"
    r"|不是[^。!?\n]{1,40}?(?:,|而)\s?(?:而)?是|\bcorrection\b|\bi meant?\b|\binstead of\b|\bsorry,? it(?:'s| is)\b|\bshould be\b|\bactually\b",
    re.IGNORECASE)
CUE_REACH = 24
EVENT_REACH = 14
COMMA_GAP = 6
BILL_REACH = 160
_JOINING = re.compile(
    r"\s?(?:的|是|for|on|of)?\s?(?:the\s)?(?:账单|帐单|发票|订单|这张|那张|这笔|那笔|invoice|bill|order)?号?\s?[:(]?\s?", re.IGNORECASE)


@dataclass(frozen=True)
class _Around:
    """Where a message's sentences end, and where its bills, events and words of correction stand; all in order."""

    text: str
    stops: list[int]
    cues: list[int]
    bills: list[Figure]
    events: list[tuple[int, int, str]]

    def placed(self, figure: Figure, *, follows: bool) -> Figure:
        """Return the figure with what it is about, and whether it corrects another; `follows` a word of correction."""
        about, corrects = self.about(figure), follows and self.corrects(figure)
        return figure._replace(about=about, corrects=corrects) if about or corrects else figure

    def about(self, figure: Figure) -> str:
        if figure.kind == "amount":
            return self._bill(figure, alone=True) if self.bills else ""
        if figure.kind != "date":
            return ""
        event = self._event(figure)
        return f"{event} {self._bill(figure, alone=False)}".rstrip() if event else ""

    def corrects(self, figure: Figure) -> bool:
        cue = bisect_right(self.cues, figure.start) - 1
        return cue >= 0 and figure.start - self.cues[cue] <= CUE_REACH and self._same_sentence(self.cues[cue], figure.start)

    def _bill(self, figure: Figure, *, alone: bool) -> str:
        """Return the bill named before the figure, or after it if it stands right behind or, `alone`, none is before."""
        after = bisect_left(self.bills, (figure.end,))
        if after < len(self.bills):
            following = self.bills[after]
            if following.start - figure.end <= EVENT_REACH and _JOINING.fullmatch(self.text, figure.end, following.start):
                return following.value
        before = after - 1
        if before >= 0:
            near = self.bills[before]
            inside = figure.start - near.end <= BILL_REACH if alone else self._same_sentence(near.end, figure.start)
            return near.value if inside else ""
        if alone and after < len(self.bills) and self._same_sentence(figure.end, self.bills[after].start):
            return self.bills[after].value
        return ""

    def _event(self, figure: Figure) -> str:
        """Return the event nearest to a date, in its sentence; one that follows wins a tie."""
        after = bisect_left(self.events, (figure.end,))
        near = []
        if after < len(self.events):
            start, _, name = self.events[after]
            near.append((self._gap(figure.end, start), 0, name, figure.end, start))
        if after > 0:
            _, end, name = self.events[after - 1]
            near.append((self._gap(end, figure.start), 1, name, end, figure.start))
        close = [found for found in near if found[0] <= EVENT_REACH and self._same_sentence(found[3], found[4])]
        return min(close)[2] if close else ""

    def _gap(self, start: int, end: int) -> int:
        """Return how far apart two places are; a comma between them keeps them apart."""
        between = self.text[start:min(end, start + EVENT_REACH + 1)]
        return end - start + (COMMA_GAP if any(mark in between for mark in ",、") else 0)

    def _same_sentence(self, start: int, end: int) -> bool:
        return bisect_left(self.stops, start) == bisect_left(self.stops, end)


def _related(found: list[Figure], text: str) -> list[Figure]:
    """Return the figures with what each is about: amounts a bill, dates an event."""
    dated = any(f.kind == "date" for f in found)
    around = _Around(
        text, [m.start() for m in _STOP.finditer(text)], [m.end() for m in _CUE.finditer(text)],
        [f for f in found if f.kind == "id" and not f.value.startswith("KB-")],
        [(m.start(), m.end(), str(m.lastgroup)) for m in _EVENT.finditer(text)] if dated else [],
    )
    firsts = {bisect_left(found, (cue,)) for cue in around.cues}       # a correction is of the figure right behind it
    return [around.placed(figure, follows=i in firsts) for i, figure in enumerate(found)]
