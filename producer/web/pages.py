"""A template as an answer: the frame, the words, who is logged in, the policy. Templates escape by themselves."""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus

from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.requests import Request

from producer.web import formats, i18n, static
from producer.web.headers import PAGE_POLICY
from producer.web.i18n import Texts, texts
from producer.web.markdown import rendered, reply
from producer.web.session import csrf_of, new_form_key


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the templates, with filters for times, money and Markdown."""
    made = Environment(loader=PackageLoader("producer.web"), autoescape=select_autoescape(default=True),
                       trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    made.filters |= {"moment": formats.moment, "day": formats.day, "money": formats.money, "markdown": rendered, "reply": reply,
                     "tojson_plain": formats.as_json}
    made.globals |= {"static": static.address, "clock": formats.clock_time}
    return made


def page(request: Request, template: str, status: int = 200, *, t: Texts | None = None, **values: object) -> HTMLResponse:
    """Return a page of the frame `base.html`.

    Besides `values` a template has: `t` (words), `who` (the staff's person or None), `csrf`, `form_key()` (a new one for
    each form), `path`, `readable` (the address can be loaded again), `span(seconds)`. `t` is given where the language is not the reader's to choose first.
    """
    words = t or texts(request)
    html = environment().get_template(template).render(
        {"t": words, "who": getattr(request.state, "who", None), "csrf": csrf_of(request), "form_key": new_form_key,
         "path": request.url.path, "readable": request.method in {"GET", "HEAD"}, "span": lambda seconds: formats.span(seconds, words),
         "took": lambda seconds: formats.took(seconds, words),
         "said": said(request, words), **values})
    answer = HTMLResponse(html, status_code=status, headers={"content-security-policy": PAGE_POLICY})
    chosen = i18n.asked(request)
    if chosen:
        answer.set_cookie(i18n.COOKIE, chosen, max_age=i18n.COOKIE_SECONDS, httponly=True, samesite="lax")
    return answer


def said(request: Request, t: Texts) -> str:
    """Return the sentence that the page before wants said (`?done=KEY`): only our own words, never the address' text."""
    key = f"done.{request.query_params.get('done', '')}"
    return t(key) if key in t else ""


def see_other(path: str, done: str = "") -> RedirectResponse:
    """Send the browser on after a POST; `done` names the sentence that the next page says."""
    target = f"{path}{'&' if '?' in path else '?'}done={done}" if done else path
    return RedirectResponse(target, status_code=HTTPStatus.SEE_OTHER)
