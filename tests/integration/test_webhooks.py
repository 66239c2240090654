"""The webhook door over a real Postgres: each answer, and what is in the database after it."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx
import psycopg
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

from producer.signatures import sign
from producer.web import webhooks
from producer.web.app import create_app
from supportpilot.config import Settings, load_settings
from supportpilot.db.pool import Connection, Database
from supportpilot.errors import Misconfigured
from supportpilot.types import Ports

pytestmark = pytest.mark.integration

SECRET = "whsec_" + base64.b64encode(b"a secret of the tests' own").decode()
NOW = datetime(2026, 12, 2, 6, 0, tzinfo=UTC)
MESSAGE = {"message_id": "m-1", "from": {"email": "li@example.com", "name": "李雷"}, "subject": "E3001", "body": "又失败了"}


@dataclass
class Door:
    """A client that signs, and the wake-ups that the app asked for."""

    app: FastAPI
    client: TestClient
    woken: list[tuple[str, str, float]] = field(default_factory=list)

    def send(self, body: bytes, message_id: str = "d-1", channel: str = "generic", **headers: str) -> Any:
        return self.client.post(f"/webhooks/{channel}", content=body, headers={**signed(body, message_id), **headers})

    def tell(self, delivery: str = "d-1", **changes: object) -> Any:
        return self.send(json.dumps({**MESSAGE, **changes}).encode(), delivery)


def signed(body: bytes, message_id: str = "d-1", secret: str = SECRET, at: datetime = NOW) -> dict[str, str]:
    stamp = int(at.timestamp())
    return {"webhook-id": message_id, "webhook-timestamp": str(stamp),
            "webhook-signature": sign(secret, message_id, stamp, body)}


def build(db: Database, **overrides: object) -> Door:
    woken: list[tuple[str, str, float]] = []
    settings: Settings = load_settings(**{"webhook_secret": SECRET, "max_body_bytes": 4096, **overrides})
    app = create_app(settings, db, Ports(schedule_turn=lambda *ids: woken.append(ids)), clock=lambda: NOW)
    return Door(app, TestClient(app), woken)


@pytest.fixture
def door(db: Database) -> Door:
    return build(db)


@contextmanager
def served(app: FastAPI) -> Iterator[int]:
    """Serve the app on a free port in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def count(conn: Connection, table: str) -> int:
    row = conn.execute(f"SELECT count(*) AS n FROM {table}").fetchone()
    assert row is not None
    return int(row["n"])


def nothing_stored(conn: Connection) -> bool:
    return not any(count(conn, table) for table in ("biz.tickets", "desk.inbox", "desk.quarantine"))


def test_a_signed_message_is_stored_and_a_worker_is_woken(door: Door, conn: Connection) -> None:
    got = door.tell()
    assert (got.status_code, got.json()["duplicate"]) == (202, False)
    row = conn.execute("SELECT * FROM desk.inbox").fetchone()
    assert row is not None
    assert (row["id"], row["ticket_id"]) == (got.json()["message_id"], got.json()["ticket_id"])
    assert (row["external_id"], row["delivery_id"], row["body"]) == ("generic:m-1", "generic:d-1", "又失败了")
    assert [wake[:2] for wake in door.woken] == [(row["ticket_id"], row["id"])]


@pytest.mark.parametrize("again", ["d-1", "d-2"])
def test_a_message_that_comes_again_gets_the_first_answer(door: Door, conn: Connection, again: str) -> None:
    first, second = door.tell().json(), door.tell(again)
    assert second.status_code == 200
    assert second.json() == {**first, "duplicate": True}
    assert count(conn, "desk.inbox") == 1


def test_the_same_delivery_id_with_another_message_is_not_a_second_message(door: Door, conn: Connection) -> None:
    door.tell()
    assert door.tell("d-1", message_id="m-2", body="别的内容").status_code == 200
    assert count(conn, "desk.inbox") == 1


@pytest.mark.parametrize("headers", [
    {}, signed(b"other"), signed(b"{}", secret="whsec_" + base64.b64encode(b"not ours").decode()),
    signed(b"{}", at=datetime(2026, 12, 2, 5, 0, tzinfo=UTC)), {**signed(b"{}"), "webhook-signature": "v1,%%%"},
    {**signed(b"{}"), "webhook-timestamp": "soon"}, {**signed(b"{}"), "webhook-id": ""},
])
def test_what_is_not_signed_is_refused_and_leaves_nothing(door: Door, conn: Connection, headers: dict[str, str]) -> None:
    got = door.client.post("/webhooks/generic", content=b"{}", headers=headers)
    assert got.status_code == 401
    assert got.json()["error"]
    assert nothing_stored(conn)
    assert door.woken == []


def test_without_a_secret_nothing_is_taken_and_the_answer_names_the_setting(db: Database) -> None:
    got = build(db, webhook_secret=None).tell()
    assert got.status_code == 401
    assert "WEBHOOK_SECRET" in got.json()["error"]


def test_the_channels_own_secret_goes_before_the_general_one(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    own = "whsec_" + base64.b64encode(b"for this channel only").decode()
    monkeypatch.setenv("WEBHOOK_SECRET_GENERIC", own)
    door, body = build(db), json.dumps(MESSAGE).encode()
    assert door.send(body).status_code == 401
    assert door.client.post("/webhooks/generic", content=body, headers=signed(body, secret=own)).status_code == 202


def test_a_secret_that_cannot_be_used_stops_the_start(db: Database) -> None:
    with pytest.raises(Misconfigured, match="base64"):
        build(db, webhook_secret="whsec_")


@pytest.mark.parametrize("raw", [b"\xff\xfe\x00", b"not json", b"[" * 3000, b'{"body": "x"}',
                                 json.dumps({**MESSAGE, "body": "a\x00b"}).encode(),
                                 json.dumps({**MESSAGE, "body": "\ud83d"}).encode()])
def test_signed_but_unusable_input_is_kept_to_the_byte(door: Door, conn: Connection, raw: bytes) -> None:
    got = door.send(raw)
    assert got.status_code == 202
    row = conn.execute("SELECT id, raw, reason, channel FROM desk.quarantine").fetchone()
    assert row is not None
    assert (row["id"], row["reason"], row["channel"]) == (got.json()["quarantined"], got.json()["reason"], "generic")
    assert bytes(row["raw"]) == raw
    assert count(conn, "desk.inbox") == 0


def test_unusable_input_that_comes_again_is_kept_once(door: Door, conn: Connection) -> None:
    first, second = door.send(b"not json"), door.send(b"not json")
    assert first.json() == second.json()
    assert count(conn, "desk.quarantine") == 1


def test_the_quarantine_shows_who_wrote(door: Door, conn: Connection) -> None:
    door.tell(body="")
    assert conn.execute("SELECT sender FROM desk.quarantine").fetchone() == {"sender": "li@example.com"}


@pytest.mark.parametrize("path", ["/webhooks/nowhere", "/webhooks/", "/nothing", "/docs", "/openapi.json", "/webhooks/generic/", "/kb//x"])
def test_an_unknown_channel_or_page_is_404(door: Door, path: str) -> None:
    assert door.client.post(path, content=b"{}", follow_redirects=False).status_code == 404     # not a redirect to whatever Host says


def test_too_large_a_body_is_413_with_or_without_its_length_announced(door: Door, conn: Connection) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(50):
            yield b"x" * 1000

    with served(door.app) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        announced = client.post("/webhooks/generic", content=b"x" * 50_000, headers=signed(b""))
        chunked = client.post("/webhooks/generic", content=chunks(), headers=signed(b""))
        fits = client.post("/webhooks/generic", content=json.dumps(MESSAGE).encode().ljust(4096),
                           headers=signed(json.dumps(MESSAGE).encode().ljust(4096)))
    assert (announced.status_code, chunked.status_code, fits.status_code) == (413, 413, 202)
    assert count(conn, "desk.inbox") == 1


def test_a_body_that_never_ends_does_not_hold_the_door(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "BODY_SECONDS", 0.2)
    with served(door.app) as port, socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(b"POST /webhooks/generic HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        assert slow.recv(1000).startswith(b"HTTP/1.1 408")


def test_while_the_database_is_down_the_sender_is_told_when_to_come_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Database(f"postgresql://x@127.0.0.1:{port}/x", timeout=0.5) as away:
        door = build(away)
        for got in (door.tell(), door.send(b"not json")):
            assert got.status_code == 503
            assert int(got.headers["retry-after"]) > 0
            assert got.json() == {"error": "not available right now; try again later"}
        assert door.client.post("/webhooks/generic", content=b"{}").status_code == 401
        assert door.client.get("/healthz").status_code == 200
        ready = door.client.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["missing"] == ["database away"]
    assert door.woken == []


def test_ready_means_database_and_schema(door: Door, conn: Connection, postgres_server: Any) -> None:
    assert door.client.get("/readyz").json() == {"ready": True, "missing": [], "broker": "not configured"}
    with postgres_server.clone("template0") as url, Database(url) as empty:
        got = build(empty).client.get("/readyz")
    assert got.status_code == 503
    assert "0001_house" in got.json()["missing"][0]


def test_an_absent_broker_is_named_but_messages_are_still_taken(db: Database) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    door = build(db, redis_url=f"redis://127.0.0.1:{port}/0")
    got = door.client.get("/readyz")
    assert got.status_code == 200
    assert got.json()["broker"].startswith("away")


def test_what_nobody_expected_is_a_500_without_a_traceback(door: Door, monkeypatch: pytest.MonkeyPatch,
                                                           caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("customer text")

    monkeypatch.setattr(webhooks, "store", broken)
    got = door.tell()
    assert got.status_code == 500
    assert got.json() == {"error": "internal error; the server's log says more"}
    lines = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert len(lines) == 1
    assert "ZeroDivisionError" in lines[0]
    assert "customer text" not in caplog.text


def test_every_answer_carries_the_security_headers(door: Door) -> None:
    for got in (door.tell(), door.client.get("/healthz"), door.client.get("/nothing"), door.send(b"x", channel="no")):
        assert got.headers["x-content-type-options"] == "nosniff"
        assert got.headers["content-security-policy"].startswith("default-src 'none'")


def test_ten_copies_at_once_are_one_message_and_nobody_gets_an_error(door: Door, conn: Connection) -> None:
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda n=n: answers.append(door.tell(f"d-{n % 2}"))) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {a.status_code for a in answers} == {200, 202}
    assert len({a.json()["message_id"] for a in answers}) == 1
    assert count(conn, "desk.inbox") == 1
    assert conn.execute("SELECT last_seq FROM biz.tickets").fetchone() == {"last_seq": 1}


def test_a_message_survives_a_lost_connection_of_the_pool(door: Door, database_url: str) -> None:
    door.tell()
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                      "WHERE datname = current_database() AND pid <> pg_backend_pid()")
    assert door.tell("d-2", message_id="m-2").status_code in {202, 503}
    assert door.tell("d-2", message_id="m-2").status_code in {200, 202}
