"""`kb.embeddings`: vectors of the articles' pieces, kept by pgvector.

The table is made when somebody wants embeddings, not by a migration: a server without pgvector stays usable.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg import sql

from supportpilot.db.pool import Connection
from supportpilot.errors import Misconfigured
from supportpilot.types import Hit

# Advisory locks of this family; the numbers mean nothing.
TABLE_LOCK = 4_815_162_343
EMBED_LOCK = 4_815_162_344

OTHER_LANGUAGE = 0.5    # what a piece in another language counts, as in the search by words

# What is embedded: a piece says little without its article's title.
_TEXT = sql.SQL("concat_ws(E'\\n', a.title, nullif(a.keywords, ''), c.text)")
_HASH = sql.SQL("md5(concat_ws(E'\\n', a.title, nullif(a.keywords, ''), c.text))")


@dataclass(frozen=True)
class Piece:
    """A piece of an article as it is to be embedded; `content_hash` says which wording it was."""

    article_id: str
    position: int
    text: str
    content_hash: str


def check_extension(conn: Connection) -> None:
    """Find out whether this server can keep embeddings; changes nothing.

    Raises:
        Misconfigured: pgvector is not installed on the server.
    """
    row = conn.execute(
        "SELECT to_regtype('vector') IS NOT NULL"
        " OR EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector') AS there").fetchone()
    if not (row and row["there"]):
        raise _missing("this Postgres server does not have it")


def ensure_table(conn: Connection) -> None:
    """Make the extension and the table where they are missing; safe when several do it at once, in a transaction.

    Raises:
        Misconfigured: pgvector is not installed on the server, or this role may not create it.
    """
    if has_table(conn):
        return
    check_extension(conn)
    conn.execute("SELECT pg_advisory_xact_lock(%s)", (TABLE_LOCK,))
    try:
        with conn.transaction():
            conn.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile) as error:
        raise _missing(str(error).strip().splitlines()[0]) from error
    # No index: `vector` without a length takes any model, and some thousand pieces are compared in milliseconds.
    conn.execute(
        """
        CREATE TABLE IF NOT EXISTS kb.embeddings (
            article_id   text NOT NULL REFERENCES kb.articles ON DELETE CASCADE,
            position     integer NOT NULL,
            model        text NOT NULL,
            dims         integer NOT NULL,
            content_hash text NOT NULL,
            embedding    vector NOT NULL,
            PRIMARY KEY (model, article_id, position)
        )
        """)


def has_table(conn: Connection) -> bool:
    """Tell whether the table has been made."""
    row = conn.execute("SELECT to_regclass('kb.embeddings') IS NOT NULL AS there").fetchone()
    return bool(row and row["there"])


def has_model(conn: Connection, model: str) -> bool:
    """Tell whether anything is embedded with this model; the table has to be there."""
    row = conn.execute("SELECT EXISTS (SELECT 1 FROM kb.embeddings WHERE model = %s) AS any", (model,)).fetchone()
    return bool(row and row["any"])


def coverage(conn: Connection, model: str) -> tuple[int, int]:
    """Return how many pieces are embedded with this model as they are worded now, and how many there are."""
    row = conn.execute(
        sql.SQL(
            """
            SELECT count(e.model) AS done, count(*) AS pieces
            FROM kb.chunks c JOIN kb.articles a ON a.id = c.article_id
            LEFT JOIN kb.embeddings e ON e.model = %s AND e.article_id = c.article_id AND e.position = c.position
                                     AND e.content_hash = {hash}
            """).format(hash=_HASH), (model,)).fetchone()
    return (row["done"], row["pieces"]) if row else (0, 0)


def pending(conn: Connection, model: str, limit: int, after: tuple[str, int] = ("", -1)) -> list[Piece]:
    """Return pieces beyond `after` that are not embedded with this model as they are worded now, in their order."""
    rows = conn.execute(
        sql.SQL(
            """
            SELECT c.article_id, c.position, {text} AS text, {hash} AS content_hash
            FROM kb.chunks c JOIN kb.articles a ON a.id = c.article_id
            WHERE (c.article_id, c.position) > (%(article)s, %(position)s)
              AND NOT EXISTS (SELECT 1 FROM kb.embeddings e
                              WHERE e.model = %(model)s AND e.article_id = c.article_id AND e.position = c.position
                                AND e.content_hash = {hash})
            ORDER BY c.article_id, c.position LIMIT %(limit)s
            """).format(text=_TEXT, hash=_HASH),
        {"model": model, "limit": limit, "article": after[0], "position": after[1]})
    return [Piece(**row) for row in rows]


def store(conn: Connection, model: str, pieces: list[Piece], vectors: list[list[float]]) -> None:
    """Keep the vectors of some pieces; what stands there already is replaced.

    A vector of another length than these cannot be compared with them, so the model's older ones go and are pending
    again; so does a piece whose wording has changed since it was read, because its hash does not fit.
    """
    dims = len(vectors[0])
    conn.execute("DELETE FROM kb.embeddings WHERE model = %s AND dims <> %s", (model, dims))
    conn.execute(
        """
        INSERT INTO kb.embeddings (article_id, position, model, dims, content_hash, embedding)
        SELECT n.article_id, n.position, %s, %s, n.content_hash, n.embedding::vector
        FROM unnest(%s::text[], %s::int[], %s::text[], %s::text[]) AS n(article_id, position, content_hash, embedding)
        WHERE EXISTS (SELECT 1 FROM kb.articles a WHERE a.id = n.article_id)
        ORDER BY n.article_id, n.position
        ON CONFLICT (model, article_id, position) DO UPDATE
        SET dims = EXCLUDED.dims, content_hash = EXCLUDED.content_hash, embedding = EXCLUDED.embedding
        """, (model, dims, [p.article_id for p in pieces], [p.position for p in pieces],
              [p.content_hash for p in pieces], [_literal(vector) for vector in vectors]))


def clear_others(conn: Connection, model: str) -> int:
    """Delete vectors of other models and of pieces that are no more; return how many."""
    return conn.execute(
        """
        DELETE FROM kb.embeddings e
        WHERE e.model <> %s OR NOT EXISTS (SELECT 1 FROM kb.chunks c
                                           WHERE c.article_id = e.article_id AND c.position = e.position)
        """, (model,)).rowcount


def nearest(conn: Connection, model: str, vector: list[float], lang: str, limit: int, least: float) -> list[Hit]:
    """Return the nearest piece of each of the `limit` nearest articles, nearest first.

    Only pieces embedded with `model` as they are worded now, with a cosine similarity of at least `least`. Pieces in
    another language than `lang` count half.
    """
    rows = conn.execute(
        sql.SQL(
            """
            WITH near AS MATERIALIZED (
                SELECT article_id, position, content_hash, embedding FROM kb.embeddings
                WHERE model = %(model)s AND dims = %(dims)s
            ), best AS (
                SELECT DISTINCT ON (a.id) a.id AS article_id, a.title, c.text, a.lang, a.url,
                       (1 - d.distance) * CASE WHEN a.lang = %(lang)s THEN 1 ELSE %(other)s END AS score
                FROM near n
                CROSS JOIN LATERAL (SELECT n.embedding <=> %(vector)s::vector AS distance) d
                JOIN kb.chunks c ON c.article_id = n.article_id AND c.position = n.position
                JOIN kb.articles a ON a.id = n.article_id
                WHERE n.content_hash = {hash} AND d.distance <= 1 - %(least)s::float8
                ORDER BY a.id, d.distance, c.position
            )
            SELECT article_id, title, text, score, lang, url FROM best ORDER BY score DESC, article_id LIMIT %(limit)s
            """).format(hash=_HASH),
        {"model": model, "dims": len(vector), "lang": lang, "other": OTHER_LANGUAGE, "vector": _literal(vector),
         "least": least, "limit": limit})
    return [Hit(**{**row, "score": float(row["score"])}) for row in rows]


def try_embedding(conn: Connection) -> bool:
    """Take the lock of those who embed, for as long as the connection stands; False if somebody has it."""
    row = conn.execute("SELECT pg_try_advisory_lock(%s) AS got", (EMBED_LOCK,)).fetchone()
    return bool(row and row["got"])


def end_embedding(conn: Connection) -> None:
    """Give the lock back."""
    conn.execute("SELECT pg_advisory_unlock(%s)", (EMBED_LOCK,))


def _literal(vector: list[float]) -> str:
    return "[" + ",".join(map(repr, vector)) + "]"


def _missing(why: str) -> Misconfigured:
    return Misconfigured(f"EMBEDDING_MODEL needs the Postgres extension pgvector: {why}; install it, or unset EMBEDDING_MODEL")
