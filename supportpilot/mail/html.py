"""HTML mails as text, and their quotes by the elements that clients put around them."""

from __future__ import annotations

import re
from typing import Any

import lxml.html
from inscriptis import Inscriptis
from inscriptis.css_profiles import RELAXED_CSS_PROFILE
from inscriptis.model.config import ParserConfig
from lxml import etree

from supportpilot.mail import markers
from supportpilot.mail.quotes import Split, split

MAX_HTML_CHARS = 1_000_000
MAX_QUOTES = 200            # of one kind; more are no letter any more
DROPPED = ("script", "style", "head", "title", "noscript", "template", "svg", "object")

_CONFIG = ParserConfig(css=RELAXED_CSS_PROFILE, display_links=False, display_images=False)
_BLANKS = re.compile(r"\n[ \t]*(?:\n[ \t]*)+\n")
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")


def to_text(html: str) -> str:
    """Return what a reader would see; never raises."""
    tree = _tree(html)
    return "" if tree is None else _text(tree)


def split_html(html: str, *, forwarded: bool = False) -> Split | None:
    """Split by the elements that clients mark as quotes, then by text markers; None if there is nothing to read.

    Text behind a quoting element was written between the quotes: the mail stays whole.
    """
    tree = _tree(html)
    full = "" if tree is None else _text(tree)
    if tree is None or not full:
        return None
    quoted = None if forwarded else _take_quotes(tree)
    if quoted is None:
        return split(full, forwarded=forwarded)
    rest = split(_text(tree))
    if not rest.visible.strip():
        return Split(full, full, "")
    return Split(full, rest.visible, "\n\n".join(part for part in (rest.quoted, quoted) if part))


def _tree(html: str) -> Any:  # noqa: ANN401 -- lxml's element
    try:
        tree = lxml.html.document_fromstring(_DECLARATION.sub("", html[:MAX_HTML_CHARS]))
    except (etree.LxmlError, ValueError, AssertionError):
        return None
    etree.strip_elements(tree, *DROPPED, etree.Comment, with_tail=False)
    for element in tree.xpath("//*[@hidden or contains(translate(@style, ' ', ''), 'display:none')]"):
        if element.getparent() is not None:
            element.drop_tree()
    return tree


def _text(tree: Any) -> str:  # noqa: ANN401
    try:
        text = Inscriptis(tree, _CONFIG).get_text()
    except Exception:  # noqa: BLE001 -- a deeper or stranger tree than it expects; the words matter more than the layout
        text = tree.text_content()
    lines = [line.rstrip() for line in text.replace("\u00a0", " ").splitlines()]
    return _BLANKS.sub("\n\n", "\n".join(_unindented(lines))).strip()


def _unindented(lines: list[str]) -> list[str]:
    return [line[2:] if line.startswith("  ") and not line.startswith("   ") else line for line in lines]


def _take_quotes(tree: Any) -> str | None:  # noqa: ANN401
    """Take the quotes out of the tree and return their text; None (and an unchanged tree) if they are answered between."""
    taken: list[tuple[Any, str]] = []
    for path, extent in markers.HTML:
        for element in tree.xpath(path)[:MAX_QUOTES]:
            if not any(_is_inside(element, other) for other, _ in taken):
                taken = [(other, kind) for other, kind in taken if not _is_inside(other, element)] + [(element, extent)]
    if not taken or _text_after(tree, taken) or _carries_forward(taken):
        return None
    said = [_text(element) for element, _ in taken]
    for element, extent in taken:
        if extent == "rest":
            said += _take_following(element)
        if element.getparent() is not None:
            element.drop_tree()
    return "\n\n".join(part for part in said if part)


def _carries_forward(taken: list[tuple[Any, str]]) -> bool:
    first = "\n".join(_text(element)[:200] for element, _ in taken).splitlines()
    return any(markers.FORWARDED.match(line.strip()) for line in first)


def _is_inside(element: Any, other: Any) -> bool:  # noqa: ANN401
    return element is other or any(parent is other for parent in element.iterancestors())


def _text_after(tree: Any, taken: list[tuple[Any, str]]) -> bool:  # noqa: ANN401
    """Say whether words follow the first quoting element outside any of them (a signature does not count)."""
    if any(extent == "rest" for _, extent in taken):
        return False
    quoted = {element for element, _ in taken}
    started, own = False, []
    for event, element in etree.iterwalk(tree, events=("start", "end")):
        if event == "start" and element in quoted:
            started = True
        inside = element in quoted or any(parent in quoted for parent in element.iterancestors())
        if event == "start" and started and not inside:
            own.append(element.text or "")
        if event == "end" and started and not any(parent in quoted for parent in element.iterancestors()):
            own.append(element.tail or "")
    text = "\n".join(own)
    return bool(split("x\n" + text).visible.strip() != "x")


def _take_following(element: Any) -> list[str]:  # noqa: ANN401
    """Take what follows an element, at its own level and at those above it."""
    said: list[str] = []
    while element.getparent() is not None and element.tag != "body":
        for sibling in list(element.itersiblings()):
            said.append(_text(sibling) if isinstance(sibling.tag, str) else "")
            sibling.drop_tree()
        element.tail = None
        element = element.getparent()
    return said
