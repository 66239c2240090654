"""One reply in the forms that helpdesks take, and the comparison that finds it again among what they return."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html.parser import HTMLParser

import nh3
from markdown_it import MarkdownIt
from typing_extensions import override

BREAKS = frozenset({"address", "blockquote", "br", "div", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre",
                    "table", "tr", "ul"})
SHORTEST_ECHO = 12      # characters: a shorter text says the same by chance ("好的，谢谢")

_MARKDOWN = MarkdownIt("commonmark", {"html": False, "breaks": True})
_LINK = re.compile(r"\(?<?https?://[^\s)>]+>?\)?")


def to_html(markdown: str) -> str:
    """Render a reply; what looks like HTML in it is shown as it is written."""
    return nh3.clean(_MARKDOWN.render(markdown)).strip()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append("\n")

    @override
    def handle_endtag(self, tag: str) -> None:
        self.parts.append("\n")

    @override
    def handle_data(self, data: str) -> None:
        self.parts.append(re.sub(r"\s+", " ", data))


def to_text(html: str) -> str:
    """Return the text that HTML shows, a line per block.

    Cleaned first: Python's parser takes minutes over what somebody can write to slow it down, and the cleaner drops
    scripts and styles with their contents.
    """
    reader = _Reader()
    reader.feed(nh3.clean(html, tags=set(BREAKS), attributes={}))
    reader.close()
    lines = (" ".join(part.split()) for part in "".join(reader.parts).split("\n"))
    return re.sub(r"\n{2,}", "\n", "\n".join(lines)).strip()


def essences(markup: str) -> frozenset[str]:
    """Return the letters and digits of a text, read as HTML and as it stands: helpdesks rewrite all the rest.

    Addresses are left out; the customer's text is never rendered as Markdown, which hostile input can make slow.
    """
    return frozenset({_essence(to_text(markup)), _essence(markup)} - {""})


def essences_of_reply(markdown: str) -> frozenset[str]:
    """Return the same of a reply of ours, rendered and as it was written."""
    return frozenset({_essence(to_text(to_html(markdown))), _essence(markdown)} - {""})


def _essence(text: str) -> str:
    return "".join(c for c in _LINK.sub("", text).casefold() if c.isalnum())


def same_words(ours: frozenset[str], markup: str) -> bool:
    """Say whether a text that came back (HTML, Markdown or plain) is the reply of those essences."""
    return bool(ours & essences(markup))


def is_echo(replies: Iterable[str], text: str) -> bool:
    """Say whether a text that came in is one of our replies sent back: the same words, and enough of them."""
    given = {essence for essence in essences(text) if len(essence) >= SHORTEST_ECHO}
    lengths = [len(essence) for essence in given]
    return any(given & essences_of_reply(reply) for reply in replies if _may_be(lengths, len(_essence(reply))))


def _may_be(lengths: Iterable[int], written: int) -> bool:
    """Say whether a text of such a length can be this reply: rendering loses some of it and adds nothing."""
    return any(written / 2 <= length <= written for length in lengths)
