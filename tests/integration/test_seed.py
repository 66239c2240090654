"""Demo data: the same every time, all or nothing, and never over somebody's own data."""

from __future__ import annotations

import pytest
from fixtures.postgres import PostgresServer
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver

from supportpilot.db.articles import Article, upsert_article
from supportpilot.db.pool import Connection, Row, connect
from supportpilot.db.seed import CHECKPOINT_TABLES, is_empty, seed
from supportpilot.errors import Misconfigured, Refused, Unavailable
from supportpilot.memory import checkpoint

pytestmark = pytest.mark.integration

TABLES = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ('biz', 'kb', 'desk') ORDER BY 1, 2"
NEW_TICKET = "INSERT INTO biz.tickets (contact, channel) VALUES ('new@example.com', 'generic') RETURNING id"
FOREIGN_CUSTOMER = "INSERT INTO biz.customers (id, email, name) VALUES ('C9999', 'real@example.org', 'Real')"


def one(conn: Connection, statement: str) -> Row:
    row = conn.execute(statement).fetchone()
    assert row is not None
    return row


def everything(conn: Connection) -> dict[str, list[str]]:
    """Every row of every table but the marker, which tells when it was seeded."""
    names = [f'{row["schemaname"]}.{row["tablename"]}' for row in conn.execute(TABLES)]
    return {
        name: sorted(str(row["r"]) for row in conn.execute(f"SELECT (to_jsonb(t) - 'link_key')::text AS r FROM {name} t"))
        for name in names if name != "desk.demo_data"
    }


def remember(url: str, thread_id: str) -> None:
    with PostgresSaver.from_conn_string(url) as saver:
        config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        saver.put(config, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {})


def remembered(url: str, thread_id: str) -> bool:
    with PostgresSaver.from_conn_string(url) as saver:
        return saver.get_tuple({"configurable": {"thread_id": thread_id}}) is not None


def test_there_are_152_tickets_and_the_next_one_is_t000153(seeded_conn: Connection) -> None:
    ends = one(seeded_conn, "SELECT count(*) AS n, min(id) AS first, max(id) AS last FROM biz.tickets")
    assert (ends["n"], ends["first"], ends["last"]) == (152, "T000001", "T000152")
    assert one(seeded_conn, NEW_TICKET)["id"] == "T000153"


def test_every_ticket_has_its_lease_row_and_a_customer(seeded_conn: Connection) -> None:
    assert one(seeded_conn, "SELECT count(*) AS n FROM biz.tickets t JOIN desk.leases l ON l.ticket_id = t.id "
                            "JOIN biz.customers c ON c.id = t.customer_id AND c.email = t.contact")["n"] == 152


def test_nothing_of_the_demo_data_waits_for_a_worker(seeded_conn: Connection) -> None:
    for table in ("desk.inbox", "desk.turns", "desk.outbox", "desk.approvals"):
        assert one(seeded_conn, f"SELECT count(*) AS n FROM {table}")["n"] == 0


def test_wu_gang_has_three_resolved_e3001_tickets_and_a_wish(seeded_conn: Connection) -> None:
    rows = seeded_conn.execute(
        "SELECT created_at, status, error_code, wish FROM biz.tickets WHERE customer_id = 'C0010' ORDER BY id").fetchall()
    assert [(row["created_at"].month, row["status"], row["error_code"]) for row in rows] == [
        (4, "resolved", "E3001"), (7, "resolved", "E3001"), (9, "resolved", "E3001")]
    assert [bool(row["wish"]) for row in rows] == [False, False, True]
    assert "提醒" in rows[-1]["wish"]


def test_wu_gang_is_a_vip_on_the_yearly_plan_whose_authorisation_has_ended(seeded_conn: Connection) -> None:
    row = one(seeded_conn, """
        SELECT c.email, c.is_vip, s.plan, s.billing_cycle, b.bank, b.status, b.authorised_at::text, b.expires_at::text
        FROM biz.customers c JOIN biz.subscriptions s ON s.customer_id = c.id
        JOIN biz.bank_connections b ON b.customer_id = c.id WHERE c.id = 'C0010'""")
    assert tuple(row.values()) == ("wugang@example.com", True, "专业版", "yearly", "招商银行", "expired",
                                   "2026-09-01", "2026-11-30")


def test_lin_yue_has_paid_one_month_twice(seeded_conn: Connection) -> None:
    row = one(seeded_conn, """
        SELECT count(*) AS n FROM biz.invoices i JOIN biz.customers c ON c.id = i.customer_id
        WHERE c.email = 'linyue@example.com' AND i.issued_at = '2026-11-12' AND i.status = 'paid' AND i.amount = 299""")
    assert row["n"] == 2


def test_two_databases_get_exactly_the_same_data(seeded_conn: Connection, database_url: str) -> None:
    seed(database_url)
    with connect(database_url) as other:
        assert everything(other) == everything(seeded_conn)


def test_seeding_again_takes_back_whatever_happened_since(seeded_url: str, seeded_conn: Connection) -> None:
    before = everything(seeded_conn)
    ticket_id = one(seeded_conn, NEW_TICKET)["id"]
    seeded_conn.execute(
        "INSERT INTO desk.inbox (ticket_id, seq, channel, external_id, author, body, due_at) "
        "VALUES (%s, 1, 'generic', 'x', 'customer', '你好', now())", (ticket_id,))
    seeded_conn.execute(
        "INSERT INTO desk.outbox (ticket_id, idempotency_key, kind, body) VALUES (%s, 'k', 'reply', '您好')", (ticket_id,))
    seeded_conn.execute("INSERT INTO desk.audit (actor, action) VALUES ('li', 'looked')")
    seeded_conn.execute(FOREIGN_CUSTOMER)
    seed(seeded_url)
    assert everything(seeded_conn) == before
    assert one(seeded_conn, NEW_TICKET)["id"] == "T000153"
    message = one(seeded_conn, "INSERT INTO desk.inbox (ticket_id, seq, channel, external_id, author, body, due_at) "
                               "VALUES ('T000153', 1, 'generic', 'x', 'customer', '你好', now()) RETURNING id")
    assert message["id"] == "M000001"


def test_a_new_ticket_does_not_inherit_the_conversation_of_the_last_one_with_its_number(seeded_url: str) -> None:
    remember(seeded_url, "T000153")
    assert seed(seeded_url).checkpoints_cleared == 1
    assert not remembered(seeded_url, "T000153")


def test_the_seed_and_the_memory_mean_the_same_checkpoint_tables() -> None:
    assert set(CHECKPOINT_TABLES) == set(checkpoint.CHECKPOINT_TABLES)


@pytest.mark.parametrize("statement", [FOREIGN_CUSTOMER, NEW_TICKET])
def test_a_database_with_data_of_its_own_is_left_as_it_is(
    database_url: str, conn: Connection, statement: str,
) -> None:
    conn.execute(statement)
    remember(database_url, "T000001")
    before = everything(conn)
    with pytest.raises(Refused) as caught:
        seed(database_url)
    assert "\n" not in str(caught.value)
    assert everything(conn) == before
    assert remembered(database_url, "T000001")


def test_a_knowledge_base_of_ones_own_is_data_too(database_url: str, conn: Connection) -> None:
    upsert_article(conn, Article("KB-own-001", "自己的文章", "内容"))
    with pytest.raises(Refused):
        seed(database_url)


def test_a_database_is_empty_until_it_is_seeded(database_url: str, conn: Connection) -> None:
    assert is_empty(conn)
    seed(database_url)
    assert not is_empty(conn)


def test_a_seed_that_cannot_finish_changes_nothing(seeded_url: str, seeded_conn: Connection) -> None:
    ticket_id = one(seeded_conn, NEW_TICKET)["id"]
    remember(seeded_url, ticket_id)
    # Somebody's open transaction on the table that is emptied last.
    with connect(seeded_url) as other, other.transaction():
        other.execute("SELECT 1 FROM desk.audit")
        with pytest.raises(Unavailable):
            seed(seeded_url)
    assert one(seeded_conn, "SELECT max(id) AS last FROM biz.tickets")["last"] == ticket_id
    assert remembered(seeded_url, ticket_id)
    assert one(seeded_conn, NEW_TICKET)["id"] == "T000154"


def test_a_database_without_tables_says_what_to_run(postgres_server: PostgresServer) -> None:
    with postgres_server.clone("template0") as url, pytest.raises(Misconfigured, match="supportpilot migrate"):
        seed(url)
