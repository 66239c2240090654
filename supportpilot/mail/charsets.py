"""Bytes to text. A charset label is a claim: most `gb2312` mails are GBK, some Big5 ones are UTF-8.

A part is decoded as a whole: falling back by single characters has turned half a sentence into question marks.
"""

from __future__ import annotations

import codecs
import re

import chardet

# A label that lies about its family is cured by the family's largest member.
FAMILIES = {"gb2312": "gb18030", "gbk": "gb18030", "gb_2312-80": "gb18030", "csgb2312": "gb18030", "cp936": "gb18030",
            "x-gbk": "gb18030", "windows-936": "gb18030", "ms936": "gb18030", "gb18030": "gb18030", "euc-cn": "gb18030",
            "big5": "big5hkscs", "big5-hkscs": "big5hkscs", "cn-big5": "big5hkscs", "x-x-big5": "big5hkscs",
            "hz-gb-2312": "hz", "unicode-1-1-utf-7": "utf-7", "x-mac-roman": "mac-roman", "ansi_x3.4-1968": "us-ascii"}
CHINESE = ("gb18030", "big5hkscs")
# Written in seven bits or two bytes a character: trying UTF-8 first would "succeed" and show the escapes.
OWN_BYTES = frozenset({"hz", "utf-7", "iso-2022-jp", "iso-2022-kr", "iso-2022-cn", "utf-16", "utf-16le", "utf-16be",
                       "utf-16-le", "utf-16-be", "utf-32"})
UNTOLD = frozenset({"", "us-ascii", "ascii", "unknown-8bit", "x-unknown", "unknown", "default", "8bit", "utf-8", "utf8"})
LEAST_CONFIDENCE = 0.3
SAMPLE_BYTES = 20_000

_CJK = re.compile("[\u3000-\u303f\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
_UNWANTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufeff]")


def decode(raw: bytes, label: str | None) -> str:
    """Return the text of a part; never raises, never holds NUL or half a character."""
    return _UNWANTED.sub("", _decode(raw, codec_of(label)))


def codec_of(label: str | None) -> str:
    """Return the codec for a label, "" for one that says nothing or that nobody knows."""
    name = (label or "").strip().strip("\"'").lower()
    name = FAMILIES.get(name, name)
    if name in UNTOLD:
        return ""
    try:
        known = codecs.lookup(name)
    except (LookupError, ValueError):
        return ""
    return name if known._is_text_encoding else ""      # base64 and rot13 are "codecs" too


def _decode(raw: bytes, codec: str) -> str:
    if codec in OWN_BYTES:
        found = _strict(raw, codec)
        if found is not None:
            return found
    if raw.isascii():
        return raw.decode("ascii")
    utf8 = _strict(raw, "utf-8")
    # Two-byte Chinese can be valid UTF-8 by chance; it then reads as Greek, never as Chinese.
    if utf8 is not None and (codec not in CHINESE or _CJK.search(utf8) or not _CJK.search(_strict(raw, codec) or "")):
        return utf8
    for name in (codec, _guess(raw) if codec not in CHINESE else "", *CHINESE):
        found = _strict(raw, name) if name else None
        if found is not None:
            return found
    return raw.decode(codec or "utf-8", errors="replace")


def _guess(raw: bytes) -> str:
    seen = chardet.detect(raw[:SAMPLE_BYTES])
    named = seen["encoding"] if (seen["confidence"] or 0) >= LEAST_CONFIDENCE else None
    return codec_of(named)


def _strict(raw: bytes, codec: str) -> str | None:
    try:
        return raw.decode(codec)
    except (UnicodeError, LookupError, ValueError):
        return None
