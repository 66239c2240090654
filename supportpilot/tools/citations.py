"""Citations of a reply: Markdown links whose title is an article's id, `[how to …](https://… "KB-bank-001")`."""

from __future__ import annotations

import re

from supportpilot.types import Citation

_LINK = re.compile(
    r'\[(?P<title>(?:[^\[\]\\\n]|\\.){1,300})\]'
    r'\((?P<url>https?://[^\s()<>"]{1,500}) "(?P<id>KB-[A-Za-z0-9_-]{1,60})"\)'
)
_ESCAPED = re.compile(r"\\(.)")


def citations_in(reply: str) -> list[Citation]:
    """Return the articles that a reply cites, each once, in order of appearance."""
    found: dict[str, Citation] = {}
    for link in _LINK.finditer(reply):
        title = _ESCAPED.sub(r"\1", link["title"])
        found.setdefault(link["id"], Citation(link["id"], title, link["url"]))
    return list(found.values())
