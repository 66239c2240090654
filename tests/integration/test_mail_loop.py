"""Mail in a circle: a conversation by real servers and workers, machines that answer each other, deliverers that die."""

from __future__ import annotations

import io
import os
import smtplib
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email import policy
from email.message import EmailMessage
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fixtures.imap import running_dovecot, why_no_dovecot
from fixtures.mails import CONTACT, MTA, OURS, letter, vouched
from fixtures.office import Office
from fixtures.smtp import Sink, running_sink
from fixtures.worker import Workers, wait_for

from producer.cli.main import run
from supportpilot.config import get_settings, load_settings
from supportpilot.db import rates
from supportpilot.db.mails import RawMail
from supportpilot.db.pool import Connection, Database, connect
from supportpilot.mail.folders import read_folders
from supportpilot.service import customer, delivery, mail_in, mail_poll
from supportpilot.types import Ports

pytestmark = pytest.mark.integration
TESTS = Path(__file__).parents[1]
SECRET = "the secret of the tests"
MAIL = {"MAIL_ADDRESSES": OURS, "MAIL_SECRET": SECRET, "MAIL_AUTHSERV_ID": MTA, "SMTP_TIMEOUT_SECONDS": "5",
        "TURN_DEBOUNCE_SECONDS": "0"}


class PostOffice(Office):
    def __init__(self, db: Database, sink: Sink, **settings: Any) -> None:
        super().__init__(db, **{"mail_addresses": OURS, "mail_secret": SECRET, "mail_authserv_id": MTA, "smtp_timeout_seconds": 10,
                                "smtp_url": f"smtp://{sink.at}?starttls=off", **settings})

    def take(self, raw: bytes, door: str = "pipe") -> mail_in.Outcome:
        return mail_in.file(self.db, self.settings, self.ports, mail_in.store(self.db, RawMail(door, raw)))

    def answered(self, raw: bytes) -> str:
        got = self.take(raw)
        assert got.ticket_id, got
        self.work(got.ticket_id)
        return got.ticket_id


# the whole way ----------------------------------------------------------------------------------------

@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[bytes], int]:
    """What an MTA runs for each mail; it writes on top who it vouches for."""
    class Standard:
        def __init__(self, raw: bytes) -> None:
            self.buffer = io.BytesIO(raw)

    def take(raw: bytes) -> int:
        field, value = vouched("wugang@example.com")
        monkeypatch.setattr(sys, "stdin", Standard(f"{field}: {value}\r\n".encode() + raw))
        get_settings.cache_clear()
        return run(["email", "pipe"])
    return take


def mail_of(subject: str, body: str, *, to: str = OURS, **fields: str) -> EmailMessage:
    mail = EmailMessage(policy=policy.SMTP)
    mail["From"], mail["To"], mail["Subject"] = "吴刚 <wugang@example.com>", to, subject
    for name, value in fields.items():
        mail[name.replace("_", "-")] = value
    mail.set_content(body, cte="base64")
    return mail


def counts(conn: Connection) -> dict[str, int]:
    row = conn.execute("""SELECT (SELECT count(*) FROM biz.tickets WHERE id > 'T000152') AS tickets,
        (SELECT count(*) FROM desk.inbox) AS inbox, (SELECT count(*) FROM desk.outbox) AS outbox,
        (SELECT count(*) FROM desk.outbox WHERE status = 'accepted') AS accepted""").fetchone()
    assert row is not None
    return dict(row)


@pytest.mark.timeout(180)
def test_a_customer_writes_gets_an_answer_answers_it_and_is_forgotten(
        workers: Workers, seeded_url: str, redis_url: str, pipe: Callable[[bytes], int], monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bytes] = []
    with running_sink() as outside, running_sink() as mta, connect(seeded_url) as conn:
        mta.on_taken = lambda: taken.append(bytes(mta.envelopes[-1].content))       # type: ignore[arg-type]
        for name, value in {**MAIL, "SMTP_URL": f"smtp://{outside.at}?starttls=off", "DATABASE_URL": seeded_url,
                            "REDIS_URL": redis_url}.items():
            monkeypatch.setenv(name, value)
            workers.environment[name] = value
        workers.start()

        def customer_sends(mail: EmailMessage) -> bytes:
            with smtplib.SMTP("127.0.0.1", mta.port) as client:
                client.send_message(mail)
            assert pipe(taken[-1]) == 0
            return taken[-1]

        first = customer_sends(mail_of("银行流水同步失败", "银行流水又同步失败了，提示 E3001", Message_ID="<w1@example.com>"))
        wait_for(lambda: len(outside.mails) == 1, 60, "the answer")
        [answer] = outside.mails
        assert answer["In-Reply-To"] == "<w1@example.com>"
        plain = answer.get_body(("plain",))
        assert plain is not None
        quote = "".join(f"> {line}\n" for line in str(plain.get_content()).splitlines())
        again = customer_sends(mail_of(f"回复：{answer['Subject']}", f"还是不行\n\n在 2026年12月2日 17:00，客服 <{OURS}> 写道：\n{quote}",
                                       to=answer["Reply-To"], Message_ID="<w2@example.com>", In_Reply_To=answer["Message-ID"]))
        wait_for(lambda: len(outside.mails) == 2, 60, "the second answer")
        ticket = conn.execute("SELECT id FROM biz.tickets WHERE id > 'T000152'").fetchall()
        assert len(ticket) == 1
        ticket_id = ticket[0]["id"]
        said = [r["body"] for r in conn.execute("SELECT body FROM desk.inbox WHERE ticket_id = %s ORDER BY seq", (ticket_id,))]
        assert said == ["银行流水又同步失败了，提示 E3001", "还是不行"]
        assert outside.mails[1]["Subject"] == answer["Subject"] == f"Re: 银行流水同步失败 [{ticket_id}]"
        assert outside.mails[1]["References"].split() == [answer["Message-ID"], "<w2@example.com>"]

        wait_for(lambda: counts(conn)["accepted"] == 2, 30, "both to be marked")
        before = counts(conn)
        for _ in range(10):
            assert pipe(first) == 0
            assert pipe(again) == 0
            for row in conn.execute("SELECT id FROM desk.outbox").fetchall():
                with Database(seeded_url) as db:
                    assert delivery.deliver(db, load_settings(), Ports(), row["id"]) == "already closed"
        assert counts(conn) == before
        assert len(outside.mails) == 2

        with Database(seeded_url) as db:
            customer.erase(db, "wugang@example.com", "小王")
        assert pipe(first) == pipe(again) == 0
        if why_no_dovecot() is None:
            _read_mailbox_again(seeded_url, first, again)
        assert counts(conn) == {"tickets": 0, "inbox": 0, "outbox": 0, "accepted": 0}
        assert conn.execute("SELECT id FROM desk.mails").fetchall() == []
        assert len(outside.mails) == 2


def _read_mailbox_again(url: str, *mails: bytes) -> None:
    with running_dovecot() as server, Database(url) as db:
        server.deliver(*mails)
        got = mail_poll.poll(db, load_settings(), Ports(), read_folders(server.url)[0])
        assert got.taken == len(mails)


# loops ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("change", ["as it is", "another sender", "another id", "a list's"])
def test_our_own_mail_that_comes_back_by_any_door_is_ignored(db: Database, sink: Sink, change: str) -> None:
    post = PostOffice(db, sink)
    post.answered(letter(verified=True))
    post.deliver()
    sent = sink.mails[0]
    if change == "another sender":
        sent.replace_header("From", f"li <{CONTACT}>")
    if change == "another id":
        sent.replace_header("Message-ID", "<other@relay.example.com>")
    if change == "a list's":
        sent["List-Id"] = "<all.example.com>"
    raw = vouched()[0].encode() + b": " + vouched()[1].encode() + b"\r\n" + sent.as_bytes(policy=policy.SMTP)
    for door in ("pipe", "webhook", "imap"):
        got = post.take(raw, door)
        assert (got.state, got.reason) == ("ignored", "our own mail"), change
    assert len(post.rows("SELECT id FROM desk.inbox")) == len(sink.mails) == 1


def robots_answer(sent: EmailMessage, n: int, **fields: str) -> bytes:
    head = [("In-Reply-To", str(sent["Message-ID"])), *((name.replace("_", "-"), value) for name, value in fields.items())]
    return letter(f"您的来信已收到，编号 {n}", verified=True, message_id=f"<robot{n}@example.com>", to=str(sent["Reply-To"]),
                  subject=str(sent["Subject"]), fields=head)


def talk(post: PostOffice, sink: Sink, **fields: str) -> int:
    """Let a machine answer every mail of ours; return how many we sent until silence."""
    post.answered(letter(verified=True))
    for n in range(30):
        post.deliver()
        if len(sink.mails) == n:
            return n
        got = post.take(robots_answer(sink.mails[-1], n, **fields))
        post.work(str(got.ticket_id))
    return len(sink.mails)


def test_a_machine_that_says_so_gets_no_second_answer(db: Database, sink: Sink) -> None:
    assert talk(PostOffice(db, sink), sink, Auto_Submitted="auto-replied") == 1


def test_two_machines_that_do_not_say_so_stop(db: Database, sink: Sink) -> None:
    post = PostOffice(db, sink, ticket_rate_limits="4/10")
    assert talk(post, sink) == 4
    assert post.one("SELECT status FROM biz.tickets")["status"] == "escalated"


# deliverers that die ----------------------------------------------------------------------------------

# where, how many mails the customer has by then, whether a text may have left
DEATHS = [("supportpilot.channels.smtp:_envelope", 0, False), ("supportpilot.db.mails:record_sent!", 0, False),
          ("supportpilot.service.delivery_mail:_goes!", 0, True), ("supportpilot.channels.smtp:_text!", 1, True),
          ("supportpilot.desk.outbox:close!", 1, True)]


@pytest.mark.parametrize(("point", "sent", "counted"), DEATHS)
def test_a_deliverer_that_dies_sends_at_most_once_more(db: Database, sink: Sink, point: str, sent: int, counted: bool) -> None:
    post = PostOffice(db, sink)
    post.answered(letter(verified=True))
    reply_id = post.one("SELECT id FROM desk.outbox")["id"]
    environment = {**os.environ, **MAIL, "SMTP_URL": post.settings.smtp_url or "", "DATABASE_URL": db.url, "PYTHONPATH": str(TESTS)}
    died = subprocess.run([sys.executable, "-m", "fixtures.deliverer", point, "1", reply_id], env=environment, timeout=100, check=False)
    assert (died.returncode, len(sink.mails)) == (-9, sent)
    row = post.one("SELECT status, unanswered FROM desk.outbox")
    assert (row["status"], row["unanswered"] == 1) == ("sending", counted)
    assert delivery.deliver(db, post.settings, post.ports, reply_id) == "not due, or being sent by somebody"
    post.execute("UPDATE desk.outbox SET claimed_until = clock_timestamp()")
    assert delivery.deliver(db, post.settings, post.ports, reply_id) == "accepted"
    assert len(sink.mails) == sent + 1
    assert len({mail["Message-ID"] for mail in sink.mails}) == 1


# rates ------------------------------------------------------------------------------------------------

def test_a_channels_rate_holds_over_all_processes(database_url: str) -> None:
    """Twelve connections ask at once: a tenth of the minute's number goes, the others get places one behind the other."""
    def ask(_n: int) -> list[float]:
        with connect(database_url) as conn:
            found = []
            for _ in range(3):
                with conn.transaction():
                    found.append(rates.take(conn, "email", 20, waited=False))
            return found
    with ThreadPoolExecutor(12) as pool:
        told = sorted(seconds for found in pool.map(ask, range(12)) for seconds in found)
    assert told.count(0.0) == 2
    step = 60 / 19
    assert all(abs(later - sooner - step) < 2 for sooner, later in pairwise(told[2:])), told


def test_who_waited_goes_before_who_comes(conn: Connection) -> None:
    assert rates.take(conn, "email", 1, waited=False) == 0.0
    assert rates.take(conn, "email", 1, waited=False) == pytest.approx(60, abs=1)
    conn.execute("UPDATE desk.delivery_rates SET free_at = clock_timestamp()")
    assert rates.take(conn, "email", 1, waited=False) > 60
    assert rates.take(conn, "email", 1, waited=True) == 0.0
    assert rates.take(conn, "zammad", 1, waited=False) == 0.0


def test_a_reply_that_is_one_too_many_waits_and_no_attempt_is_counted(db: Database, sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELIVERY_RATE_EMAIL", "1")
    post = PostOffice(db, sink)
    for n in (1, 2):
        post.answered(letter(verified=True, message_id=f"<r{n}@example.com>", sender=f"c{n}@example.com"))
    first, second = post.wakeups.replies
    assert delivery.deliver(db, post.settings, post.ports, first) == "accepted"
    assert delivery.deliver(db, post.settings, post.ports, second).startswith("the channel's rate: waits ")
    assert delivery.deliver(db, post.settings, post.ports, second) == "not due, or being sent by somebody"
    assert post.one("SELECT status, attempts FROM desk.outbox WHERE id = %s", second) == {"status": "queued", "attempts": 0}
    post.execute("UPDATE desk.delivery_rates SET free_at = clock_timestamp()")
    post.execute("UPDATE desk.outbox SET next_attempt_at = clock_timestamp()")
    assert delivery.deliver(db, post.settings, post.ports, second) == "accepted"
    assert len(sink.mails) == 2
    monkeypatch.setenv("DELIVERY_RATE_EMAIL", "many")
    with pytest.raises(Exception, match="DELIVERY_RATE_EMAIL"):
        delivery.deliver(db, post.settings, post.ports, second)


def test_an_attempt_that_surely_failed_takes_nothing_back_of_one_that_may_have_arrived(db: Database, sink: Sink) -> None:
    post = PostOffice(db, sink)
    post.answered(letter(verified=True))
    sink.plan = {"text": ["lose"], "MAIL": ["", "451 later"]}
    reply_id = post.wakeups.replies[0]
    delivery.deliver(db, post.settings, post.ports, reply_id)
    post.execute("UPDATE desk.outbox SET next_attempt_at = clock_timestamp()")
    assert delivery.deliver(db, post.settings, post.ports, reply_id).startswith("unknown: ")
    assert post.one("SELECT unanswered FROM desk.outbox")["unanswered"] == 1
    assert post.one("SELECT message_id FROM desk.mails WHERE direction = 'out'")["message_id"] == sink.mails[0]["Message-ID"]
