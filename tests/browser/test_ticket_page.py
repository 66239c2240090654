"""The staff's ticket page in a browser: live while a real worker answers, by keyboard, on a phone, with hostile text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.llm import OfflineLLM
from fixtures.site import Person, Staff
from fixtures.worker import Workers, wait_for

from producer.web.app import create_app
from supportpilot.config import Settings
from supportpilot.db.pool import Database
from supportpilot.service import intake, ticket
from supportpilot.types import InboundMessage, Ports, Received
from worker.publish import make_ports

PHONE = {"width": 390, "height": 844}
EVIL = "<script>window.bad=1</script><img src=x onerror=window.bad=1>\"'><svg/onload=window.bad=1>"
SHOTS = os.environ.get("SCREENSHOTS")       # a folder: the pages are pictured there


@pytest.fixture
def db(seeded_url: str) -> Iterator[Database]:
    with Database(seeded_url) as opened:
        yield opened


@pytest.fixture
def ports(stack_settings: Settings) -> Ports:
    return make_ports(stack_settings)


@pytest.fixture
def web_app(stack_settings: Settings, db: Database, ports: Ports) -> Iterator[Any]:
    app = create_app(stack_settings, db, ports)
    yield app
    app.state.site.streams.stop()


def write(db: Database, settings: Settings, ports: Ports, body: str, ticket_id: str | None = None, **fields: Any) -> Received:
    write.number = getattr(write, "number", 0) + 1  # type: ignore[attr-defined]
    message = InboundMessage(channel="generic", external_id=f"generic:b{write.number}", contact="wugang@example.com",  # type: ignore[attr-defined]
                             body=body, ticket_id=ticket_id, **fields)
    return intake.receive(db, settings, ports, message)


def picture(page: Any, name: str) -> None:
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


@pytest.mark.timeout(180)
def test_a_turn_is_seen_live_and_the_page_is_whole_after_it(
        open_page: Any, staff: Staff, workers: Workers, offline_llm: OfflineLLM, db: Database, stack_settings: Settings, ports: Ports) -> None:
    person = staff("王芳", "admin")
    ticket_id = write(db, stack_settings, Ports(), "招商银行又同步失败了，报 E3001，为什么总是这样？", subject="银行流水同步失败").ticket_id
    page = open_page(who=person)
    page.goto(f"/tickets/{ticket_id}")
    page.get_by_text("助手还没有运行过").wait_for()
    page.get_by_label("回复客户").fill("正在写的草稿不能丢")
    wait_for(lambda: watched(db, ticket_id), 20, "the watch mark")
    offline_llm.control(task="draft", token_ms=60, times=1)
    workers.start()
    message = db_one(db, "SELECT id FROM desk.inbox WHERE ticket_id = %s", ticket_id)["id"]
    ports.schedule_turn(ticket_id, message, 0.0)
    page.locator("#live-steps li", has_text="classify").wait_for()
    page.locator("#live-text", has_text="E3001").wait_for()
    picture(page, "ticket-live")
    page.locator("#live").wait_for(state="hidden")
    page.locator(".said.agent").first.wait_for()
    page.locator("#turn-1 .timeline .step", has_text="finalize").wait_for()
    assert page.locator(".said.customer .words").first.inner_text().startswith("招商银行又同步失败了")
    assert page.get_by_label("回复客户").input_value() == "正在写的草稿不能丢"
    assert page.locator("#turn-1 .timeline .step").all_inner_texts()[0] == "load_customer"
    assert page.locator(".head .chip").first.inner_text() == "已回复"
    picture(page, "ticket")
    page.goto("/customers/C0010")
    page.get_by_text("更正画像").first.click()
    picture(page, "customer-file")
    wait_for(lambda: not watched(db, ticket_id), 20, "the mark to go with its watcher")


def watched(db: Database, ticket_id: str) -> bool:
    return bool(db_rows(db, "SELECT 1 FROM desk.watchers WHERE ticket_id = %s", ticket_id))


def db_rows(db: Database, statement: str, *values: Any) -> list[dict[str, Any]]:
    with db.connection() as conn:
        return conn.execute(statement, values).fetchall()  # type: ignore[call-overload]


def db_one(db: Database, statement: str, *values: Any) -> dict[str, Any]:
    return db_rows(db, statement, *values)[0]


def test_a_reply_written_on_a_phone_with_the_keyboard_alone(
        open_page: Any, staff: Staff, db: Database, stack_settings: Settings) -> None:
    ticket_id = write(db, stack_settings, Ports(), "请转人工", subject="想和人说话").ticket_id
    page = open_page(who=staff("王芳", "agent"), viewport=PHONE)
    page.goto("/tickets?human=1")
    picture(page, "tickets-phone")
    page.goto(f"/tickets/{ticket_id}")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "nothing sticks out on a phone"
    page.get_by_label("回复客户").focus()
    page.keyboard.type("您好，我是王芳，马上看")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("status").filter(has_text="你的回复").or_(page.get_by_role("status").filter(has_text="回复已交给")).first.wait_for()
    page.locator(".said.human", has_text="马上看").wait_for()
    picture(page, "ticket-phone")
    page.get_by_role("button", name="交还给助手").click()
    page.get_by_text("已交还给助手").wait_for()
    page.get_by_text("暂存，助手尚未读到").first.wait_for()


def test_a_refused_action_is_sent_once_and_what_is_being_written_stays(
        open_page: Any, staff: Staff, db: Database, stack_settings: Settings) -> None:
    ticket_id = write(db, stack_settings, Ports(), "同步失败").ticket_id
    page = open_page(who=staff("王芳", "agent"))
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.goto(f"/tickets/{ticket_id}")
    page.get_by_role("button", name="标记为已解决").click()
    page.get_by_role("alert").wait_for()
    assert page.url.endswith("/resolve")
    page.get_by_label("回复客户").fill("写了一半")
    wait_for(lambda: watched(db, ticket_id), 20, "the watch mark")
    write(db, stack_settings, Ports(), "第二条", ticket_id)
    page.locator(".said.held", has_text="第二条").wait_for()
    assert page.get_by_label("回复客户").input_value() == "写了一半"
    assert [url.rsplit("/", 1)[1] for url in sent] == ["resolve"]
    assert rows(db, "SELECT id FROM desk.audit WHERE action = 'ticket.resolve'") == []


def test_what_others_do_shows_without_a_reload_and_hostile_text_runs_nowhere(
        open_page: Any, staff: Staff, db: Database, stack_settings: Settings) -> None:
    ticket_id = write(db, stack_settings, Ports(), EVIL, subject=EVIL, contact_name=EVIL).ticket_id
    person: Person = staff("王芳", "admin")
    page = open_page(who=person)
    for path in ("/tickets", "/customers/C0010", f"/tickets/{ticket_id}"):
        page.goto(path)
        assert page.evaluate("window.bad") is None
        assert EVIL in page.inner_text("main")
    picture(page, "hostile")
    wait_for(lambda: watched(db, ticket_id), 20, "the watch mark")
    write(db, stack_settings, Ports(), f"第二条 {EVIL}", ticket_id)
    page.locator(".said.held", has_text="第二条").wait_for()
    with db.transaction() as conn:
        from supportpilot.db import events  # noqa: PLC0415
        events.write(conn, ticket_id, "t-1", [("turn", {"messages": 1}), ("step", {"node": EVIL}),
                                              ("tool", {"name": EVIL, "args": {"q": EVIL}, "is_error": False}), ("token", {"text": EVIL})])
    page.locator("#live-text", has_text="window.bad").wait_for()
    assert page.evaluate("window.bad") is None
    assert page.locator("#live img, #live script, #live svg").count() == 0
    ticket.reply(db, Ports(), ticket_id, "小李来答", "小李")
    page.locator(".said.human", has_text="小李来答").wait_for()


def rows(db: Database, statement: str) -> list[dict[str, Any]]:
    with db.connection() as conn:
        return list(conn.execute(statement))


def test_the_erasure_of_a_customer_ends_with_its_receipt_on_the_page(
        open_page: Any, staff: Staff, db: Database, stack_settings: Settings) -> None:
    from supportpilot.service import customer  # noqa: PLC0415

    ticket_id = write(db, stack_settings, Ports(), "请删除我的数据").ticket_id
    page = open_page(who=staff("管理", "admin"))
    page.goto("/customers/C0010")
    page.get_by_text("删除这位客户").click()
    page.get_by_label("输入客户的邮箱以确认").fill("nobody@example.com")
    page.get_by_role("button", name="永久删除").click()
    page.get_by_role("alert").wait_for()
    assert rows(db, "SELECT id FROM desk.erasures") == [], "another address erases nobody"
    page.get_by_label("输入客户的邮箱以确认").fill("wugang@example.com")
    page.get_by_role("button", name="永久删除").click()
    page.get_by_text("正在删除").wait_for()
    erasure_id = page.url.rsplit("/", 1)[1]
    assert rows(db, "SELECT id, asked_by FROM desk.erasures") == [{"id": erasure_id, "asked_by": "管理"}]
    customer.erase_requested(db, erasure_id)        # as the task does
    page.get_by_text("已完成").wait_for()
    assert erasure_id in page.inner_text("main")
    assert "wugang" not in page.inner_text("main")
    assert rows(db, "SELECT id FROM biz.customers WHERE id = 'C0010'") == []
    picture(page, "receipt")
    page.goto(f"/tickets/{ticket_id}")
    page.get_by_role("heading", name="已删除").wait_for()
