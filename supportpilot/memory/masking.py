"""Secrets out of a text before anything is kept of it: ID card and full card numbers, passwords, tokens. Pure.

Cards keep their last four characters (`****8821`), which people use to name them. A password or token is marked by
six stars and keeps its last four only where at least as many stay hidden.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date

Span = tuple[int, int, str]

CARD_MARK = "****"
SECRET_MARK = "******"  # noqa: S105 -- what stands for one
TAIL = 4

# One character for one, so that places in the text stay the same. A full-width comma or stop ends a password, so the
# search for secrets leaves these as they are.
_WIDE = {wide: chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F)}
_SIGNS = {ord("\u3000"): " ", ord("\u00a0"): " ", ord("\uffe5"): "\u00a5", **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212"), "-")}
_NARROW = {**_WIDE, **_SIGNS}
_NUMBER_SIGNS = {wide: plain for wide, plain in _NARROW.items() if plain.isalnum() or plain in " -./:%+_()@#=*&~$\u00a5"}
_UNUSUAL = re.compile(f"[{re.escape(''.join(map(chr, _NARROW)))}]")
_FOREIGN_DIGIT = re.compile(r"(?=\d)[^\x00-\x7f]")

_HIDDEN = "\u200b\u200c\u200d\u2060\ufeff"
_GAP = f"[ \\-{_HIDDEN}]?"
_ID_CARD = re.compile(
    rf"(?<![0-9A-Za-z])\d{{6}}{_GAP}(?:19|20)\d\d{_GAP}\d{{2}}{_GAP}\d{{2}}{_GAP}\d{{3}}{_GAP}[\dXx](?![0-9A-Za-z])", re.ASCII)
_CARD = re.compile(
    rf"(?<![0-9A-Za-z])(?:\d{{4}}{_GAP}\d{{4}}{_GAP}\d{{4}}{_GAP}\d{{4}}(?:{_GAP}\d{{1,3}})?|\d{{4}}{_GAP}\d{{6}}{_GAP}\d{{5}})"
    r"(?![0-9A-Za-z])", re.ASCII)
_NAMED_CARD = re.compile(
    r"(?:银行卡|信用卡|借记卡|储蓄卡|卡号|身份证|\bcard|\bID)(?:号码?|\s?(?:number|no\.?))?\s{0,3}(?:是|为|:|\bis\b)?\s{0,3}"
    rf"(\d(?:{_GAP}\d){{13,18}}[Xx]?)(?![0-9A-Za-z])", re.ASCII | re.IGNORECASE)
_HAN_WORD = "密码|口令|密钥|秘钥|令牌|验证码|校验码|动态码"
_LATIN_WORD = (r"(?:pass(?:word|wd|code|phrase)?|pwd|(?:access|api|secret|private|auth)[ _-]?(?:key|token)"
         r"|api[ _-]?secret|client[ _-]?secret|secret|token|otp|pin(?: code)?|verification code)")
_NAMED_SECRET = re.compile(
    rf"(?:{_HAN_WORD}|(?<![A-Za-z]){_LATIN_WORD}(?![A-Za-z]))(?:\s{{0,3}}(?:是|为|:|=|\bis\b|\bwas\b))?[\s\"'“”‘’「`]{{0,4}}(?![=:\"'`]|\*{{4}})([!-~]{{4,500}})",
    re.IGNORECASE)
_BARE_SECRET = re.compile(
    r"(?<![A-Za-z0-9_-])(?:sk|pk|rk|ghp|gho|xox[abp]|whsec)[-_][A-Za-z0-9_-]{12,300}|(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,500}(?:\.[A-Za-z0-9_-]{1,2000}){1,2}"
    r"|(?<![A-Za-z0-9])AKIA[A-Z0-9]{12,20}(?![A-Za-z0-9])|(?i:(?<=\bbearer\s))(?!\*{4})[A-Za-z0-9._~+/=-]{12,2000}")
_DIGIT = re.compile(r"\d")
_TRAILING = ".,;:!?)]}>\"'`"
_NO_SECRET = re.compile(
    r"[A-Za-z]{1,4}[-_ ]?\d{3,5}|(?:INV|KB|RF|ORD)-[A-Za-z0-9-]{1,60}|[A-Z]\d{6}|\d{1,4}[-~/.]\d{1,3}(?:[-/.]\d{1,2})?|[A-Za-z'-]{1,40}", re.IGNORECASE)
_STATED = re.compile(r"[:=]\s{0,3}[\"'“”‘’「`]{0,2}$")
_LINKED = re.compile(r"(?:[是为]|\b(?:is|was))[\s\"'“”‘’「`]{0,4}$", re.IGNORECASE)


def narrow(text: str) -> str:
    """Return a text with its digits, letters and signs in plain ASCII where there is one; no character moves."""
    return _narrowed(text, _NARROW)


def masked(text: str) -> str:
    """Return a text without its secrets; doing it twice changes nothing more. All else stays as written."""
    shown, plain = text, _narrowed(text, _NUMBER_SIGNS)
    for pattern, hide in ((_BARE_SECRET, _secret), (_NAMED_SECRET, _named_secret), (_NAMED_CARD, _named_card),
                          (_ID_CARD, _id_card), (_CARD, _card)):
        spans = list(_spans(pattern, hide, plain))
        if spans:
            shown, plain = _replaced(shown, spans), _replaced(plain, spans)
    return shown


def luhn(digits: str) -> bool:
    """Tell whether the check digit of a card number fits."""
    total = 0
    for place, char in enumerate(reversed(digits)):
        value = int(char) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def is_id_card(number: str) -> bool:
    """Tell whether 18 characters are an ID card number: a birthday that exists and the check character."""
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    check = "10X98765432"[sum(int(d) * w for d, w in zip(number, weights, strict=False)) % 11]
    try:
        date(int(number[6:10]), int(number[10:12]), int(number[12:14]))
    except ValueError:
        return False
    return number[-1].upper() == check


def _spans(pattern: re.Pattern[str], hide: Callable[[re.Match[str]], Span | None], text: str) -> Iterator[Span]:
    """Yield what is to be masked. What a match did not hide is searched again: `pass=a1b2&token=c3d4`, `密码 token …`."""
    end, found = 0, pattern.search(text)
    while found:
        span = hide(found)
        if span and span[0] >= end:
            yield span
            end = span[1]
            again = max(found.start() + 1, end - TAIL)
        else:
            again = found.start(1) if pattern.groups else found.end()
        found = pattern.search(text, again)


def _narrowed(text: str, table: dict[int, str]) -> str:
    if text.isascii():
        return text
    plain = text.translate(table) if _UNUSUAL.search(text) else text
    return _FOREIGN_DIGIT.sub(_as_ascii_digit, plain)


def _as_ascii_digit(found: re.Match[str]) -> str:
    return str(int(found.group()))


def _replaced(text: str, spans: list[Span]) -> str:
    parts, end = [], 0
    for start, stop, mark in spans:
        parts += [text[end:start], mark]
        end = stop
    return "".join([*parts, text[end:]])


def _secret(found: re.Match[str]) -> Span:
    return found.start(), found.end(), _hidden(found.group())


def _named_secret(found: re.Match[str]) -> Span | None:
    start, value = found.start(1), found.group(1)
    said = found.group()[:start - found.start()]
    if said.rstrip().endswith("="):
        value = value.split("&")[0]
    value = value.rstrip(_TRAILING)
    stated = _STATED.search(said) is not None
    if len(value) < TAIL or not (stated or _DIGIT.search(value)):
        return None
    if not stated and not _LINKED.search(said) and (_NO_SECRET.fullmatch(value) or value[0] in _TRAILING):
        return None
    return start, start + len(value), _hidden(value)


def _named_card(found: re.Match[str]) -> Span | None:
    return _tailed(found.start(1), found.end(1), found.group(1))


def _id_card(found: re.Match[str]) -> Span | None:
    return _tailed(found.start(), found.end(), found.group()) if is_id_card(_bare(found.group())) else None


def _card(found: re.Match[str]) -> Span | None:
    number = _bare(found.group())
    if number[0] not in "34569" or not luhn(number):
        return None
    return _tailed(found.start(), found.end(), found.group())


def _tailed(start: int, end: int, number: str) -> Span:
    return start, end, f"{CARD_MARK}{_bare(number)[-TAIL:].upper()}"


def _bare(number: str) -> str:
    return re.sub(f"[ \\-{_HIDDEN}]", "", number)


def _hidden(value: str) -> str:
    return SECRET_MARK + (value[-TAIL:] if len(value) >= 2 * TAIL else "")
