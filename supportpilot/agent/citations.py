"""Citations: `[KB-bank-001]` in a draft, a Markdown link in the reply. Pure.

A made-up article id, or a link that the customer's own text talked the model into, must not reach a customer;
both can be told without asking a model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

_ID = re.compile(r"KB-[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*")
# Full-width marks stand as escapes: they are easily taken for, and turned into, their ASCII twins.
_BRACKETED = re.compile(r"[\[\u3010\uff3b]([^\[\]\u3010\u3011\uff3b\uff3d]{1,600})[\]\u3011\uff3d]")
_BETWEEN = re.compile(r"[\s,;\uff0c\uff1b\u3001]+")
_CITED = re.compile(r"KB-[A-Za-z0-9_-]+")
_URL = re.compile(
    r"https?://[^\s<>\"'()\[\],;!?\u3002\u3001\u3010\u3011\u300a\u300b\u201c\u201d\uff08\uff09\uff0c\uff1b\uff01\uff1f\uff1a]+",
    re.IGNORECASE)
_URL_KEPT = "/:?#@!$&*+,;=%~"

Hits = Sequence[Mapping[str, Any]]


def mentioned_ids(text: str) -> list[str]:
    """Return the article ids that a text names, each once, in order."""
    return list(dict.fromkeys(_ID.findall(text)))


def without_ids(text: str) -> str:
    """Return a text without its article ids, for a look at its words."""
    return _ID.sub("", text)


def unknown_ids(text: str, hits: Hits) -> list[str]:
    """Return the ids in a text that no hit has."""
    known = {hit["article_id"] for hit in hits}
    return [name for name in mentioned_ids(text) if name not in known]


def foreign_links(text: str, hits: Hits, public_url: str) -> list[str]:
    """Return the web addresses in a text that neither the hits nor this server stand behind."""
    ours = public_url.rstrip("/") + "/"
    trusted = {url for hit in hits for url in _URL.findall(f"{hit.get('url') or ''} {hit['text']}")}
    return [url for url in dict.fromkeys(_URL.findall(text)) if url not in trusted and not url.startswith(ours)]


def render_links(text: str, hits: Hits, public_url: str) -> str:
    """Turn each citation into `[title](url "KB-id")`; an id that no hit has is left out."""
    by_id: dict[str, Mapping[str, Any]] = {}
    for hit in hits:
        by_id.setdefault(hit["article_id"], hit)

    def linked(match: re.Match[str]) -> str:
        if not all(map(_CITED.fullmatch, _BETWEEN.split(match[1].strip()))):
            return match[0]
        found = [by_id[name] for name in mentioned_ids(match[1]) if name in by_id]
        return " ".join(_link(hit, public_url) for hit in found)

    return _BRACKETED.sub(linked, text)


def cited(text: str, hits: Hits) -> list[str]:
    """Return the ids in a text that hits have, each once, in order."""
    known = {hit["article_id"] for hit in hits}
    return [name for name in mentioned_ids(text) if name in known]


def _link(hit: Mapping[str, Any], public_url: str) -> str:
    name = hit["article_id"]
    title = re.sub(r"([\\\[\]])", r"\\\1", " ".join(str(hit["title"]).split()))
    url = quote(hit["url"], safe=_URL_KEPT) if hit.get("url") else f"{public_url.rstrip('/')}/kb/{quote(name)}"
    return f'[{title}]({url} "{name}")'
