"""What a reply promises. Pure and total: the words of the reply decide, a model may only point at them.

The rules look at every reply, so that a weak model or none loses no promise. What is quoted, what only reports what
somebody said, and what the customer wrote in the same words is nobody's promise: else "you promised me a refund"
would become one as soon as a reply repeats it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from supportpilot.memory.deadlines import CHINA, FURTHEST, Calendar, Deadline, calendar_of, deadlines
from supportpilot.memory.tokens import is_han
from supportpilot.types import Commitment

__all__ = ["Commitment", "Said", "calendar_of", "line", "promised"]

MAX_COMMITMENTS = 5
MAX_CHARS = 200
MIN_CHARS = 4
LOOKED_AT = 8_000


Found = tuple[int, int, Commitment]      # start, end, what stands there


@dataclass(frozen=True)
class Said:
    """A reply and what the rules need to know about it.

    at: when it was written. listed: what the reviewer named, `{"text", "due"}` each, unchecked. customer: what the
    customer wrote. sources: the articles that it may quote. known: promises of a fixed text of ours in it.
    """

    reply: str
    at: datetime
    calendar: Calendar = CHINA
    listed: Sequence[Mapping[str, Any]] = ()
    customer: Sequence[str] = ()
    sources: Sequence[str] = ()
    known: Sequence[Commitment] = ()


def promised(said: Said) -> tuple[Commitment, ...]:
    """Return the promises of a reply in their order, at most `MAX_COMMITMENTS`: those by rule, then what was listed besides."""
    text = said.reply[:LOOKED_AT]
    heard = _masked(text)
    found = [(at, at + len(one.text), one) for one in said.known if (at := text.find(one.text)) >= 0]
    found += [entry for entry in _by_rule(heard, text, said) if _free(entry[:2], found)]
    for item in said.listed:
        place = _place(str(item.get("text") or ""), text)
        if place is not None and _free(place, found) and _own_words(heard, text, place, said):
            found.append((*place, Commitment(text[place[0]:place[1]], _due(heard, place, item.get("due"), said))))
    in_order = sorted(found, key=lambda entry: entry[:2])
    return tuple({commitment.text: commitment for *_, commitment in in_order}.values())[:MAX_COMMITMENTS]


def _free(place: tuple[int, int], taken: Sequence[Found]) -> bool:
    return not any(place[0] < end and start < place[1] for start, end, _ in taken)


def line(commitment: Commitment, calendar: Calendar, *, overdue: bool = False) -> str:
    """Return a promise on one line, with its due date in the customer's time and whether that has passed."""
    text = " ".join(commitment.text.split())
    if commitment.due_at is None:
        return text
    chinese = any(map(is_han, text))
    due = commitment.due_at.astimezone(calendar.zone).strftime("%Y-%m-%d %H:%M")
    if chinese:
        return f"{text}(期限 {due}{',已过' if overdue else ''})"
    return f"{text} (due {due}{', passed' if overdue else ''})"


# what may be read as the desk's own words -----------------------------------------------------------

_QUOTED = re.compile(r"“[^“”]{0,400}”|「[^「」]{0,400}」|『[^『』]{0,400}』|‘[^‘’]{0,400}’|\"[^\"\n]{0,400}\"|^[ \t]*[>›][^\n]*", re.MULTILINE)
_SENTENCE = re.compile(r"(?:[^。!?！？\n.]|\.(?![\s\"']|$))+[。!?！？.]?")
_CLAUSE = re.compile(r"(?:[^,，;；]|[,，](?=\d{3}\b))+[,，;；]?")
_LEAD = re.compile(r"(?:\s|[-*•·]|\d{1,2}[.、)](?!\d)|(?:您好|你好|好的|收到|hello|hi|ok|sure)\s*[,，。!！:：~]+|[,，;；、。!！:：])+", re.IGNORECASE)
_QUESTION = re.compile(r"[?？]\s*$|[吗呢么]\s*[。.!！]?\s*$")
_RECAP = re.compile(
    r"(?:之前|此前|上次|前面|先前|刚才|曾经?)[^,，。]{0,6}(?:说|答应|承诺|提到|告诉|的?要点|答复是)|(?:答应|承诺|许诺|保证)过|(?:您|你|客户)[^,，。]{0,8}(?:答应|承诺|许诺)"
    r"|what we said before|(?:main )?points so far|you last wrote|we (?:have )?(?:already )?(?:said|told|answered|promised)|(?:was|were|been) promised|you (?:were|have been) told",
    re.IGNORECASE)
_REPORT = re.compile(
    r"(?:您|你|客户)(?:们)?[^,，。;；的]{0,6}?(?:说|提到|提及|表示|声称|称|认为|以为|写道|写的?是|主张|希望|要求|询问|想问|想让|想要)(?!的)(?:[,，:：]\s*)?[^,，;；]*"
    r"|(?:您|你|客户)(?:们)?所?(?:说|提|述|称|要求|希望)到?的[^,，;；]*|是否[^,，;；]*|(?:没有|无法|未能|查不到|找不到)[^,，;；]{0,40}?(?:记录|承诺|证据)[^,，;；]*"
    r"|(?:没有?|未|不曾)曾?(?:承诺|答应|保证|许诺|说过)[^,，;；]*"
    r"|(?:按|照|据)(?:您|你)[^,，]{0,8}[,，]?[^,，;；]*"
    r"|\b(?:you|customer|your (?:message|mail|email|ticket))\s+(?:have |has |also |just )?(?:said|says?|writes?|wrote|mention(?:ed|s)?|claim(?:ed|s)?|state[ds]?|ask(?:ed)?|think|believe|told us|want(?:ed)?|expect(?:ed)?|wish)\b[,:]?[^,;]*"
    r"|\byou(?: are|['’]re) (?:asking|saying|claiming|telling)\b[^,;]*|\bwhether\b[^,;]*|\b(?:no|not any|any|find no) (?:record|trace|evidence|promise|proof)\b[^,;]*"
    r"|\baccording to (?:you|your)\b[^,;]*,?[^,;]*", re.IGNORECASE)


def _masked(text: str) -> str:
    """Blank out what is quoted and what only reports another's words, so that every place stays where it is."""
    for pattern in (_QUOTED, _REPORT):
        text = pattern.sub(lambda found: "".join(c if c in "\n。.!?！？" else "\x00" for c in found.group()), text)
    return text


def _own_words(heard: str, text: str, place: tuple[int, int], said: Said) -> bool:
    words = heard[place[0]:place[1]]
    around = next((s.group() for s in _SENTENCE.finditer(heard) if s.start() <= place[0] < s.end()), words)
    return "\x00" not in words and not _RECAP.search(around) and not _echo(text[place[0]:place[1]], said.customer)


def _echo(words: str, customer: Iterable[str]) -> bool:
    wanted = _squeezed(words)
    return any(wanted in _squeezed(text) for text in customer)


def _squeezed(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())


def _place(words: str, text: str) -> tuple[int, int] | None:
    """Return where the words stand in the reply, white space apart; None if they are not there or no promise's size."""
    parts = words.split()
    if not parts or not MIN_CHARS <= len(words) <= MAX_CHARS:
        return None
    found = re.search(r"\s+".join(map(re.escape, parts)), text)
    return None if found is None else found.span()


# promises by rule -----------------------------------------------------------------------------------

_ZH_DO = (r"(?:回复|答复|回电|回覆|反馈|联系|处理|解决|修复|恢复|提醒|通知|告知|告诉|跟进|跟您|退款|退还|退回|退给|退到|到账|补发|补偿|赔偿|寄出|寄送|寄给|发送|发给|发到|发出"
          r"|开具|开出|开好|核实|核对|确认|查清|查明|排查|给[您你]|完成|上线|更新|提供|开通|审核|安排|收到|协助|接手|接着|有结果)")
_ZH_SOON = r"(?:尽快|尽早|马上|立即|立刻|稍后|稍候|随后|回头|第一时间)"
_ZH_DESK = r"(?:我们|我方|我这边|我|这边|同事|客服|专员|人工|工程师|技术|财务|团队|运营)"
_ZH_WILL = r"(?:(?<![不机社协学领])会(?![计员议不])|(?<![不即])将(?!不)|(?<!不)保证|(?<!不)承诺|(?<!不)答应|(?<!不)负责|(?<!不)争取|预计|不会(?:晚于|超过))"
_EN_DO = (r"(?:repl(?:y|ies)|respond|answer|get back|come back|be in touch|contact|call|e-?mail|write|send|fix|resolve|solve|refund|process|remind|notify|inform"
          r"|let you know|tell you|follow up|update|deliver|ship|issue|look into|check|review|investigate|confirm|handle|take care|take over|arrange|credit|reimburse|pay"
          r"|restore|hear|receive|get an?|have an?|make sure|finish|complete|provide)")
_EN_DONE = r"(?:refunded|sent|processed|fixed|resolved|solved|answered|restored|issued|credited|reimbursed|delivered|shipped|completed|reviewed|paid|back|ready|available)"

_CORE = re.compile(
    rf"{_ZH_WILL}(?P<a>.{{0,24}}?){_ZH_DO}"
    rf"|{_ZH_DESK}[^,，。您你请]{{0,16}}{_ZH_SOON}?.{{0,6}}(?:给[您你]|为[您你]|帮[您你]|{_ZH_SOON}.{{0,6}}{_ZH_DO})"
    rf"|{_ZH_SOON}.{{0,6}}(?:回复|答复|反馈|联系|告知|通知|给|退还|退给)[^,，。]{{0,4}}[您你]"
    r"|\b(?:we|i|they|our [a-z]+|(?:a|the|my) [a-z]+|someone|support)(?:['’]ll| will| shall|(?:['’]re| are|['’]m| am) going to)\b(?! (?:not|never)\b)(?P<b>.{0,60}?)\b" + _EN_DO
    + r"|\b(?:we|i)(?: can)? (?:promise|guarantee)\b"
    r"|\byou(?:['’]ll| will)\b(?! (?:not|never|need|have to)\b).{0,30}?\b(?:hear|receive|get|have)\b"
    r"|\b(?:will|shall) be (?:[a-z]+ )?" + _EN_DONE + r"|\b(?:you can |please )?expect (?:a|an|our|the|to)\b|\bguaranteed\b", re.IGNORECASE)
_TIMED = re.compile(r"\s*(?:我们|同事|客服)?(?:就|便|必|先)?(?:能|可)?(?:回复|答复|回电|反馈|联系[您你]|处理|解决|修复|退款|到账|退回|退还|通知|提醒|告知|给[您你]|发到|发给|寄出|有结果|开出)")
_TO_YOU = re.compile(r"\s*(?:我们|同事|客服)?(?:再|就|先)?(?:给[您你]|(?:回复|答复|联系|通知|告知|回电给?)[您你])")
_NOT_OURS = re.compile(r"请(?!放心|您放心|稍|耐心)|[您你](?:可以?|需要?|要|应|得|能)|可以|需要您|麻烦[您你]|建议|通常|一般|往往|\bplease\b(?! (?:expect|be assured|rest))|\byou (?:can(?! expect)|may|must|should|need|could)\b|\busually\b|\bnormally\b|\btypically\b", re.IGNORECASE)
_NEGATED = re.compile(r"无法|不能|不可以|没有办法|没办法|不一定|未必|不承诺|不保证|不会(?!晚于|超过)|不再|\b(?:cannot|can['’]?t|won['’]?t|will not|unable|not able|do(?:es)? not|don['’]t|never|no promise)\b", re.IGNORECASE)
_IF = re.compile(      # "send us the number, and we will …" is one as well
    r"请(?:您|你)?[^,\uff0c。]{0,30}?(?:发给|发来|发到|告诉|提供|补充|提交|上传|回复|联系)|\bplease (?:send|share|provide|tell|upload|reply|contact|let us know)|如果|假如|倘若|要是|如(?:有|需|果|仍|还|遇)|若(?!干)|的话|\b(?:if|in case|should you|unless|whenever)\b", re.IGNORECASE)
_AFTER = re.compile(
    r"(?:收到|提供|提交|补充|补齐|上传|发来|发给我们|通过|批准|核实|审核|完成|修复|到账|授权|开通|付款|支付|恢复|确认)[^,，。]{0,12}?(?<!工作日)(?<!小时)(?<!天)(?:之后|以后|后)|一旦"
    r"|\b(?:once|as soon as|upon|following|after (?:we|you|it|the|receiving|approval)|of (?:receiving|receipt)|when (?:we|you|it|the))\b", re.IGNORECASE)

Promise = tuple[int, int, datetime | None]


@dataclass(frozen=True)
class _Group:
    """Clauses of a sentence that belong together, and the times that they name."""

    start: int
    end: int
    dues: list[Deadline]

    def read(self, words: str) -> Promise:
        return self.start, self.end, _when(words[:self.end], self.dues)


def _by_rule(heard: str, text: str, said: Said) -> Iterator[Found]:
    for sentence in _SENTENCE.finditer(heard):
        words = sentence.group()
        if _QUESTION.search(words) or _RECAP.search(words):
            continue
        for start, end, due in _promises(words, said):
            place = _trimmed(heard, sentence.start() + start, sentence.start() + end)
            if not _echo(text[slice(*place)], said.customer) and not _policy(text[slice(*place)], said.sources):
                yield (*place, Commitment(text[slice(*place)], due))


def _promises(words: str, said: Said) -> Iterator[Promise]:
    """Yield the promises of one sentence: a clause that promises, with clauses beside it that go on or say when."""
    times = deadlines(words, said.at, said.calendar)
    waits: _Group | None = None      # a clause that says when or on what condition, and waits for what is promised
    group: _Group | None = None      # the promise that is being read
    for start, end in (m.span() for m in _CLAUSE.finditer(words)):
        clause, inside = words[start:end], [t for t in times if start <= t.start < end]
        if _is_promise(clause, inside, start):
            if group and inside and group.dues:
                yield group.read(words)
                group = None
            before = group or waits or _Group(start, end, [])
            group, waits = _Group(before.start, end, [*before.dues, *inside]), None
        elif inside and all(t.limit for t in inside) and not _NOT_OURS.search(clause):
            if group is None:
                waits = _Group(start, end, inside)
            elif not group.dues:
                group = _Group(group.start, end, inside)
        elif group is None:
            waits = _Group(start, end, []) if _IF.search(clause) or _AFTER.search(clause) else None
    if group and (group.dues or not _IF.search(words[:group.end])):
        yield group.read(words)


def _is_promise(clause: str, times: Sequence[Deadline], offset: int) -> bool:
    core = _CORE.search(clause)
    if core is not None:
        return not (_NOT_OURS.search(clause[:core.start()]) or _NEGATED.search(clause[:core.end()]))
    return any((_TIMED if t.limit else _TO_YOU).match(clause, t.end - offset) for t in times) and not (
        _NOT_OURS.search(clause) or _NEGATED.search(clause))


def _when(words: str, dues: Sequence[Deadline]) -> datetime | None:
    """Return the last of the times, unless it counts from something that has not happened yet."""
    if not dues or _IF.search(words) or _counts_from_later(words, dues[-1]):
        return None
    return max(d.at for d in dues)


def _counts_from_later(words: str, due: Deadline) -> bool:
    if re.search(r"[\u4e00-\u9fff]", words):
        return bool(_AFTER.search(words[:due.start]))
    return bool(_AFTER.search(words))


def _trimmed(heard: str, start: int, end: int) -> tuple[int, int]:
    lead = _LEAD.match(heard, start, end)
    start = lead.end() if lead else start
    while end > start and (heard[end - 1].isspace() or heard[end - 1] in ",，;；。.、!！\x00"):
        end -= 1
    return start, min(end, start + MAX_CHARS)


_SPOKEN = re.compile(rf"{_ZH_DESK}|[您你]|\b(?:we|i|you|our)\b", re.IGNORECASE)


def _policy(words: str, sources: Sequence[str]) -> bool:
    """Tell whether the words are an article's, about how things go and not about what we do for this customer."""
    return not _SPOKEN.search(words) and _echo(words, sources)


def _due(heard: str, place: tuple[int, int], named: object, said: Said) -> datetime | None:
    """Return when a listed promise is due: by its words; only where these name nothing, as the reviewer read it."""
    words = heard[place[0]:place[1]]
    by_words = deadlines(words, said.at, said.calendar)
    if by_words or _IF.search(words) or _AFTER.search(words):
        return _when(words, by_words)
    try:
        at = datetime.fromisoformat(str(named or "").strip())
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=said.calendar.zone)
    if len(str(named).strip()) <= len("2026-12-02"):     # a day alone: its end
        at += timedelta(hours=23, minutes=59, seconds=59)
    return at.astimezone(UTC) if said.at < at <= said.at + FURTHEST else None
