"""Markdown of articles and replies as clean HTML; what a customer wrote is never Markdown, it is shown as text."""

from __future__ import annotations

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup


def rendered(body: str, title: str = "") -> Markup:
    """Turn Markdown into clean HTML: no raw HTML, no script, links without referrer.

    A first heading that only repeats the title is left out.
    """
    first, _, rest = body.lstrip().partition("\n")
    text = rest if title and first.lstrip("# ").strip() == title.strip() else body
    html = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    return Markup(nh3.clean(html, url_schemes={"http", "https", "mailto"}))  # noqa: S704 -- cleaned just here
