"""Five helpdesks' doors: who may knock, what is a message, what is not, and whose ticket it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from fixtures import helpdesks
from fixtures.helpdesks import CHANNELS, COLLEAGUE_ID, CUSTOMER, NOW, OWN_ID, PAYLOADS, SECRET, URLS
from fixtures.office import Office
from starlette.testclient import TestClient

from producer.cli.letters import _parser
from producer.cli.main import run
from producer.web.app import create_app
from supportpilot.config import Settings, get_settings, load_settings
from supportpilot.db.pool import Database
from supportpilot.errors import Refused
from supportpilot.service import channels, letters
from supportpilot.service import customer as customers
from supportpilot.service import ticket as tickets
from worker.schedule import entries

pytestmark = pytest.mark.integration


@dataclass
class Desk:
    """One helpdesk, the web door and an office behind it."""

    channel: str
    office: Office
    client: TestClient

    def post(self, payload: Any, delivery: str = "", **headers: str) -> Any:
        body = payload if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False).encode()
        signed = helpdesks.sign(self.channel, body, delivery or f"d-{helpdesks.digest(body)[:12]}")
        return self.client.post(f"/webhooks/{self.channel}", content=body, headers={**signed, **headers})

    def says(self, who: str, text: str, number: int, **more: Any) -> Any:
        return self.post(PAYLOADS[self.channel](who, text, number, **more))

    def inbox(self) -> list[tuple[str, str]]:
        return [(r["author"], r["body"]) for r in self.office.rows("SELECT author, body FROM desk.inbox ORDER BY ticket_id, seq")]

    def turns(self) -> int:
        return int(self.office.one("SELECT count(*) AS n FROM desk.turns")["n"])

    def work(self) -> None:
        for row in self.office.rows("SELECT id FROM biz.tickets"):
            self.office.work(row["id"])

    def counted(self) -> dict[str, int]:
        return {r["reason"]: r["n"] for r in channels.overview(self.office.db)["counts"] if r["outcome"] != "stored"}

    def ticket(self) -> dict[str, Any]:
        return self.office.one("SELECT * FROM biz.tickets ORDER BY id LIMIT 1")


def open_desk(channel: str, db: Database, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Desk:
    monkeypatch.setenv(f"WEBHOOK_SECRET_{channel.upper()}", f"{SECRET} second-secret")
    own = {f"{channel}_user_id": str(OWN_ID)} if channel != "freshdesk" else {}
    given = {f"{channel}_url": URLS[channel]} if channel in URLS else {}
    limits = {"ticket_rate_limits": Settings.model_fields["ticket_rate_limits"].default}
    office = Office(db, **{**own, **given, **limits, **settings})
    return Desk(channel, office, TestClient(create_app(office.settings, db, office.ports, clock=lambda: NOW)))


@pytest.fixture(params=CHANNELS)
def desk(request: pytest.FixtureRequest, db: Database, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return open_desk(request.param, db, monkeypatch)


@pytest.fixture
def chatwoot(db: Database, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return open_desk("chatwoot", db, monkeypatch)


def test_a_conversation_makes_two_turns_and_nothing_else(desk: Desk) -> None:
    first = PAYLOADS[desk.channel]("customer", "银行流水同步失败 E3001", 901)
    assert desk.post(first, "d-first").status_code == 202
    desk.work()
    reply = desk.office.rows("SELECT body FROM desk.outbox")[0]["body"]
    desk.office.execute("UPDATE desk.outbox SET attempts = 1, status = 'accepted'")
    assert "ignored" in desk.says("us", reply, 902).json()
    second = PAYLOADS[desk.channel]("customer", "重新授权之后还是不行", 903)
    assert desk.post(second, "d-second").status_code == 202
    desk.work()
    assert "ignored" in desk.says("colleague", "内部讨论：先看日志", 904, note=True).json()
    again = [desk.post(first, "d-first"), desk.post(second, "d-second"), desk.post(first, "d-other")]
    assert [(r.status_code, r.json()["duplicate"]) for r in again] == [(200, True)] * 3
    desk.work()
    assert desk.turns() == 2
    assert desk.inbox() == [("customer", "银行流水同步失败 E3001"), ("customer", "重新授权之后还是不行")]
    assert len(desk.office.rows("SELECT 1 FROM biz.tickets")) == 1
    assert sum(desk.counted().values()) == 2
    ticket = desk.ticket()
    assert (ticket["contact"], ticket["contact_name"].replace(" ", "")) == (CUSTOMER, "李娜")


def test_two_customer_messages_in_the_wrong_order_are_two_messages_of_one_ticket(desk: Desk) -> None:
    assert desk.says("customer", "第二句话", 906).status_code == 202
    assert desk.says("customer", "第一句话", 905).status_code == 202
    assert len({r["ticket_id"] for r in desk.office.rows("SELECT ticket_id FROM desk.inbox")}) == 1
    assert len(desk.inbox()) == 2


def test_what_a_colleague_writes_is_kept_as_theirs_and_the_agent_falls_silent(desk: Desk) -> None:
    desk.says("customer", "同步失败", 901)
    desk.work()
    got = desk.says("colleague", "我来处理，请稍等。", 907)
    assert got.status_code == 202
    assert desk.says("colleague", "我来处理，请稍等。", 907).json()["duplicate"] is True
    desk.says("customer", "好的，多久？", 908)
    desk.work()
    assert desk.turns() == 1
    assert [author for author, _ in desk.inbox()] == ["customer", "human", "customer"]
    assert desk.ticket()["status"] == "escalated"
    assert desk.ticket()["handoff_reason"].replace(" ", "") == "王芳tooktheticketover"
    tickets.release(desk.office.db, desk.office.ports, desk.ticket()["id"])
    desk.work()
    assert desk.office.status(desk.ticket()["id"]) == "answered"


def test_a_colleagues_erased_words_stay_erased_though_another_ticket_of_the_conversation_is_there(chatwoot: Desk) -> None:
    chatwoot.says("customer", "我的问题", 901)
    said = helpdesks.chatwoot("colleague", "李娜您好，您的账单是……", 902)
    assert chatwoot.post(said, "d-902").status_code == 202
    other = {"id": 502, "name": "别人", "email": "other@example.com", "type": "contact"}
    chatwoot.says("customer", "我也有", 903, sender=other)
    customers.erase(chatwoot.office.db, CUSTOMER, "小王")
    for delivery in ("d-902", "d-903"):
        assert chatwoot.post(said, delivery).json() == {"duplicate": True, "ignored": "erased"}
    assert chatwoot.inbox() == [("customer", "我也有")]


def test_a_colleague_who_writes_where_no_ticket_is_is_not_our_business(desk: Desk) -> None:
    assert desk.says("colleague", "您好，这里是客服", 907).json() == {"ignored": channels.NO_TICKET}
    assert desk.inbox() == []


def test_our_own_reply_sent_back_is_ignored_even_where_no_id_says_that_it_is_ours(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for channel in CHANNELS:
        desk = open_desk(channel, db, monkeypatch, **({f"{channel}_user_id": None} if channel != "freshdesk" else {}))
        desk.says("customer", "银行流水同步失败 E3001", 901)
        desk.work()
        body = desk.office.one("SELECT o.body FROM desk.outbox o JOIN biz.tickets t ON t.id = o.ticket_id WHERE t.channel = %s", channel)["body"]
        desk.office.execute("UPDATE desk.outbox SET attempts = 1, status = 'accepted'")
        for number, who in ((950, "us"), (951, "customer")):        # as an agent, and as a mailbox that sends all mail back
            assert desk.says(who, body, number).json() == {"ignored": "our own message"}, (channel, who)
        desk.office.execute("UPDATE desk.outbox SET provider_id = %s WHERE ticket_id = (SELECT max(id) FROM biz.tickets)",
                            {"chatwoot": "chatwoot:3:952", "intercom": "intercom:ab12cd:952"}.get(channel, ""))
        if channel in {"chatwoot", "intercom"}:
            assert desk.says("us", "改过的话", 952).json() == {"ignored": "our own message"}
        assert desk.office.status(desk.office.one("SELECT max(id) AS id FROM biz.tickets")["id"]) == "answered"


def test_two_auto_responders_that_talk_to_each_other_stop(desk: Desk) -> None:
    for number in range(13):
        desk.says("customer", f"自动回复 {number}：我正在休假", 1000 + number, **({"at": f"t{number}"} if desk.channel == "freshdesk" else {}))
        desk.work()
    assert desk.turns() == 10
    assert desk.ticket()["status"] == "escalated"
    assert desk.ticket()["handoff_reason"] == "rate limit: 10 answers to this ticket within 10 min"
    assert len(desk.office.outbox(desk.ticket()["id"])) == 10


def test_a_loop_that_opens_a_conversation_each_time_stops_too(chatwoot: Desk) -> None:
    for number in range(14):
        conversation = helpdesks.chatwoot_conversation(id=100 + number)
        chatwoot.says("customer", f"自动回复 {number}", 1000 + number, conversation=conversation)
        chatwoot.work()
    assert chatwoot.turns() == 10
    statuses = [r["status"] for r in chatwoot.office.rows("SELECT status FROM biz.tickets ORDER BY id")]
    assert statuses == ["answered"] * 10 + ["escalated"] * 4


def test_without_limits_everything_is_answered(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk("chatwoot", db, monkeypatch, ticket_rate_limits="off")
    for number in range(12):
        desk.says("customer", f"问题 {number}", 1000 + number)
        desk.work()
    assert desk.turns() == 12


def test_a_wrong_signature_is_401_and_counted_and_nothing_is_stored(desk: Desk) -> None:
    body = json.dumps(PAYLOADS[desk.channel]("customer", "你好", 901)).encode()
    wrong = helpdesks.sign(desk.channel, body, secret="another-secret")
    for headers in (wrong, {}, {name: "ö".encode() for name in wrong}, dict.fromkeys(wrong, "sha256=zz")):
        assert desk.client.post(f"/webhooks/{desk.channel}", content=body, headers=headers).status_code == 401
    changed = {**helpdesks.sign(desk.channel, body)}
    if desk.channel != "freshdesk":
        assert desk.client.post(f"/webhooks/{desk.channel}", content=body + b" ", headers=changed).status_code == 401
    assert desk.inbox() == []
    assert desk.counted()["signature"] >= 1


def test_an_old_secret_works_beside_the_new_one(desk: Desk) -> None:
    for number, secret in ((901, SECRET), (902, "second-secret")):
        body = json.dumps(PAYLOADS[desk.channel]("customer", f"你好 {number}", number)).encode()
        headers = helpdesks.sign(desk.channel, body, f"d-{number}", secret=secret)
        assert desk.client.post(f"/webhooks/{desk.channel}", content=body, headers=headers).status_code == 202


@pytest.mark.parametrize("channel", ["chatwoot", "zendesk"])
def test_a_signed_time_that_is_old_is_401(channel: str, db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk(channel, db, monkeypatch)
    body = json.dumps(PAYLOADS[channel]("customer", "你好", 901)).encode()
    for at in (NOW - timedelta(seconds=301), NOW + timedelta(seconds=301)):
        assert desk.client.post(f"/webhooks/{channel}", content=body, headers=helpdesks.sign(channel, body, at=at)).status_code == 401


def test_without_a_secret_nobody_gets_in(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(f"WEBHOOK_SECRET_{desk.channel.upper()}")
    got = desk.says("customer", "你好", 901)
    assert (got.status_code, "WEBHOOK_SECRET_" in got.json()["error"]) == (401, True)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b"[" * 5000])
def test_signed_but_broken_input_is_kept_once_however_often_it_comes(desk: Desk, raw: bytes) -> None:
    answers = [desk.post(raw, "d-broken") for _ in range(2)]
    assert [a.status_code for a in answers] == [202, 202]
    assert answers[0].json()["quarantined"] == answers[1].json()["quarantined"]
    assert desk.office.one("SELECT raw FROM desk.quarantine")["raw"] == raw


def test_a_message_without_its_fields_is_kept_or_ignored_but_never_an_error(desk: Desk) -> None:
    whole = PAYLOADS[desk.channel]("customer", "你好", 901)
    for value in (None, {}, [], 7, "x\x00y", "\ud800", True):
        for name in whole:
            body = json.dumps({**whole, name: value}).encode()
            assert desk.post(body).status_code in {200, 202}, (name, value)


def test_the_same_id_with_other_words_is_a_conflict_that_somebody_can_see(chatwoot: Desk) -> None:
    chatwoot.says("customer", "第一版", 901)
    assert chatwoot.says("customer", "第二版", 901).json()["duplicate"] is True
    assert chatwoot.office.one("SELECT reason FROM desk.quarantine")["reason"].startswith("conflict")
    assert chatwoot.inbox() == [("customer", "第一版")]


@pytest.mark.parametrize(("reason", "changes"), [
    ("message_type template", {"message_type": "template"}),
    ("message_type activity", {"message_type": "activity"}),
    ("satisfaction survey", {"content_type": "input_csat"}),
    ("automation", {"content_attributes": {"automation_rule_id": 4}}),
    ("echo of another client", {"content_attributes": {"external_echo": True}}),
    ("automatic reply", {"content_attributes": {"email": {"auto_reply": True}}}),
    ("bot or campaign", {"message_type": "outgoing", "sender": {"id": 2, "type": "agent_bot"}}),
    ("bot or campaign", {"message_type": "outgoing", "sender": None}),
    ("incoming, but not from a contact", {"sender": {"id": 2, "type": "agent_bot"}}),
    ("our own message", {"message_type": "outgoing", "sender": {"id": COLLEAGUE_ID, "type": "user"},
                         "content_attributes": {"supportpilot": "turn:x:reply"}}),
    ("event message_updated", {"event": "message_updated"}),
    ("unknown event", {"event": "x" * 500}),
])
def test_what_chatwoot_sends_besides_messages_is_ignored_with_its_reason(chatwoot: Desk, reason: str, changes: dict[str, Any]) -> None:
    got = chatwoot.says("customer", "你好", 901, **changes)
    assert (got.status_code, got.json()) == (200, {"ignored": reason})
    assert (chatwoot.inbox(), chatwoot.counted()) == ([], {reason: 1})


def test_chatwoot_mail_and_pictures_are_messages(chatwoot: Desk) -> None:
    mail = {"email": {"subject": "同步失败", "text_content": {"reply": "还是不行", "full": "还是不行\n> 旧的"}}}
    chatwoot.says("customer", "", 901, content=None, content_type="incoming_email", content_attributes=mail)
    chatwoot.says("customer", "", 902, attachments=[{"file_type": "image", "data_url": "https://files.example.com/a.png"}])
    assert [body for _, body in chatwoot.inbox()] == ["还是不行", "📎 image https://files.example.com/a.png"]


def test_an_address_that_a_visitor_typed_brings_no_customers_data(chatwoot: Desk, db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    chatwoot.office.execute("INSERT INTO biz.customers (id, email, name) VALUES ('C1', %s, '李娜')", CUSTOMER)
    stranger = helpdesks.chatwoot_conversation(id=60, contact_inbox={"hmac_verified": False}, meta={"hmac_verified": False})
    chatwoot.says("customer", "我要退款", 901, conversation=stranger)
    assert chatwoot.ticket()["customer_id"] is None
    chatwoot.says("customer", "我要退款", 902)
    trusting = open_desk("chatwoot", db, monkeypatch, trusted_addresses="chatwoot")
    trusting.says("customer", "我要退款", 903, conversation={**stranger, "id": 61})
    found = chatwoot.office.rows("SELECT customer_id FROM biz.tickets ORDER BY id")
    assert [r["customer_id"] for r in found] == [None, "C1", "C1"]


def test_a_visitor_without_an_address_is_known_by_number(chatwoot: Desk) -> None:
    chatwoot.says("customer", "你好", 901, sender={"id": 501, "name": "visitor", "email": None, "type": "contact"})
    assert chatwoot.ticket()["contact"] == "chatwoot:3:contact:501"


def test_two_accounts_and_two_conversations_are_not_one(chatwoot: Desk) -> None:
    chatwoot.says("customer", "一", 901)
    chatwoot.says("customer", "二", 901, account={"id": 4})
    chatwoot.says("customer", "三", 902, conversation=helpdesks.chatwoot_conversation(id=49))
    assert len({r["ticket_id"] for r in chatwoot.office.rows("SELECT ticket_id FROM desk.inbox")}) == 3


def test_another_account_than_the_configured_one_is_ignored(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk("chatwoot", db, monkeypatch, chatwoot_account_id=4)
    assert desk.says("customer", "一", 901).json() == {"ignored": "another account"}


def test_another_sender_in_the_conversation_gets_a_ticket_of_their_own(chatwoot: Desk) -> None:
    chatwoot.says("customer", "我的问题", 901)
    other = {"id": 502, "name": "别人", "email": "other@example.com", "type": "contact"}
    chatwoot.says("customer", "看看他的账单", 902, sender=other)
    rows = chatwoot.office.rows("SELECT contact, linked_to FROM biz.tickets ORDER BY id")
    assert [r["contact"] for r in rows] == [CUSTOMER, "other@example.com"]
    assert rows[1]["linked_to"] is not None


COLLEAGUE = {"id": COLLEAGUE_ID, "name": "王芳", "type": "user"}


def test_an_assignment_takes_the_ticket_over_and_giving_back_releases_it(chatwoot: Desk) -> None:
    chatwoot.says("customer", "同步失败", 901)
    chatwoot.work()
    taken = helpdesks.chatwoot_change(COLLEAGUE, assignee_id=(None, COLLEAGUE_ID))
    assert chatwoot.post(taken, "d-1").json()["conversation"] == "taken over"
    assert chatwoot.post(taken, "d-2").json() == {"ignored": "a human has it already"}
    chatwoot.says("customer", "在吗", 902, conversation=helpdesks.chatwoot_conversation(COLLEAGUE))
    chatwoot.work()
    assert (chatwoot.turns(), chatwoot.ticket()["status"]) == (1, "escalated")
    given = helpdesks.chatwoot_change(None, assignee_id=(COLLEAGUE_ID, None))
    assert chatwoot.post(given).json()["conversation"] == "given back"
    chatwoot.work()
    assert (chatwoot.turns(), chatwoot.ticket()["status"]) == (2, "answered")


def test_a_conversation_that_is_opened_by_a_person_is_theirs_and_pending_again_is_ours(chatwoot: Desk) -> None:
    chatwoot.says("customer", "同步失败", 901)
    opened = helpdesks.chatwoot_change(None, "conversation_status_changed", status=("pending", "open"))
    assert chatwoot.post(opened).json()["conversation"] == "taken over"
    back = helpdesks.chatwoot_change(None, "conversation_status_changed", status=("open", "pending"))
    assert chatwoot.post(back).json()["conversation"] == "given back"
    chatwoot.work()
    assert chatwoot.turns() == 1


def test_our_own_opening_of_a_conversation_that_is_handed_over_is_nobodys_taking_over(chatwoot: Desk) -> None:
    chatwoot.says("customer", "转人工", 901)
    chatwoot.office.execute("UPDATE biz.tickets SET status = 'escalated', handoff_reason = 'asked for a person'")
    opened = helpdesks.chatwoot_change(None, "conversation_status_changed", status=("pending", "open"))
    assert chatwoot.post(opened, "d-1").json() == {"ignored": "opened after it was handed over"}
    assert (chatwoot.ticket()["taken_over_seq"], chatwoot.ticket()["last_seq"]) == (0, 1)
    taken = helpdesks.chatwoot_change(COLLEAGUE, "conversation_status_changed", status=("pending", "open"))
    assert chatwoot.post(taken, "d-2").json()["conversation"] == "taken over"


def test_a_person_who_has_the_conversation_keeps_it_though_the_hook_of_that_was_lost(chatwoot: Desk) -> None:
    chatwoot.says("customer", "同步失败", 901, conversation=helpdesks.chatwoot_conversation(COLLEAGUE))
    chatwoot.work()
    assert (chatwoot.turns(), chatwoot.ticket()["handoff_reason"]) == (0, "王芳 took the ticket over")


def test_an_assignment_while_the_answer_is_made_withholds_it(chatwoot: Desk) -> None:
    chatwoot.says("customer", "同步失败", 901)
    chatwoot.work()
    chatwoot.post(helpdesks.chatwoot_change(COLLEAGUE, assignee_id=(None, COLLEAGUE_ID)))
    chatwoot.office.wakeups.replies.append(chatwoot.office.one("SELECT id FROM desk.outbox")["id"])
    chatwoot.office.deliver()
    assert chatwoot.office.one("SELECT status FROM desk.outbox")["status"] == "withheld"


def test_resolving_at_the_helpdesk_resolves_the_ticket_and_other_changes_do_nothing(chatwoot: Desk) -> None:
    chatwoot.says("customer", "同步失败", 901)
    resolved = helpdesks.chatwoot_change(None, "conversation_status_changed", status=("pending", "resolved"))
    assert chatwoot.post(resolved, "d-1").json() == {"ignored": "resolved, but not possible now"}
    chatwoot.work()
    assert chatwoot.post(resolved, "d-2").json()["conversation"] == "resolved"
    assert chatwoot.ticket()["status"] == "resolved"
    assert chatwoot.post(helpdesks.chatwoot_change(None, labels=([], ["vip"]))).json() == {
        "ignored": "conversation changed, not its hands"}
    assert chatwoot.post({**resolved, "id": 999}).json() == {"ignored": channels.NO_TICKET}


def test_intercom_assignment_closing_and_ping(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk("intercom", db, monkeypatch)
    assert desk.post({"type": "notification_event", "topic": "ping", "id": "notif_p", "data": {}}).json() == {"ignored": "ping"}
    assert desk.client.head("/webhooks/intercom").status_code == 200
    desk.says("customer", "同步失败", 901)

    def moved(topic: str, assignee: int | None) -> Any:
        item = {"type": "conversation", "id": "215474", "admin_assignee_id": assignee}
        return desk.post({"type": "notification_event", "topic": topic, "id": f"n-{topic}-{assignee}", "app_id": "ab12cd", "data": {"item": item}}).json()

    assert moved("conversation.admin.assigned", COLLEAGUE_ID)["conversation"] == "taken over"
    assert moved("conversation.admin.assigned", OWN_ID)["conversation"] == "given back"
    desk.work()
    assert moved("conversation.admin.closed", None)["conversation"] == "resolved"
    assert (desk.turns(), desk.ticket()["status"]) == (1, "resolved")


def test_an_intercom_team_that_gets_a_conversation_has_it(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk("intercom", db, monkeypatch)
    desk.says("customer", "同步失败", 901)

    def assigned(delivery: str, admin: Any, team: Any) -> dict[str, Any]:
        item = {"type": "conversation", "id": "215474", "admin_assignee_id": admin, "team_assignee_id": team}
        return dict(desk.post({"type": "notification_event", "topic": "conversation.admin.assigned", "id": delivery, "app_id": "ab12cd",
                               "data": {"item": item}}).json())

    assert assigned("n-1", None, 814)["conversation"] == "taken over"
    assert desk.ticket()["handoff_reason"] == "a team took the ticket over"
    assert assigned("n-2", COLLEAGUE_ID, 814) == assigned("n-3", 0, "814") == {"ignored": "a human has it already"}
    desk.work()
    assert (desk.turns(), desk.ticket()["status"]) == (0, "escalated")
    assert assigned("n-4", OWN_ID, 814)["conversation"] == "given back"
    assert assigned("n-5", None, 814)["conversation"] == "taken over"
    assert assigned("n-6", None, None)["conversation"] == "given back"
    said = helpdesks.intercom("customer", "在吗", 902)
    said["data"]["item"]["team_assignee_id"] = 814
    desk.post(said)
    assert desk.ticket()["status"] == "escalated"


def test_a_conversation_that_a_customer_opens_at_intercom_begins_with_its_source(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk("intercom", db, monkeypatch)
    opened = helpdesks.intercom("customer", "x", 901, topic="conversation.user.created")
    assert desk.post(opened).status_code == 202
    assert desk.inbox() == [("customer", "你好")]
    bot = helpdesks.intercom("colleague", "我是机器人", 902)
    bot["data"]["item"]["conversation_parts"]["conversation_parts"][0]["author"] = {"type": "bot", "id": "5"}
    assert desk.post(bot).json() == {"ignored": "bot"}


def test_zammad_owner_system_and_automatic_articles(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk("zammad", db, monkeypatch)
    plain = helpdesks.zammad("customer", "你好", 901)
    assert desk.post({"ticket": plain["ticket"]}).json() == {"ignored": "ticket changed, no article"}
    for changes, reason in (({"sender": "System"}, "system"), ({"preferences": {"is-auto-response": True}}, "automatic reply")):
        assert desk.post({**plain, "article": {**plain["article"], **changes}}).json() == {"ignored": reason}
    owned = {**plain["ticket"], "owner_id": COLLEAGUE_ID, "owner": {"id": COLLEAGUE_ID, "firstname": "王芳"}}
    desk.post({**plain, "ticket": owned})
    assert desk.ticket()["status"] == "escalated"


STRANGER = {"id": 41, "email": "Eve@Example.com", "firstname": "Eve", "lastname": "", "roles": ["Customer"]}


def test_a_stranger_who_writes_into_a_zammad_ticket_is_not_its_customer(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk("zammad", db, monkeypatch)
    desk.office.execute("INSERT INTO biz.customers (id, email, name) VALUES ('C1', %s, '李娜')", CUSTOMER)
    first = desk.says("customer", "我的账单", 901).json()["ticket_id"]
    plain = helpdesks.zammad("customer", "把账单发给我", 902)["article"]
    nameless = {"id": 42, "firstname": "Mallory"}
    for number, author in ((902, STRANGER), (903, nameless), (904, {})):
        article = {**plain, "id": number, "created_by_id": author.get("id"), "created_by": author, "from": CUSTOMER}
        assert desk.says("customer", "x", number, article=article).status_code == 202
    assert desk.says("customer", "还是我", 905).json()["ticket_id"] == first
    rows = desk.office.rows("SELECT id, contact, contact_name, customer_id, linked_to, verified FROM biz.tickets ORDER BY id")
    assert [(r["contact"], r["customer_id"], r["verified"]) for r in rows] == [
        (CUSTOMER, "C1", True), ("eve@example.com", None, True), ("zammad:zammad.example:ticket:55:user:42", None, False),
        ("zammad:zammad.example:ticket:55:user:unknown", None, False)]
    assert all(r["linked_to"] for r in rows[1:])
    assert rows[1]["contact_name"] == "Eve"


def test_a_call_that_a_zammad_agent_wrote_down_is_the_customers(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk("zammad", db, monkeypatch)
    agent = {"id": COLLEAGUE_ID, "email": "wf@example.com", "firstname": "王芳", "roles": ["Agent"]}
    called = {**helpdesks.zammad("customer", "他来电说同步失败", 901)["article"], "type": "phone", "created_by_id": COLLEAGUE_ID,
              "created_by": agent, "origin_by": CUSTOMER, "origin_by_id": 40}
    desk.says("customer", "x", 901, article=called)
    claimed = {**called, "id": 902, "created_by_id": STRANGER["id"], "created_by": STRANGER}     # only an agent's word counts
    desk.says("customer", "x", 902, article=claimed)
    assert [r["contact"] for r in desk.office.rows("SELECT contact FROM biz.tickets ORDER BY id")] == [CUSTOMER, "eve@example.com"]


def test_what_a_stranger_wrote_and_nobody_can_read_is_not_held_under_the_customers_name(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk("zammad", db, monkeypatch)
    article = {**helpdesks.zammad("customer", "", 901)["article"], "body": "", "created_by_id": 41, "created_by": STRANGER}
    assert "quarantined" in desk.says("customer", "x", 901, article=article).json()
    assert desk.office.one("SELECT sender FROM desk.quarantine")["sender"] == "Eve@Example.com"


def test_a_zendesk_template_that_cannot_be_read_is_kept_for_the_engineer(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk("zendesk", db, monkeypatch)
    for changes in ({"author_role": "Endbenutzer"}, {"public": ""}, {"ticket_id": "../users/1"}, {"text_html": ""}):
        assert "quarantined" in desk.says("customer", "你好", 901, **changes).json()
    desk.says("customer", '他说 "E3001" <b>\\n</b>', 902)
    assert desk.inbox() == [("customer", '他说 "E3001" <b>\\n</b>')]
    assert desk.says("customer", "x", 903, author_id="-1").json() == {"ignored": "system"}


def test_freshdesk_takes_its_secret_as_a_password_too(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk("freshdesk", db, monkeypatch)
    body = json.dumps(helpdesks.freshdesk("customer", "你好", 901)).encode()
    post = desk.client.post
    assert post("/webhooks/freshdesk", content=body, auth=("hook", SECRET)).status_code == 202
    assert post("/webhooks/freshdesk", content=body, auth=("hook", "wrong")).status_code == 401


def test_a_database_that_is_away_is_503_and_the_retry_is_stored(desk: Desk, db: Database) -> None:
    away = Database("postgresql://nobody@127.0.0.1:1/none", timeout=0.2)
    with away:
        client = TestClient(create_app(desk.office.settings, away, desk.office.ports, clock=lambda: NOW))
        body = json.dumps(PAYLOADS[desk.channel]("customer", "你好", 901)).encode()
        got = client.post(f"/webhooks/{desk.channel}", content=body, headers=helpdesks.sign(desk.channel, body))
        assert (got.status_code, "retry-after" in got.headers) == (503, True)
    assert desk.says("customer", "你好", 901).status_code == 202


def test_a_held_helpdesk_message_can_be_tried_again_after_a_fix(chatwoot: Desk) -> None:
    chatwoot.office.settings.max_message_chars = 3
    held = chatwoot.says("customer", "同步失败", 901).json()["quarantined"]
    chatwoot.office.settings.max_message_chars = 300
    letters.retry_quarantine(chatwoot.office.db, chatwoot.office.settings, chatwoot.office.ports, held, _parser(chatwoot.office.settings))
    assert chatwoot.inbox() == [("customer", "同步失败")]
    note = chatwoot.post({**helpdesks.chatwoot("colleague", "", 902), "content": None}).json()["quarantined"]
    with pytest.raises(Refused):
        letters.retry_quarantine(chatwoot.office.db, chatwoot.office.settings, chatwoot.office.ports, note, _parser(chatwoot.office.settings))


def retry(desk: Desk, held: str) -> Any:
    return letters.retry_quarantine(desk.office.db, desk.office.settings, desk.office.ports, held, _parser(desk.office.settings))


def test_a_held_message_that_is_tried_again_is_treated_as_if_it_came_now(chatwoot: Desk) -> None:
    chatwoot.says("customer", "同步", 900)
    chatwoot.work()
    said = chatwoot.office.one("SELECT body FROM desk.outbox")["body"]
    chatwoot.office.execute("UPDATE desk.outbox SET attempts = 1, status = 'accepted'")
    chatwoot.office.settings.max_message_chars = 3
    colleague = chatwoot.says("colleague", "我来处理，请稍等。", 901).json()["quarantined"]
    echo = chatwoot.says("customer", said, 902).json()["quarantined"]
    held = chatwoot.says("customer", "同步失败", 903, conversation=helpdesks.chatwoot_conversation(COLLEAGUE, id=49)).json()["quarantined"]
    moved = chatwoot.post({**helpdesks.chatwoot_change(COLLEAGUE, assignee_id=(None, COLLEAGUE_ID)), "id": "x"}).json()["quarantined"]
    chatwoot.office.settings.max_message_chars = 3000
    got = retry(chatwoot, colleague)
    assert got.ticket_id == chatwoot.ticket()["id"]
    assert chatwoot.inbox()[-1] == ("human", "我来处理，请稍等。")
    assert chatwoot.ticket()["status"] == "escalated"
    with pytest.raises(Refused, match="our own message"):
        retry(chatwoot, echo)
    assert chatwoot.office.status(retry(chatwoot, held).ticket_id) == "escalated"      # who had it keeps it
    with pytest.raises(Refused, match="unusable"):
        retry(chatwoot, moved)
    with pytest.raises(Refused, match="already"):
        retry(chatwoot, colleague)
    states = {r["id"]: r["state"] for r in chatwoot.office.rows("SELECT id, state FROM desk.quarantine")}
    assert {states[colleague], states[held]} == {"accepted"}
    assert "accepted" not in {states[echo], states[moved]}


def test_the_command_shows_what_the_doors_did(chatwoot: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    chatwoot.says("customer", "同步失败", 901)
    chatwoot.says("colleague", "内部", 902, note=True)
    chatwoot.client.post("/webhooks/chatwoot", content=b"{}")
    monkeypatch.setenv("DATABASE_URL", chatwoot.office.db.url)
    get_settings.cache_clear()
    assert run(["channels", "--json"]) == 0
    shown = {(r["channel"], r["outcome"], r["reason"]): r["n"] for r in json.loads(capsys.readouterr().out)["counts"]}
    assert shown == {("chatwoot", "stored", "customer"): 1, ("chatwoot", "ignored", "private note"): 1,
                     ("chatwoot", "refused", "signature"): 1}
    assert run(["channels"]) == 0
    assert "private note" in capsys.readouterr().out
    get_settings.cache_clear()


def test_the_poll_is_beats_only_where_an_account_is_named() -> None:
    assert "channel.reconcile" not in entries(load_settings())
    entry = entries(load_settings(chatwoot_account_id=3, chatwoot_reconcile_seconds=60))["channel.reconcile"]
    assert (entry["schedule"], entry["args"]) == (60, ["chatwoot"])
