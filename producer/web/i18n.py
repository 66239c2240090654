"""Chinese or English: which one a request wants, and its words."""

from __future__ import annotations

from typing import Literal

from starlette.requests import Request

from producer.web.words import approvals, base, customer, tickets

Lang = Literal["zh", "en"]
LANGS: tuple[Lang, ...] = ("zh", "en")
COOKIE = "sp_lang"
COOKIE_SECONDS = 365 * 86_400


def _gather() -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for module in (base, approvals, tickets, customer):
        twice = found.keys() & module.WORDS.keys()
        if twice:
            raise ValueError(f"{module.__name__} names again: {sorted(twice)}")
        found |= module.WORDS
    return found


WORDS = _gather()


class Texts:
    """The words of one language: `t("nav.home")`, `t("home.waiting", n=3)`; an unknown key is an error."""

    def __init__(self, lang: Lang) -> None:
        self.lang = lang
        self._index = LANGS.index(lang)

    def __call__(self, key: str, **values: object) -> str:
        text = WORDS[key][self._index]
        return text.format(**values) if values else text

    def __contains__(self, key: object) -> bool:
        return key in WORDS


def texts(request: Request, first: str = "") -> Texts:
    """Return the words in the language that was chosen, else `first` (a ticket's), else the browser's, else Chinese."""
    return Texts(_chosen(request) or _known(first) or _accepted(request.headers.get("accept-language", "")) or "zh")


def _known(lang: str | None) -> Lang | None:
    return lang if lang in LANGS else None


def _chosen(request: Request) -> Lang | None:
    return asked(request) or _known(request.cookies.get(COOKIE))


def asked(request: Request) -> Lang | None:
    """Return the language that the address itself asks for, which is remembered."""
    return _known(request.query_params.get("lang"))


def _accepted(header: str) -> Lang | None:
    """Return the language of ours that the browser likes best; a malformed weight counts as none."""
    best: tuple[float, Lang] | None = None
    for part in header[:200].split(","):
        name, _, rest = part.strip().partition(";")
        lang = _known(name.strip().lower().split("-")[0])
        weight = _weight(rest)
        if lang is not None and weight > 0 and (best is None or weight > best[0]):
            best = (weight, lang)
    return None if best is None else best[1]


def _weight(rest: str) -> float:
    name, sign, value = rest.strip().partition("=")
    try:
        weight = float(value) if sign and name.strip() == "q" else 1.0
    except ValueError:
        return 0.0
    return weight if 0 <= weight <= 1 else 0.0
