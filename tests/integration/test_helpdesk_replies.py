"""Replies by five helpdesks' APIs: once, whatever the network does, and a poll that finds what hooks lost."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from fixtures import helpdesks
from fixtures.helpdesks import CHANNELS, COLLEAGUE_ID, CUSTOMER, OWN_ID, Helpdesk
from fixtures.office import Office

from producer.cli.letters import _parser
from supportpilot.config import load_settings
from supportpilot.db.outbox import OutboxEntry, put
from supportpilot.db.pool import Database
from supportpilot.errors import Misconfigured, NotFound
from supportpilot.service import channels, intake, letters, reconcile, upkeep
from supportpilot.service import ticket as tickets
from supportpilot.types import InboundMessage

pytestmark = pytest.mark.integration

CONVERSATION = {"chatwoot": "3/48", "zendesk": "firm/35436", "freshdesk": "firm/812", "intercom": "ab12cd/215474", "zammad": "z/55"}
MARKED = ("chatwoot", "zendesk")    # they keep a field of ours with a reply
REPLY = "您好，[KB-bank-001](http://127.0.0.1:8000/kb/KB-bank-001) 说明了怎样重新授权 <E3001>。"
_numbers = itertools.count(1)


@pytest.fixture
def helpdesk() -> Iterator[Helpdesk]:
    running = Helpdesk()
    yield running
    running.stop()


def office_of(channel: str, db: Database, helpdesk: Helpdesk, **settings: Any) -> Office:
    own = {f"{channel}_url": helpdesk.url, f"{channel}_token": "a@b.example/token:KEY", f"{channel}_user_id": str(OWN_ID)}
    return Office(db, **{**own, "reply_timeout_seconds": 0.5, **settings})


def queue(office: Office, channel: str, body: str = REPLY, kind: Any = "reply") -> str:
    """Put one reply on a ticket of the channel's conversation and return the ticket."""
    found = office.rows("SELECT id FROM biz.tickets")
    if found:
        ticket_id = str(found[0]["id"])
    else:
        ticket_id = channels.take(office.db, office.settings, office.ports, channel, channels.Heard(InboundMessage(
            channel=channel, external_id=f"{channel}:1:1", contact=CUSTOMER, body="同步失败",
            conversation_id=CONVERSATION[channel]))).ticket_id      # type: ignore[union-attr]
    with office.db.transaction() as conn:
        put(conn, OutboxEntry(ticket_id, None, f"turn:{next(_numbers)}:reply", kind, body))
    return ticket_id


def send(office: Office) -> list[tuple[str, str | None]]:
    """Send what is due now and return (status, error) of every row."""
    office.execute("UPDATE desk.outbox SET next_attempt_at = clock_timestamp() WHERE status IN ('queued', 'unknown')")
    found = office.rows("SELECT id FROM desk.outbox WHERE status IN ('queued', 'unknown') ORDER BY position LIMIT 1")
    office.wakeups.replies[:] = [r["id"] for r in found]
    office.deliver()
    return [(r["status"], r["last_error"]) for r in office.rows("SELECT status, last_error FROM desk.outbox ORDER BY position")]


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_reply_goes_into_the_conversation_once_with_its_id_noted(channel: str, db: Database, helpdesk: Helpdesk) -> None:
    office = office_of(channel, db, helpdesk)
    queue(office, channel)
    assert send(office) == [("accepted", None)]
    assert len(helpdesk.kept) == 1
    assert "KB-bank-001" in str(helpdesk.kept[0])
    assert ("&lt;E3001&gt;" in str(helpdesk.kept[0])) is (channel != "chatwoot")
    noted = office.one("SELECT provider_id FROM desk.outbox")["provider_id"]
    assert noted == f"{channel}:{CONVERSATION[channel].split('/')[0]}:7000"
    assert CONVERSATION[channel].split("/")[1] in helpdesk.calls[-1][1] or helpdesk.calls[-1][2].get("ticket_id") == 55


def test_each_helpdesk_gets_its_own_form_of_login(db: Database, helpdesk: Helpdesk) -> None:
    forms = {"chatwoot": ("api_access_token", "a@b"), "zendesk": ("authorization", "Basic "), "freshdesk": ("authorization", "Basic "),
             "intercom": ("authorization", "Bearer "), "zammad": ("authorization", "Token token=")}
    for channel in CHANNELS:
        office = office_of(channel, db, helpdesk)
        office.execute("DELETE FROM desk.outbox; DELETE FROM desk.inbox; DELETE FROM desk.leases; DELETE FROM biz.tickets")
        queue(office, channel)
        send(office)
        name, start = forms[channel]
        assert helpdesk.logins[-1][name].startswith(start)


def test_zammad_answers_a_mail_by_mail(db: Database, helpdesk: Helpdesk) -> None:
    office = office_of("zammad", db, helpdesk)
    queue(office, "zammad")
    send(office)
    article = helpdesk.kept[0]
    assert (article["type"], article["to"], article["in_reply_to"]) == ("email", f"李娜 <{CUSTOMER}>", "<c1@example.com>")


def zammad_mail(number: int, sender: str, **more: Any) -> dict[str, Any]:
    return {"id": number, "sender": "Customer", "internal": False, "type": "email", "from": sender, "subject": "同步失败",
            "message_id": f"<c{number}@example.com>", **more}


def test_zammad_answers_whom_it_answers_and_not_who_wrote_last_nor_whom_a_mail_names(db: Database, helpdesk: Helpdesk) -> None:
    office = office_of("zammad", db, helpdesk)
    helpdesk.articles = [zammad_mail(2, CUSTOMER.upper(), reply_to="eve@example.com"), zammad_mail(3, "eve@example.com")]
    queue(office, "zammad")
    send(office)
    office.execute("UPDATE desk.inbox SET external_id = 'zammad:1:99'")     # no such article: the last one of this customer's
    queue(office, "zammad", "第二次回复。")
    send(office)
    assert [(a["to"], a["in_reply_to"]) for a in helpdesk.kept] == [
        (f"李娜 <{CUSTOMER}>", "<c1@example.com>"), (CUSTOMER.upper(), "<c2@example.com>")]


def test_a_zammad_reply_whose_addressee_is_not_known_fails_where_people_see_it(db: Database, helpdesk: Helpdesk) -> None:
    office = office_of("zammad", db, helpdesk)
    ticket_id = queue(office, "zammad")
    office.execute("UPDATE desk.outbox SET in_reply_to = 'zammad:1:99'; UPDATE biz.tickets SET contact = 'gone@example.com'")
    assert send(office)[0][0] == "failed"
    assert (helpdesk.kept, office.status(ticket_id)) == ([], "escalated")


def test_zammad_answers_the_web_by_a_note(db: Database, helpdesk: Helpdesk) -> None:
    office = office_of("zammad", db, helpdesk)
    helpdesk.articles = [zammad_mail(2, CUSTOMER, type="web")]
    queue(office, "zammad")
    office.execute("UPDATE desk.outbox SET in_reply_to = 'zammad:1:2'")
    send(office)
    assert helpdesk.kept[0]["type"] == "note"


@pytest.mark.parametrize(("channel", "fault"), [
    *itertools.product(CHANNELS, ("lost", "cut", 500)), ("chatwoot", "drip"), ("chatwoot", "hang"), ("chatwoot", 503)])
def test_a_reply_whose_fate_is_unknown_is_looked_for_before_it_is_sent_again(
        channel: str, fault: str | int, db: Database, helpdesk: Helpdesk) -> None:
    office = office_of(channel, db, helpdesk)
    queue(office, channel)
    helpdesk.faults = [fault]
    assert send(office)[0][0] == "unknown"
    assert len(helpdesk.kept) == (1 if fault in {"lost", "drip"} else 0)
    assert send(office)[0][0] == "accepted"
    assert len(helpdesk.kept) == 1
    assert office.one("SELECT provider_id FROM desk.outbox")["provider_id"].endswith(":7000")


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_failed_reply_that_may_have_arrived_is_looked_for_when_a_person_retries_it(channel: str, db: Database, helpdesk: Helpdesk) -> None:
    office = office_of(channel, db, helpdesk)
    queue(office, channel)
    helpdesk.faults = ["lost"]
    send(office)
    office.execute("UPDATE desk.outbox SET attempts = 11")
    helpdesk.look_faults = [500]
    assert send(office)[0][0] == "failed"
    letters.retry_outbox(db, office.ports, office.one("SELECT id FROM desk.outbox")["id"])
    assert send(office)[0][0] == "accepted"
    assert len(helpdesk.kept) == 1


def test_a_reply_that_was_refused_is_sent_without_a_look(db: Database, helpdesk: Helpdesk) -> None:
    office = office_of("zendesk", db, helpdesk)
    queue(office, "zendesk")
    helpdesk.faults = [429]
    assert send(office)[0][0] == "queued"
    assert office.one("SELECT unanswered FROM desk.outbox")["unanswered"] == 0
    send(office)
    assert [method for method, _, _ in helpdesk.calls] == ["PUT", "PUT"]


def test_what_was_refused_after_it_may_have_arrived_is_still_looked_for(db: Database, helpdesk: Helpdesk) -> None:
    office = office_of("zendesk", db, helpdesk)
    queue(office, "zendesk")
    helpdesk.faults, helpdesk.keeps_markers = ["cut", 429], False
    assert send(office)[0][0] == "unknown"
    assert send(office)[0][0] == "unknown"
    helpdesk.kept.append({"id": 7100, "html_body": REPLY, "public": True, "author_id": OWN_ID, "metadata": {}})    # it shows late
    assert send(office)[0][0] == "accepted"
    assert len(helpdesk.kept) == 1


@pytest.mark.parametrize("channel", CHANNELS)
def test_while_the_helpdesk_cannot_be_asked_nothing_is_sent_again(channel: str, db: Database, helpdesk: Helpdesk) -> None:
    office = office_of(channel, db, helpdesk)
    queue(office, channel)
    helpdesk.faults = ["lost"]
    send(office)
    for fault in (500, "cut", 401):
        helpdesk.look_faults = [fault]
        assert send(office)[0][0] == "unknown"
        assert len(helpdesk.kept) == 1
    assert send(office)[0][0] == "accepted"
    assert len(helpdesk.kept) == 1


@pytest.mark.parametrize("channel", CHANNELS)
def test_the_same_words_said_before_are_not_taken_for_a_reply_that_did_not_arrive(channel: str, db: Database, helpdesk: Helpdesk) -> None:
    office = office_of(channel, db, helpdesk)
    queue(office, channel, "您的问题已转给同事，稍后联系您。")
    send(office)
    queue(office, channel, "您的问题已转给同事，稍后联系您。")
    helpdesk.faults = ["cut"]
    assert send(office)[1][0] == "unknown"
    assert send(office)[1][0] == "accepted"
    assert len(helpdesk.kept) == 2


def test_a_marker_that_is_not_kept_is_replaced_by_the_words(db: Database, helpdesk: Helpdesk) -> None:
    helpdesk.keeps_markers = False
    for channel in MARKED:
        office = office_of(channel, db, helpdesk)
        office.execute("DELETE FROM desk.outbox; DELETE FROM desk.inbox; DELETE FROM desk.leases; DELETE FROM biz.tickets")
        helpdesk.kept.clear()
        queue(office, channel)
        helpdesk.faults = ["lost"]
        send(office)
        assert (send(office)[0][0], len(helpdesk.kept)) == ("accepted", 1)


@pytest.mark.parametrize(("status", "after"), [(429, "queued"), (409, "queued"), (401, "queued"), (302, "queued"),
                                               (404, "failed"), (422, "failed"), (400, "failed")])
def test_what_an_error_status_means(status: int, after: str, db: Database, helpdesk: Helpdesk) -> None:
    channel = "zendesk"
    office = office_of(channel, db, helpdesk)
    queue(office, channel)
    helpdesk.faults, helpdesk.location = [status], "http://127.0.0.1:9/elsewhere"
    got, error = send(office)[0]
    assert got == after
    assert f"HTTP {status}" in str(error)
    assert helpdesk.kept == []


def test_no_connection_waits_and_no_configuration_says_what_to_set(db: Database, helpdesk: Helpdesk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    office = office_of("zendesk", db, helpdesk, zendesk_url=f"http://127.0.0.1:{port}")
    queue(office, "zendesk")
    assert send(office)[0] == ("queued", "no connection to zendesk: ConnectError")
    office.settings.zendesk_token = None
    assert send(office)[0] == ("queued", "set ZENDESK_URL and ZENDESK_TOKEN: without them no reply goes out")
    nobody = office_of("intercom", db, helpdesk, intercom_user_id=None)
    office.execute("DELETE FROM desk.outbox; DELETE FROM desk.inbox; DELETE FROM desk.leases; DELETE FROM biz.tickets")
    queue(nobody, "intercom")
    assert "INTERCOM_USER_ID" in str(send(nobody)[0][1])


def test_a_deliverer_that_died_between_send_and_mark_is_not_followed_by_a_second_reply(db: Database, helpdesk: Helpdesk) -> None:
    office = office_of("freshdesk", db, helpdesk)
    queue(office, "freshdesk")
    send(office)
    office.execute("UPDATE desk.outbox SET status = 'sending', provider_id = NULL, sent_at = NULL, "
                   "claimed_until = clock_timestamp() - interval '1 minute'")
    assert upkeep.sweep(db, office.ports, office.settings)["replies"] == 1
    office.deliver()
    assert office.one("SELECT status, attempts FROM desk.outbox") == {"status": "accepted", "attempts": 2}
    assert len(helpdesk.kept) == 1


def test_a_conversation_id_that_is_no_number_never_becomes_an_address(db: Database, helpdesk: Helpdesk) -> None:
    office = office_of("chatwoot", db, helpdesk)
    for wrong in ("3/../../users", "3", "x/48", "3/4８", ""):
        office.execute("DELETE FROM desk.notifications; DELETE FROM desk.outbox; DELETE FROM desk.inbox; DELETE FROM desk.leases; DELETE FROM biz.tickets")
        queue(office, "chatwoot")
        office.execute("UPDATE biz.tickets SET conversation_id = %s", wrong)
        assert send(office)[0][0] == "failed"
    assert helpdesk.calls == []


@pytest.mark.parametrize("address", ["ftp://x", "http://user:pw@x", "https://x/?a=1", "https://x/#f", "x"])
def test_an_address_that_could_lead_elsewhere_is_refused_at_the_start(address: str) -> None:
    with pytest.raises(Misconfigured, match="CHATWOOT_URL"):
        load_settings(chatwoot_url=address)


@pytest.mark.parametrize("limits", ["10", "10/0", "0/10", "ten/10", "10/10,25/60"])
def test_rate_limits_that_cannot_be_read_are_refused_at_the_start(limits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Misconfigured, match="TICKET_RATE_LIMITS"):
        load_settings(ticket_rate_limits=limits)
    assert load_settings().rate_limits()[0] == (10, 600.0)
    monkeypatch.setenv("TICKET_RATE_LIMITS", "")
    assert load_settings().rate_limits() == []


def test_a_ticket_that_is_handed_over_shows_among_chatwoots_open_ones(db: Database, helpdesk: Helpdesk) -> None:
    office = office_of("chatwoot", db, helpdesk)
    queue(office, "chatwoot", "已转给同事。", "handoff")
    assert send(office) == [("accepted", None)]
    assert [path.rpartition("/")[2] for _, path, _ in helpdesk.calls] == ["toggle_status", "messages"]


def test_a_colleagues_reply_from_our_desk_goes_out_and_comes_back_as_ours(db: Database, helpdesk: Helpdesk) -> None:
    office = office_of("chatwoot", db, helpdesk)
    ticket_id = queue(office, "chatwoot")
    send(office)
    tickets.reply(db, office.ports, ticket_id, "我是王芳，已经处理好了，请再试一次。", "王芳")
    send(office)
    assert [m["content"] for m in helpdesk.kept][1] == "我是王芳，已经处理好了，请再试一次。"
    back = InboundMessage(channel="chatwoot", external_id="chatwoot:3:7001", contact="", body="我是王芳，已经处理好了，请再试一次。",
                          conversation_id="3/48", author="human", contact_name="王芳")
    assert channels.take(db, office.settings, office.ports, "chatwoot", channels.Heard(back)) == channels.Ignored("our own message")


# -- the poll ---------------------------------------------------------------------------------------------------


def listed(office: Office, number: int, who: str, text: str, *, age: float = 30, note: bool = False) -> dict[str, Any]:
    """A message as the API lists it: types are numbers, times are seconds."""
    at = office.one("SELECT extract(epoch FROM clock_timestamp())::bigint AS t")["t"] - age
    hook = helpdesks.chatwoot(who, text, number, note=note)
    return {"id": number, "content": text, "message_type": 0 if who == "customer" else 1, "private": note, "created_at": int(at),
            "content_type": "text", "content_attributes": {}, "sender": hook["sender"], "conversation_id": 48}


def polled(db: Database, helpdesk: Helpdesk, *messages: tuple[int, str, str, float]) -> Office:
    office = office_of("chatwoot", db, helpdesk, chatwoot_account_id=3)
    helpdesk.messages["48"] = [listed(office, number, who, text, age=age) for number, who, text, age in messages]
    last = max((m["created_at"] for m in helpdesk.messages["48"]), default=0)
    helpdesk.conversations = [helpdesks.chatwoot_conversation(last_activity_at=last)]
    return office


def ask(office: Office) -> int:
    return reconcile.reconcile(office.db, office.settings, office.ports, "chatwoot")


def test_the_poll_inserts_what_the_hook_lost_once_and_in_order(db: Database, helpdesk: Helpdesk) -> None:
    office = polled(db, helpdesk, (901, "customer", "同步失败", 60), (902, "customer", "还在吗", 50))
    helpdesk.messages["48"].append(listed(office, 903, "colleague", "内部", note=True))
    assert (ask(office), ask(office)) == (2, 0)
    rows = office.rows("SELECT i.body, external_id, conversation_id FROM desk.inbox i JOIN biz.tickets t ON t.id = ticket_id ORDER BY seq")
    assert [(r["body"], r["external_id"], r["conversation_id"]) for r in rows] == [
        ("同步失败", "chatwoot:3:901", "3/48"), ("还在吗", "chatwoot:3:902", "3/48")]
    assert len(office.wakeups.turns) == 2
    assert channels.overview(db)["asked"][0]["found"] == 2
    assert office.rows("SELECT 1 FROM desk.quarantine") == []


def test_a_message_that_came_by_the_hook_is_no_second_one_in_the_poll_nor_the_other_way_round(db: Database, helpdesk: Helpdesk) -> None:
    office = polled(db, helpdesk, (901, "customer", "同步失败", 60))
    read = helpdesks.chatwoot("customer", "同步失败", 901)
    from supportpilot.channels.chatwoot import read_message  # noqa: PLC0415
    event = read_message(read, read["conversation"], 3, office.settings)
    assert ask(office) == 1
    assert channels.take(db, office.settings, office.ports, "chatwoot", event).duplicate      # type: ignore[union-attr]
    assert ask(office) == 0
    assert office.rows("SELECT 1 FROM desk.quarantine") == []


def test_the_poll_keeps_what_a_colleague_wrote_and_does_not_take_our_own_for_it(db: Database, helpdesk: Helpdesk) -> None:
    office = polled(db, helpdesk, (901, "customer", "同步失败", 60), (902, "colleague", "我来看看", 50), (903, "us", "我们自己的", 40))
    assert ask(office) == 2
    assert office.one("SELECT status FROM biz.tickets")["status"] == "escalated"
    assert [r["author"] for r in office.rows("SELECT author FROM desk.inbox ORDER BY seq")] == ["customer", "human"]


def test_the_poll_reads_long_conversations_and_nothing_from_before_it_was_connected(db: Database, helpdesk: Helpdesk) -> None:
    old = [(800, "customer", "去年的问题", 90_000.0)]
    office = polled(db, helpdesk, *old, *[(901 + n, "customer", f"第 {n} 句", 300.0 - n) for n in range(45)])
    assert ask(office) == 45
    assert "去年的问题" not in {r["body"] for r in office.rows("SELECT body FROM desk.inbox")}


def test_a_chatwoot_that_cannot_be_asked_is_noted_and_asked_again_from_the_same_point(db: Database, helpdesk: Helpdesk) -> None:
    office = polled(db, helpdesk, (901, "customer", "同步失败", 60))
    for fault in (500, "cut", "hang", 401):
        helpdesk.look_faults = [fault]
        assert ask(office) == 0
    assert "401" in channels.overview(db)["asked"][0]["last_error"]
    office.execute("UPDATE desk.channel_cursors SET asked_to = asked_to + %s", timedelta(minutes=5))
    assert ask(office) == 1
    assert channels.overview(db)["asked"][0]["last_error"] is None


def several(db: Database, helpdesk: Helpdesk, *ages: tuple[int, float], **settings: Any) -> Office:
    """Conversations (number, age in seconds) with one lost message each."""
    office = office_of("chatwoot", db, helpdesk, chatwoot_account_id=3, **settings)
    for number, age in ages:
        helpdesk.messages[str(number)] = [listed(office, 9000 + number, "customer", f"问题 {number}", age=age)]
        helpdesk.conversations.append(helpdesks.chatwoot_conversation(
            id=number, last_activity_at=helpdesk.messages[str(number)][0]["created_at"]))
    return office


def stored(office: Office) -> list[str]:
    return [r["body"] for r in office.rows("SELECT body FROM desk.inbox ORDER BY received_at")]


def last_asked(office: Office, **ago: float) -> None:
    office.execute("INSERT INTO desk.channel_cursors (channel, account, asked_to) VALUES ('chatwoot', '3', clock_timestamp() - %s) "
                   "ON CONFLICT (channel, account) DO UPDATE SET asked_to = EXCLUDED.asked_to", timedelta(**ago))


def cursor(office: Office) -> dict[str, Any]:
    return office.one("SELECT extract(epoch FROM clock_timestamp() - asked_to)::float8 AS age, reached, found, last_error FROM desk.channel_cursors")


@pytest.mark.parametrize("status", [500, 403])
def test_a_conversation_that_fails_costs_the_poll_no_other(status: int, db: Database, helpdesk: Helpdesk) -> None:
    office = several(db, helpdesk, (61, 300), (62, 200), (63, 100))
    last_asked(office, minutes=5)
    helpdesk.broken = {"/62/messages": status}
    assert (ask(office), stored(office)) == (2, ["问题 61", "问题 63"])
    now = cursor(office)
    assert (now["last_error"], now["found"]) == (f"conversation 62: HTTP {status} from chatwoot", 2)
    assert now["age"] > 290     # it is asked again from there ...
    helpdesk.broken = {}
    assert (ask(office), stored(office)[2:]) == (1, ["问题 62"])
    assert cursor(office)["last_error"] is None


def test_a_conversation_that_fails_for_an_hour_is_passed_over_and_counted(db: Database, helpdesk: Helpdesk) -> None:
    office = several(db, helpdesk, (61, 5000), (62, 4000), (63, 100))
    last_asked(office, hours=2)
    helpdesk.broken = {"/62/messages": 403}
    assert ask(office) == 2
    assert cursor(office)["age"] < 200
    reasons = {r["reason"]: r["n"] for r in channels.overview(db)["counts"]}
    assert reasons["conversation passed over by the poll: HTTP 403 from chatwoot"] == 1
    helpdesk.calls.clear()
    assert ask(office) == 0
    assert not any("/62/" in path for _, path, _ in helpdesk.calls)


def test_a_helpdesk_that_fails_in_the_middle_is_no_reason_to_pass_over_what_is_left(db: Database, helpdesk: Helpdesk) -> None:
    office = several(db, helpdesk, (61, 9000), (62, 8000), (63, 100))
    last_asked(office, hours=3)
    helpdesk.broken = {"/62/messages": 502, "/63/messages": 502}
    assert ask(office) == 1
    helpdesk.broken = {}
    assert (ask(office), stored(office)) == (2, ["问题 61", "问题 62", "问题 63"])


def test_a_round_that_is_cut_short_goes_on_where_it_stopped_and_loses_nothing(
        db: Database, helpdesk: Helpdesk, monkeypatch: pytest.MonkeyPatch) -> None:
    office = several(db, helpdesk, (61, 9000), (62, 6000), (63, 100))
    helpdesk.messages["63"].insert(0, listed(office, 8063, "customer", "早先的问题", age=9500))
    last_asked(office, hours=3)
    clock = itertools.count(0, 100.0)       # seconds: two conversations fit into a round
    monkeypatch.setattr(reconcile, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert ask(office) == 2
    assert cursor(office)["last_error"] == "1 conversations are left for the next time"
    helpdesk.calls.clear()
    assert ask(office) == 2
    assert not any("/61/" in path for _, path, _ in helpdesk.calls)
    assert stored(office) == ["问题 61", "问题 62", "早先的问题", "问题 63"]
    assert (cursor(office)["reached"], cursor(office)["last_error"]) == (None, None)


def test_the_poll_reads_however_much_was_written(db: Database, helpdesk: Helpdesk) -> None:
    office = several(db, helpdesk, *((100 + n, 500.0 - n) for n in range(60)))
    helpdesk.messages["159"] = [listed(office, 20_000 + n, "customer", f"第 {n} 句", age=400 - n) for n in range(230)]
    last_asked(office, minutes=9)
    assert ask(office) == 59 + 230


def test_a_conversation_without_a_number_does_not_end_the_poll(db: Database, helpdesk: Helpdesk) -> None:
    office = several(db, helpdesk, *((100 + n, 400.0 - n) for n in range(30)))
    helpdesk.conversations.append(helpdesks.chatwoot_conversation(id="../users", last_activity_at=helpdesk.conversations[0]["last_activity_at"]))
    last_asked(office, minutes=9)
    assert ask(office) == 30
    assert "is not a number" in cursor(office)["last_error"]


def test_a_message_without_a_hook_that_cannot_be_read_is_held_once_and_can_be_tried_again(db: Database, helpdesk: Helpdesk) -> None:
    office = several(db, helpdesk, (61, 200), (62, 100), max_message_chars=4)
    helpdesk.messages["61"][0]["content"] = "太长的一句话"
    assert (ask(office), ask(office)) == (0, 0)
    rows = office.rows("SELECT id, sender, reason, raw FROM desk.quarantine ORDER BY id")
    assert [(r["sender"], r["reason"]) for r in rows] == [
        (CUSTOMER, "body has 6 characters; at most 4 are allowed"), (CUSTOMER, "body has 5 characters; at most 4 are allowed")]
    office.settings.max_message_chars = 100
    for row in rows:
        letters.retry_quarantine(db, office.settings, office.ports, row["id"], _parser(office.settings))
    assert sorted(stored(office)) == ["太长的一句话", "问题 62"]
    assert ask(office) == 0
    assert len(office.rows("SELECT 1 FROM desk.quarantine")) == 2


def test_a_message_that_its_hook_brought_and_nobody_can_read_is_not_held_twice(db: Database, helpdesk: Helpdesk) -> None:
    office = several(db, helpdesk, (48, 100), max_message_chars=2)
    hook = json.dumps(helpdesks.chatwoot("customer", "问题 48", 9048)).encode()
    intake.keep_unusable(db, "chatwoot", CUSTOMER, hook, "body is too long", "chatwoot:d-1")
    assert ask(office) == 0
    assert len(office.rows("SELECT 1 FROM desk.quarantine")) == 1


def test_only_a_helpdesk_that_can_be_asked_is_asked(db: Database, helpdesk: Helpdesk) -> None:
    office = office_of("chatwoot", db, helpdesk)
    assert ask(office) == 0
    assert helpdesk.calls == []
    with pytest.raises(NotFound):
        reconcile.reconcile(db, office.settings, office.ports, "zendesk")
    assert COLLEAGUE_ID != OWN_ID
