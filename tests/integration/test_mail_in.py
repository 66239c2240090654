"""Mail in over a real Postgres: where it goes, who may write there, and that it is one message however it comes."""

from __future__ import annotations

from typing import Any

import pytest
from fixtures.mails import CONTACT, MTA, OURS, bounce, letter, multipart, part, vouched
from fixtures.office import Office, give_paid_invoice

from supportpilot.db import mailboxes, mails
from supportpilot.db.mails import RawMail, SentMail
from supportpilot.db.pool import Database
from supportpilot.errors import Refused, Unavailable
from supportpilot.mail import tokens
from supportpilot.service import mail_in, ticket, upkeep
from supportpilot.service.mail_in import Outcome

pytestmark = pytest.mark.integration

SECRET = "the secret of the tests"
SENT = "<r1.0123456789abcdef@example.com>"
LISTED = "boss@example.com"
STRANGER = "mallory@example.net"


class PostOffice(Office):
    """An office that gets mail."""

    def __init__(self, db: Database, **settings: Any) -> None:
        super().__init__(db, **{"mail_addresses": OURS, "mail_secret": SECRET, "mail_authserv_id": MTA, **settings})

    def take(self, raw: bytes, door: str = "pipe", **more: Any) -> Outcome:
        mail_id = mail_in.store(self.db, RawMail(door, raw, **more))
        return mail_in.file(self.db, self.settings, self.ports, mail_id)

    def sent(self, ticket_id: str, message_id: str = SENT, to: str = CONTACT) -> str:
        """The delivery side has sent a reply under this id."""
        with self.db.transaction() as conn:
            mails.record_sent(conn, SentMail("R000001", ticket_id, message_id, OURS, (to,), "Re: E3001"))
        return message_id

    def opened(self, **more: Any) -> str:
        """A ticket of a customer, opened and answered by mail."""
        give_paid_invoice(self)
        found = self.take(letter(verified=True, **more)).ticket_id
        assert found is not None
        self.work(found)
        self.sent(found)
        return found

    def inbox(self) -> list[tuple[str, str, str]]:
        return [(r["author"], r["state"], r["body"]) for r in self.rows("SELECT author, state, body FROM desk.inbox ORDER BY seq")]

    def held(self) -> list[str]:
        return [r["reason"] for r in self.rows("SELECT reason FROM desk.quarantine WHERE state = 'held' ORDER BY id")]

    def tickets(self) -> int:
        return int(self.one("SELECT count(*) AS n FROM biz.tickets")["n"])


@pytest.fixture
def post(db: Database) -> PostOffice:
    return PostOffice(db)


def answer(**more: Any) -> bytes:
    """The customer answers our reply."""
    given: dict[str, Any] = {"message_id": "<m2@example.com>", "verified": True, "subject": "回复：E3001", **more}
    fields = [*given.pop("fields", []), ("In-Reply-To", SENT)]
    return letter(given.pop("body", "还是不行\n\n在 2026-12-02 15:00:00，\"客服\" <support@example.com> 写道：\n\n请重新授权"),
                  fields=fields, **given)


def test_a_customers_mail_opens_a_ticket_of_theirs_and_is_answered(post: PostOffice) -> None:
    give_paid_invoice(post)
    got = post.take(letter(verified=True))
    assert got.state == "filed"
    row = post.one("SELECT customer_id, contact, contact_name, channel, subject FROM biz.tickets")
    assert row == {"customer_id": "C1", "contact": CONTACT, "contact_name": "王敏", "channel": "email", "subject": "E3001"}
    assert post.wakeups.turns[0][:2] == (got.ticket_id, got.message_id)
    assert post.work(str(got.ticket_id)) == "resolved"


def test_without_a_word_of_our_server_the_ticket_has_no_customer(post: PostOffice) -> None:
    give_paid_invoice(post)
    forged = ("Authentication-Results", "mx.attacker.example; dmarc=pass header.from=example.com")
    post.take(letter(fields=[forged]))
    assert post.one("SELECT customer_id, verified FROM biz.tickets") == {"customer_id": None, "verified": False}


def test_an_unproved_mail_never_joins_the_customers_own_ticket_and_the_other_way_round(post: PostOffice) -> None:
    own = post.opened()
    unproved = post.take(letter("退款!", message_id="<x@example.com>")).ticket_id
    assert unproved != own
    assert post.take(letter("退款!!", message_id="<y@example.com>")).ticket_id == unproved
    assert post.take(letter("谢谢", message_id="<z@example.com>", verified=True)).ticket_id == own


def test_the_answer_to_our_reply_joins_the_ticket_without_its_quote(post: PostOffice) -> None:
    opened = post.opened()
    got = post.take(answer())
    assert (got.ticket_id, got.state) == (opened, "filed")
    assert post.inbox()[-1] == ("customer", "pending", "还是不行")
    row = post.one("SELECT full_text, visible, quoted FROM desk.mails WHERE id = %s", got.mail_id)
    assert "请重新授权" in row["full_text"]
    assert "请重新授权" in row["quoted"]
    assert row["visible"] == "还是不行"


def test_the_answer_joins_however_long_ago_the_ticket_was_resolved(post: PostOffice) -> None:
    opened = post.opened()
    post.execute("UPDATE biz.tickets SET status = 'resolved', last_written_at = now() - interval '90 days'")
    assert post.take(answer()).ticket_id == opened


KEYS = {
    "In-Reply-To": ([("In-Reply-To", SENT)], OURS),
    "References, newest first, with commas": ([("References", f"<other@example.org>,{SENT},<unknown@example.org>")], OURS),
    "the customer's own mail before": ([("References", "<m1@example.com>")], OURS),
}


@pytest.mark.parametrize("key", KEYS)
def test_every_key_finds_the_ticket(post: PostOffice, key: str) -> None:
    opened = post.opened()
    post.execute("UPDATE biz.tickets SET status = 'resolved'")
    fields, to = KEYS[key]
    assert post.take(letter("又来了", verified=True, message_id="<k@example.com>", fields=fields, to=to)).ticket_id == opened


def test_a_signed_reply_address_and_a_marker_in_the_body_find_the_ticket(post: PostOffice) -> None:
    opened = post.opened()
    post.execute("UPDATE biz.tickets SET status = 'resolved'")
    to = tokens.reply_address(SECRET, OURS, opened)
    assert post.take(letter("一", verified=True, message_id="<a1@x.example>", to=to.upper())).ticket_id == opened
    post.execute("UPDATE biz.tickets SET status = 'resolved'")
    marked = letter(f"二\n{tokens.body_marker(SECRET, opened)}", verified=True, message_id="<a2@x.example>")
    assert post.take(marked).ticket_id == opened


def test_of_two_keys_the_stronger_one_counts(post: PostOffice) -> None:
    first = post.opened()
    post.execute("UPDATE biz.tickets SET status = 'resolved', last_written_at = now() - interval '9 days'")
    second = post.take(letter("别的事", message_id="<m9@example.com>", verified=True)).ticket_id
    assert second not in (None, first)
    quoting = answer(message_id="<q1@example.com>", body=f"还是不行\n{tokens.body_marker(SECRET, str(second))}")
    assert post.take(quoting).ticket_id == first, "In-Reply-To goes before a marker in what is quoted"
    to = tokens.reply_address(SECRET, OURS, str(second))
    assert post.take(answer(message_id="<q2@example.com>", to=to)).ticket_id == second, "the signed address before In-Reply-To"


def test_a_retried_mail_that_only_the_sweeper_files_is_no_longer_held(post: PostOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = post.opened()
    refused = post.take(answer(sender=LISTED, verified=False))
    assert refused.quarantine_id
    post.execute("UPDATE desk.mails SET recipients = ARRAY[%s] WHERE ticket_id = %s AND direction = 'in'", LISTED, opened)
    post.settings.mail_trust_senders = True
    with monkeypatch.context() as away:
        away.setattr(mail_in.intake, "receive", lambda *_, **__: (_ for _ in ()).throw(Unavailable("away")))
        with pytest.raises(Unavailable):
            mail_in.retry(post.db, post.settings, post.ports, refused.quarantine_id)
    assert len(post.held()) == 1
    assert mail_in.file(post.db, post.settings, post.ports, refused.mail_id).state == "filed"      # as the sweeper has it done
    assert post.held() == []
    with pytest.raises(Refused, match="became message"):
        mail_in.retry(post.db, post.settings, post.ports, refused.quarantine_id)


def test_a_subject_is_a_hint_that_only_the_tickets_customer_can_use(post: PostOffice) -> None:
    opened = post.opened()
    post.execute("UPDATE biz.tickets SET status = 'resolved'")
    assert post.take(letter("三", verified=True, message_id="<s1@x.example>", subject=f"Re: [{opened}] E3001")).ticket_id == opened
    foreign = post.take(letter("四", sender=STRANGER, verified=True, message_id="<s2@x.example>", subject=f"[{opened}]"))
    assert foreign.ticket_id != opened
    assert post.one("SELECT linked_to FROM biz.tickets WHERE id = %s", foreign.ticket_id)["linked_to"] == opened


# who writes, vouched for, with the token: what becomes of the mail
WHO = [
    (CONTACT, True, False, "filed"), (CONTACT, True, True, "filed"),
    (LISTED, True, False, "filed"), (LISTED, False, False, "quarantined"), (LISTED, False, True, "note"),
    (CONTACT, False, False, "quarantined"), (CONTACT, False, True, "note"),
    (STRANGER, True, False, "quarantined"), (STRANGER, True, True, "note"), (STRANGER, False, True, "note"),
]


@pytest.mark.parametrize(("sender", "verified", "token", "state"), WHO)
def test_who_may_write_into_a_ticket(post: PostOffice, sender: str, verified: bool, token: bool, state: str) -> None:
    opened = post.opened(to=f"{OURS}, {LISTED}")
    post.wakeups.turns.clear()
    to = tokens.reply_address(SECRET, OURS, opened) if token else OURS
    got = post.take(answer(sender=sender, verified=verified, to=to, body="退款到别的账户"))
    assert got.state == state
    assert (len(post.wakeups.turns), len(post.held())) == (int(state == "filed"), int(state == "quarantined"))
    assert post.tickets() == 1
    assert post.status(opened) == ("open" if state == "filed" else "answered")


def test_an_unverified_participant_is_shown_and_makes_no_turn(post: PostOffice) -> None:
    opened = post.opened()
    before = post.roles(opened)
    post.take(answer(sender=STRANGER, to=tokens.reply_address(SECRET, OURS, opened), body="退款到我的账户"))
    assert post.work(opened).startswith("nothing due")
    assert post.roles(opened) == before
    shown = ticket.show(post.db, post.settings, opened)["notes"]
    assert [(n["author"], n["body"]) for n in shown] == [(f"unverified: {STRANGER}", "退款到我的账户")]


def test_a_refused_mail_can_be_tried_again_after_the_setting_is_mended(post: PostOffice) -> None:
    opened = post.opened()
    got = post.take(answer(verified=False, fields=[("Authentication-Results", "new.example.com; dmarc=pass header.from=example.com")]))
    assert got.quarantine_id is not None
    with pytest.raises(Refused, match="nobody vouches"):
        mail_in.retry(post.db, post.settings, post.ports, got.quarantine_id)
    mended = PostOffice(post.db, mail_authserv_id="new.example.com")
    again = mail_in.retry(post.db, mended.settings, mended.ports, got.quarantine_id)
    assert (again.ticket_id, again.state, post.held()) == (opened, "filed", [])
    with pytest.raises(Refused, match="already"):
        mail_in.retry(post.db, mended.settings, mended.ports, got.quarantine_id)


def test_the_same_mail_by_three_doors_and_ten_times_is_one_message(post: PostOffice) -> None:
    raw = letter(verified=True)
    copies = [raw, raw.replace(b"\r\n", b"\n"), b"From wang@example.com Wed Dec  2 15:00:00 2026\r\n" + raw,
              b"Received: from a.example.com by b.example.com; Wed, 02 Dec 2026 15:00:01 +0800\r\n" + raw]
    got = [post.take(copy, door) for _ in range(10) for copy, door in zip(copies, ["pipe", "imap", "webhook", "imap"], strict=True)]
    assert {(one.ticket_id, one.message_id) for one in got} == {(got[0].ticket_id, got[0].message_id)}
    assert [one.duplicate for one in got] == [False, *[True] * 39]
    assert (len(post.inbox()), post.tickets(), post.held()) == (1, 1, [])
    assert [r["n"] for r in post.rows("SELECT count(*) AS n FROM desk.mails WHERE raw IS NOT NULL")] == [1]


def test_another_text_under_a_known_id_is_kept_and_never_answered(post: PostOffice) -> None:
    post.take(letter(verified=True))
    got = post.take(letter("别的内容", verified=True))
    assert got.state == "quarantined"
    assert (len(post.inbox()), len(post.held())) == (1, 1)


def test_nobody_can_take_the_id_of_another_senders_mail(post: PostOffice) -> None:
    post.take(letter("抢先", sender=STRANGER))
    assert post.take(letter(verified=True)).state == "filed"


AUTOMATIC = {
    "RFC 3834": [("Auto-Submitted", "auto-replied (vacation)")], "Outlook": [("X-Auto-Response-Suppress", "All")],
    "precedence": [("Precedence", "bulk")], "a list": [("List-Id", "<news.example.com>")], "X-Autoreply": [("X-Autoreply", "yes")],
}


@pytest.mark.parametrize("kind", AUTOMATIC)
def test_an_automatic_mail_is_a_note_that_wakes_nobody(post: PostOffice, kind: str) -> None:
    opened = post.opened()
    post.wakeups.turns.clear()
    got = post.take(answer(fields=AUTOMATIC[kind]))
    assert (got.state, got.ticket_id) == ("note", opened)
    assert post.wakeups.turns == []
    assert post.inbox()[-1][:2] == ("automatic", "done")
    assert post.status(opened) == "answered"


@pytest.mark.parametrize("subject", ["自动回复: E3001", "自动答复：我在休假", "回复：自動回覆: x", "外出自动回复", "Automatic reply: E3001", "Out of Office: hi"])
def test_an_automatic_subject_opens_no_ticket(post: PostOffice, subject: str) -> None:
    assert post.take(letter("我在休假", subject=subject, verified=True)).state == "ignored"
    assert post.tickets() == 0


def test_two_auto_responders_stop_and_our_own_mail_is_ignored(post: PostOffice) -> None:
    opened = post.opened()
    for i in range(5):
        post.take(answer(message_id=f"<auto{i}@x.example>", fields=[("Auto-Submitted", "auto-replied")]))
    assert post.work(opened).startswith("nothing due")
    own = [letter("我们的答复", sender=OURS, message_id="<o@x.example>"), letter("我们的答复", message_id=SENT, verified=True)]
    assert [post.take(raw).state for raw in own] == ["ignored", "ignored"]
    assert post.tickets() == 1


# status, action, the address we wrote to: is it suppressed?
BOUNCES = [("5.1.1", "failed", True), ("5.1.10", "failed", True), ("5.0.0", "failed", True), ("5.2.2", "failed", False),
           ("5.7.1", "failed", False), ("4.4.7", "failed", False), ("5.1.1", "delayed", False)]


@pytest.mark.parametrize(("status", "action", "hard"), BOUNCES)
def test_a_hard_bounce_suppresses_the_address_and_is_a_note(post: PostOffice, status: str, action: str, hard: bool) -> None:
    opened = post.opened()
    got = post.take(bounce(SENT, status=status, action=action))
    assert (got.state, got.ticket_id) == ("note", opened)
    with post.db.connection() as conn:
        assert (mailboxes.suppressed(conn, CONTACT) is not None) is hard
    assert post.status(opened) == "answered"


def test_a_forged_bounce_suppresses_nobody(post: PostOffice) -> None:
    post.opened()
    post.take(bounce("<guessed@example.com>"))
    post.take(bounce(SENT, failed="other@example.com"))
    assert post.rows("SELECT 1 FROM desk.suppressions") == []


def test_files_are_stored_within_limits_and_named_to_the_agent(db: Database) -> None:
    post = PostOffice(db, mail_max_attachments=2, mail_max_attachment_bytes=1000)
    raw = multipart([
        part("截图见附件"), part(b"x" * 10, "image/png; name=\"=?gb2312?B?vdjNvC5wbmc=?=\"", Content_Disposition="attachment"),
        part(b"y" * 2000, "application/pdf", Content_Disposition="attachment; filename=\"../../etc/bill.pdf\""),
        part(b"z", "application/ms-tnef", Content_Disposition="attachment; filename=winmail.dat"),
    ], verified=True)
    got = post.take(raw)
    files = post.rows("SELECT name, size, length(data) AS kept, skipped, ticket_id FROM desk.attachments ORDER BY position")
    assert [(f["name"], f["size"], f["kept"]) for f in files] == [("截图.png", 10, 10), ("bill.pdf", 2000, None), ("winmail.dat", 1, None)]
    assert [bool(f["skipped"]) for f in files] == [False, True, True]
    assert {f["ticket_id"] for f in files} == {got.ticket_id}
    assert post.inbox()[0][2] == "截图见附件\n📎 截图.png\n📎 bill.pdf\n📎 winmail.dat"


@pytest.mark.parametrize("raw", [b"hello", b"\x00\x01", b"Subject: no sender\r\n\r\nhello", letter("", subject="")])
def test_what_is_no_message_waits_in_quarantine_once(post: PostOffice, raw: bytes) -> None:
    assert [post.take(raw).state for _ in range(2)] == ["quarantined", "quarantined"]
    assert (len(post.held()), post.tickets()) == (1, 0)
    assert bytes(post.one("SELECT raw FROM desk.quarantine")["raw"]) == raw


def test_a_parser_that_breaks_costs_one_row_and_a_fixed_one_reads_it(post: PostOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("supportpilot.mail.parse.collect", lambda *_: 1 // 0)
        got = post.take(letter(verified=True))
    assert post.held() == ["the parser broke: ZeroDivisionError"]
    assert mail_in.retry(post.db, post.settings, post.ports, str(got.quarantine_id)).state == "filed"
    assert len(post.inbox()) == 1


def test_a_mail_that_kills_its_reader_ends_in_quarantine(post: PostOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    mail_id = mail_in.store(post.db, RawMail("pipe", letter()))

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(mail_in, "parse", dies)
        for _ in range(mail_in.MAX_ATTEMPTS):
            with pytest.raises(KeyboardInterrupt):
                mail_in.file(post.db, post.settings, post.ports, mail_id)
        assert mail_in.file(post.db, post.settings, post.ports, mail_id).state == "quarantined"


@pytest.mark.parametrize("place", ["supportpilot.service.mail_in.parse", "supportpilot.service.intake.receive",
                                   "supportpilot.service.mail_in._end", "supportpilot.db.mails.finish"])
def test_what_breaks_off_between_storing_and_filing_is_finished_by_the_sweeper(
        post: PostOffice, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    with monkeypatch.context() as away:
        def gone(*_: object, **__: object) -> None:
            raise Unavailable("gone")
        away.setattr(place, gone)
        with pytest.raises(Unavailable):
            post.take(letter(verified=True))
    woken: list[str] = []
    post.execute("UPDATE desk.mails SET received_at = now() - interval '1 minute'")
    ports = type(post.ports)(schedule_mail=woken.append)
    assert upkeep.sweep(post.db, ports, post.settings)["mails"] == 1
    assert mail_in.file(post.db, post.settings, post.ports, woken[0]).state == "filed"
    assert len(post.inbox()) == 1
    assert upkeep.sweep(post.db, ports, post.settings)["mails"] == 0


def test_a_long_mail_is_cut_for_the_agent_and_kept_in_full(post: PostOffice) -> None:
    got = post.take(letter("长" * 50_000, verified=True))
    assert got.state == "filed"
    assert len(post.inbox()[0][2]) <= post.settings.max_message_chars
    assert len(post.one("SELECT full_text FROM desk.mails")["full_text"]) == 50_000


def test_the_next_answer_knows_what_to_refer_to(post: PostOffice) -> None:
    opened = post.opened()
    post.take(answer(fields=[("References", f"<m1@example.com> {SENT}")]))
    with post.db.connection() as conn:
        thread = mails.last_incoming(conn, opened)
    assert thread is not None
    assert thread.references[-1] == "<m2@example.com>"
    assert thread.references == ("<m1@example.com>", SENT, "<m2@example.com>")


def test_trust_can_be_given_without_a_server(db: Database) -> None:
    post = PostOffice(db, mail_authserv_id=None, mail_trust_senders=True)
    give_paid_invoice(post)
    post.take(letter())
    assert post.one("SELECT customer_id FROM biz.tickets")["customer_id"] == "C1"
    assert vouched()[1].startswith(MTA)
