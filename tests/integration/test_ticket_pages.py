"""The staff's pages of tickets and customers over the real application: what they show, what they do, what they refuse."""

from __future__ import annotations

import asyncio
import html
import json
import re
import threading
import time
from typing import Any

import httpx
import pytest
from fixtures.office import CONTACT, DRAFT, REFUND_TRIAGE, Office, give_paid_invoice, refund_llm
from fixtures.site import Person, Staff, hidden_fields, served

from producer.web import live, streams
from producer.web.app import create_app
from supportpilot.db import events
from supportpilot.db.events import Event
from supportpilot.db.pool import Connection, Database
from supportpilot.service import approvers, customer, ticket, ticket_page
from supportpilot.service.live import LiveBoard
from supportpilot.service.ticket_page import Filters
from supportpilot.types import LLMCall, Ports

pytestmark = pytest.mark.integration

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg/onload=alert(3)>{{7*7}}&lt;b&gt;[x](javascript:alert(4))"


@pytest.fixture
def asked() -> list[str]:
    """Erasures that were to be carried out."""
    return []


@pytest.fixture
def web_app(office: Office, asked: list[str]) -> Any:
    ports = office.wakeups.ports()
    return create_app(office.settings, office.db, Ports(**{**vars(ports), "schedule_erase": asked.append}))


def answered(office: Office, body: str = "同步失败", **fields: Any) -> str:
    ticket_id = office.write(body, **fields).ticket_id
    office.work(ticket_id)
    office.deliver()
    return ticket_id


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


# the list -------------------------------------------------------------------------------------------

def test_the_list_is_newest_first_and_its_filters_fit(office: Office, staff: Staff) -> None:
    old = answered(office, "第一件", contact="a@example.com")
    human = office.write("第二件", contact="b@example.com").ticket_id
    ticket.reply(office.db, Ports(), human, "我来处理", "小李")
    person = staff(role="viewer")
    ids = re.findall(r'href="/tickets/(T\d+)"', person.get("/tickets"))
    assert ids == [human, old]
    for query, expected in (("?status=escalated", [human]), ("?human=1", [human]), ("?email=A@Example", [old]), ("?channel=generic", [human, old]),
                            ("?channel=email", []), ("?status=answered&email=b@", []), ("?email=%25", []), ("?email=_@", [])):
        assert re.findall(r'href="/tickets/(T\d+)"', person.get("/tickets" + query)) == expected, query
    assert "没有符合条件的工单" in person.get("/tickets?channel=email")


def test_pages_of_the_list_hold_each_ticket_once_while_new_ones_come(office: Office) -> None:
    made = [office.write("同步失败", contact=f"c{i}@example.com").ticket_id for i in range(5)]
    office.execute("UPDATE biz.tickets SET last_written_at = '2026-11-01T00:00:00Z'")       # all at one instant
    seen, after = [], ""
    for _ in range(3):
        found = ticket_page.find(office.db, Filters(), after, 2)
        seen += [row["ticket_id"] for row in found.rows]
        after = found.next_key
        new = office.write("又一件", contact=f"{len(seen)}@example.com").ticket_id
        assert new not in seen
    assert seen == made[::-1]
    assert after == ""


def test_a_filter_or_a_place_that_is_none_is_refused_without_a_trace(staff: Staff) -> None:
    person = staff()
    for query in ("?status=broken", "?after=x", "?after=20261101T000000.000000_%27", "?after=99999999T000000.0_T1", "?email=%00"):
        got = person.client.get("/tickets" + query)
        assert got.status_code == 422, query
        assert "Traceback" not in got.text


# one ticket -----------------------------------------------------------------------------------------

def test_the_page_tells_conversation_turns_tools_calls_and_cost(office: Office, staff: Staff) -> None:
    office.llm.__init__(REFUND_TRIAGE, [("list_invoices", {})], DRAFT)  # type: ignore[misc]
    give_paid_invoice(office)
    ticket_id = answered(office, "账单为什么这么多")
    turn_id = office.one("SELECT turn_id FROM desk.turns")["turn_id"]
    record(office, ticket_id, turn_id, "draft", "0.00123400")
    page = staff().get(f"/tickets/{ticket_id}")
    assert re.findall(r'class="mono step">(\w+)<', page) == [
        "load_customer", "prepare_context", "classify", "retrieve", "act", "draft", "check", "finalize"]
    assert "list_invoices(…)" in page
    assert "¥0.001234" in page
    assert "¥0.0012 " in page
    shown = text_of(page)
    assert "账单为什么这么多" in shown
    assert "E3001 是银行授权过期" in shown
    assert re.search(r'<a href="http://127.0.0.1:8000/kb/KB-bank-001"', page)


def record(office: Office, ticket_id: str, turn_id: str, node: str, cost: str) -> None:
    from decimal import Decimal  # noqa: PLC0415

    from supportpilot.db import llm_calls  # noqa: PLC0415

    with office.db.transaction() as conn:
        llm_calls.record_call(conn, LLMCall("m-1", 900, 50, 0, Decimal(cost), 120, ticket_id, turn_id, node))


def test_a_pruned_turn_still_names_its_nodes_in_order(office: Office) -> None:
    ticket_id = answered(office)
    office.write("还是不行")
    office.work(ticket_id)
    whole = ticket_page.look(office.db, office.settings, ticket_id).timeline.turns
    office.execute("""DELETE FROM checkpoints c USING desk.turns u WHERE c.metadata ->> 'turn_id' = u.turn_id AND c.checkpoint_id <>
                      (SELECT max(d.checkpoint_id) FROM checkpoints d WHERE d.metadata ->> 'turn_id' = u.turn_id)""")
    left = ticket_page.look(office.db, office.settings, ticket_id).timeline.turns
    assert len(left) == len(whole) == 2
    for before, after in zip(whole, left, strict=True):
        assert [step.node for step in after.steps] == [step.node for step in before.steps] != []
        assert all(step.seconds is not None for step in before.steps)
        assert [step.at is None for step in after.steps] == [True] * (len(after.steps) - 1) + [False]


def test_held_and_human_messages_are_marked_and_in_their_place(office: Office, staff: Staff) -> None:
    ticket_id = answered(office)
    ticket.reply(office.db, Ports(), ticket_id, "您好，我是小李", "小李")
    office.write("谢谢小李，请继续", ticket_id=ticket_id)
    said = ticket_page.look(office.db, office.settings, ticket_id).said
    assert [(one.speaker, one.author, one.state) for one in said] == [
        ("customer", "", ""), ("agent", "", ""), ("human", "小李", "pending"), ("customer", "", "pending")]
    assert said[2].delivery == "queued"
    page = staff().get(f"/tickets/{ticket_id}")
    assert page.count("暂存，助手尚未读到") == 2
    assert "待发送" in page


def test_a_waiting_refund_shows_its_notice_its_approval_and_the_held_message(office: Office, staff: Staff) -> None:
    office.llm = refund_llm()
    office.deps.llm = office.deps.small_llm = office.llm
    give_paid_invoice(office)
    ticket_id = office.write("请退款 INV-1").ticket_id
    office.work(ticket_id)
    office.write("等等，先别退", ticket_id=ticket_id)
    page = staff().get(f"/tickets/{ticket_id}")
    assert 'href="/approvals/A000001"' in page
    assert "等等，先别退" in page
    assert [one.speaker for one in ticket_page.look(office.db, office.settings, ticket_id).said][:2] == ["customer", "notice"]
    got = staff("李强", "agent").send(f"/tickets/{ticket_id}/reply", page_of(staff("周", "agent"), ticket_id), body="x")
    assert got.status_code == 403, "a form of another session"


def page_of(person: Person, ticket_id: str) -> str:
    return person.get(f"/tickets/{ticket_id}")


def test_a_seeded_ticket_without_messages_shows_its_first_words(office: Office, staff: Staff) -> None:
    office.execute("INSERT INTO biz.tickets (id, contact, channel, subject, body, status, resolution) "
                   "VALUES ('T000900', 'x@example.com', 'email', '旧工单', '导不出报表', 'resolved', '已重新授权')")
    shown = text_of(staff().get("/tickets/T000900"))
    assert "导不出报表" in shown
    assert "已重新授权" in shown


def test_no_such_ticket_is_404_and_an_erased_one_410(office: Office, staff: Staff) -> None:
    ticket_id = answered(office)
    person = staff(role="admin")
    customer.erase(office.db, CONTACT, "小王")
    for path in ("", "/live"):
        assert person.client.get("/tickets/T999999" + path).status_code == 404
        assert person.client.get(f"/tickets/{ticket_id}{path}").status_code == 410
    assert "已删除" in person.get(f"/tickets/{ticket_id}", 410)
    assert person.client.get(f"/customers/{ticket_id}").status_code == 410
    assert person.client.get("/customers/C9999").status_code == 404
    assert person.client.get("/tickets/%00").status_code == 404
    assert person.client.get("/tickets/%ED%A0%80").status_code == 404


def test_nobody_sees_a_page_without_a_login(web_app: Any, office: Office, staff: Staff) -> None:
    ticket_id = answered(office)
    client = staff(logged_in=False).client
    for path in ("/tickets", f"/tickets/{ticket_id}", f"/tickets/{ticket_id}/live", f"/customers/{ticket_id}", f"/customers/{ticket_id}/export", "/erasures/E000001"):
        got = client.get(path)
        assert (got.status_code, got.headers["location"].split("?")[0]) == (303, "/login"), path


def test_looking_changes_nothing(office: Office, staff: Staff) -> None:
    ticket_id = answered(office)
    person = staff(role="admin")
    before = state(office)
    for path in ("/", "/tickets", f"/tickets/{ticket_id}", f"/customers/{ticket_id}"):
        assert (person.client.get(path).status_code, person.client.head(path).status_code) == (200, 200), path
    assert person.client.get(f"/customers/{ticket_id}/export").status_code == 200
    assert state(office) == before


def state(office: Office) -> dict[str, Any]:
    tables = [f"{row['table_schema']}.{row['table_name']}" for row in office.rows(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema IN ('biz', 'desk') AND table_type = 'BASE TABLE'")]
    return {name: office.rows(f"SELECT * FROM {name}") for name in tables if name != "desk.sessions"}


# what a person does ---------------------------------------------------------------------------------

def test_a_reply_goes_out_once_and_the_ticket_is_the_persons(office: Office, staff: Staff) -> None:
    ticket_id = answered(office)
    person = staff("王芳", "agent")
    page = page_of(person, ticket_id)
    for _ in range(3):
        got = person.send(f"/tickets/{ticket_id}/reply", page, body="我来看看\r\n稍等")
        assert (got.status_code, got.headers["location"]) == (303, f"/tickets/{ticket_id}?done=reply")
    assert office.rows("SELECT body, author FROM desk.outbox WHERE kind = 'human'") == [{"body": "我来看看\n稍等", "author": "王芳"}]
    assert office.status(ticket_id) == "escalated"
    assert "你的回复已" not in person.get(f"/tickets/{ticket_id}")
    assert "回复已交给发送队列" in person.get(f"/tickets/{ticket_id}?done=reply")
    person.send(f"/tickets/{ticket_id}/reply", page, body="另一句")
    assert len(office.rows("SELECT 1 FROM desk.outbox WHERE kind = 'human'")) == 2, "other words on the same form are another reply"


def test_an_empty_or_endless_reply_is_refused_on_the_page_and_kept(office: Office, staff: Staff) -> None:
    ticket_id = answered(office)
    person = staff("王芳", "agent")
    got = person.send(f"/tickets/{ticket_id}/reply", page_of(person, ticket_id), body="  ")
    assert got.status_code == 422
    assert "请检查填写的内容" in got.text
    got = person.send(f"/tickets/{ticket_id}/reply", page_of(person, ticket_id), body="长" * 20_001)
    assert got.status_code == 422
    assert "长" * 20_001 in got.text
    assert office.rows("SELECT 1 FROM desk.outbox WHERE kind = 'human'") == []


def test_release_and_resolve_do_what_the_commands_do_and_refuse_with_the_reason(office: Office, staff: Staff) -> None:
    ticket_id = answered(office)
    person = staff("王芳", "agent")
    ticket.reply(office.db, Ports(), ticket_id, "我来", "小李")
    page = page_of(person, ticket_id)
    assert [person.send(f"/tickets/{ticket_id}/release", page).headers["location"].split("=")[1] for _ in range(2)] == ["release", "again"]
    got = person.client.post(f"/tickets/{ticket_id}/release", data={**hidden_fields(page, f"/tickets/{ticket_id}/resolve"), "form_key": "x" * 20})
    assert got.status_code == 409
    assert "the agent has this ticket already" in got.text
    got = person.send(f"/tickets/{ticket_id}/resolve", page_of(person, ticket_id))
    assert got.status_code == 409, "the released messages wait for an answer"
    assert "wait for an answer" in got.text
    office.work(ticket_id)
    got = person.send(f"/tickets/{ticket_id}/resolve", page_of(person, ticket_id))
    assert got.headers["location"].endswith("done=resolve")
    assert office.status(ticket_id) == "resolved"
    assert [row["actor"] for row in office.rows("SELECT actor FROM desk.audit WHERE action = 'ticket.resolve'")] == ["王芳"]
    assert 'action="/tickets/' + ticket_id + '/resolve"' not in page_of(person, ticket_id)


@pytest.mark.parametrize("deed", ["reply", "release", "resolve"])
def test_whoever_may_only_look_has_no_buttons_and_is_refused(office: Office, staff: Staff, deed: str) -> None:
    ticket_id = answered(office)
    viewer, agent = staff("看看", "viewer"), staff("王芳", "agent")
    assert "<textarea" not in page_of(viewer, ticket_id)
    form = hidden_fields(viewer.get("/"), "/logout")
    assert viewer.client.post(f"/tickets/{ticket_id}/{deed}", data={**form, "form_key": "k" * 20, "body": "x"}).status_code == 403
    assert agent.client.post(f"/tickets/{ticket_id}/{deed}", data={"body": "x"}).status_code == 403, "without the form's token"
    assert agent.client.get(f"/tickets/{ticket_id}/{deed}").status_code == 405
    assert office.status(ticket_id) == "answered"


# the customer ---------------------------------------------------------------------------------------

def test_a_correction_is_the_commands_and_leads_back_to_its_ticket(office: Office, staff: Staff) -> None:
    give_paid_invoice(office)
    ticket_id = answered(office)
    person = staff("王芳", "agent")
    page = page_of(person, ticket_id)
    fields = {"kind": "note", "target": "", "value": "喜欢电话联系", "reason": "她说的", "expires": "2099-01-31"}
    for expected in ("corrected", "again"):
        assert person.send("/customers/C1/corrections", page, **fields).headers["location"] == f"/tickets/{ticket_id}?done={expected}"
    row = office.one("SELECT * FROM biz.profile_overrides")
    assert (row["kind"], row["value"], row["author"], row["reason"]) == ("note", "喜欢电话联系", "王芳", "她说的")
    assert f"{row['expires_at'].astimezone():%Y}" == "2099"
    assert office.wakeups.profiles.count("C1") >= 1
    page = page_of(person, ticket_id)
    assert "喜欢电话联系" in page
    taken = person.send(f"/customers/C1/corrections/{row['id']}/withdraw", page)
    assert taken.headers["location"] == f"/tickets/{ticket_id}?done=withdrawn"
    assert office.rows("SELECT 1 FROM biz.profile_overrides") == []


@pytest.mark.parametrize(("fields", "says"), [
    ({"kind": "set", "target": "is_vip", "value": "maybe"}, "is_vip"), ({"kind": "note", "value": ""}, "note must not be empty"),
    ({"kind": "note", "value": "x", "expires": "soon"}, "last day"), ({"kind": "drop"}, "choose"), ({"kind": "suppress", "target": ""}, "needs a field"),
])
def test_a_correction_that_cannot_be_is_refused_on_the_page(office: Office, staff: Staff, fields: dict[str, str], says: str) -> None:
    give_paid_invoice(office)
    person = staff("王芳", "agent")
    got = person.send("/customers/C1/corrections", person.get("/customers/C1"), **fields)
    assert got.status_code == 422
    assert says in html.unescape(got.text)
    assert " --" not in text_of(got.text)
    assert office.rows("SELECT 1 FROM biz.profile_overrides") == []


def test_an_address_without_an_account_has_a_page_by_its_ticket(office: Office, staff: Staff) -> None:
    ticket_id = answered(office)
    person = staff(role="admin")
    shown = text_of(person.get(f"/customers/{ticket_id}"))
    assert CONTACT in shown
    assert "没有账户" in shown
    give_paid_invoice(office, "b@example.com")
    other = answered(office, contact="b@example.com")
    assert person.client.get(f"/customers/{other}").headers["location"] == "/customers/C1"


def test_the_export_is_the_commands_file_and_for_admins(office: Office, staff: Staff) -> None:
    give_paid_invoice(office)
    ticket_id = answered(office)
    got = staff("管理", "admin").client.get("/customers/C1/export")
    assert got.headers["content-disposition"] == 'attachment; filename="customer-C1.json"'
    held = got.json()
    assert held["customer_id"] == "C1"
    assert ticket_id in held["conversations"]
    assert held["tables"].keys() == customer.export(office.db, "C1")["tables"].keys()
    assert staff("王芳", "approver").client.get("/customers/C1/export").status_code == 403


def test_an_erasure_wants_the_address_and_an_admin_and_ends_with_the_receipt(office: Office, staff: Staff, asked: list[str]) -> None:
    give_paid_invoice(office)
    ticket_id = answered(office)
    admin = staff("管理", "admin")
    page = admin.get("/customers/C1")
    got = admin.send("/customers/C1/erase", page, address="other@example.com")
    assert got.status_code == 422
    assert "什么都没有删除" in got.text
    form = hidden_fields(page, "/customers/C1/erase")
    assert staff("王芳", "approver").client.post("/customers/C1/erase", data={**form, "address": CONTACT}).status_code == 403
    assert asked == []
    places = {admin.send("/customers/C1/erase", page, address=f" {CONTACT.upper()} ").headers["location"] for _ in range(2)}
    assert places == {f"/erasures/{asked[0]}"}
    waiting = admin.get(f"/erasures/{asked[0]}")
    assert 'http-equiv="refresh"' in waiting
    customer.erase_requested(office.db, asked[0])        # what the task does
    receipt = admin.get(f"/erasures/{asked[0]}")
    assert "http-equiv" not in receipt
    assert "管理" in receipt
    assert "biz.tickets" in receipt
    assert CONTACT not in receipt
    assert admin.client.get("/customers/C1").status_code == 410
    assert admin.client.get(f"/tickets/{ticket_id}").status_code == 410


def test_what_a_customer_writes_is_only_ever_text(office: Office, staff: Staff) -> None:
    give_paid_invoice(office)
    office.execute("UPDATE biz.customers SET name = %s, company = %s", EVIL, EVIL)
    office.llm.__init__(REFUND_TRIAGE, [("list_invoices", {"q": EVIL})], f"{DRAFT} {EVIL}")  # type: ignore[misc]
    ticket_id = answered(office, EVIL, subject=EVIL, contact_name=EVIL)
    office.write(f"{EVIL} ¥300.00 2026-12-05", ticket_id=ticket_id)
    office.execute("UPDATE biz.tickets SET status = 'escalated', handoff_reason = %s, channel = %s", EVIL, EVIL)
    office.execute("INSERT INTO biz.profile_overrides (customer_id, kind, target, value, author, reason) VALUES ('C1', 'note', '', %s, %s, %s)", EVIL, EVIL, EVIL)
    office.execute("UPDATE desk.turns SET last_error = %s", EVIL)
    person = staff(role="admin")
    for path in ("/tickets", f"/tickets?email={EVIL}", f"/tickets/{ticket_id}", "/customers/C1", "/customers/C%3Cscript%3E"):
        got = person.client.get(path)
        page = got.text
        assert not re.search(r"<script(?![^>]*\bsrc=\"/static/)|<img(?! src=\"/static/)|<svg|onerror=(?!alert\(2\)&gt;)|javascript:alert\(4\)\"", page), path
        assert "C%3C" in path or "{{7*7}}" in page, f"{path}: shown as it was written"


# live -----------------------------------------------------------------------------------------------

@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(streams, "PULSE_SECONDS", 0.1)


class Stream:
    """A browser's EventSource in a few lines."""

    def __init__(self, client: httpx.Client, path: str, last_id: str = "") -> None:
        self.asked = client.stream("GET", path, headers={"last-event-id": last_id} if last_id else {})

    def __enter__(self) -> Stream:
        self.answer = self.asked.__enter__()
        assert self.answer.headers["content-type"].startswith("text/event-stream")
        self.lines = self.answer.iter_lines()
        return self

    def __exit__(self, *error: Any) -> None:
        self.asked.__exit__(*error)

    def until(self, name: str) -> list[tuple[str, str, dict[str, Any]]]:
        """Return (id, event, data) up to the first of that name."""
        found, fields = [], {}
        end = time.monotonic() + 20
        for line in self.lines:
            assert time.monotonic() < end, f"no {name} came: {found}"
            key, _, value = line.partition(": ")
            if line:
                fields[key] = value
            elif "event" in fields:
                found.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
                if fields["event"] == name:
                    return found
                fields = {}
            else:
                fields = {}
        raise AssertionError(f"the stream ended before {name}: {found}")


def logged_in(url: str, person: Person) -> httpx.Client:
    return httpx.Client(base_url=url, cookies=dict(person.client.cookies), timeout=20)


def until(condition: Any, seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.02)


def test_a_running_turn_is_told_and_what_was_missed_comes_after(office: Office, staff: Staff, web_app: Any, quick: None) -> None:
    board = LiveBoard(office.db)
    board.start()
    object.__setattr__(office.rt, "live", board)
    ticket_id = office.write("同步失败").ticket_id
    path = f"/tickets/{ticket_id}/live"
    try:
        with served(web_app) as url, logged_in(url, staff(role="viewer")) as client:
            with Stream(client, path) as stream:
                stream.until("changed")
                until(lambda: board.watched(ticket_id))
                office.work(ticket_id)
                told = stream.until("end")
                events_told = [(name, data.get("node")) for _, name, data in told if name in ("turn", "step", "end")]
                assert events_told[0] == ("turn", None)
                assert ("step", "draft") in events_told
                ids = [int(number) for number, name, _ in told if name not in ("changed",)]
                assert ids == sorted(set(ids))
            until(lambda: office.rows("SELECT 1 FROM desk.watchers") == [])
            with Stream(client, path, last_id=str(ids[2])) as stream:
                again = [int(number) for number, _, _ in stream.until("end") if number]
            assert again == ids[3:], "nothing twice, nothing left out"
            with Stream(client, path) as stream:
                assert [name for _, name, _ in stream.until("changed")] == ["changed"], "no turn runs: nothing old is told"
    finally:
        board.stop()
        web_app.state.site.streams.stop()


def test_whoever_comes_in_the_middle_of_a_turn_sees_it_from_its_beginning(office: Office) -> None:
    ticket_id = office.write("同步失败").ticket_id
    office.execute("INSERT INTO desk.turns (turn_id, ticket_id, message_ids, highest_seq, taken_over_seq, status, next_attempt_at) "
                   "VALUES ('t-old', %s, '{}', 0, 0, 'done', now()), ('t-now', %s, '{}', 0, 0, 'running', now())", ticket_id, ticket_id)
    with office.db.transaction() as conn:
        events.write(conn, ticket_id, "t-old", [("step", {"node": "draft"})])
        events.write(conn, ticket_id, "t-now", [("turn", {"messages": 1}), ("step", {"node": "classify"})])
    assert [event.data for event in ticket_page.missed(office.db, ticket_id, None)] == [{"messages": 1}, {"node": "classify"}]


def test_an_event_that_comes_both_ways_is_told_once(web_app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    known = [Event(n, "T1", "t-1", "step", {"node": f"n{n}"}) for n in (5, 6, 7)]

    async def stream(_streams: Any, _ticket_id: str, shown: Any, _allowed: Any) -> Any:
        yield b"retry: 3000\n\n"
        assert shown(known[0]) is None, "before the ticket is watched nothing is told out of its order"
        yield shown(streams.Pulse("p"))
        for event in known[1:]:
            yield shown(event) or b": twice\n\n"

    monkeypatch.setattr(live, "stream", stream)
    monkeypatch.setattr(ticket_page, "missed", lambda *_: known[:2])

    async def read() -> list[bytes]:
        return [chunk.split(b"\n")[0] async for chunk in live.followed(web_app.state.site, "T1", 4, lambda: True)]

    assert asyncio.run(read()) == [b"retry: 3000", b"event: changed", b"id: 5", b"id: 6", b": twice", b"id: 7"]


def test_an_event_between_what_was_missed_and_the_watch_is_told_too(
        office: Office, web_app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket_id = office.write("同步失败").ticket_id
    asked = threading.Event()
    mark, missed = streams._Watch._mark, ticket_page.missed

    def late_mark(watch: Any, watched: str) -> None:
        asked.wait(1)
        mark(watch, watched)

    def missed_and_then_one_more(db: Database, of: str, known: int | None) -> list[Event]:
        found = missed(db, of, known)
        with db.transaction() as conn:
            events.write(conn, of, "t-now", [("step", {"node": "draft"})])
        asked.set()
        return found

    monkeypatch.setattr(streams._Watch, "_mark", late_mark)
    monkeypatch.setattr(ticket_page, "missed", missed_and_then_one_more)

    async def read() -> bytes:
        async with asyncio.timeout(10):
            async for chunk in live.followed(web_app.state.site, ticket_id, 0, lambda: True):
                if b"event: step" in chunk:
                    return chunk
        return b"the stream ended"

    try:
        assert b'"draft"' in asyncio.run(read())
    finally:
        web_app.state.site.streams.stop()


def test_a_watched_ticket_that_is_erased_says_gone_and_a_full_house_says_so(
        office: Office, staff: Staff, web_app: Any, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket_id = answered(office)
    try:
        with (served(web_app) as url, logged_in(url, staff(role="viewer")) as client,
              Stream(client, f"/tickets/{ticket_id}/live") as stream):
                stream.until("changed")
                monkeypatch.setattr(streams, "MOST_FEEDS_PER_TICKET", 1)
                with Stream(client, f"/tickets/{ticket_id}/live") as other:
                    other.until("full")
                customer.erase(office.db, CONTACT, "小王")
                stream.until("gone")
    finally:
        web_app.state.site.streams.stop()


def test_who_is_turned_away_is_told_nothing_more(
        office: Office, staff: Staff, web_app: Any, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "RIGHT_SECONDS", 0.2)
    ticket_id = answered(office)
    person = staff("王芳", "viewer")
    try:
        with (served(web_app) as url, logged_in(url, person) as client,
              Stream(client, f"/tickets/{ticket_id}/live") as stream):
            stream.until("changed")
            approvers.revoke(office.db, "王芳", "管理")
            with pytest.raises(AssertionError, match="the stream ended"):
                stream.until("gone")
    finally:
        web_app.state.site.streams.stop()


def test_a_page_that_nobody_keeps_open_costs_the_turn_no_statement(
        office: Office, staff: Staff, db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    board = LiveBoard(db)
    board.start()
    object.__setattr__(office.rt, "live", board)
    person = staff()
    counts = []
    answered(office, contact="first@example.com")
    try:
        for looked, contact in ((False, "a@example.com"), (True, "b@example.com")):
            ticket_id = office.write("同步失败", contact=contact).ticket_id
            if looked:
                person.get(f"/tickets/{ticket_id}")
                person.get("/tickets")
            said: list[str] = []
            with monkeypatch.context() as patched:
                count(patched, said)
                office.work(ticket_id)
            counts.append(len(said))
    finally:
        board.stop()
    assert counts[0] == counts[1] > 10
    assert office.rows("SELECT 1 FROM desk.events") == office.rows("SELECT 1 FROM desk.watchers") == []


def count(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    import psycopg  # noqa: PLC0415

    execute, mine = psycopg.Cursor.execute, threading.get_ident()

    def counting(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() == mine:       # not the heartbeat's, which come by the clock
            said.append(str(query))
        return execute(self, query, *args, **kwargs)

    monkeypatch.setattr(psycopg.Cursor, "execute", counting)


def test_a_page_costs_the_same_number_of_statements_however_long_the_ticket(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket_id = answered(office)

    def statements() -> int:
        said: list[str] = []
        with monkeypatch.context() as patched:
            count(patched, said)
            ticket_page.look(office.db, office.settings, ticket_id)
        return len(said)

    few = statements()
    for _ in range(4):
        office.write("还是不行", ticket_id=ticket_id)
        office.work(ticket_id)
    assert statements() == few


def test_the_list_has_the_words_of_every_status(office: Office, conn: Connection, staff: Staff) -> None:
    from producer.web.i18n import WORDS  # noqa: PLC0415
    from supportpilot.desk.rules import OUTBOX, TICKET  # noqa: PLC0415

    for group, names in (("status", TICKET), ("delivery", OUTBOX), ("turn", ("running", "waiting", "done", "dead", "replaced"))):
        assert all(f"{group}.{name}" in WORDS for name in names)
