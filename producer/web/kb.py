"""Where a reply's citation links lead: an article as a page. Its text is treated like anybody's text."""

from __future__ import annotations

import re

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from producer.web.headers import PAGE_POLICY
from producer.web.markdown import rendered
from producer.web.pages import environment
from producer.web.state import SiteOf
from supportpilot.db.articles import get_article

router = APIRouter()

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
CACHE_SECONDS = 300


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


def _page(template: str, status: int, **values: object) -> HTMLResponse:
    """Return a page that is the same for everybody, so that it may be kept on the way."""
    html = environment().get_template(template).render(values)
    headers = {"content-security-policy": PAGE_POLICY.replace("img-src 'self'", "img-src 'self' https:")}
    if status == 200:
        headers["cache-control"] = f"public, max-age={CACHE_SECONDS}"
    return HTMLResponse(html, status_code=status, headers=headers)
