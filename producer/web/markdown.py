"""Markdown of articles and replies as clean HTML; what a customer wrote is never Markdown, it is shown as text."""

from __future__ import annotations

import re

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

SCHEMES = {"http", "https", "mailto"}
_REPLY = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table")
# What stands below a list without an empty line is meant as a new paragraph; Markdown takes it for the last item's.
_AFTER_LIST = re.compile(r"^((?:[0-9]{1,3}[.)]|[-*+]) [^\n]*)\n(?=[^\s\d*+-])", re.MULTILINE)


def rendered(body: str, title: str = "") -> Markup:
    """Turn Markdown into clean HTML: no raw HTML, no script, links without referrer.

    A first heading that only repeats the title is left out.
    """
    first, _, rest = body.lstrip().partition("\n")
    text = rest if title and first.lstrip("# ").strip() == title.strip() else body
    html = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    return Markup(nh3.clean(html, url_schemes=SCHEMES))  # noqa: S704 -- cleaned just here


def reply(body: str) -> Markup:
    """Render a reply as the customer's page and the staff's show it: no raw HTML, no pictures, a line is a line.

    Links open beside the page and tell nobody its address.
    """
    html = nh3.clean(_REPLY.render(_AFTER_LIST.sub(r"\1\n\n", body)), tags=nh3.ALLOWED_TAGS - {"img"}, url_schemes=SCHEMES,
                     set_tag_attribute_values={"a": {"target": "_blank"}})
    return Markup(html)  # noqa: S704 -- cleaned just here
