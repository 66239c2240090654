"""The customer's page in a browser: live steps of a real worker, a box that sends once, and nothing that runs by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browser.conftest import PHONE
from fixtures.office import Office
from fixtures.site import served
from fixtures.worker import Workers

from producer.web.app import create_app
from supportpilot.config import Settings
from supportpilot.db.pool import Database
from supportpilot.service import intake, links, ticket
from supportpilot.types import InboundMessage, Ports
from worker.publish import make_ports

pytestmark = pytest.mark.integration

SECRET = "a-secret-of-the-tests-0123456789abcdef"
EVIL = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"><a href=\"javascript:document.title='owned'\">x</a>\"'>"
WIDE = "超长" * 10 + "x" * 400 + " https://help.example.com/" + "y" * 300
TABLE = "| 列 | " + " | ".join(f"很长的表头{n}" for n in range(12)) + " |\n|" + "---|" * 13 + "\n| " + " | ".join(["一些内容"] * 13) + " |"
# Everything that stands in the state's line, one after the other, also after the part of the page was replaced.
RECORD = """() => {
  window.states = [];
  const note = () => { const t = document.getElementById('step').innerText; if (states.at(-1) !== t) states.push(t); };
  new MutationObserver(note).observe(document.getElementById('live'), {subtree: true, childList: true, characterData: true});
}"""


def settings_of(settings: Settings) -> Settings:
    return settings.model_copy(update={"customer_link_secret": SECRET})


def path_of(db: Database, settings: Settings, ticket_id: str) -> str:
    return links.link_of(db, settings, ticket_id).removeprefix(settings.public_url)


class Real:
    """The application beside a real worker."""

    def __init__(self, settings: Settings, db: Database, ports: Ports) -> None:
        self.settings, self.db, self.ports = settings, db, ports

    def write(self, body: str) -> str:
        message = InboundMessage(channel="generic", external_id=f"generic:{body}", contact="wangfang@example.com", body=body)
        return intake.receive(self.db, self.settings, self.ports, message).ticket_id


@pytest.fixture
def real(stack_settings: Settings) -> Iterator[Real]:
    settings = settings_of(stack_settings)
    assert settings.database_url
    with Database(settings.database_url) as db:
        yield Real(settings, db, make_ports(settings))


@pytest.fixture
def office(db: Database) -> Office:
    return Office(db, customer_link_secret=SECRET)


@pytest.fixture
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Serve over the real worker's database where the test has one, else over the office's."""
    behind = request.getfixturevalue("real" if "real" in request.fixturenames else "office")
    with served(create_app(behind.settings, behind.db, behind.ports)) as url:
        yield url


@pytest.mark.timeout(180)
def test_the_steps_are_seen_live_and_the_answer_appears_and_a_question_on_the_page_is_answered_too(
        open_page: Any, real: Real, workers: Workers) -> None:
    ticket_id = real.write("银行流水同步失败，提示 E3001，怎么办？")
    page = open_page(viewport=PHONE)
    page.goto(path_of(real.db, real.settings, ticket_id))
    assert "正在处理" in page.locator("#state").inner_text()
    page.evaluate(RECORD)
    workers.start()
    page.locator(".said.agent").wait_for(timeout=60_000)
    page.locator("[data-state=answered]").wait_for()
    states = page.evaluate("states")
    for step in ("正在查阅帮助文档", "正在撰写回复"):
        assert step in states
    assert page.locator(".said.agent a").get_attribute("href").endswith("/kb/KB-bank-001")

    page.get_by_label("继续留言").fill("重新授权以后还是失败")
    page.evaluate("() => { const f = document.querySelector('form'); const b = f.querySelector('button'); b.click(); b.click(); f.requestSubmit(); }")
    page.wait_for_url("**/t/**#end")
    page.locator(".said.agent").nth(1).wait_for(timeout=60_000)
    assert page.locator(".said.customer").count() == 2
    assert page.get_by_label("继续留言").input_value() == ""
    with real.db.connection() as conn:
        stored = conn.execute("SELECT channel, author FROM desk.inbox WHERE ticket_id = %s ORDER BY seq", (ticket_id,)).fetchall()
    assert stored == [{"channel": "generic", "author": "customer"}, {"channel": "page", "author": "customer"}]


def test_a_humans_reply_appears_without_a_reload_and_a_half_written_text_stays(open_page: Any, office: Office) -> None:
    ticket_id = office.write("同步失败").ticket_id
    page = open_page()
    page.goto(path_of(office.db, office.settings, ticket_id))
    page.get_by_label("继续留言").fill("我还没写完")
    ticket.reply(office.db, office.ports, ticket_id, "我来跟进", "小王")
    office.deliver()
    page.get_by_text("我来跟进").wait_for()
    assert page.locator("[data-state=human]").count() == 1
    assert page.get_by_label("继续留言").input_value() == "我还没写完"
    old = page.url
    links.renew(office.db, office.settings, ticket_id, "小王")
    page.get_by_role("heading", name="没有这个页面").wait_for()      # an open page goes with its link
    assert page.url == old


def test_nothing_that_was_written_runs_and_nothing_is_wider_than_a_phone(open_page: Any, office: Office) -> None:
    ticket_id = office.write(f"{EVIL} {WIDE}", subject=f"{EVIL}{WIDE}"[:300], contact_name=EVIL).ticket_id
    ticket.reply(office.db, office.ports, ticket_id, f"{EVIL}\n\n{WIDE}\n\n{TABLE}\n\n    {'code' * 100}\n\n[x](javascript:alert(1))", EVIL)
    office.deliver()
    page = open_page(viewport=PHONE, color_scheme="dark")
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.goto(path_of(office.db, office.settings, ticket_id) + "?lang=zh")
    page.get_by_label("继续留言").fill(f"</textarea>{EVIL}")
    page.keyboard.press("Control+Enter")
    page.locator(".said.customer").nth(1).wait_for()
    ticket.reply(office.db, office.ports, ticket_id, f"{EVIL} 第二次", "小王")        # comes by the live part
    office.deliver()
    page.get_by_text("第二次").wait_for()
    for link in page.locator(".said a").all():
        assert str(link.get_attribute("href")).startswith("http")
    assert "owned" not in page.title()
    assert dialogs == []
    assert page.locator("#live script, #live img, #live [onerror]").count() == 0
    assert page.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [390, 390]


def test_the_page_can_be_used_by_keyboard_alone_and_without_scripts(open_page: Any, office: Office) -> None:
    path = path_of(office.db, office.settings, office.write("同步失败").ticket_id)
    page = open_page()
    page.goto(path)
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "body":
            break
    page.keyboard.type("用键盘写的")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("用键盘写的").wait_for()
    plain = open_page(java_script_enabled=False)
    plain.goto(path)
    plain.get_by_label("继续留言").fill("没有脚本")
    plain.get_by_role("button", name="发送").click()
    plain.get_by_text("没有脚本").wait_for()
    assert len(office.rows("SELECT 1 FROM desk.inbox WHERE channel = 'page'")) == 2


def test_two_windows_of_one_customer_see_the_same(open_page: Any, office: Office) -> None:
    path = path_of(office.db, office.settings, office.write("同步失败").ticket_id)
    one, two = open_page(), open_page(viewport=PHONE)
    one.goto(path)
    two.goto(path)
    one.get_by_label("继续留言").fill("在另一个窗口写的")
    one.get_by_role("button", name="发送").click()
    two.locator(".said").get_by_text("在另一个窗口写的").wait_for()
    one.locator(".said").get_by_text("在另一个窗口写的").wait_for()
    texts = [window.locator(".said .words").all_inner_texts() for window in (one, two)]
    assert texts[0] == texts[1] != []
    assert [row["body"] for row in office.rows("SELECT body FROM desk.inbox ORDER BY seq")] == ["同步失败", "在另一个窗口写的"]
