"""The second leg of the search: pgvector for real, embeddings from the offline model over HTTP."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fixtures.llm import OfflineLLM
from fixtures.worker import Workers, wait_for

from producer.cli.main import run
from supportpilot.config import Settings, get_settings
from supportpilot.db import embeddings
from supportpilot.db.articles import Article
from supportpilot.db.pool import Connection, Database, connect
from supportpilot.db.seed import seed
from supportpilot.errors import Misconfigured, Permanent, Unavailable
from supportpilot.kb import embedding as background
from supportpilot.kb.importer import import_articles
from supportpilot.kb.retriever import HybridRetriever
from supportpilot.service import knowledge
from supportpilot.types import TurnScope, turn_scope
from worker.publish import send_now

pytestmark = pytest.mark.integration

MODEL, OTHER_MODEL = "offline-rules", "offline-rules-small"
# Written in a way that shares no whole word and no unbroken pair of characters with the article.
SPACED = "发 票 抬 头 写 错 了"
JOINED = "resetpassword"


@pytest.fixture
def settings(offline_llm: OfflineLLM) -> Settings:
    return offline_llm.settings(embedding_model=MODEL, llm_max_retries=0)


@pytest.fixture
def embedded(seeded_db: Database, settings: Settings) -> Database:
    """The demo's help centre, embedded."""
    assert knowledge.embed(seeded_db, settings).startswith(f"{MODEL}: embedded ")
    return seeded_db


@pytest.fixture
def open_retriever(seeded_db: Database) -> Iterator[Callable[[Settings], HybridRetriever]]:
    """Build retrievers over the demo's help centre; they are closed at the end."""
    with ExitStack() as stack:
        yield lambda settings: stack.enter_context(closing(HybridRetriever(seeded_db, settings)))


@pytest.fixture
def retriever(embedded: Database, settings: Settings, open_retriever: Any) -> HybridRetriever:
    return open_retriever(settings)


@pytest.fixture
def without_pgvector(database_url: str) -> str:
    """A database that looks like one on a server where pgvector is not installed."""
    with connect(database_url) as conn:
        name = conn.info.dbname
        conn.execute("CREATE SCHEMA hidden")
        conn.execute("CREATE VIEW hidden.pg_available_extensions AS SELECT 'none'::name AS name")
        conn.execute(f"ALTER DATABASE {name} SET search_path = hidden, pg_catalog, public")  # type: ignore[call-overload]
    return database_url


def ids(retriever: HybridRetriever, query: str, k: int = 5) -> list[str]:
    return [hit.article_id for hit in retriever.search(query, k)]


def rows(db: Database, statement: str) -> list[dict[str, Any]]:
    with db.connection() as conn:
        return conn.execute(statement).fetchall()  # type: ignore[call-overload]


def one(db: Database, statement: str) -> Any:
    return next(iter(rows(db, statement)[0].values()))


# search

@pytest.mark.parametrize(("question", "article_id"), [(SPACED, "KB-invoice-002"), (JOINED, "KB-account-101")])
def test_the_second_leg_finds_what_the_words_alone_miss(retriever, embedded, question, article_id):
    assert HybridRetriever(embedded).search(question) == []
    assert ids(retriever, question)[0] == article_id


def test_an_article_that_both_legs_find_stays_first_and_each_comes_once(retriever):
    found = ids(retriever, "发票抬头写错了")
    assert found[0] == "KB-invoice-002"
    assert len(found) == len(set(found)) <= 5


@pytest.mark.parametrize("question", ["今天天气怎么样", "给我讲个笑话", "谢谢", "", " ", "👍"])
def test_a_question_that_no_article_answers_has_no_hit_in_either_leg(retriever, question):
    assert retriever.search(question) == []


def test_similarity_below_the_setting_is_no_hit(embedded, settings, open_retriever):
    assert open_retriever(settings.model_copy(update={"embedding_min_similarity": 0.95})).search(SPACED) == []


def test_a_very_long_question_is_searched_too(retriever):
    assert "KB-bank-001" in ids(retriever, "E3001 银行流水同步失败 " * 5_000)


def test_unset_the_search_is_one_statement_and_asks_no_model(embedded, offline_llm):
    offline_llm.reset()
    with embedded.connection() as conn:
        counting = Counting(conn)
        HybridRetriever(counting, offline_llm.settings()).search("发票抬头写错了")
    assert len(counting.statements) == 1
    assert offline_llm.requests() == []


class Counting:
    """A connection that remembers what it was asked."""

    def __init__(self, conn: Connection) -> None:
        self._conn, self.statements = conn, []

    def execute(self, statement: Any, *values: Any) -> Any:
        self.statements.append(statement)
        return self._conn.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conn, name)


def test_a_question_s_embedding_is_charged_to_the_turn_that_asked(retriever, embedded):
    with turn_scope(TurnScope("T000001", "turn-1", "retrieve")) as scope:
        retriever.search("发票抬头写错了")
    [call] = rows(embedded, "SELECT * FROM desk.llm_calls WHERE node = 'retrieve'")
    assert (call["ticket_id"], call["turn_id"], call["model"]) == ("T000001", "turn-1", MODEL)
    assert call["tokens_in"] > 0
    assert scope.spent == [call["cost_cny"]]


# trouble

def test_while_the_provider_is_away_words_alone_find_and_a_line_says_so(embedded, settings, caplog, open_retriever):
    retriever = open_retriever(settings.model_copy(update={"openai_base_url": "http://127.0.0.1:1/v1"}))
    with caplog.at_level(logging.WARNING, "supportpilot.kb.retriever"):
        assert ids(retriever, "发票抬头写错了") == ids(HybridRetriever(embedded), "发票抬头写错了")
        assert retriever.search(SPACED) == []
    assert len(caplog.records) == 1    # the second search did not ask again
    assert "searching by words alone" in caplog.text


@pytest.mark.parametrize("error", ["429", "500"])
def test_a_provider_in_trouble_is_asked_again_after_a_pause(embedded, settings, offline_llm, monkeypatch, error, open_retriever):
    monkeypatch.setattr("supportpilot.kb.retriever.PAUSE_SECONDS", 0.0)
    retriever = open_retriever(settings)
    offline_llm.control(error=error, task="embed")
    assert retriever.search(SPACED) == []
    assert ids(retriever, SPACED)[0] == "KB-invoice-002"


def test_a_provider_that_hangs_costs_the_customer_seconds_at_most(embedded, settings, offline_llm, monkeypatch, open_retriever):
    monkeypatch.setattr("supportpilot.kb.retriever.QUERY_SECONDS", 0.3)
    retriever = open_retriever(settings)
    offline_llm.control(error="timeout", task="embed")
    assert ids(retriever, "发票抬头写错了")[0] == "KB-invoice-002"


def test_before_anything_is_embedded_the_search_is_by_words_and_the_question_is_not_paid_for(seeded_db, settings, offline_llm, caplog, open_retriever):
    retriever = open_retriever(settings)
    with caplog.at_level(logging.WARNING, "supportpilot.kb.retriever"):
        for _ in range(3):
            assert ids(retriever, "发票抬头写错了")[0] == "KB-invoice-002"
    assert len(caplog.records) == 1
    assert offline_llm.requests() == []


def test_a_server_without_pgvector_is_one_line_and_words_alone_go_on(without_pgvector, settings, caplog):
    with Database(without_pgvector) as db:
        with db.transaction() as conn:
            import_articles(conn, [Article("KB-a-001", "盘点流程", "先清点,再登记。")])
        with caplog.at_level(logging.WARNING):
            assert knowledge.embed(db, settings) == ""
        assert "pgvector" in caplog.records[0].getMessage()
        assert ids(HybridRetriever(db, settings), "盘点流程") == ["KB-a-001"]


def test_doctor_and_import_say_that_pgvector_is_missing(without_pgvector, settings, monkeypatch, capsys, tmp_path):
    (tmp_path / "a.md").write_text("---\nid: KB-a-001\ntitle: t\n---\ntext", encoding="utf-8")
    use(monkeypatch, without_pgvector, settings)
    assert run(["kb", "import", str(tmp_path)]) == 2
    assert [text.count("pgvector") for text in capsys.readouterr().err.splitlines()] == [1]
    run(["doctor"])
    [shown] = [text for text in capsys.readouterr().out.splitlines() if "embeddings" in text]
    assert shown.startswith("FAIL")
    assert "pgvector" in shown


def test_a_role_that_may_not_create_the_extension_is_told_so(conn):
    conn.execute("CREATE ROLE embeddings_plain")
    conn.execute("GRANT USAGE ON SCHEMA kb TO embeddings_plain")
    conn.execute("SET ROLE embeddings_plain")
    try:
        with pytest.raises(Misconfigured, match=r"pgvector: permission denied.*; install it, or unset EMBEDDING_MODEL"), conn.transaction():
            embeddings.ensure_table(conn)
    finally:
        conn.execute("RESET ROLE")
        conn.execute("DROP OWNED BY embeddings_plain")
        conn.execute("DROP ROLE embeddings_plain")


# the background

def use(monkeypatch: pytest.MonkeyPatch, url: str, settings: Settings) -> None:
    for name, value in {"DATABASE_URL": url, "EMBEDDING_MODEL": MODEL, "OPENAI_BASE_URL": settings.openai_base_url}.items():
        monkeypatch.setenv(name, str(value))
    get_settings.cache_clear()


def embed_requests(offline_llm: OfflineLLM) -> int:
    return len(offline_llm.requests("embed"))


def test_everything_is_embedded_once_in_batches_and_paid_for_as_kb_embed(embedded, settings, offline_llm):
    pieces = one(embedded, "SELECT count(*) FROM kb.chunks")
    assert one(embedded, "SELECT count(*) FROM kb.embeddings WHERE dims = 256") == pieces
    asked = embed_requests(offline_llm)
    assert asked == -(-pieces // 10)
    assert knowledge.embed(embedded, settings) == ""
    assert embed_requests(offline_llm) == asked
    calls = rows(embedded, "SELECT node, model, ticket_id, cost_cny FROM desk.llm_calls")
    assert len(calls) == asked
    assert {(c["node"], c["model"], c["ticket_id"]) for c in calls} == {("kb.embed", MODEL, None)}
    assert all(c["cost_cny"] > 0 for c in calls)


def test_only_an_article_that_has_changed_is_embedded_again(embedded, settings, retriever, offline_llm):
    offline_llm.reset()
    with embedded.transaction() as conn:
        import_articles(conn, [Article("KB-bank-001", "盘点机器人", "扫码枪连接蓝牙。")])
    assert ids(retriever, "扫 码 枪 连 接 蓝 牙") == []    # its old vector does not stand for its new words
    assert knowledge.embed(embedded, settings) == f"{MODEL}: embedded 1, refused 0, cleared 0"
    [request] = [r for r in offline_llm.requests("embed") if r["input"] != ["扫 码 枪 连 接 蓝 牙"]]
    assert request["input"] == ["盘点机器人\n扫码枪连接蓝牙。"]
    assert ids(retriever, "扫 码 枪 连 接 蓝 牙")[0] == "KB-bank-001"


def test_an_article_imported_again_unchanged_costs_nothing(embedded, settings):
    with embedded.transaction() as conn:
        conn.execute("CREATE TEMP TABLE before AS SELECT * FROM kb.articles")
        import_articles(conn, [Article(**r) for r in
                               conn.execute("SELECT id, title, body, lang, url, keywords FROM before").fetchall()])
    assert knowledge.embed(embedded, settings) == ""


def test_a_new_model_embeds_all_again_and_meanwhile_only_its_own_vectors_count(embedded, settings, offline_llm, open_retriever):
    changed = settings.model_copy(update={"embedding_model": OTHER_MODEL})
    retriever = open_retriever(changed)
    assert retriever.search(SPACED) == []                    # nothing of the new model yet
    knowledge.embed(embedded, changed)
    assert ids(retriever, SPACED)[0] == "KB-invoice-002"
    assert one(embedded, "SELECT array_agg(DISTINCT model) FROM kb.embeddings") == [OTHER_MODEL]

    with embedded.transaction() as conn:
        conn.execute("DELETE FROM kb.embeddings WHERE article_id = 'KB-invoice-002'")
    assert "KB-invoice-002" not in ids(retriever, SPACED)    # half done: what is there is used
    assert ids(retriever, JOINED)[0] == "KB-account-101"
    assert knowledge.embed(embedded, changed).startswith(f"{OTHER_MODEL}: embedded ")
    assert ids(retriever, SPACED)[0] == "KB-invoice-002"


def test_a_run_whose_time_is_over_leaves_the_rest_and_the_old_model_to_the_next(embedded, settings, monkeypatch):
    changed = settings.model_copy(update={"embedding_model": OTHER_MODEL})
    clock = iter([0.0, 1.0, 100.0])
    monkeypatch.setattr(background.time, "monotonic", lambda: next(clock, 100.0))
    assert knowledge.embed(embedded, changed) == f"{OTHER_MODEL}: embedded 10, refused 0, cleared 0, more to come"
    monkeypatch.undo()
    assert one(embedded, "SELECT count(DISTINCT model) FROM kb.embeddings") == 2
    knowledge.embed(embedded, changed)
    assert one(embedded, "SELECT array_agg(DISTINCT model) FROM kb.embeddings") == [OTHER_MODEL]


def at_once(db: Database, settings: Settings) -> list[str]:
    """Run twice at the same time; return what both say, an error by its name."""
    said: list[str] = []
    start = threading.Barrier(2)

    def work() -> None:
        start.wait()
        try:
            said.append(knowledge.embed(db, settings))
        except Exception as error:  # noqa: BLE001 -- shown by the assertion
            said.append(repr(error))

    with ThreadPoolExecutor(2) as both:
        both.submit(work)
        both.submit(work)
    return sorted(said)


def test_of_two_runs_at_once_one_embeds_and_the_other_leaves(seeded_db, settings, offline_llm):
    offline_llm.control(latency_ms=150, task="embed", times=None)
    pieces = one(seeded_db, "SELECT count(*) FROM kb.chunks")
    assert at_once(seeded_db, settings) == ["", f"{MODEL}: embedded {pieces}, refused 0, cleared 0"]
    assert embed_requests(offline_llm) == -(-pieces // 10)
    assert one(seeded_db, "SELECT count(*) FROM kb.embeddings") == pieces
    assert one(seeded_db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


def test_two_runs_that_both_go_through_leave_the_same(seeded_db, settings, monkeypatch):
    """As after a run that lost its connection, and its lock with it, while the provider was thinking."""
    monkeypatch.setattr(embeddings, "try_embedding", lambda _conn: True)
    monkeypatch.setattr(embeddings, "end_embedding", lambda _conn: None)
    assert all(text == "" or text.startswith(f"{MODEL}: embedded ") for text in at_once(seeded_db, settings))
    assert one(seeded_db, "SELECT count(*) FROM kb.embeddings") == one(seeded_db, "SELECT count(*) FROM kb.chunks")


def test_a_run_that_fails_keeps_what_it_has_and_the_next_goes_on(seeded_db, settings, offline_llm):
    with seeded_db.transaction() as conn:
        embeddings.ensure_table(conn)
        first = embeddings.pending(conn, MODEL, 10)
        embeddings.store(conn, MODEL, first, [[1.0] + [0.0] * 255 for _ in first])
    with pytest.raises(Unavailable):
        knowledge.embed(seeded_db, settings.model_copy(update={"openai_base_url": "http://127.0.0.1:1/v1"}))
    assert one(seeded_db, "SELECT count(*) FROM kb.embeddings") == 10
    knowledge.embed(seeded_db, settings)
    assert embed_requests(offline_llm) == -(-(one(seeded_db, "SELECT count(*) FROM kb.chunks") - 10) // 10)


def test_vectors_of_another_length_under_the_same_name_are_made_anew(embedded, settings, retriever):
    with embedded.transaction() as conn:
        conn.execute("UPDATE kb.embeddings SET dims = 2, embedding = '[1,0]'")
        conn.execute("DELETE FROM kb.embeddings WHERE article_id = 'KB-bank-001'")
    assert ids(retriever, "发票抬头写错了")[0] == "KB-invoice-002"
    knowledge.embed(embedded, settings)
    knowledge.embed(embedded, settings)
    assert one(embedded, "SELECT array_agg(DISTINCT dims) FROM kb.embeddings") == [256]
    assert ids(retriever, SPACED)[0] == "KB-invoice-002"


@dataclass
class Refusing:
    """A client whose provider refuses some texts."""

    bad: str
    model: str = MODEL

    def embed(self, texts: list[str]) -> list[list[float]]:
        if any(self.bad in text for text in texts):
            raise Permanent("the model provider rejects the request (400)")
        return [[1.0, 0.0] for _ in texts]


def test_one_text_that_the_provider_refuses_holds_no_other_up(db, caplog):
    with db.transaction() as conn:
        embeddings.ensure_table(conn)
        import_articles(conn, [Article(f"KB-a-{n:03}", f"title {n}", "poison" if n == 3 else "text") for n in range(15)])
    with caplog.at_level(logging.WARNING):
        report = background._run(db, Refusing("poison"))  # type: ignore[arg-type]
    assert (report.embedded, report.refused, report.complete) == (14, 1, True)
    assert "KB-a-003" in caplog.text
    with pytest.raises(Permanent):
        background._run(db, Refusing("title"))  # type: ignore[arg-type]


def test_an_article_that_is_deleted_takes_its_vectors_along_and_seed_starts_empty(embedded, settings):
    with embedded.transaction() as conn:
        conn.execute("DELETE FROM kb.articles WHERE id = 'KB-bank-001'")
    assert one(embedded, "SELECT count(*) FROM kb.embeddings WHERE article_id = 'KB-bank-001'") == 0
    seed(embedded.url)
    assert one(embedded, "SELECT count(*) FROM kb.embeddings") == 0


def test_import_wakes_the_background_and_doctor_counts(database_url, settings, monkeypatch, capsys, tmp_path: Path):
    (tmp_path / "a.md").write_text("---\nid: KB-a-001\ntitle: t\n---\ntext", encoding="utf-8")
    use(monkeypatch, database_url, settings)
    asked: list[str] = []
    monkeypatch.setattr("worker.publish._send", lambda _app, wakeup: asked.append(wakeup.name))
    monkeypatch.setenv("BROKER_URL", "memory://")
    get_settings.cache_clear()
    assert run(["kb", "import", str(tmp_path)]) == 0
    assert asked == ["kb.embed"]
    with Database(database_url) as db:
        knowledge.embed(db, settings)
    capsys.readouterr()
    run(["doctor"])
    assert f"ok    embeddings  {MODEL}: 1 of 1 pieces" in capsys.readouterr().out


def test_the_task_runs_in_the_background_worker(workers: Workers, stack_settings: Settings, seeded_db: Database):
    workers.environment["EMBEDDING_MODEL"] = MODEL
    workers.start("background", ("worker", "-P", "threads", "-c", "2", "-Q", "background"))
    send_now(stack_settings, "kb.embed")
    wait_for(lambda: f"{MODEL}: embedded " in workers.text("background"), 60, "the embeddings")
    assert one(seeded_db, "SELECT count(*) FROM kb.embeddings") == one(seeded_db, "SELECT count(*) FROM kb.chunks")
