"""`kb.*`: articles, the pieces they are searched by, and the search itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from supportpilot.db.pool import Connection
from supportpilot.db.segment import sections, terms
from supportpilot.types import Hit

KEYWORDS_LABEL = "关键词: "  # starts the line of a hit's text that lists what customers call the matter
TITLE_WEIGHT = 2          # times the title's terms count in each of the article's pieces, and
KEYWORD_WEIGHT = 2        # the keywords'


@dataclass(frozen=True)
class Article:
    """A knowledge-base article; `body` is Markdown, `url` where it can be read instead of `/kb/{id}`.

    `keywords` are what customers call the matter: searched and shown to the model, never to the reader.
    """

    id: str
    title: str
    body: str
    lang: str = "zh"
    url: str | None = None
    keywords: str = ""


def get_article(conn: Connection, article_id: str) -> Article | None:
    """Return one article."""
    row = conn.execute("SELECT id, title, body, lang, url, keywords FROM kb.articles WHERE id = %s", (article_id,)).fetchone()
    return None if row is None else Article(**row)


def list_articles(conn: Connection) -> list[Article]:
    """Return all articles by id."""
    return [Article(**row) for row in conn.execute("SELECT id, title, body, lang, url, keywords FROM kb.articles ORDER BY id")]


def upsert_article(conn: Connection, article: Article, updated_at: datetime | None = None) -> None:
    """Store an article and index it anew; `updated_at` is Postgres' now unless given."""
    conn.execute(
        """
        INSERT INTO kb.articles (id, title, url, lang, keywords, body, updated_at)
        VALUES (%s, %s, %s, %s, %s, %s, coalesce(%s, now()))
        ON CONFLICT (id) DO UPDATE SET title = EXCLUDED.title, url = EXCLUDED.url, lang = EXCLUDED.lang,
                                       keywords = EXCLUDED.keywords, body = EXCLUDED.body,
                                       updated_at = EXCLUDED.updated_at
        """, (article.id, article.title, article.url, article.lang, article.keywords, article.body, updated_at))
    conn.execute("DELETE FROM kb.chunks WHERE article_id = %s", (article.id,))
    title = terms(article.title) * TITLE_WEIGHT + terms(article.keywords) * KEYWORD_WEIGHT
    with conn.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO kb.chunks (article_id, position, heading, text, terms, length) VALUES (%s, %s, %s, %s, %s, %s)",
            [(article.id, position, part.heading, part.text, title + own, len(title) + len(own))
             for position, part in enumerate(sections(article.body)) for own in [terms(part.text)]])


def search_terms(conn: Connection, query: list[str], lang: str, limit: int) -> list[Hit]:
    """Return the best piece of each of the `limit` best articles, best first.

    Okapi BM25 (k1 1.2, b 0.75); a single character counts half, pieces in another language than `lang` too. Sharing
    an everyday word with the question is no answer to it, so a piece must hold an error code of the query, or else 20 %
    of the query's weight (a term that stands in no piece weighs as much as the rarest), at most that of 1.5 rarest
    terms (else a long story would find nothing), with a number, or two terms, a word or pair among them.
    """
    rows = conn.execute(
        """
        WITH query AS (
            SELECT DISTINCT term, char_length(term) > 1 AS whole FROM unnest(%(terms)s::text[]) AS q(term)
        ), size AS (
            SELECT count(*)::float8 AS pieces, avg(length)::float8 AS mean FROM kb.chunks
        ), found AS (
            SELECT c.article_id, c.position, c.length::float8 AS length, t.term, count(*)::float8 AS times
            FROM kb.chunks c CROSS JOIN LATERAL unnest(c.terms) AS t(term)
            WHERE c.terms && %(terms)s::text[] AND t.term = ANY(%(terms)s::text[])
            GROUP BY c.article_id, c.position, t.term
        ), weight AS (
            SELECT q.term, q.whole, ln(1 + (size.pieces - count(f.term) + 0.5) / (count(f.term) + 0.5))
                                    * CASE WHEN q.whole THEN 1 ELSE 0.5 END AS idf
            FROM query q CROSS JOIN size LEFT JOIN found f ON f.term = q.term
            GROUP BY q.term, q.whole, size.pieces
        ), scored AS (
            SELECT f.article_id, f.position, count(*) AS matched, bool_or(w.whole) AS whole, bool_or(f.term ~ '^[a-z][0-9]{4}$') AS code,
                   bool_or(f.term ~ '^[0-9]{3,}$') AS number, sum(w.idf) AS held,
                   sum(w.idf * f.times * 2.2 / (f.times + 1.2 * (0.25 + 0.75 * f.length / size.mean))) AS score
            FROM found f JOIN weight w ON w.term = f.term CROSS JOIN size
            GROUP BY f.article_id, f.position
        ), best AS (
            SELECT DISTINCT ON (a.id) a.id AS article_id, a.title, a.lang, a.url,
                   c.text || CASE WHEN a.keywords = '' THEN '' ELSE E'\n\n' || %(label)s || a.keywords END AS text,
                   s.score * CASE WHEN a.lang = %(lang)s THEN 1 ELSE 0.5 END AS score
            FROM scored s
            JOIN kb.chunks c ON c.article_id = s.article_id AND c.position = s.position
            JOIN kb.articles a ON a.id = s.article_id
            WHERE s.code
               OR (s.held >= least(0.2 * (SELECT sum(idf) FROM weight), 1.5 * (SELECT max(ln(pieces + 1)) FROM size))
                   AND (s.number OR (s.whole AND s.matched >= least(2, (SELECT count(*) FROM query)))))
            ORDER BY a.id, s.score DESC, s.position
        )
        SELECT article_id, title, text, score, lang, url FROM best ORDER BY score DESC, article_id LIMIT %(limit)s
        """, {"terms": query, "lang": lang, "limit": limit, "label": KEYWORDS_LABEL})
    return [Hit(**{**row, "score": float(row["score"])}) for row in rows]
