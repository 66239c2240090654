"""Prompts and fixed customer texts: one Markdown file per name and language."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from string import Template

from supportpilot.errors import Misconfigured
from supportpilot.prompts.fencing import fence

__all__ = ["LANGUAGES", "fence", "names", "placeholders", "prompt"]

LANGUAGES = ("zh", "en")


def prompt(name: str, lang: str, **values: str) -> str:
    """Return the text of `name` in `lang` with its placeholders filled; a value is never read as a template.

    Raises:
        Misconfigured: no such file in this language, or a placeholder has no value.
    """
    template = _template(name, lang)
    try:
        return template.substitute(values)
    except (KeyError, ValueError) as error:
        raise Misconfigured(f"prompt {lang}/{name}.md: no value for {error}") from error


def names(lang: str) -> list[str]:
    """Return the names of all texts in `lang`, sorted.

    Raises:
        Misconfigured: there is no such language.
    """
    if lang not in LANGUAGES:
        raise Misconfigured(f"no prompts in language {lang!r}; there are {', '.join(LANGUAGES)}")
    folder = files("supportpilot.prompts") / lang
    return sorted(entry.name.removesuffix(".md") for entry in folder.iterdir() if entry.name.endswith(".md"))


def placeholders(name: str, lang: str) -> set[str]:
    """Return the placeholders of a text. Raises as `prompt`."""
    return set(_template(name, lang).get_identifiers())


@lru_cache(maxsize=128)
def _template(name: str, lang: str) -> Template:
    if name not in names(lang):
        raise Misconfigured(f"no prompt {name!r} in language {lang!r}")
    text = (files("supportpilot.prompts") / lang / f"{name}.md").read_text(encoding="utf-8")
    return Template(text.strip())
