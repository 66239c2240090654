"""Replies by mail: threaded, once, in order, and never lost without a word."""

from __future__ import annotations

import re
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from fixtures.imap import Dovecot, free_port
from fixtures.mails import CONTACT, MTA, OURS, bounce, letter
from fixtures.office import Office
from fixtures.smtp import STAGES, Sink, certificate, running_sink, server_context

from producer.cli import doctor
from supportpilot.channels import smtp
from supportpilot.db.mails import RawMail
from supportpilot.db.pool import Database
from supportpilot.desk import rules
from supportpilot.service import customer, mail_in, ticket

pytestmark = pytest.mark.integration

SECRET = "the secret of the tests"


class PostOffice(Office):
    """An office whose customers write mails."""

    def __init__(self, db: Database, sink: Sink, **settings: object) -> None:
        super().__init__(db, **{"mail_addresses": OURS, "mail_secret": SECRET, "mail_authserv_id": MTA, "smtp_timeout_seconds": 10,
                                "smtp_url": f"smtp://{sink.at}?starttls=off", **settings})

    def take(self, raw: bytes) -> mail_in.Outcome:
        return mail_in.file(self.db, self.settings, self.ports, mail_in.store(self.db, RawMail("pipe", raw)))

    def answered(self, **fields: object) -> str:
        """Let a customer write, and the agent answer; the reply waits to be delivered."""
        got = self.take(letter(**{"verified": True, **fields}))     # type: ignore[arg-type]
        assert got.ticket_id, got
        self.work(got.ticket_id)
        return got.ticket_id

    def again(self) -> str:
        """Deliver the oldest row as if its wait was over."""
        self.execute("UPDATE desk.outbox SET next_attempt_at = clock_timestamp(), claimed_until = CASE WHEN claimed_until IS NULL "
                     "THEN NULL ELSE clock_timestamp() END")
        row = self.one("SELECT id FROM desk.outbox WHERE status IN ('queued', 'sending', 'unknown') ORDER BY position LIMIT 1")
        self.wakeups.replies[:] = [row["id"]]
        return self.deliver()[0]

    def states(self) -> list[str]:
        return [row["status"] for row in self.rows("SELECT status FROM desk.outbox ORDER BY position")]


@pytest.fixture
def post(db: Database, sink: Sink) -> PostOffice:
    return PostOffice(db, sink)


def text_of(mail: EmailMessage, kind: str = "plain") -> str:
    part = mail.get_body((kind,))
    assert part is not None
    return str(part.get_content())


def test_a_reply_is_a_mail_in_the_customers_thread(post: PostOffice, sink: Sink) -> None:
    ticket_id = post.answered(subject="回复：银行流水同步失败 E3001", fields=[("References", "<a@x.example.com> <b@x.example.com>")])
    assert post.deliver() == ["accepted"]
    [mail], [envelope] = sink.mails, sink.envelopes
    assert (mail["From"], mail["To"], envelope.mail_from, envelope.rcpt_tos) == (OURS, CONTACT, OURS, [CONTACT])
    assert mail["Subject"] == f"Re: 银行流水同步失败 E3001 [{ticket_id}]"
    assert mail["In-Reply-To"] == "<m1@example.com>"
    assert mail["References"].split() == ["<a@x.example.com>", "<b@x.example.com>", "<m1@example.com>"]
    assert (mail["Auto-Submitted"], mail["X-Auto-Response-Suppress"]) == ("auto-replied", "All")
    assert mail["Reply-To"].startswith(f"support+{ticket_id.lower()}.")
    assert re.fullmatch(r"<[a-z2-7]{32}@example\.com>", mail["Message-ID"])
    assert "重新授权" in text_of(mail)
    assert "重新授权" in text_of(mail, "html")
    assert "supportpilot-ref:" in text_of(mail, "html")
    assert "supportpilot-ref:" not in text_of(mail)
    assert "银行流水同步失败 E3001（http://127.0.0.1:8000/kb/KB-bank-001）" in text_of(mail)
    row = post.one("SELECT status, provider_id FROM desk.outbox")
    assert row["provider_id"] == mail["Message-ID"]


@pytest.mark.parametrize(("stage", "answer"), [(s, a) for s in STAGES for a in ("hang", "close")] + [
    ("DATA", "drip"), ("text", "drip"),
    ("MAIL", "451 4.7.1 greylisted"), ("RCPT", "450 4.2.1 try later"), ("DATA", "452 no room"), ("text", "451 busy"),
    ("greeting", "554 go away"), ("greeting", "421 too many")])
def test_whatever_happens_before_a_mail_is_taken_it_is_sent_once(post: PostOffice, sink: Sink, stage: str, answer: str) -> None:
    post.answered()
    sink.plan = {stage: [answer]}
    post.settings.smtp_timeout_seconds = 10 if answer[0].isdigit() or answer == "close" else 1.5 if stage == "text" else 0.4
    said = post.deliver()[0]
    post.settings.smtp_timeout_seconds = 10
    assert said.startswith("unknown: no answer" if stage == "text" and answer.isalpha() else "queued: "), said
    assert post.again() == "accepted"
    assert len(sink.mails) == 1
    assert post.states() == ["accepted"]


@pytest.mark.parametrize(("stage", "answer"), [("MAIL", "550 5.7.1 not you"), ("RCPT", "550 5.1.1 no such user"),
                                               ("DATA", "554 no"), ("text", "554 5.7.1 spam")])
def test_a_refusal_for_good_fails_and_brings_a_human(post: PostOffice, sink: Sink, stage: str, answer: str) -> None:
    ticket_id = post.answered()
    sink.plan = {stage: answer}
    said = post.deliver()[0]
    assert said.startswith("failed: ")
    assert answer in said
    assert (post.status(ticket_id), sink.mails) == ("escalated", [])
    assert post.rows("SELECT id FROM desk.mails WHERE direction = 'out'") == []
    assert answer[:3] in post.one("SELECT handoff_reason FROM biz.tickets")["handoff_reason"]


def test_a_mail_whose_answer_is_lost_is_sent_at_most_once_more_under_the_same_id(post: PostOffice, sink: Sink) -> None:
    ticket_id = post.answered()
    sink.plan = {"text": "lose"}
    assert post.deliver()[0].startswith("unknown: ")
    assert post.again().startswith("unknown: ")
    assert post.again().startswith("failed: ")
    assert len(sink.mails) == 2
    assert len({mail.as_bytes() for mail in sink.mails}) == 1
    assert post.status(ticket_id) == "escalated"


def test_a_lost_answer_is_looked_for_in_the_sent_folder_before_anything_is_sent_again(post: PostOffice, sink: Sink, dovecot: Dovecot) -> None:
    post.settings.smtp_sent_url = dovecot.url
    sink.on_taken = lambda: dovecot.deliver(sink.mails[-1].as_bytes())
    sink.plan = {"text": ["lose"]}
    post.answered()
    assert post.deliver()[0].startswith("unknown: ")
    assert post.again() == "accepted"
    assert len(sink.mails) == 1
    post.answered(message_id="<m2@example.com>", subject="another")
    sink.plan = {"text": ["hang"]}
    post.settings.smtp_timeout_seconds = 1.5
    assert post.deliver()[0].startswith("unknown: ")
    assert post.again() == "accepted"
    assert len(sink.mails) == 2


def test_nothing_is_sent_while_the_sent_folder_cannot_be_asked(post: PostOffice, sink: Sink) -> None:
    post.settings.smtp_sent_url = f"imap+insecure://u:p@127.0.0.1:{free_port()}/Sent"
    post.answered()
    sink.plan = {"text": ["lose"]}
    post.deliver()
    for _ in range(3):
        assert post.again().startswith("unknown: before sending again: ")
    assert len(sink.mails) == 1


def test_a_server_that_is_away_is_tried_for_three_days(post: PostOffice, sink: Sink) -> None:
    post.answered()
    post.settings.smtp_url = f"smtp://127.0.0.1:{free_port()}?starttls=off"
    how = rules.patience("email")
    waits = [rules.delivery_wait("email", n) for n in range(1, how.attempts)]
    assert 71 * 3600 < sum(waits) < 73 * 3600
    assert post.deliver()[0].startswith("queued: ")
    post.execute("UPDATE desk.outbox SET attempts = %s", how.attempts - 2)
    assert post.again().startswith("queued: ")
    assert post.again().startswith("failed: ")


def test_doctor_logs_in_and_sends_nothing(db: Database) -> None:
    with running_sink(users={"support": "right"}) as sink:
        post = PostOffice(db, sink, smtp_url=f"smtp://support:right@{sink.at}?starttls=off")
        assert [c.ok for c in doctor.attempt("smtp", doctor._smtp, post.settings)] == [True]
        for wrong, named in (({"smtp_url": f"smtp://support:wrong@{sink.at}?starttls=off"}, "SMTP_URL"), ({"mail_secret": None}, "MAIL_SECRET")):
            [check] = doctor.attempt("smtp", doctor._smtp, post.settings.model_copy(update=wrong))
            assert (check.ok, named in check.detail, "wrong" in check.detail) == (False, True, False)
        assert sink.mails == []
        assert doctor.attempt("smtp", doctor._smtp, post.settings.model_copy(update={"smtp_url": None})) == []


@pytest.mark.parametrize(("settings", "sender"), [
    ({"mail_addresses": f"first@example.com {OURS}"}, OURS), ({"mail_from": "云账本 <Help@example.com>"}, "云账本 <help@example.com>")])
def test_the_reply_comes_from_where_the_customer_wrote_to_or_from_the_one_address_that_is_set(
        db: Database, sink: Sink, settings: dict[str, str], sender: str) -> None:
    post = PostOffice(db, sink, **settings)
    post.answered()
    assert post.deliver() == ["accepted"]
    assert sink.mails[0]["From"] == sender
    assert sink.envelopes[0].mail_from == sender.rpartition("<")[2].rstrip(">")


def test_a_login_that_is_refused_is_not_the_mails_fault(db: Database) -> None:
    with running_sink(users={"support": "right"}) as sink:
        post = PostOffice(db, sink, smtp_url=f"smtp://support:wrong@{sink.at}?starttls=off")
        post.answered()
        assert post.deliver()[0].startswith("queued: ")
        assert "SMTP_URL" in post.one("SELECT last_error FROM desk.outbox")["last_error"]
        post.settings.smtp_url = f"smtp://support:right@{sink.at}?starttls=off"
        assert post.again() == "accepted"
        assert sink.logins[-1] == "support"


@pytest.mark.parametrize("implicit", [False, True])
def test_a_certificate_that_nobody_vouches_for_is_refused(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                          implicit: bool) -> None:
    key, made = certificate(tmp_path)
    with running_sink(context=server_context(key, made), implicit=implicit) as sink:
        scheme, by_name = ("smtps" if implicit else "smtp"), f"localhost:{sink.port}"
        post = PostOffice(db, sink, smtp_url=f"{scheme}://{by_name}")
        post.answered()
        assert "certificate refused" in post.deliver()[0]
        monkeypatch.setenv("SSL_CERT_FILE", str(made))
        post.settings.smtp_url = f"{scheme}://{sink.at}"
        assert "certificate refused" in post.again()        # trusted, but of another name
        post.settings.smtp_url = f"{scheme}://{by_name}"
        assert post.again() == "accepted"


def test_a_server_without_starttls_gets_nothing_unless_that_is_allowed(post: PostOffice, sink: Sink) -> None:
    post.answered()
    post.settings.smtp_url = f"smtp://{sink.at}"
    assert "offers no STARTTLS" in post.deliver()[0]
    assert sink.mails == []


def test_of_two_recipients_the_customer_decides(post: PostOffice, sink: Sink) -> None:
    """A colleague whom the customer named writes; the answer goes to both, once."""
    colleague = "li@example.com"
    post.take(letter(verified=True, fields=[("Cc", colleague)]))
    got = post.take(letter(verified=True, sender=colleague, message_id="<m2@example.com>", fields=[("In-Reply-To", "<m1@example.com>")]))
    assert got.state == "filed"
    post.work(str(got.ticket_id))
    sink.refused = {CONTACT: "450 later"}
    assert post.deliver()[0].startswith("queued: ")
    assert sink.mails == []
    sink.refused = {colleague: "550 gone"}
    assert post.again() == f"accepted: not taken for {colleague}: 550 gone"
    assert [envelope.rcpt_tos for envelope in sink.envelopes] == [[CONTACT]]
    assert sink.mails[0]["Cc"] == colleague


@pytest.mark.parametrize("machine", ["no-reply@example.com", "noreply-2@example.com", "mailer-daemon@example.com", OURS])
def test_a_machines_address_gets_no_mail(post: PostOffice, sink: Sink, machine: str) -> None:
    post.answered()
    post.execute("UPDATE biz.tickets SET contact = %s", machine)
    assert post.deliver()[0].startswith("withheld: ")
    assert sink.mails == []


def test_a_suppressed_address_gets_no_mail_and_a_human_the_ticket(post: PostOffice, sink: Sink) -> None:
    ticket_id = post.answered()
    post.deliver()
    assert post.take(bounce(sink.mails[0]["Message-ID"])).state == "note"
    post.answered(message_id="<m2@example.com>", fields=[("In-Reply-To", "<m1@example.com>")])
    assert post.deliver() == ["failed: nothing is sent to this address: bounced: 5.1.1"]
    assert (post.status(ticket_id), len(sink.mails)) == ("escalated", 1)


def test_a_suppression_at_the_last_moment_stops_the_mail(post: PostOffice, sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    post.answered()
    real = smtp._envelope

    def bounced_meanwhile(*given: Any) -> Any:
        post.execute("INSERT INTO desk.suppressions (address, reason) VALUES (%s, 'bounced')", CONTACT)
        return real(*given)
    monkeypatch.setattr(smtp, "_envelope", bounced_meanwhile)
    assert post.deliver()[0].startswith("queued: stopped")
    assert sink.mails == []


def test_a_human_who_takes_over_at_the_last_moment_stops_the_mail(post: PostOffice, sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket_id = post.answered()
    real = smtp._envelope

    def taken_meanwhile(*given: Any) -> Any:
        monkeypatch.setattr(smtp, "_envelope", real)
        ticket.reply(post.db, post.ports, ticket_id, "我来处理", "小王")
        return real(*given)
    monkeypatch.setattr(smtp, "_envelope", taken_meanwhile)
    post.deliver()
    assert post.states() == ["withheld", "accepted"]
    [mail] = sink.mails
    assert "我来处理" in text_of(mail)
    assert "小王" in text_of(mail)
    assert mail["Auto-Submitted"] == "no"
    assert mail["X-Auto-Response-Suppress"] is None


def test_a_mail_that_is_withheld_at_the_last_moment_lets_the_next_one_go(post: PostOffice, sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket_id = post.answered()
    real = smtp._envelope

    def taken_meanwhile(*given: Any) -> Any:
        monkeypatch.setattr(smtp, "_envelope", real)
        ticket.reply(post.db, post.ports, ticket_id, "我来处理", "小王")
        post.wakeups.replies.clear()        # its own wake-up came while the first row was being sent: not its turn
        return real(*given)
    monkeypatch.setattr(smtp, "_envelope", taken_meanwhile)
    post.deliver()
    assert post.states() == ["withheld", "accepted"]
    assert len(sink.mails) == 1


def test_an_erasure_at_the_last_moment_stops_the_mail(post: PostOffice, sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    post.answered()
    real = smtp._envelope
    monkeypatch.setattr(smtp, "_envelope", lambda *given: (customer.erase(post.db, CONTACT, "小王"), real(*given))[1])
    post.deliver()
    assert sink.mails == []
    assert post.rows("SELECT id FROM desk.mails") == []


def test_without_a_server_replies_are_kept_and_count_as_accepted(db: Database, sink: Sink) -> None:
    post = PostOffice(db, sink, smtp_url=None)
    post.answered()
    assert post.deliver() == ["accepted"]
    assert sink.mails == []


@pytest.mark.parametrize(("settings", "named"), [({"mail_secret": None}, "MAIL_SECRET"), ({"mail_addresses": ""}, "MAIL_FROM"),
                                                 ({"smtp_url": "http://x"}, "SMTP_URL"), ({"smtp_sent_url": "x"}, "SMTP_SENT_URL"),
                                                 ({"smtp_url": "smtp://u:secretword@mx.example.com?starttls=off"}, "SMTP_URL")])
def test_a_setting_that_is_missing_is_named_and_the_reply_waits(db: Database, sink: Sink, settings: dict[str, Any], named: str) -> None:
    post = PostOffice(db, sink)
    post.answered()
    post.settings = post.settings.model_copy(update=settings)
    said = post.deliver()[0]
    assert said.startswith("queued: ")
    assert named in said
    assert "secretword" not in said


def test_the_next_reply_waits_for_the_one_before_and_human_words_go_out_in_order(post: PostOffice, sink: Sink) -> None:
    ticket_id = post.answered()
    sink.plan = {"RCPT": ["450 later"]}
    assert post.deliver()[0].startswith("queued: ")
    ticket.reply(post.db, post.ports, ticket_id, "我是人", "小王")
    post.deliver()
    assert sink.mails == []
    post.again()
    post.again() if "queued" in post.states() else None
    assert [mail["Auto-Submitted"] for mail in sink.mails][-1] == "no"
