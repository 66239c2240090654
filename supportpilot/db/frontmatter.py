"""A Markdown file with front matter, read strictly: a mistake names its file and line; pure."""

from __future__ import annotations

import re

from supportpilot.db.articles import Article
from supportpilot.errors import Misconfigured

FIELDS = ("id", "title", "lang", "url", "keywords")
LANGUAGES = ("zh", "en")
# The form that replies cite and that stands in links.
_ID = re.compile(r"KB-[A-Za-z0-9]+(-[A-Za-z0-9]+)*")
_URL = re.compile(r"https?://[^\s()<>\"]+")


def parse_article(text: str, name: str) -> Article:
    """Read one article.

    Args:
        text: the file's content, front matter first.
        name: what to call the file in an error.

    Raises:
        Misconfigured: a field is missing, unknown or malformed; the text is `file:line: what is wrong`.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    end = _end(lines, name)
    values, where = _fields(lines[1:end], name)
    for field in ("id", "title"):
        if not values.get(field):
            raise Misconfigured(f"{name}:1: the front matter has no {field}")
    lang = values.get("lang") or "zh"
    _require(_ID.fullmatch(values["id"]), f"{name}:{where['id']}: id {values['id']!r} is not of the form KB-topic-001")
    _require(lang in LANGUAGES, f"{name}:{where.get('lang', 1)}: lang {lang!r} is not one of zh, en")
    url = values.get("url") or None
    _require(url is None or _URL.fullmatch(url), f"{name}:{where.get('url', 1)}: url {url!r} is not an http(s) address")
    body = "\n".join(lines[end + 1:]).strip()
    _require(body, f"{name}:{end + 2}: there is no text below the front matter")
    _require("\0" not in text, f"{name}:1: the file contains a NUL character")
    return Article(values["id"], values["title"], body, lang, url, values.get("keywords", ""))


def _end(lines: list[str], name: str) -> int:
    _require(lines and lines[0].strip() == "---", f"{name}:1: the front matter is missing, the first line must be ---")
    for number, line in enumerate(lines[1:], start=1):
        if line.strip() == "---":
            return number
    raise Misconfigured(f"{name}:1: the front matter has no closing ---")


def _fields(lines: list[str], name: str) -> tuple[dict[str, str], dict[str, int]]:
    values: dict[str, str] = {}
    where: dict[str, int] = {}
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        key, colon, value = line.partition(":")
        key = key.strip()
        _require(colon, f"{name}:{number}: {line.strip()[:40]!r} is not of the form name: value")
        _require(key in FIELDS, f"{name}:{number}: {key!r} is not one of {', '.join(FIELDS)}")
        _require(key not in values, f"{name}:{number}: {key} is given twice")
        values[key], where[key] = _unquoted(value.strip()), number
    return values, where


def _unquoted(value: str) -> str:
    quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value


def _require(condition: object, problem: str) -> None:
    if not condition:
        raise Misconfigured(problem)
