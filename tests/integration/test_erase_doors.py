"""Erasure by its doors: the command line, webhooks sent again, and real worker processes with their broker and logs."""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fixtures.canary import ADDRESS, CANARY, CUSTOMER, canary_office, pg_dump, plant, tables_with, write
from fixtures.llm import OfflineLLM
from fixtures.redis import RedisServer
from fixtures.worker import Workers, wait_for
from starlette.testclient import TestClient

from producer.cli.main import run
from producer.signatures import sign
from producer.web.app import create_app
from supportpilot.config import Settings, get_settings, load_settings
from supportpilot.db.pool import Database
from supportpilot.db.seed import seed
from supportpilot.memory import erase
from supportpilot.service import customer, intake
from supportpilot.types import InboundMessage, Ports
from worker.publish import Publisher, send_now

pytestmark = pytest.mark.integration

SECRET = "whsec_" + base64.b64encode(b"a secret of the tests' own").decode()
NOW = datetime(2026, 12, 2, 6, 0, tzinfo=UTC)
WU_GANG, WU_GANGS_ADDRESS = "C0010", "wugang@example.com"
NOT_SNAPSHOTS = {rule.table for rule in erase.DELETED if rule.exported} | set(erase.KEPT)
BACKGROUND = ("worker", "-P", "threads", "-E", "-c", "2", "-Q", "background")

Shell = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Shell]:
    """Return a command line on the database of a URL: (exit code, stdout, stderr)."""
    def on(url: str) -> Shell:
        monkeypatch.setenv("DATABASE_URL", url)
        get_settings.cache_clear()

        def command(*arguments: str) -> tuple[int, str, str]:
            capsys.readouterr()
            code = run(arguments)
            return code, *capsys.readouterr()
        return command
    return on


# command line ---------------------------------------------------------------------------------------

def test_without_yes_the_command_says_what_would_go_and_exits_2(db, shell):
    plant(canary_office(db))
    before = pg_dump(db.url)
    code, out, error = shell(db.url)("customer", "erase", CUSTOMER)
    assert code == 2
    assert "biz.tickets 3" in out
    assert "kept without the person: biz.invoices 1, biz.refunds 1, desk.audit" in out
    assert "1 refund(s) wait for a decision or for payment" in out
    assert error == f"nothing was erased; to do it: supportpilot customer erase {CUSTOMER} --yes\n"
    assert CANARY not in out + error
    assert tables_with(pg_dump(db.url)) == tables_with(before)


def test_the_command_erases_prints_the_receipt_and_prints_it_again(db, shell):
    plant(canary_office(db))
    command = shell(db.url)
    code, out, error = command("customer", "erase", f" {ADDRESS.upper()} ", "--yes", "--by", "小王")
    assert (code, error) == (0, "")
    assert out.startswith("receipt   E000001\nasked by  小王, 20")
    assert re.search(r"^ +3  biz\.tickets$", out, re.MULTILINE)
    assert CANARY not in out
    assert command("customer", "erase", CUSTOMER, "--yes") == (0, out, "")
    assert tables_with(pg_dump(db.url)) == set()
    code, shown, _ = command("customer", "erase", CUSTOMER)
    assert (code, shown) == (2, "nothing is held; erased before, receipt E000001\n")
    receipt = json.loads(command("customer", "erase", CUSTOMER, "--yes", "--json")[1])
    assert (receipt["id"], receipt["customer_id"], receipt["contact"]) == ("E000001", None, None)


def test_an_erased_ticket_is_one_line_and_exit_3_by_every_command(db, shell):
    office = canary_office(db)
    gone = plant(office)["answered"]
    customer.erase(db, CUSTOMER, "小王")
    command = shell(db.url)
    for words in (["ticket", "show", gone], ["ticket", "history", gone], ["ticket", "release", gone], ["chat", "--ticket", gone],
                  ["commitments", "--ticket", gone], ["checkpoints", "prune", "--ticket", gone],
                  ["ticket", "reply", gone, "--body", "x", "--by", "y"], ["send", "--email", ADDRESS, "--body", "x", "--ticket", gone]):
        code, out, error = command(*words)
        assert (code, out) == (3, ""), words
        assert re.fullmatch(rf"{gone} was erased on 20\d\d-\d\d-\d\d: its customer asked for it, and nothing of it is kept\n", error)


def test_send_with_the_id_of_an_erased_message_is_refused(db, shell):
    command = shell(db.url)
    assert command("send", "--email", ADDRESS, "--body", CANARY, "--message-id", "m1")[0] == 0
    assert command("customer", "erase", ADDRESS, "--yes")[0] == 0
    code, out, error = command("send", "--email", ADDRESS, "--body", CANARY, "--message-id", "m1")
    assert (code, out) == (3, "")
    assert error == "a message with this id was erased at its sender's request; nothing was stored\n"
    assert tables_with(pg_dump(db.url)) == set()


@pytest.mark.parametrize("verb", ["erase", "export"])
def test_a_customer_that_nobody_knows_is_refused_and_nonsense_is_wrong_usage(verb, db, shell):
    command = shell(db.url)
    yes = ["--yes"] if verb == "erase" else []
    assert command("customer", verb, "C9999", *yes) == (3, "", "nothing is held of C9999\n")
    assert command("customer", verb, "nobody@example.com") == (3, "", "nothing is held of nobody@example.com\n")
    assert command("customer", verb, " ", *yes)[0] == 2
    assert command("customer", verb, "a\nb", *yes)[0] == 2
    with db.connection() as conn:
        assert conn.execute("SELECT 1 FROM desk.erasures").fetchone() is None


def test_the_export_goes_to_stdout_or_into_a_file_that_only_its_owner_reads(db, shell, tmp_path: Path):
    plant(canary_office(db))
    command = shell(db.url)
    code, out, _ = command("customer", "export", CUSTOMER)
    assert code == 0
    target = tmp_path / "export.json"
    target.touch(0o644)
    assert command("customer", "export", ADDRESS, "--out", str(target))[:2] == (0, "")
    written = json.loads(target.read_text(encoding="utf-8"))
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert written["tables"] == json.loads(out)["tables"]
    assert {row["body"] for row in written["tables"]["desk.inbox"]} == {f"text {CANARY} E3001"}
    code, _, error = command("customer", "export", ADDRESS, "--out", str(tmp_path / "no" / "file"))
    assert (code, error.count("\n")) == (2, 1)


def test_a_customer_of_the_demo_is_erased_and_the_seed_brings_them_back(seeded_url, shell):
    command = shell(seeded_url)
    with Database(seeded_url) as db, db.transaction() as conn:
        conn.execute("INSERT INTO biz.refunds (id, ticket_id, approval_id, invoice_id, amount, status, reason, decided_by) "
                     "SELECT 'RF-theirs', t.id, 'theirs', i.id, 1, 'paid', 'x', 'y' FROM biz.invoices i JOIN biz.tickets t USING (customer_id) "
                     "WHERE customer_id NOT IN (%s, 'C0001') LIMIT 1", (WU_GANG,))
    assert_only_of(seeded_url, json.loads(command("customer", "export", WU_GANG)[1]))
    with Database(seeded_url) as db, db.transaction() as conn:
        conn.execute("DELETE FROM biz.refunds WHERE id = 'RF-theirs'")
    for who in (WU_GANG, "C0001"):
        assert command("customer", "erase", who, "--yes")[0] == 0
    dump = pg_dump(seeded_url)
    assert tables_with(dump, "吴刚") | tables_with(dump, WU_GANGS_ADDRESS) == set()
    assert command("ticket", "list")[0] == 0
    assert command("seed", "--yes")[0] == 0
    code, out, _ = command("customer", "export", WU_GANG)
    assert code == 0
    assert len(json.loads(out)["tables"]["biz.tickets"]) >= 3
    with Database(seeded_url) as db, db.connection() as conn:
        assert conn.execute("SELECT 1 FROM desk.erasures UNION ALL SELECT 1 FROM desk.erased_tickets").fetchone() is None
    assert command("send", "--email", WU_GANGS_ADDRESS, "--body", "E3001")[1].startswith("ticket  T000153\n")
    assert seed(seeded_url).tickets == 152


def assert_only_of(url: str, exported: dict[str, Any]) -> None:
    """No customer's number, address or invoice but 吴刚's, nobody else's ticket, and all that the erasure would find."""
    text = json.dumps(exported, ensure_ascii=False)
    with Database(url) as db, db.connection() as conn:
        others = conn.execute(
            "SELECT id AS word FROM biz.customers WHERE id <> %(me)s UNION SELECT email FROM biz.customers WHERE id <> %(me)s "
            "UNION SELECT number FROM biz.invoices WHERE customer_id <> %(me)s "
            "UNION SELECT id FROM biz.tickets WHERE customer_id IS DISTINCT FROM %(me)s", {"me": WU_GANG}).fetchall()
        seen = customer.preview(db, WU_GANG)
    assert len(others) > 100
    assert [row["word"] for row in others if row["word"] in text] == []
    shown = {table: len(rows) for table, rows in exported["tables"].items()}
    assert {"biz.tickets", "biz.invoices", "biz.bank_connections"} <= set(shown)
    assert shown == {table: n for table, n in (seen.deleted | seen.kept).items() if table in NOT_SNAPSHOTS}


# webhooks -------------------------------------------------------------------------------------------

def test_every_webhook_of_an_erased_customer_sent_again_is_200_and_opens_nothing(db, caplog):
    caplog.set_level(logging.DEBUG)
    app = create_app(load_settings(webhook_secret=SECRET), db, Ports(), clock=lambda: NOW)
    client, stamp = TestClient(app), int(NOW.timestamp())

    def post(delivery: str, body: bytes) -> Any:
        headers = {"webhook-id": delivery, "webhook-timestamp": str(stamp), "webhook-signature": sign(SECRET, delivery, stamp, body)}
        return client.post("/webhooks/generic", content=body, headers=headers)

    message = {"from": {"email": ADDRESS, "name": CANARY}, "subject": CANARY, "body": CANARY}
    sent = [(f"d{i}", json.dumps({**message, "message_id": f"m{i}"}).encode()) for i in range(3)]
    sent += [("d7", json.dumps({**message, "message_id": "m1", "body": f"other {CANARY}"}).encode()),
             ("d8", json.dumps({**message, "message_id": "m8", "body": ""}).encode()), ("d9", f"not JSON {ADDRESS}".encode())]
    assert [post(*one).status_code for one in sent] == [202, 202, 202, 200, 202, 202]
    first = customer.erase(db, ADDRESS, "小王")
    answers = [post(*one) for one in sent]
    assert {(answer.status_code, json.dumps(answer.json())) for answer in answers} == {(200, '{"duplicate": true, "ignored": "erased"}')}
    assert tables_with(pg_dump(db.url)) == set()
    assert customer.erase(db, ADDRESS, "小王") == first
    assert "erasure E000001 done" in caplog.text
    assert CANARY not in caplog.text
    new = post("d10", json.dumps({**message, "message_id": "m10", "ticket_id": "T000001"}).encode())
    assert (new.status_code, new.json()["ticket_id"]) == (202, "T000002")


# processes ------------------------------------------------------------------------------------------

@contextmanager
def recorded(server: RedisServer) -> Iterator[list[str]]:
    """Record every command that Redis gets inside the block, bodies of tasks and events decoded."""
    lines: list[str] = []
    stop, ready = threading.Event(), threading.Event()

    def listen() -> None:
        with server.client() as client, client.monitor() as monitor:
            ready.set()
            while not stop.is_set():
                command = str(monitor.next_command()["command"])
                lines.append(command)
                lines.extend(base64.b64decode(body).decode("utf-8", "replace") for body in re.findall(r'"body": "([A-Za-z0-9+/=]+)"', command.replace('\\"', '"')))

    listening = threading.Thread(target=listen)
    listening.start()
    assert ready.wait(10)
    try:
        yield lines
    finally:
        stop.set()
        with server.client() as client:
            client.ping()
        listening.join(10)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("by", [
    "address", pytest.param("customer", marks=pytest.mark.skipif(bool(os.environ.get("CI")), reason="not in CI: time"))])
def test_real_workers_erase_in_mid_turn_and_neither_broker_nor_log_has_a_word(
    by: str, workers: Workers, seeded_db: Database, stack_settings: Settings, redis_server: RedisServer, offline_llm: OfflineLLM,
):
    offline_llm.control(latency_ms=100_000, task="draft", times=1)
    workers.environment["LLM_TIMEOUT_SECONDS"] = "100"
    publisher = Publisher(stack_settings)
    with recorded(redis_server) as lines:
        workers.start()
        workers.start("background", BACKGROUND)
        workers.start_desk()
        got = intake.receive(seeded_db, stack_settings, publisher.ports(), InboundMessage(
            channel="terminal", external_id=CANARY, contact=WU_GANGS_ADDRESS, contact_name=CANARY, subject=CANARY,
            body=f"{CANARY} 银行流水同步失败,提示 E3001"))
        wait_for(lambda: offline_llm.requests("draft"), what="the draft to be asked for")
        if by == "customer":
            send_now(stack_settings, "privacy.erase_customer", WU_GANG)
        else:
            with seeded_db.transaction() as conn:
                conn.execute("INSERT INTO desk.erasures (contact, asked_by) VALUES (%s, 'page')", (WU_GANGS_ADDRESS,))
        done = wait_for(lambda: customer.receipt(seeded_db, WU_GANG), timeout=60, what="the receipt")
        offline_llm.reset()
        wait_for(lambda: "lease lost" in workers.text(), what="the turn to end")
    dump = pg_dump(seeded_db.url)
    log = "".join(workers.text(name) for name in ("worker", "background", "desk", "beat"))
    heard = "\n".join(lines)
    assert got.ticket_id in heard, "ids are in the broker"
    assert "task-succeeded" in heard, "and so are the events that Flower shows"
    for word in (CANARY, WU_GANGS_ADDRESS, "吴刚", "同步失败"):
        assert word not in log
        assert word not in heard
        assert json.dumps(word)[1:-1] not in heard
    assert tables_with(dump) | tables_with(dump, WU_GANGS_ADDRESS) | tables_with(dump, "吴刚") == set()
    assert done.id in log


def test_an_erasure_leaves_nothing_in_the_broker_to_erase(db, redis_server: RedisServer, stack_settings: Settings):
    office = canary_office(db)
    publisher = Publisher(stack_settings)
    office.ports = publisher.ports()
    with recorded(redis_server) as lines:
        write(office)
        publisher.ports().schedule_erase("E000001")
        wait_for(lambda: not publisher._queue.unfinished_tasks, what="the wake-ups to be sent")
    assert "privacy.erase_customer" in "\n".join(lines)
    assert CANARY not in "\n".join(lines)
