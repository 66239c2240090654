"""Mail and erasure: what is erased leaves no mail behind, and a mailbox that is read again brings nothing back."""

from __future__ import annotations

import pytest
from fixtures.canary import pg_dump, tables_with
from fixtures.mails import CONTACT, OURS, bounce, letter, multipart, part, vouched
from fixtures.office import Office, give_paid_invoice

from supportpilot.db import mailboxes, mails
from supportpilot.db.mails import RawMail, SentMail
from supportpilot.db.pool import Database
from supportpilot.service import customer, mail_in

pytestmark = pytest.mark.integration

SENT = "<r1.0123456789abcdef@example.com>"
OTHER = "li@example.com"


class PostOffice(Office):
    def take(self, raw: bytes) -> mail_in.Outcome:
        return mail_in.file(self.db, self.settings, self.ports, mail_in.store(self.db, RawMail("imap", raw)))

    def sent(self, ticket_id: str, to: str) -> None:
        with self.db.transaction() as conn:
            mails.record_sent(conn, SentMail("R000001", ticket_id, SENT, OURS, (to,), "Re: E3001"))


@pytest.fixture
def post(db: Database) -> PostOffice:
    return PostOffice(db, mail_addresses=OURS, mail_secret="the secret of the tests", mail_authserv_id="mx.example.com")


MAILS = {
    "a letter": letter(verified=True),
    "one with a file": multipart([part("看附件"), part(b"x" * 100, "text/csv", Content_Disposition='attachment; filename="a.csv"')],
                                 message_id="<m2@example.com>", fields=[vouched()]),
    "an unproved one": letter(message_id="<m3@example.com>"),
    "an automatic one": letter(message_id="<m4@example.com>", verified=True, fields=[("Auto-Submitted", "auto-replied")]),
    "one without a body": letter("", message_id="<m5@example.com>", verified=True),
    "a bounce of nothing of ours": bounce("<elsewhere@example.com>"),
}


def test_after_an_erasure_a_mailbox_that_is_read_again_brings_nothing_back(post: PostOffice) -> None:
    give_paid_invoice(post)
    post.execute("UPDATE biz.customers SET email = %s", CONTACT)
    states = {name: post.take(raw).state for name, raw in MAILS.items()}
    assert states["a letter"] == states["one with a file"] == states["an unproved one"] == "filed"
    assert states["an automatic one"] == "ignored"
    for ticket in post.rows("SELECT id FROM biz.tickets"):
        post.work(ticket["id"])
    customer.erase(post.db, CONTACT, "小王")
    assert tables_with(pg_dump(post.db.url), CONTACT) == set()
    assert {name: post.take(raw).state for name, raw in MAILS.items() if "bounce" not in name} == dict.fromkeys(
        (name for name in MAILS if "bounce" not in name), "erased")
    assert post.rows("SELECT id FROM biz.tickets UNION ALL SELECT id FROM desk.mails UNION ALL SELECT id FROM desk.quarantine") == []


def test_a_strangers_note_on_another_customers_ticket_is_the_strangers(post: PostOffice) -> None:
    give_paid_invoice(post)
    ticket = post.take(letter(verified=True)).ticket_id
    assert ticket
    post.work(ticket)
    post.sent(ticket, CONTACT)
    note = post.take(letter("自动回复", sender=OTHER, message_id="<o1@example.com>",
                            fields=[("Auto-Submitted", "auto-replied"), ("In-Reply-To", SENT)]))
    assert (note.state, note.ticket_id) == ("note", ticket)
    customer.erase(post.db, OTHER, "小王")
    assert tables_with(pg_dump(post.db.url), OTHER) == set()
    assert [row["author"] for row in post.rows("SELECT author FROM desk.inbox WHERE ticket_id = %s", ticket)] == ["customer"]


def test_a_suppressed_address_is_forgotten_with_its_owner(post: PostOffice) -> None:
    ticket = post.take(letter(verified=True)).ticket_id
    assert ticket
    post.sent(ticket, CONTACT)
    assert post.take(bounce(SENT)).state == "note"
    with post.db.connection() as conn:
        assert mailboxes.suppressed(conn, CONTACT)
    customer.erase(post.db, CONTACT, "小王")
    assert tables_with(pg_dump(post.db.url), CONTACT) == set()


def test_a_mail_that_is_erased_while_it_is_read_leaves_nothing(post: PostOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    post.take(letter(verified=True))
    mail_id = mail_in.store(post.db, RawMail("pipe", MAILS["an automatic one"]))
    real = mail_in._automatic
    monkeypatch.setattr(mail_in, "_automatic", lambda *given: (customer.erase(post.db, CONTACT, "小王"), real(*given))[1])
    assert mail_in.file(post.db, post.settings, post.ports, mail_id).state == "erased"
    assert tables_with(pg_dump(post.db.url), CONTACT) == set()
