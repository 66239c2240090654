"""Where a reply's citation links lead: an article as a page. Its text is treated like anybody's text."""

from __future__ import annotations

import re
import secrets
from functools import lru_cache

import nh3
from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, select_autoescape
from markdown_it import MarkdownIt
from markupsafe import Markup

from producer.web.state import SiteOf
from supportpilot.db.articles import get_article

router = APIRouter()

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
CACHE_SECONDS = 300


@lru_cache(maxsize=1)
def _pages() -> Environment:
    return Environment(loader=PackageLoader("producer.web"), autoescape=select_autoescape(default=True),
                       trim_blocks=True, lstrip_blocks=True)


@router.api_route("/kb/{article_id}", methods=["GET", "HEAD"], response_class=HTMLResponse)
def show_article(article_id: str, site: SiteOf) -> HTMLResponse:
    """Return the article's page, or a page that says there is none (404)."""
    if not _ID.fullmatch(article_id):
        return _page("missing.html", 404, article_id=article_id[:64])
    with site.db.connection() as conn:
        article = get_article(conn, article_id)
    if article is None:
        return _page("missing.html", 404, article_id=article_id)
    return _page("article.html", 200, article=article, content=rendered(article.body, article.title))


def rendered(body: str, title: str = "") -> Markup:
    """Turn Markdown into clean HTML: no raw HTML, no script, links without referrer.

    A first heading that only repeats the title is left out.
    """
    first, _, rest = body.lstrip().partition("\n")
    text = rest if title and first.lstrip("# ").strip() == title.strip() else body
    html = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    return Markup(nh3.clean(html, url_schemes={"http", "https", "mailto"}))  # noqa: S704 -- cleaned just here


def _page(template: str, status: int, **values: object) -> HTMLResponse:
    nonce = secrets.token_urlsafe(16)
    html = _pages().get_template(template).render(nonce=nonce, **values)
    policy = (f"default-src 'none'; style-src 'nonce-{nonce}'; img-src 'self' https:; "
              "frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
    headers = {"content-security-policy": policy}
    if status == 200:
        headers["cache-control"] = f"public, max-age={CACHE_SECONDS}"
    return HTMLResponse(html, status_code=status, headers=headers)
