"""The three doors for mail: what an MTA, a sender and an IMAP server are told, and that a kill loses and doubles nothing."""

from __future__ import annotations

import base64
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fixtures.imap import Dovecot, Netease
from fixtures.mails import MTA, OURS, letter
from fixtures.postgres import running_postgres
from starlette.testclient import TestClient

from producer.cli.main import run
from producer.signatures import sign
from producer.web.app import create_app
from supportpilot.config import get_settings, load_settings
from supportpilot.db.migrate import migrate
from supportpilot.db.pool import Connection, Database, connect
from supportpilot.errors import Misconfigured, Unavailable
from supportpilot.mail.folders import read_folders
from supportpilot.service import mail_in, mail_poll, upkeep
from supportpilot.types import Ports

pytestmark = pytest.mark.integration
TESTS = Path(__file__).parents[1]
SETTINGS = {"MAIL_ADDRESSES": OURS, "MAIL_AUTHSERV_ID": MTA, "TURN_DEBOUNCE_SECONDS": "0", "IMAP_TIMEOUT_SECONDS": "1"}


def door(url: str, *words: str, kill: str = "-", number: int = 1, given: bytes = b"", **settings: str) -> subprocess.CompletedProcess[bytes]:
    """Run a door in a process of its own."""
    environment = {**os.environ, **SETTINGS, "DATABASE_URL": url, "PYTHONPATH": str(TESTS), **settings}
    return subprocess.run([sys.executable, "-m", "fixtures.mail_door", kill, str(number), *words], input=given,
                          env=environment, capture_output=True, timeout=100, check=False)


def bodies(conn: Connection) -> list[str]:
    return [r["body"] for r in conn.execute("SELECT body FROM desk.inbox ORDER BY id")]


def sweep(url: str) -> None:
    """What beat and a worker do about mails that were stored and not filed."""
    settings = load_settings(database_url=url, mail_addresses=OURS, mail_authserv_id=MTA)
    with Database(url) as db:
        db_now = db
        with db.transaction() as conn:
            conn.execute("UPDATE desk.mails SET received_at = received_at - interval '1 minute', woken_at = NULL")
        upkeep.sweep(db, Ports(schedule_mail=lambda mail_id: mail_in.file(db_now, settings, Ports(), mail_id) and None), settings)


@pytest.fixture
def mta(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """What an MTA would run, in this process: (mail, settings) to (exit code, what it would log)."""
    class Standard:
        def __init__(self, raw: bytes) -> None:
            self.buffer = io.BytesIO(raw)

    def pipe(raw: bytes, *words: str, **settings: str) -> tuple[int, str]:
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "stdin", Standard(raw))
        get_settings.cache_clear()
        code = run(["email", "pipe", *words])
        return code, capsys.readouterr().err
    return pipe


# pipe -----------------------------------------------------------------------------------------------

def test_a_mail_from_the_pipe_is_stored_and_filed_and_the_mta_hears_0(database_url: str, conn: Connection) -> None:
    got = door(database_url, "pipe", given=letter())
    assert (got.returncode, got.stderr) == (0, b"")
    assert b"filed T000001" in got.stdout
    assert len(bodies(conn)) == 1


# where the door dies, and whether the mail is stored by then
KILLS = [("supportpilot.db.mails:store!", False), ("supportpilot.service.mail_in:store!", True),
         ("supportpilot.service.intake:receive!", True), ("supportpilot.db.mails:finish!", True)]


@pytest.mark.parametrize(("point", "stored"), KILLS)
def test_a_kill_of_the_pipe_loses_nothing_and_doubles_nothing(mta: Callable[..., tuple[int, str]], database_url: str, conn: Connection, point: str, stored: bool) -> None:
    got = door(database_url, "pipe", kill=point, given=letter(verified=True))
    assert got.returncode == -9
    if stored:
        sweep(database_url)
        assert len(bodies(conn)) == 1
    again = mta(letter(verified=True), **SETTINGS, DATABASE_URL=database_url)      # the MTA tries again
    assert again == (0, "")
    assert len(bodies(conn)) == 1
    assert [r["state"] for r in conn.execute("SELECT state FROM desk.mails")] == ["filed"]


CODES = [
    (letter(), {}, (), os.EX_OK), (b"", {}, (), os.EX_NOINPUT), (b"no mail at all", {}, (), os.EX_DATAERR),
    (b"Subject: nobody sent this\r\n\r\nhello", {}, (), os.EX_OK),       # kept in quarantine: bouncing it reaches nobody
    (letter("x" * 5000), {"MAIL_MAX_BYTES": "3000"}, (), os.EX_DATAERR),
    (letter(), {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}, (), os.EX_TEMPFAIL),
    (letter(), {"DATABASE_URL": ""}, (), os.EX_TEMPFAIL), (letter(), {"MAIL_MAX_BYTES": "many"}, (), os.EX_TEMPFAIL),
    (letter(), {}, ("--no-such-option",), os.EX_TEMPFAIL),               # a slip in master.cf must bounce no mail
]


@pytest.mark.parametrize(("raw", "settings", "words", "code"), CODES)
def test_the_exit_code_makes_an_mta_do_the_right_thing(mta: Callable[..., tuple[int, str]], database_url: str, conn: Connection, raw: bytes,
                                                       settings: dict[str, str], words: tuple[str, ...], code: int) -> None:
    got, said = mta(raw, *words, **{"DATABASE_URL": database_url, **settings})
    assert got == code
    assert "Traceback" not in said
    assert said.count("\n") == (0 if code == os.EX_OK else 1)
    kept = conn.execute("SELECT count(*) AS n FROM desk.mails").fetchone()
    assert kept is not None
    assert kept["n"] == (1 if code == os.EX_OK else 0)


def test_a_database_that_is_restarted_gets_the_mail_at_the_next_try(mta: Callable[..., tuple[int, str]]) -> None:
    with running_postgres() as server:
        url = server.create("mail_door")
        migrate(url)
        server.stop()
        assert mta(letter(), DATABASE_URL=url)[0] == os.EX_TEMPFAIL
        server.start()
        assert mta(letter(), DATABASE_URL=url)[0] == 0
        with connect(url) as conn:
            assert len(bodies(conn)) == 1


def test_an_empty_envelope_sender_is_a_machine(mta: Callable[..., tuple[int, str]], database_url: str, conn: Connection) -> None:
    assert mta(letter(), "--sender", "", DATABASE_URL=database_url)[0] == 0
    assert bodies(conn) == []


SECRET = "whsec_" + base64.b64encode(b"a secret of the tests' own").decode()
NOW = datetime(2026, 12, 2, 6, 0, tzinfo=UTC)


class Web:
    """A client that signs raw mails, and the wake-ups that the app asked for."""

    def __init__(self, db: Database, **overrides: object) -> None:
        self.woken: list[tuple[str, str, float]] = []
        settings = load_settings(**{"webhook_secret": SECRET, "max_body_bytes": 100, **overrides})
        ports = Ports(schedule_turn=lambda *ids: self.woken.append(ids))
        self.client = TestClient(create_app(settings, db, ports, clock=lambda: NOW))

    def send(self, raw: bytes, delivery: str = "d-1", signed: bytes | None = None) -> Any:
        stamp = int(NOW.timestamp())
        headers = {"webhook-id": delivery, "webhook-timestamp": str(stamp),
                   "webhook-signature": sign(SECRET, delivery, stamp, raw if signed is None else signed)}
        return self.client.post("/webhooks/email", content=raw, headers=headers)


# webhook --------------------------------------------------------------------------------------------

def test_the_webhook_takes_a_raw_mail(db: Database, conn: Connection) -> None:
    web = Web(db, mail_authserv_id=MTA)
    first, again = (web.send(letter(verified=True), f"d-{i}") for i in (1, 2))
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json() == {**first.json(), "duplicate": True}
    assert [wake[0] for wake in web.woken] == [first.json()["ticket_id"]]
    held = web.send(b"no mail", "d-3")
    assert (held.status_code, list(held.json())) == (202, ["quarantined", "reason"])
    automatic = web.send(letter(message_id="<a@x>", fields=[("Precedence", "bulk")]), "d-4")
    assert (automatic.status_code, automatic.json()) == (200, {"ignored": "automatic: Precedence: bulk"})
    assert len(bodies(conn)) == 1


def test_the_webhook_refuses_what_is_unsigned_or_too_large(db: Database, conn: Connection) -> None:
    web = Web(db, mail_max_bytes=2000)
    assert web.send(letter(), signed=b"other").status_code == 401
    assert web.send(letter("x" * 3000)).status_code == 413
    assert conn.execute("SELECT 1 FROM desk.mails").fetchall() == []
    assert web.send(letter("x" * 300)).status_code == 202


def test_the_webhook_says_503_while_the_database_is_away() -> None:
    with Database("postgresql://nobody@127.0.0.1:1/none", timeout=0.3) as gone:
        assert Web(gone).send(letter()).status_code == 503


def test_a_mail_that_is_stored_and_not_filed_is_no_error_for_its_sender(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise Unavailable("gone")

    monkeypatch.setattr(mail_in, "parse", gone)
    got = Web(db).send(letter())
    assert (got.status_code, list(got.json())) == (202, ["stored"])


# poll -----------------------------------------------------------------------------------------------

def many(count: int, start: int = 0) -> list[bytes]:
    return [letter(f"第{i}封", message_id=f"<p{i}@example.com>", sender=f"c{i}@example.com") for i in range(start, start + count)]


def test_a_mailbox_is_read_once_and_goes_on_where_it_was(dovecot: Dovecot, database_url: str, conn: Connection) -> None:
    dovecot.deliver(*many(3))
    settings, folder = load_settings(imap_urls=dovecot.url), read_folders(dovecot.url)[0]
    assert b"3 taken, 0 not filed" in door(database_url, "poll", IMAP_URLS=dovecot.url).stdout
    assert bodies(conn) == ["第0封", "第1封", "第2封"]
    assert dovecot.flags() == [True] * 3
    dovecot.deliver(*many(2, 3))
    with dovecot.box() as box:      # a person reads in the same mailbox
        box.flag(box.uids(), "\\Seen", value=True)
    with Database(database_url) as db:
        assert mail_poll.poll(db, settings, Ports(), folder) == mail_poll.Polled(folder.id, taken=2)
        assert len(bodies(conn)) == 5
        assert mail_poll.poll(db, settings, Ports(), folder).taken == 0


def test_a_folder_that_is_numbered_anew_is_read_again_and_opens_nothing(dovecot: Dovecot, database_url: str, conn: Connection) -> None:
    dovecot.deliver(*many(2))
    settings = load_settings(database_url=database_url, imap_urls=dovecot.url)
    folder = read_folders(dovecot.url)[0]
    with Database(database_url) as db:
        assert mail_poll.poll(db, settings, Ports(), folder).taken == 2
        conn.execute("UPDATE desk.mailboxes SET uid_validity = uid_validity - 1")
        assert mail_poll.poll(db, settings, Ports(), folder).taken == 2
    assert bodies(conn) == ["第0封", "第1封"]


POLL_KILLS = [("supportpilot.db.mailboxes:advance!", 3), ("supportpilot.service.mail_poll:_take!", 2),
              ("supportpilot.service.intake:receive!", 2)]


def test_a_reader_that_is_killed_again_and_again_takes_every_mail_once(dovecot: Dovecot, database_url: str, conn: Connection) -> None:
    dovecot.deliver(*many(8), b"From: broken\r\n\r\nno sender")
    for point, number in POLL_KILLS:
        killed = door(database_url, "poll", kill=point, number=number, IMAP_URLS=dovecot.url)
        assert killed.returncode == -9, killed.stderr
        conn.execute("UPDATE desk.mailboxes SET claimed_until = NULL")      # or wait for 6 s
    settings = load_settings(database_url=database_url, imap_urls=dovecot.url)
    with Database(database_url) as db:
        mail_poll.poll(db, settings, Ports(), read_folders(dovecot.url)[0])
    sweep(database_url)
    assert sorted(bodies(conn)) == [f"第{i}封" for i in range(8)]
    assert {r["state"]: r["n"] for r in conn.execute("SELECT state, count(*) AS n FROM desk.mails GROUP BY state")} == {
        "filed": 8, "quarantined": 1}


def test_a_folder_that_another_process_reads_is_left_alone_until_its_claim_ends(dovecot: Dovecot, database_url: str, conn: Connection) -> None:
    dovecot.deliver(*many(1))
    settings = load_settings(database_url=database_url, imap_urls=dovecot.url)
    folder = read_folders(dovecot.url)[0]
    with Database(database_url) as db:
        conn.execute("INSERT INTO desk.mailboxes (id, uid_validity, claimed_until) VALUES (%s, 0, now() + interval '1 hour')", (folder.id,))
        assert mail_poll.poll(db, settings, Ports(), folder).busy
        conn.execute("UPDATE desk.mailboxes SET claimed_until = now()")
        assert mail_poll.poll_by_id(db, settings, Ports(), folder.id) == "taken 1, not filed yet 0"
        with pytest.raises(Misconfigured):
            mail_poll.poll_by_id(db, settings, Ports(), "other")


@pytest.fixture
def netease() -> Iterator[Netease]:
    server = Netease(many(2), sizes=[len(many(1)[0]), 10**9])
    yield server
    server.stop()


def test_163_is_told_our_name_before_select_and_a_huge_mail_is_not_fetched(netease: Netease, db: Database, conn: Connection) -> None:
    settings = load_settings(imap_urls=netease.url)
    assert mail_poll.poll(db, settings, Ports(), read_folders(netease.url)[0]).taken == 2
    verbs = [said.split()[0] for said in netease.said]
    assert verbs.index("LOGIN") < verbs.index("ID") < verbs.index("SELECT")
    fetched = [said for said in netease.said if "BODY.PEEK" in said]
    assert [("HEADER" in said) for said in fetched] == [False, True]
    assert bodies(conn) == ["第0封"]
    held = conn.execute("SELECT sender, reason FROM desk.quarantine").fetchone()
    assert held is not None
    assert held["sender"] == "c1@example.com"
    assert "1000000000 bytes" in held["reason"]


def test_a_mailbox_that_is_away_is_one_line_and_keeps_nobody_from_the_others(
        netease: Netease, database_url: str, conn: Connection, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("IMAP_URLS", f"imap+insecure://u:hush-hush@127.0.0.1:1/INBOX {netease.url}")
    get_settings.cache_clear()
    assert run(["email", "poll"]) == 1
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "hush" not in said.out + said.err
    assert bodies(conn) == ["第0封"]


@pytest.mark.parametrize("url", ["http://u:p@h/INBOX", "imaps://h/INBOX", "imaps://u@h", "imaps://u:p@h:x/", "nonsense"])
def test_an_address_that_is_none_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        read_folders(url)
    assert "u:p" not in str(refused.value).replace("user:password", "")
