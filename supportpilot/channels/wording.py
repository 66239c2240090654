"""One reply in the forms that helpdesks take, and the comparison that finds it again among what they return."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import nh3
from markdown_it import MarkdownIt
from typing_extensions import override

BREAKS = frozenset({"address", "blockquote", "br", "div", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre",
                    "table", "tr", "ul"})
UNSHOWN = frozenset({"head", "script", "style", "template", "title"})
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
        self._hidden = 0

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in BREAKS:
            self.parts.append("\n")
        self._hidden += tag in UNSHOWN

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag in BREAKS:
            self.parts.append("\n")
        self._hidden = max(0, self._hidden - (tag in UNSHOWN))

    @override
    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(" ".join(data.split()) if data.strip() else " ")
            if data[-1:].isspace():
                self.parts.append(" ")


def to_text(html: str) -> str:
    """Return the text that HTML shows, a line per block."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    lines = (" ".join(part.split()) for part in "".join(reader.parts).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def essence(html: str) -> str:
    """Return the letters and digits of what HTML shows, without addresses: helpdesks rewrite all the rest."""
    return "".join(c for c in _LINK.sub("", to_text(html)).casefold() if c.isalnum())


def essence_of_reply(markdown: str) -> str:
    """Return the same of a reply of ours."""
    return essence(to_html(markdown))


def same_words(essence_of_ours: str, markup: str) -> bool:
    """Say whether a text that came back (HTML, Markdown or plain) is the reply of that essence."""
    return len(essence_of_ours) >= 1 and essence_of_ours in {essence(markup), essence_of_reply(markup)}


def is_echo(essence_of_ours: str, plain: str) -> bool:
    """Say whether a text that came in is a reply of ours sent back: the same words, and enough of them."""
    return len(essence_of_ours) >= SHORTEST_ECHO and same_words(essence_of_ours, plain)
