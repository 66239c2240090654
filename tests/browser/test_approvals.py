"""The approver's desk in a browser: approve, a page that is out of date, double clicks, two approvers, keyboard, hostile text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fixtures.office import Office, give_paid_invoice, refund_llm
from fixtures.site import Staff

from supportpilot.db.pool import Database

PATH = "/approvals/A000001"
PHONE = {"width": 390, "height": 844}
HOSTILE = ("<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"
           "</textarea></title>'\"><svg onload=alert(1)>{{7*7}}[x](javascript:alert(2))")


@pytest.fixture
def office(db: Database) -> Office:
    """An office in which a refund of 300.00 waits as A000001."""
    office = Office(db, refund_llm())
    give_paid_invoice(office)
    office.work(office.write("账单 INV-1 重复扣款,请退款").ticket_id)
    return office


def decisions(office: Office) -> list[str]:
    return [r["actor"] for r in office.rows("SELECT actor FROM desk.audit WHERE action IN ('approval.approved', 'approval.rejected')")]


def test_an_approver_finds_the_request_and_approves_it(open_page: Any, office: Office, staff: Staff) -> None:
    page = open_page(staff(logged_in=False))
    page.get_by_role("link", name="待审批的退款").click()
    page.get_by_role("link", name=re.compile("王敏")).click()
    page.get_by_role("button", name="批准 ¥300.00").click()
    state = page.locator("#state")
    state.wait_for()
    assert re.search(r"王芳 于 \d{4}-\d\d-\d\d \d\d:\d\d UTC\+8 批准了 ¥300\.00", state.inner_text())
    assert page.get_by_role("button", name=re.compile("批准")).count() == 0
    assert decisions(office) == ["王芳"]


def test_a_page_that_is_out_of_date_decides_nothing_and_shows_what_is_new(open_page: Any, office: Office, staff: Staff) -> None:
    page = open_page(staff(logged_in=False))
    page.goto(PATH)
    office.write("先不要退了", ticket_id="T000001")
    page.get_by_role("button", name="批准 ¥300.00").click()
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "没有决定" in alert.inner_text()
    assert "先不要退了" in alert.inner_text()
    assert decisions(office) == []
    page.get_by_text("拒绝", exact=True).click()
    page.locator("#r-reason").fill("客户撤回")
    page.get_by_role("button", name="拒绝这笔退款").click()
    page.locator("#state", has_text="拒绝了").wait_for()
    assert decisions(office) == ["王芳"]


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts on", "scripts off"])
def test_a_double_click_decides_once(open_page: Any, office: Office, staff: Staff, scripts: bool) -> None:
    page = open_page(staff(logged_in=False), java_script_enabled=scripts)
    page.goto(PATH)
    page.get_by_role("button", name="批准 ¥300.00").dblclick()
    page.locator("#state", has_text="王芳 于").wait_for()
    assert page.get_by_role("alert").count() == 0
    assert decisions(office) == ["王芳"]


def test_of_two_approvers_the_second_one_reads_who_decided(open_page: Any, office: Office, staff: Staff) -> None:
    first, second = open_page(staff("王芳", logged_in=False)), open_page(staff("李强", logged_in=False))
    for page in (first, second):
        page.goto(PATH)
    first.get_by_role("button", name="批准 ¥300.00").click()
    first.locator("#state").wait_for()
    second.get_by_role("button", name="批准 ¥300.00").click()
    second.get_by_role("alert").wait_for()
    assert "你的点击没有改变任何东西" in second.get_by_role("alert").inner_text()
    assert "王芳 于" in second.locator("#state").inner_text()
    second.reload()
    assert decisions(office) == ["王芳"]


def test_a_smaller_amount_is_approved_with_the_keyboard_alone(open_page: Any, office: Office, staff: Staff) -> None:
    page = open_page(staff(logged_in=False))
    page.goto(PATH)
    page.locator("summary", has_text="批准较小的金额").focus()
    page.keyboard.press("Enter")
    for words in ("120.50", "用了一部分", "已使用的天数不退"):
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "where the focus is can be seen"
        page.keyboard.type(words)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#state", has_text="批准了 ¥120.50").wait_for()
    assert decisions(office) == ["王芳"]


def test_nothing_that_a_customer_controls_can_run(open_page: Any, db: Database, staff: Staff) -> None:
    office = Office(db, refund_llm(reason=HOSTILE[:400]))
    give_paid_invoice(office)
    office.execute("UPDATE biz.customers SET name = %s, company = %s", HOSTILE, HOSTILE)
    office.execute("UPDATE biz.invoices SET description = %s", HOSTILE)
    ticket_id = office.write(HOSTILE, subject=HOSTILE, contact_name=HOSTILE).ticket_id
    office.work(ticket_id)
    office.write(f"new {HOSTILE}", ticket_id=ticket_id)
    office.execute("UPDATE desk.approvals SET request = jsonb_set(jsonb_set(request, '{draft}', to_jsonb(%s::text)), '{findings}', to_jsonb(%s::text))",
                   HOSTILE, HOSTILE)
    office.execute("INSERT INTO biz.refunds (id, ticket_id, approval_id, invoice_id, amount, status, decided_by, reason) "
                   "VALUES ('RF-1', %s, 'x', 'INV-1', 1, 'paid', %s, %s)", ticket_id, HOSTILE, HOSTILE)
    office.execute("INSERT INTO biz.profile_overrides (customer_id, kind, value, author, reason) VALUES ('C1', 'note', %s, 'x', %s)", HOSTILE, HOSTILE)
    page = open_page(staff(logged_in=False))
    page.on("dialog", lambda _: pytest.fail("a script ran"))
    for path in ("/approvals", PATH):
        page.goto(path)
        assert page.locator("img:not(.brand img), svg, main script").count() == 0
        assert page.locator("a[href^=javascript]").count() == 0
        assert "hacked" not in page.title()
        assert "onerror=" in page.locator("main").inner_text(), "it is shown as text"
    office.write(f"newer {HOSTILE}", ticket_id=ticket_id)
    page.get_by_role("button", name=re.compile("批准 ¥")).click()
    page.get_by_role("alert").wait_for()
    assert page.locator("main img, main svg, main script").count() == 0
    assert decisions(office) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_wider_than_the_screen(open_page: Any, office: Office, staff: Staff, scheme: Any) -> None:
    office.write("x" * 300 + " 新消息", ticket_id="T000001")
    page = open_page(staff(logged_in=False), viewport=PHONE, color_scheme=scheme)
    for path in ("/", "/approvals", PATH):
        page.goto(path)
        wide = page.evaluate("[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
                             ".map(e => e.outerHTML.slice(0, 120))")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], (path, wide)
        small = page.evaluate("[...document.querySelectorAll('button, summary, input:not([type=hidden])')].filter(e => e.offsetParent && e.offsetHeight < 36).map(e => e.outerHTML)")
        assert small == []
