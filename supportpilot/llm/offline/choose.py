"""Which of the articles in the prompt answers the newest message, and which of its lines; pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

from supportpilot.llm.offline.lexicon import CITATION, CONCEPTS, concepts_in, error_codes
from supportpilot.llm.offline.text import Article, articles, basics, characters, language, normal, terms
from supportpilot.llm.offline.triage import customer_words, is_follow_up, is_unsolved

TITLE_TERM, KEYWORD_TERM, BODY_TERM = 2.4, 3.5, 1.6
CHARACTER = 0.35        # what a single Chinese character counts of a term
TITLE_CONCEPT, KEYWORD_CONCEPT, BODY_CONCEPT = 5.0, 1.5, 2.0
TITLE_CODE, BODY_CODE = 10.0, 5.0
UNTITLED = 1.75
FIRST_RANK = 4.0
SAME_LANGUAGE = 3.0
ENOUGH_COVERED = 0.34
ENOUGH_NAMED = 2
ENOUGH_OF_FIRST = 4     # with single characters: the search has judged its first hit already
GENERIC = frozenset({"failure", "reminder", "still", "charge"})
ALREADY_GIVEN = 10.0
ADVICE_CHARS = {"zh": 210, "en": 460}
EXAMPLE = re.compile(r"[((](?:形如|例如|such as|for example)[^))]*[))]")
STEP = re.compile(r"^\s*\d+[.、)]\s*")


@dataclass(frozen=True)
class Question:
    """The newest message and its context as bags of words, concepts and codes, each with its share."""

    terms: dict[str, float]
    concepts: dict[str, float]
    codes: dict[str, float]
    lang: str

    @classmethod
    def of(cls, sections: dict[str, str]) -> Question:
        """Read the question from the prompt's sections."""
        newest = sections.get("newest", "")
        share = 0.6 if is_follow_up(sections) else 0.25
        context = f"{basics(sections).get('subject', '')}\n{customer_words(sections)}"
        words = dict.fromkeys(characters(context), share * CHARACTER) | dict.fromkeys(characters(newest), CHARACTER)
        words |= dict.fromkeys(terms(context), share) | dict.fromkeys(terms(newest), 1.0)
        concepts = dict.fromkeys(concepts_in(normal(context)), share) | dict.fromkeys(concepts_in(normal(newest)), 1.0)
        before = f"{context}\n{sections.get('recent', '')}\n{sections.get('findings', '')}"
        codes = dict.fromkeys(error_codes(before), 0.25) | dict.fromkeys(error_codes(newest), 1.0)
        return cls(words, concepts, codes, language(sections))


def best_article(sections: dict[str, str]) -> Article | None:
    """Return the article that answers, or None if none is about it."""
    found = articles(sections.get("articles", ""))
    question = Question.of(sections)
    relevant = [a for a in found if is_relevant(question, a)]
    if not relevant:
        return None
    rarity = _rarity(question, found)
    # What did not help before is not said again if there is something else.
    said = sections.get("recent", "") if is_unsolved(sections) else ""
    titled = {c for a in found for c in concepts_in(normal(a.title))}
    return max(relevant, key=lambda a: (score(question, a, rarity, titled) - (ALREADY_GIVEN if a.id in said else 0.0), -a.rank))


def score(question: Question, article: Article, rarity: dict[str, float], titled: set[str]) -> float:
    """Return how well an article fits; a concept that no title has counts more where a body has it."""
    title, words, whole = (terms(text) | characters(text) for text in (article.title, article.keywords, article.body))
    total = FIRST_RANK / (1 + article.rank) + (SAME_LANGUAGE if article.lang == question.lang else 0.0)
    for term, share in question.terms.items():
        weight = TITLE_TERM if term in title else KEYWORD_TERM if term in words else BODY_TERM if term in whole else 0.0
        total += share * weight * rarity[term]
    in_title, in_words, in_body = (concepts_in(normal(text)) for text in (article.title, article.keywords, article.body))
    for concept, share in question.concepts.items():
        weight = (TITLE_CONCEPT if concept in in_title else KEYWORD_CONCEPT if concept in in_words
                  else BODY_CONCEPT if concept in in_body else 0.0)
        weight = weight if concept in titled else weight * UNTITLED
        total += share * weight * CONCEPTS[concept].weight / 2
    return total + _codes(question, article)


def is_relevant(question: Question, article: Article) -> bool:
    """Say whether an article is about the question at all; the last of a search result often is not."""
    if any(code in error_codes(f"{article.title}\n{article.body}") for code in question.codes):
        return True
    asked = {c for c in question.concepts if c not in GENERIC}
    if asked & concepts_in(normal(article.title)):
        return True
    newest = {t for t, share in question.terms.items() if share == 1.0}
    if not newest:
        return False
    named = newest & terms(f"{article.title}\n{article.keywords}")
    if len(named) >= ENOUGH_NAMED:
        return True
    whole = f"{article.title}\n{article.keywords}\n{article.body}"
    met = newest & terms(whole)
    if article.rank == 0 and met and len(question.terms.keys() & (terms(whole) | characters(whole))) >= ENOUGH_OF_FIRST:
        return True
    covered = len(met) / len(newest)
    shared = bool(question.concepts.keys() & concepts_in(normal(whole)))
    return covered >= ENOUGH_COVERED and (shared or (len(newest) > 1 and covered > 2 * ENOUGH_COVERED))


def advice(article: Article, sections: dict[str, str]) -> str:
    """Return the article's lines that help most, word for word and in their order, within a reply's length."""
    question = Question.of(sections)
    limit = ADVICE_CHARS["en" if article.lang == "en" else "zh"]
    blocks = _blocks(article.body)
    ranked = sorted(range(len(blocks)), key=lambda n: (-_overlap(question, blocks[n]), n))
    kept, used = set[int](), 0
    for n in ranked:
        size = len(blocks[n])
        if used + size <= limit or not kept:
            kept.add(n)
            used += size
    text = "\n".join(blocks[n] for n in sorted(kept))
    return EXAMPLE.sub("", CITATION.sub("", text))[: limit * 2].strip()


def _codes(question: Question, article: Article) -> float:
    total = 0.0
    for code, share in question.codes.items():
        if code in error_codes(article.title):
            total += TITLE_CODE * share
        elif code in error_codes(article.body):
            total += BODY_CODE * share
    return total


def _rarity(question: Question, found: list[Article]) -> dict[str, float]:
    seen: Counter[str] = Counter()
    for article in found:
        text = f"{article.title}\n{article.keywords}\n{article.body}"
        seen.update((terms(text) | characters(text)) & question.terms.keys())
    return {term: math.log(1 + (len(found) + 1) / (seen[term] + 1)) for term in question.terms}


def _blocks(body: str) -> list[str]:
    """Split a body into paragraphs, and keep the steps of one list together; headings go."""
    blocks: list[str] = []
    in_steps = False
    for raw in body.splitlines():
        line = raw.strip().removeprefix("- ").replace("**", "")
        if not line or line.startswith("#"):
            in_steps = False
            continue
        step = bool(STEP.match(line))
        if step and in_steps:
            blocks[-1] += f"\n{line}"
        else:
            blocks.append(line)
        in_steps = step
    return blocks


def _overlap(question: Question, block: str) -> float:
    words = terms(block)
    total = sum(share for term, share in question.terms.items() if term in words)
    total += sum(share for concept, share in question.concepts.items() if concept in concepts_in(normal(block)))
    return total + (1.5 if STEP.match(block) else 0.0)
