"""The login in a browser."""

from __future__ import annotations

import re
from typing import Any

from fixtures.site import Staff


def test_somebody_logs_in_with_the_keyboard_alone_and_out_again(open_page: Any, staff: Staff) -> None:
    person = staff(logged_in=False)
    page = open_page()
    page.goto("/?from=mail")
    page.wait_for_url(re.compile(r"/login\?next="))
    page.keyboard.type("spt_wrong")       # the field has the focus
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for()
    page.get_by_label("令牌").fill(person.token)
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/\?from=mail$"))
    assert page.get_by_role("heading", level=1).inner_text() == "你好，王芳"
    assert [cookie["httpOnly"] for cookie in page.context.cookies() if cookie["name"] == "sp_session"] == [True]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_role("button", name="退出").click()
    page.wait_for_url("**/login")
