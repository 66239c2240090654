"""A browser: Debian's chromium, driven by playwright; without either the tests are skipped and say why."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.site import Person, served

PATIENCE_MS = 20_000
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One browser at a time on a small machine."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture
def chromium() -> Iterator[Any]:
    """A browser. Not one for all tests: while it lives, nothing else in this process can run an event loop."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium on this machine (apt-get install chromium)")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture
def address(web_app: Any) -> Iterator[str]:
    """Where the real application, over the test's database, is served."""
    with served(web_app) as url:
        yield url


Open = Callable[..., Any]


@pytest.fixture
def open_page(chromium: Any, address: str) -> Iterator[Open]:
    """Open a browser window of its own: `open_page()`, `open_page(who=person)` logged in, `open_page(viewport=PHONE)`.

    A test in which a page logs an error (a blocked script, a failed file) or opens a dialog that nobody expects fails.
    """
    contexts, problems = [], []

    def make(who: Person | None = None, *, viewport: dict[str, int] = DESK, locale: str = "zh-CN", **options: Any) -> Any:
        context = chromium.new_context(base_url=address, viewport=viewport, locale=locale, **options)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        if who is not None:
            page.goto("/login")
            page.get_by_label("令牌" if locale.startswith("zh") else "Token").fill(who.token)
            page.keyboard.press("Enter")
            page.wait_for_url("**/")
        return page

    yield make
    for context in contexts:
        context.close()
    expected = "Failed to load resource: the server responded with a status of 4"       # a page that says no
    assert [problem for problem in problems if not problem.startswith(expected)] == []

