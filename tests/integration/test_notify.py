"""Colleagues are told: of a refund that waits, twice more before its time is up, of a ticket for a human; nobody twice."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from fakes import FakeLLM
from fixtures.chatroom import Chatroom
from fixtures.office import DRAFT, TRIAGE, Office, give_paid_invoice, refund_llm
from fixtures.site import HTML, hidden_fields
from fixtures.worker import Workers, wait_for
from starlette.testclient import TestClient

from producer.cli.main import run
from supportpilot.config import Settings, get_settings, load_settings
from supportpilot.db import leases, notifications
from supportpilot.db.approvals import Approval
from supportpilot.db.pool import Database
from supportpilot.desk.outbox import SendResult
from supportpilot.errors import Misconfigured
from supportpilot.notify import links
from supportpilot.service import approval, delivery, letters, notices, ticket, upkeep
from supportpilot.service.approval import Verdict
from supportpilot.types import Ports
from worker.publish import send_now

pytestmark = pytest.mark.integration

SECRET = "canarytoken7731"
BACKGROUND = ("worker", "-P", "threads", "-E", "-c", "2", "-Q", "background")


@pytest.fixture
def chat() -> Iterator[Chatroom]:
    opened = Chatroom()
    yield opened
    opened.stop()


def telling(db: Database, *urls: str, llm: FakeLLM | None = None, **settings: object) -> Office:
    return Office(db, llm or refund_llm(), notify_urls=" ".join(urls) or None, **{"notify_language": "en", **settings})


def asked_for(office: Office) -> Approval:
    """Bring a refund to its approval."""
    give_paid_invoice(office)
    received = office.write("账单 INV-1 重复扣款,请退款,我的电话 13800000000")
    assert office.work(received.ticket_id).startswith("waits for approval")
    return approval.list_approvals(office.db, "pending")[0]


def tell(office: Office, subject_id: str) -> str:
    return notices.notify(office.db, office.settings, subject_id)


def sweep(office: Office) -> list[str]:
    """Do what the sweeper asks for and return what was said."""
    asked: list[str] = []
    upkeep.sweep(office.db, Ports(schedule_notify=lambda _about, subject_id: asked.append(subject_id)), office.settings)
    return [tell(office, subject_id) for subject_id in asked]


def let_pass(office: Office, share: float) -> None:
    """Move the approvals back so that this share of their time is gone."""
    office.execute("UPDATE desk.approvals SET created_at = clock_timestamp() - (expires_at - created_at) * %s::float8, "
                   "expires_at = clock_timestamp() + (expires_at - created_at) * (1 - %s::float8)", share, share)


def later(office: Office) -> None:
    """Let every wait and every claim be over."""
    office.execute("UPDATE desk.notifications SET next_attempt_at = clock_timestamp() - interval '10 s', woken_at = NULL, "
                   "claimed_until = claimed_until - interval '1 h'")


def states(office: Office) -> list[tuple[str, str]]:
    return [(r["kind"], r["state"]) for r in office.rows("SELECT kind, state FROM desk.notifications ORDER BY position")]


# what is told ---------------------------------------------------------------------------------------

def test_a_refund_to_approve_is_told_once_with_number_amount_age_and_a_link_and_no_word_of_the_customer(db, chat):
    office = telling(db, chat.url("desk"), public_url="https://help.example.com/")
    asked = asked_for(office)
    assert chat.got == []                        # a turn never talks to a chat service
    later(office)
    assert sweep(office) == ["N000001 approval sent"]
    [(_, message)] = chat.got
    line, link = message["message"].splitlines()
    assert message["title"] == f"Refund to approve {asked.id}"
    assert line == f"Ticket {asked.ticket_id}, 300.00 CNY, asked less than 1 minute ago, expires in 71 h."
    assert re.fullmatch(rf"https://help\.example\.com/approvals/{asked.id}\?s=\d+\.[\w-]{{22}}", link)
    assert not re.search("wang|王|重复|13800|INV-1", json.dumps(chat.got, ensure_ascii=False))
    assert (sweep(office), tell(office, asked.id), len(chat.got)) == ([], "", 1)


def test_the_link_is_ours_until_the_approval_s_end_and_says_so_afterwards(db, chat):
    office = telling(db, chat.url("desk"))
    asked = asked_for(office)
    assert notices.judge_link(db, f"/approvals/{asked.id}", "1.abc") == "unsigned"
    tell(office, asked.id)
    path, s = chat.got[0][1]["message"].splitlines()[1].removeprefix("http://127.0.0.1:8000").split("?s=")
    assert (path, notices.judge_link(db, path, s)) == (f"/approvals/{asked.id}", "valid")
    assert int(s.partition(".")[0]) == int(asked.expires_at.timestamp())
    assert notices.judge_link(db, "/approvals/A999999", s) == "unsigned"
    with db.connection() as conn:
        old = links.signed(notifications.make_key(conn), "", path, leases.clock(conn) - timedelta(seconds=1))
    assert notices.judge_link(db, path, old.removeprefix(f"{path}?s=")) == "expired"


def test_a_ticket_for_a_human_is_told_once_for_each_time_it_is_handed_over(db, chat):
    office = telling(db, chat.url("desk"), llm=FakeLLM({**TRIAGE, "needs_human": True}, [], DRAFT))
    ticket_id = office.write("找人工").ticket_id
    assert office.work(ticket_id) == "escalated"
    later(office)
    assert sweep(office) == ["N000001 handoff sent"]
    ticket.release(db, office.ports, ticket_id, "小王")
    office.write("还是不行,找人工", ticket_id=ticket_id)
    assert office.work(ticket_id) == "escalated"
    later(office)
    assert sweep(office) == ["N000002 handoff sent"]
    assert chat.titles() == [f"Ticket for a human {ticket_id}"] * 2
    assert f"http://127.0.0.1:8000/tickets/{ticket_id}?s=" in chat.got[0][1]["message"]


def test_nobody_is_told_of_a_ticket_that_a_colleague_has_taken_or_given_back_meanwhile(db, chat):
    office = telling(db, chat.url("desk"), llm=FakeLLM({**TRIAGE, "needs_human": True}, [], DRAFT))
    taken = office.write("找人工", conversation_id="a").ticket_id
    back = office.write("找人工", conversation_id="b").ticket_id
    assert [office.work(taken), office.work(back)] == ["escalated", "escalated"]
    ticket.reply(db, office.ports, taken, "我来处理。", by="李娜")
    ticket.release(db, office.ports, back, "小王")
    assert [tell(office, taken), tell(office, back)] == [
        "N000001 dropped: a colleague has the ticket", "N000002 dropped: given back or closed"]
    assert chat.got == []


def test_a_turn_that_is_given_up_and_a_ticket_over_its_rate_are_told_too(db, chat):
    office = telling(db, chat.url("desk"), llm=FakeLLM(TRIAGE, [], DRAFT), max_attempts=1, ticket_rate_limits="1/60")
    first = office.write("E3001", conversation_id="a").ticket_id
    office.work(first)
    office.write("又来了", ticket_id=first)      # one answer an hour
    assert office.status(first) == "escalated"
    office.deps.profile_for = lambda _customer_id: 1 / 0
    second = office.write("E3001", contact="other@example.com").ticket_id
    give_paid_invoice(office, "other@example.com")
    office.execute("UPDATE biz.tickets SET customer_id = 'C1' WHERE id = %s", second)
    office.work(second)
    assert office.status(second) == "escalated"
    assert [tell(office, first), tell(office, second)] == ["N000001 handoff sent", "N000002 handoff sent"]


@pytest.mark.parametrize(("end", "back", "said"), [
    ("handoff", False, "dropped: a colleague has the ticket"), ("handoff", True, "handoff sent"),
    ("given up", False, "dropped: a colleague has the ticket"), ("given up", True, "handoff sent")])
def test_of_a_turn_that_a_colleague_took_over_before_its_end_nobody_is_told_unless_it_was_given_back(db, chat, end, back, said):
    office = telling(db, chat.url("desk"), llm=FakeLLM({**TRIAGE, "needs_human": True}, [], DRAFT), max_attempts=1)
    ticket_id = office.write("找人工").ticket_id
    triage = office.llm.structured

    def taken_over(*args: Any, **named: Any) -> Any:
        ticket.reply(db, office.ports, ticket_id, "我来处理。", by="李娜")
        if back:
            ticket.release(db, office.ports, ticket_id, "李娜")
        return triage(*args, **named) if end == "handoff" else 1 / 0

    office.llm.structured = taken_over
    office.work(ticket_id)
    assert office.status(ticket_id) == "escalated"
    assert (tell(office, ticket_id), len(chat.got)) == (f"N000001 {said}", int(back))


def test_a_reply_that_fails_again_after_the_ticket_was_given_back_is_told_again(db, chat):
    office = telling(db, chat.url("desk"), llm=FakeLLM(TRIAGE, [], DRAFT))
    ticket_id = office.write("E3001").ticket_id
    office.work(ticket_id)
    reply_id = office.one("SELECT id FROM desk.outbox")["id"]
    said = []
    for _ in range(3):
        assert delivery.deliver(db, office.settings, office.ports, reply_id, lambda *_: SendResult("give_up", "gone")) == "failed: gone"
        said.append(tell(office, ticket_id))
        ticket.release(db, office.ports, ticket_id, "小王")
        letters.retry_outbox(db, office.ports, reply_id)        # without a new message of the customer
    assert said == ["N000001 handoff sent", "N000002 handoff sent", "N000003 handoff sent"]


# reminders ------------------------------------------------------------------------------------------

def test_reminders_come_at_half_and_at_nine_tenths_once_each_whoever_looks_how_often(db, chat):
    office = telling(db, chat.url("desk"))
    asked = asked_for(office)
    tell(office, asked.id)
    said = []
    for passed in (0.3, 0.49, 0.5, 0.7, 0.9, 0.97):
        let_pass(office, passed)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: approval.remind_due(db), range(4)))
        later(office)
        with ThreadPoolExecutor(4) as pool:
            said.append(sorted(filter(None, pool.map(lambda _: tell(office, asked.id), range(4)))))
    assert said == [[], [], ["N000002 reminder sent"], [], ["N000003 reminder sent"], []]
    assert chat.titles() == [f"Refund to approve {asked.id}", *[f"Refund still to approve {asked.id}"] * 2]
    assert "asked 36 h ago, expires in 35 h." in chat.got[1][1]["message"]
    assert "asked 64 h ago, expires in 7 h." in chat.got[2][1]["message"]


def test_after_an_outage_there_is_one_message_not_one_for_each_that_was_missed(db, chat):
    office = telling(db, chat.url("desk"))
    asked = asked_for(office)
    let_pass(office, 0.95)
    approval.remind_due(db)
    assert tell(office, asked.id) == "N000002 reminder sent"
    assert (tell(office, asked.id), chat.titles()) == ("", [f"Refund still to approve {asked.id}"])
    assert states(office) == [("approval", "dropped"), ("reminder", "sent")]


@pytest.mark.parametrize("end", ["decided", "withdrawn", "expired"])
def test_nobody_is_reminded_of_an_approval_that_does_not_wait_any_more(db, chat, end):
    office = telling(db, chat.url("desk"))
    asked = asked_for(office)
    let_pass(office, 0.6)
    approval.remind_due(db)
    if end == "decided":
        approval.decide(db, office.ports, asked.id, Verdict(approved=False, by="li"))
    elif end == "withdrawn":
        office.execute("UPDATE desk.approvals SET status = 'withdrawn'")
    else:
        let_pass(office, 1.0)
    said = tell(office, asked.id)
    assert said == f"N000002 dropped: {'expired' if end == 'expired' else 'not pending any more'}"
    let_pass(office, 0.95)
    office.execute("UPDATE desk.approvals SET status = 'expired' WHERE status = 'pending'")
    approval.remind_due(db)
    later(office)
    assert (sweep(office), chat.got) == ([], [])


# targets that fail ----------------------------------------------------------------------------------

def test_a_broken_target_is_tried_again_and_repeats_nothing_at_the_others(db, chat, caplog):
    office = telling(db, chat.url("one"), chat.url(f"two/{SECRET}"), chat.url("three"))
    chat.broken.add(f"/two/{SECRET}")
    asked = asked_for(office)
    said = tell(office, asked.id)
    assert said == "N000001 approval queued: 2 JSON: Failed to send JSON POST notification: Internal server error., error=500."
    assert tell(office, asked.id) == ""          # not before its time
    later(office)
    assert "queued" in tell(office, asked.id)
    chat.broken.clear()
    later(office)
    assert tell(office, asked.id) == "N000001 approval sent"
    assert Counter(path for path, _ in chat.got) == {"/one": 1, f"/two/{SECRET}": 3, "/three": 1}
    assert SECRET not in caplog.text
    assert SECRET not in json.dumps(office.rows("SELECT * FROM desk.notifications"), default=str)


def test_a_target_that_never_works_is_given_up_loudly_and_the_list_shows_it(db, chat, caplog, monkeypatch, capsys):
    office = telling(db, chat.url("ok"), chat.url("500"))
    asked = asked_for(office)
    office.execute("UPDATE desk.notifications SET attempts = 11")
    assert tell(office, asked.id).startswith("N000001 approval failed: 2 JSON")
    assert "failed for good" in caplog.text
    later(office)
    assert (tell(office, asked.id), sweep(office), len(chat.got)) == ("", [], 2)
    monkeypatch.setenv("DATABASE_URL", db.url)
    assert run(["notify", "list", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert [(t["number"], t["state"]) for t in row["targets"]] == [(1, "sent"), (2, "failed")]
    assert run(["notify", "list"]) == 0
    assert "N000001" in capsys.readouterr().out


def test_the_list_shows_targets_in_the_order_of_their_numbers(db):
    office = telling(db)
    asked_for(office)
    with db.transaction() as conn:
        for number in (10, 9, 2):
            notifications.mark(conn, "N000001", f"t{number}", {"state": "sent", "service": "JSON", "number": number, "error": ""})
    assert [target["number"] for target in notices.list_notifications(db)[0]["targets"]] == [2, 9, 10]


def test_targets_that_hang_or_answer_by_drops_end_with_their_time_and_keep_nobody(db, chat):
    office = telling(db, chat.url("hang"), chat.url("drip"), chat.url("ok"), notify_timeout_seconds=1)
    asked = asked_for(office)
    began = time.monotonic()
    said = tell(office, asked.id)
    assert time.monotonic() - began < 1 + 15
    assert said == "N000001 approval queued: 1 json: no answer within 1 s; 2 json: no answer within 1 s"
    assert Counter(path for path, _ in chat.got) == {"/hang": 1, "/drip": 1, "/ok": 1}


def test_a_refusal_with_status_200_and_a_redirect_are_no_success(db, chat):
    office = telling(db, chat.url(f"no/{SECRET}"), chat.url("move"))
    said = tell(office, asked_for(office).id)
    assert "1 JSON: refused: errcode 310000 keywords not in content /no/***" in said
    assert "2 JSON: Failed to send JSON POST notification: error=302." in said
    assert [path for path, _ in chat.got if "moved" in path] == []


def test_without_the_setting_nothing_is_sent_nothing_fails_and_nothing_comes_later(db, chat):
    office = telling(db)
    asked = asked_for(office)
    assert sweep(office) == []
    assert states(office) == [("approval", "dropped")]
    now_set = telling(db, chat.url("ok"))
    assert (sweep(now_set), tell(now_set, asked.id), chat.got) == ([], "", [])


def test_a_new_target_gets_what_is_still_open_and_one_that_left_is_not_waited_for(db, chat):
    office = telling(db, chat.url("ok"), chat.url("500"))
    asked = asked_for(office)
    tell(office, asked.id)
    later(office)
    changed = telling(db, chat.url("new"), chat.url("ok"))
    assert tell(changed, asked.id) == "N000001 approval sent"
    assert Counter(path for path, _ in chat.got) == {"/ok": 1, "/500": 1, "/new": 1}


# races and kills ------------------------------------------------------------------------------------

PROCESS = """
import os, signal, sys
from supportpilot.config import Settings
from supportpilot.db import notifications
from supportpilot.db.pool import Database
from supportpilot.service import notices
url, subject, targets, die_at = sys.argv[1:]
marks, stock = [], notifications.mark
def mark(*args):
    marks.append(1)
    if len(marks) == int(die_at):
        os.kill(os.getpid(), signal.SIGKILL)
    stock(*args)
notifications.mark = mark
with Database(url, max_size=2) as db:
    print("ready", flush=True)
    sys.stdin.readline()
    print(notices.notify(db, Settings(notify_urls=targets), subject), flush=True)
"""


def process(office: Office, subject_id: str, die_at: int = 0) -> subprocess.Popen[str]:
    """Start a process that sends when it is told so, and dies before it notes its `die_at`th result."""
    words = [sys.executable, "-c", PROCESS, office.db.url, subject_id, str(office.settings.notify_urls), str(die_at)]
    started = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert started.stdout
    assert started.stdout.readline() == "ready\n"
    return started


def test_two_processes_that_race_send_each_target_one_message(db, chat):
    office = telling(db, chat.url("one"), chat.url("two"))
    asked = asked_for(office)
    racing = [process(office, asked.id) for _ in range(2)]
    for racer in racing:
        assert racer.stdin
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = sorted(racer.communicate(timeout=60)[0].strip() for racer in racing)
    assert said == ["", "N000001 approval sent"]
    assert Counter(path for path, _ in chat.got) == {"/one": 1, "/two": 1}


def test_a_sender_killed_between_send_and_mark_repeats_only_the_target_that_it_had_not_noted(db, chat):
    office = telling(db, chat.url("one"), chat.url("two"))
    asked = asked_for(office)
    dead = process(office, asked.id, die_at=2)
    dead.communicate("go\n", timeout=60)
    assert dead.returncode == -9
    wait_for(lambda: len(chat.got) == 2, 10)
    assert (tell(office, asked.id), sweep(office)) == ("", [])       # its claim still stands
    later(office)
    assert sweep(office) == ["N000001 approval sent"]
    assert sorted(Counter(path for path, _ in chat.got).values()) == [1, 2]      # at least once, and no more than that


def test_what_a_target_has_got_stays_noted_whatever_a_late_sender_says(db, chat):
    office = telling(db, chat.url("one"))
    asked = asked_for(office)
    tell(office, asked.id)
    with db.transaction() as conn:
        [name] = office.one("SELECT targets FROM desk.notifications")["targets"]
        notifications.mark(conn, "N000001", name, {"state": "failed", "service": "JSON", "number": 1, "error": "late"})
    assert office.one("SELECT targets FROM desk.notifications")["targets"][name]["state"] == "sent"


def test_a_sender_that_dies_each_time_is_given_up_at_the_bound(db, chat):
    office = telling(db, chat.url("one"))
    asked = asked_for(office)
    office.execute("UPDATE desk.notifications SET attempts = 12, claimed_until = clock_timestamp() - interval '1 s'")
    assert (tell(office, asked.id), chat.got) == ("N000001 given up", [])
    assert states(office) == [("approval", "failed")]


def test_a_worker_sends_and_its_log_names_no_part_of_an_address(workers: Workers, stack_settings: Settings, chat: Chatroom):
    with Database(stack_settings.database_url or "", max_size=2) as db, db.transaction() as conn:
        conn.execute("UPDATE biz.tickets SET status = 'escalated' WHERE id = 'T000152'")
        conn.execute("INSERT INTO desk.notifications (kind, ticket_id, subject_id, key, taken_over_seq) "
                     "VALUES ('handoff', 'T000152', 'T000152', 'k', 0)")
    workers.environment |= {"NOTIFY_URLS": f"{chat.url(f'ok/{SECRET}')} {chat.url(f'500/{SECRET}')}", "LOG_LEVEL": "DEBUG"}
    workers.start("background", BACKGROUND)
    send_now(stack_settings, "ticket.notify", "T000152")
    wait_for(lambda: "is tried again" in workers.text("background"), 30)
    assert chat.titles(f"ok/{SECRET}") == ["工单待人工处理 T000152"]
    assert SECRET not in workers.text("background")


# settings, commands ---------------------------------------------------------------------------------

@pytest.mark.parametrize("value", ["slack", "slack://a b", "://x", "sl ack://x/y", "json://ok/x json://\x07"])
def test_an_address_that_is_none_is_one_line_that_names_the_variable_and_not_the_value(value, monkeypatch, capsys):
    monkeypatch.setenv("NOTIFY_URLS", value)
    with pytest.raises(Misconfigured, match=r"NOTIFY_URLS: the value given is not valid: .*number \d must be an address"):
        load_settings()
    assert run(["notify", "test"]) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith("NOTIFY_URLS: ")


def test_the_addresses_may_stand_in_a_file_a_line_each(tmp_path, monkeypatch):
    (tmp_path / "urls").write_text(f"slack://a/b/{SECRET}\nfeishu://{SECRET}\nfeishu://{SECRET}\n")
    monkeypatch.setenv("NOTIFY_URLS_FILE", str(tmp_path / "urls"))
    assert load_settings().notify_targets() == [f"slack://a/b/{SECRET}", f"feishu://{SECRET}"]


def test_the_command_tries_each_target_and_says_per_target_ok_or_why_not(chat, monkeypatch, capsys):
    monkeypatch.setenv("NOTIFY_URLS", f"{chat.url(f'ok/{SECRET}')} {chat.url(f'500/{SECRET}')}")
    assert run(["notify", "test"]) == 1
    found = capsys.readouterr()
    assert sorted(found.out.splitlines()) == [
        "FAIL  2 JSON: Failed to send JSON POST notification: Internal server error., error=500.", "ok    1 JSON"]
    assert chat.titles(f"ok/{SECRET}") == ["SupportPilot 测试"]
    assert SECRET not in found.out + found.err
    assert run(["notify", "test", "--json"]) == 1
    assert [(r["number"], r["ok"]) for r in json.loads(capsys.readouterr().out)] == [(1, True), (2, False)]


def test_a_target_that_apprise_does_not_know_and_no_target_at_all_are_configuration_errors(chat, monkeypatch, capsys):
    assert run(["notify", "test"]) == 2
    assert "NOTIFY_URLS is not set" in capsys.readouterr().err
    monkeypatch.setenv("NOTIFY_URLS", f"{chat.url('ok')} pigeon://{SECRET}")
    get_settings.cache_clear()
    assert run(["notify", "test"]) == 2
    found = capsys.readouterr()
    assert "NOTIFY_URLS: number 2 is no target that apprise knows" in found.err
    assert SECRET not in found.out + found.err


def test_a_worker_does_not_start_with_a_target_that_apprise_does_not_know(tmp_path):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "celery", "-A", "worker.app", "beat", "--pidfile=", "-s", str(tmp_path / "s")], capture_output=True,
        text=True, timeout=60, check=False, cwd=tmp_path,
        env=dict(os.environ) | {"REDIS_URL": "redis://127.0.0.1:1/0", "NOTIFY_URLS": f"json://ok/x pigeon://{SECRET}"})
    assert done.returncode == 2
    assert "NOTIFY_URLS: number 2 (pigeon://) is no target that apprise knows" in done.stderr
    assert SECRET not in done.stderr
    assert "Traceback" not in done.stderr


def doctor(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    run(["doctor", "--json"])
    return {check["name"]: check for check in json.loads(capsys.readouterr().out)}["notify"]


def test_the_doctor_says_who_is_told_and_which_target_does_not_take_it(db, chat, monkeypatch, capsys):
    monkeypatch.setenv("DATABASE_URL", db.url)
    assert doctor(capsys) == {"name": "notify", "ok": True, "detail": "NOTIFY_URLS is not set: nobody is told of refunds to approve"}
    office = telling(db, chat.url("ok"), chat.url("500"))
    monkeypatch.setenv("NOTIFY_URLS", str(office.settings.notify_urls))
    get_settings.cache_clear()
    assert doctor(capsys)["detail"] == "2 targets, 0 reached in the last 24 hours"
    asked = asked_for(office)
    tell(office, asked.id)
    found = doctor(capsys)
    assert (found["ok"], found["detail"]) == (
        False, "2 targets, 1 reached in the last 24 hours; 2 JSON: Failed to send JSON POST notification: Internal server error., error=500.")


# the page behind the link ---------------------------------------------------------------------------

@pytest.mark.parametrize(("hours", "late"), [(1, False), (-1, True)])
def test_a_link_asks_for_the_login_says_when_it_is_too_old_and_leads_on_to_its_page(db, web_app, staff, hours, late):
    office = telling(db)
    asked = asked_for(office)
    with db.transaction() as conn:
        address = links.signed(notifications.make_key(conn), "", f"/approvals/{asked.id}", leases.clock(conn) + timedelta(hours=hours))
    nobody = TestClient(web_app, headers=HTML, follow_redirects=False)
    before = office.rows("SELECT * FROM desk.approvals"), office.rows("SELECT * FROM desk.audit WHERE subject = 'A000001'")
    got = nobody.get(address)
    assert (got.status_code, got.headers["location"]) == (303, f"/login?next={quote(address, safe='/')}")
    page = nobody.get(got.headers["location"], headers={"accept-language": "en"}).text
    assert ("This link has expired." in page) is late
    sent = nobody.post("/login", data={**hidden_fields(page, "/login"), "token": staff(logged_in=False).token})
    assert sent.headers["location"] == address
    assert asked.ticket_id in nobody.get(address).text
    assert (office.rows("SELECT * FROM desk.approvals"), office.rows("SELECT * FROM desk.audit WHERE subject = 'A000001'")) == before
    forged = f"/approvals/{asked.id}?s=1.{'a' * 22}"
    assert "This link has expired." not in TestClient(web_app, headers=HTML).get(forged, headers={"accept-language": "en"}).text
