"""The customer's page over the real application: what it shows, what a form does, what stays out of it."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fixtures.office import CONTACT, Office
from fixtures.site import HTML, hidden_fields, served
from starlette.testclient import TestClient

from producer.web.app import create_app
from producer.web.markdown import reply as reply_html
from supportpilot.db.pool import Connection, Database
from supportpilot.errors import Unavailable
from supportpilot.service import customer, customer_page, links, ticket
from supportpilot.service.live import LiveBoard

pytestmark = pytest.mark.integration

SECRET = "a-secret-of-the-tests-0123456789abcdef"
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg/onload=alert(3)>{{7*7}}&lt;b&gt;"


class Own:
    """A customer with a browser, and the office behind the page."""

    def __init__(self, db: Database, **settings: Any) -> None:
        self.office = Office(db, **{"customer_link_secret": SECRET, **settings})
        self.app = create_app(self.office.settings, db, self.office.ports)
        self.client = TestClient(self.app, headers=HTML, follow_redirects=False)

    def path(self, ticket_id: str) -> str:
        url = links.link_of(self.office.db, self.office.settings, ticket_id)
        return url.removeprefix(self.office.settings.public_url.rstrip("/"))

    def get(self, path: str, status: int = 200) -> str:
        got = self.client.get(path)
        assert got.status_code == status, (got.status_code, got.text[:1500])
        return str(got.text)

    def send(self, path: str, page: str, **fields: str) -> httpx.Response:
        got: httpx.Response = self.client.post(path, data={**hidden(page, path), **fields})
        return got

    def answered(self, body: str = "同步失败", **fields: Any) -> str:
        ticket_id = self.office.write(body, **fields).ticket_id
        self.office.work(ticket_id)
        self.office.deliver()
        return ticket_id

    def stored(self) -> list[str]:
        return [row["body"] for row in self.office.rows("SELECT body FROM desk.inbox WHERE channel = 'page' ORDER BY seq")]


def hidden(page: str, path: str) -> dict[str, str]:
    """Return the hidden fields of a page's own form."""
    token = path.rsplit("/", 1)[1].split("?")[0]
    action = re.search(rf'action="({token}[^"]*)"', page)
    assert action
    return hidden_fields(page, action[1])


@pytest.fixture
def own(db: Database) -> Own:
    return Own(db)


def test_the_page_shows_the_conversation_the_state_and_citations_as_links(own: Own) -> None:
    ticket_id = own.answered()
    html = own.get(own.path(ticket_id))
    assert '<html lang="zh">' in html
    assert "同步失败" in html
    assert "已回复" in html
    link = re.search(r'<a href="http://127.0.0.1:8000/kb/KB-bank-001"[^>]*>', html)
    assert link
    assert 'rel="noopener noreferrer"' in link[0]
    assert len(re.findall(r"<time datetime=", html)) == 2


def test_the_page_is_in_the_tickets_language_until_another_is_asked_for(own: Own) -> None:
    ticket_id = own.answered("The bank sync fails since this morning, please help me.")
    path = own.path(ticket_id)
    assert '<html lang="en">' in own.client.get(path, headers={"accept-language": "zh"}).text
    html = own.get(path + "?lang=zh")
    assert '<html lang="zh">' in html
    assert own.send(path + "?lang=zh", html, body="One more thing").headers["location"].endswith("?lang=zh#end")


@pytest.mark.parametrize("what", ["", "/conversation", "/events"])
def test_whatever_does_not_fit_is_the_same_404(own: Own, what: str) -> None:
    mine, other = own.answered(contact="a@example.com"), own.answered(contact="b@example.com")
    path = own.path(mine)
    wrong = ["/t/" + other + path[len("/t/" + mine):], path[:-1] + ("a" if path[-1] != "a" else "b"), "/t/x", "/t/T1-%00", f"/t/{mine}"]
    pages = {own.get(text + what, 404) for text in wrong}
    assert len(pages) == 1
    customer.erase(own.office.db, "a@example.com", "小王")
    assert own.get(path + what, 404) in pages
    assert own.client.post(path, data={"body": "x"}).status_code == 404


def test_without_a_secret_there_are_no_pages(db: Database) -> None:
    own = Own(db, customer_link_secret=None)
    ticket_id = own.answered()
    assert own.client.get(f"/t/{ticket_id}-{'a' * 32}").status_code == 404
    assert own.client.post(f"/t/{ticket_id}-{'a' * 32}", data={"body": "x"}).status_code == 404


@pytest.mark.parametrize("status", [200, 404])
def test_nobody_else_learns_the_address(own: Own, status: int) -> None:
    path = own.path(own.answered())
    headers = own.client.get(path if status == 200 else path + "a").headers
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert "noindex" in headers["x-robots-tag"]
    policy = headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_the_token_stays_out_of_the_log(own: Own, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    path = own.path(own.answered())
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(customer_page, "look", lambda *_: 1 / 0)
    with TestClient(own.app, raise_server_exceptions=False) as client:
        assert client.get(path).status_code == 500
    assert "/t/..." in caplog.text
    assert path.rsplit("/", 1)[1] not in "\n".join(r.getMessage() for r in caplog.records if r.name.startswith("producer"))


def test_a_message_is_stored_once_and_leads_back_to_the_page(own: Own) -> None:
    ticket_id = own.answered()
    path = own.path(ticket_id)
    html = own.get(path)
    got = [own.send(path, html, body="再问一句") for _ in range(3)]
    assert [(g.status_code, g.headers["location"]) for g in got] == [(303, path.rsplit("/", 1)[1] + "#end")] * 3
    assert own.stored() == ["再问一句"]
    assert "再问一句" in own.get(path)
    assert "正在处理" in own.get(path)
    assert own.office.wakeups.turns[-1][0] == ticket_id


def test_six_clicks_at_once_are_one_message(own: Own) -> None:
    path = own.path(own.answered())
    html = own.get(path)
    gate = threading.Barrier(6)
    statuses: list[int] = []

    def click() -> None:
        gate.wait()
        statuses.append(own.send(path, html, body="再问一句").status_code)
    threads = [threading.Thread(target=click) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [303] * 6
    assert own.stored() == ["再问一句"]


def test_get_and_head_change_nothing(own: Own) -> None:
    path = own.path(own.answered())
    tables = ("biz.tickets", "desk.inbox", "desk.outbox", "desk.audit", "desk.turns")
    before = [own.office.rows(f"SELECT * FROM {table} ORDER BY 1") for table in tables]
    for what in (path, path + "/conversation", path + "?lang=en&done=x"):
        assert own.client.get(what).status_code == 200
        assert own.client.head(what).status_code == 200
    assert before == [own.office.rows(f"SELECT * FROM {table} ORDER BY 1") for table in tables]


@pytest.mark.parametrize("wrong", ["none", "seal", "key", "another page's", "another site's"])
def test_a_form_that_is_not_this_pages_is_refused_and_keeps_its_text(own: Own, wrong: str) -> None:
    path, other = own.path(own.answered(contact="a@example.com")), own.path(own.answered(contact="b@example.com"))
    html = own.get(path)
    fields = hidden(html, path)
    fields |= {"none": {"key": "", "seal": ""}, "seal": {"seal": "x" * 32}, "key": {"key": "x" * 24},
               "another page's": hidden(own.get(other), other), "another site's": {}}[wrong]
    headers = {"sec-fetch-site": "cross-site"} if wrong == "another site's" else {}
    got = own.client.post(path, data={**fields, "body": "偷偷写的"}, headers=headers)
    assert got.status_code == 403
    assert own.stored() == []
    assert ("偷偷写的" in got.text) is (wrong != "another site's")
    assert own.send(path, got.text, body="再按一次").status_code == 303


def test_what_is_wrong_with_a_text_stands_above_the_box_and_the_text_is_kept(db: Database) -> None:
    own = Own(db, max_message_chars=50)
    path = own.path(own.answered())
    got = own.send(path, own.get(path), body="  \r\n ")
    assert (got.status_code, "请先写点内容再发送" in got.text) == (422, True)
    got = own.send(path, got.text, body="长" * 51)
    assert got.status_code == 422
    assert "最多 50 个字" in got.text
    assert "长" * 51 in got.text
    assert own.send(path, got.text, body="x" * 300_000).status_code == 413
    assert own.client.post(path, json={"body": "x"}).status_code == 413
    assert own.stored() == []
    assert own.send(path, got.text, body="长" * 50).status_code == 303
    for number in range(5):
        own.send(path, own.get(path), body=f"第{number}句")
    got = own.send(path, own.get(path), body="还有一句")
    assert (got.status_code, got.headers["retry-after"]) == (429, "60")
    assert "还有一句</textarea>" in got.text
    assert len(own.stored()) == 6


def test_while_the_database_is_away_the_text_is_kept_and_the_same_form_is_sent_again(
        own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    path = own.path(own.answered())
    html = own.get(path)

    def away(*_: object) -> None:
        raise Unavailable("host db-1.internal is away")
    with monkeypatch.context() as during:
        during.setattr(customer_page, "write", away)
        during.setattr(customer_page, "look", away)
        got = own.send(path, html, body=f"要紧的话 {EVIL}")
        assert own.client.get(path).status_code == 503
    assert got.status_code == 503
    assert "要紧的话" in got.text
    assert "internal" not in got.text
    assert "<script>alert" not in got.text
    before = hidden(html, path)
    assert hidden(got.text, path) == before
    assert own.send(path, got.text, body="要紧的话").status_code == 303
    assert own.stored() == ["要紧的话"]


def test_nothing_that_anybody_wrote_becomes_markup(own: Own, conn: Connection) -> None:
    ticket_id = own.answered(EVIL, subject=EVIL, contact_name=EVIL)
    ticket.reply(own.office.db, own.office.ports, ticket_id, f"{EVIL} [x](javascript:alert(4)) ![p](http://evil.example/p.png)", EVIL)
    own.office.deliver()
    own.office.execute("UPDATE desk.outbox SET body = %s WHERE kind = 'reply'", f"{EVIL}\n\n[a](data:text/html,x) <b>bold</b>")
    path = own.path(ticket_id)
    html = own.get(path) + own.get(path + "/conversation")
    got = own.send(path, own.get(path), body=EVIL, key="x" * 20)
    html += got.text
    scripts = re.findall(r"<script\b[^>]*>", html)
    assert scripts
    assert all('src="/static/' in script for script in scripts)
    assert not re.search(r"<(?:svg|iframe|b)\b", html)
    assert re.findall(r"<img\b[^>]*>", html) == [tag for tag in re.findall(r"<img\b[^>]*>", html) if 'src="/static/' in tag]
    assert not re.search(r"<[^>]+\son\w+\s*=", re.sub(r'"[^"]*"', '""', html))
    assert 'href="javascript' not in html
    assert 'href="data' not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "49&amp;lt;b" not in html


def test_a_page_says_nothing_of_what_went_on_behind_it(own: Own, conn: Connection) -> None:
    ticket_id = own.answered()
    own.office.execute("UPDATE biz.tickets SET handoff_reason = 'SECRET-REASON' WHERE id = %s", ticket_id)
    own.office.execute("UPDATE desk.outbox SET last_error = 'SECRET-ERROR', provider_id = 'SECRET-PROVIDER'")
    own.office.execute("INSERT INTO desk.outbox (ticket_id, idempotency_key, kind, body, status) VALUES (%s, 'k', 'reply', 'SECRET-NOTE', 'withheld')",
                       ticket_id)
    own.office.execute("INSERT INTO desk.outbox (ticket_id, idempotency_key, kind, body) VALUES (%s, 'k2', 'reply', 'SECRET-UNSENT')", ticket_id)
    own.office.execute("INSERT INTO desk.events (ticket_id, turn_id, type, data) VALUES (%s, 'u', 'token', '{\"text\": \"SECRET-TOKEN\"}')", ticket_id)
    html = own.get(own.path(ticket_id))
    assert "SECRET" not in html
    for word in (CONTACT, "cost", "classify", "KB-bank-001\n", "turn_id"):
        assert word not in html


@pytest.fixture
def board(db: Database) -> Iterator[LiveBoard]:
    running = LiveBoard(db)
    running.start()
    yield running
    running.stop()


def test_live_progress_is_told_in_plain_words_and_nothing_else(own: Own, board: LiveBoard) -> None:
    object.__setattr__(own.office.rt, "live", board)
    ticket_id = own.office.write("同步失败").ticket_id
    seen: list[tuple[str, dict[str, str]]] = []
    with served(own.app) as address, httpx.stream("GET", address + own.path(ticket_id) + "/events", timeout=20) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        lines = answer.iter_lines()
        name, worker = "", None
        for line in lines:
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                seen.append((name, json.loads(line[6:])))
            if seen and worker is None:
                until = time.monotonic() + 10
                while not board.watched(ticket_id):
                    assert time.monotonic() < until
                    time.sleep(0.02)
                worker = threading.Thread(target=own.office.work, args=(ticket_id,))
                worker.start()
            if ("step", {"text": "正在发送回复"}) in seen and name == "changed" and line == "":
                break
        assert worker is not None
        worker.join()
    steps = [data["text"] for kind, data in seen if kind == "step"]
    assert steps == ["正在阅读您的消息"] * 3 + ["正在查阅帮助文档", "正在撰写回复", "正在核对回复", "正在发送回复"]
    assert {kind for kind, _ in seen} == {"step", "changed"}
    assert all(set(data) == {"text" if kind == "step" else "pulse"} for kind, data in seen)


def test_a_line_below_a_list_is_a_paragraph_of_its_own() -> None:
    html = reply_html("步骤:\n1. 打开设置\n2. 点重新授权\n手机端不行。")
    assert "<li>点重新授权</li>" in html
    assert "<p>手机端不行。</p>" in html
    assert reply_html("- 一\n- 二\n  还是二").count("<li>") == 2
