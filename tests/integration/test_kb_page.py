"""Where citation links lead."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from producer.web.app import create_app
from producer.web.markdown import rendered
from supportpilot.config import load_settings
from supportpilot.db.pool import Connection, Database
from supportpilot.types import Ports

pytestmark = pytest.mark.integration

BODY = """# 重新授权银行

授权 **90 天**到期后:

1. 打开 *设置*
2. 见 [帮助](https://help.example.com/a)

| 银行 | 天数 |
|---|---|
| 招商银行 | 90 |

<script>alert(1)</script> <img src=x onerror=alert(2)> [x](javascript:alert(3))
"""


@pytest.fixture
def client(db: Database, conn: Connection) -> TestClient:
    conn.execute("INSERT INTO kb.articles (id, title, lang, body) VALUES ('KB-bank-001', '重新授权银行', 'zh', %s), "
                 "('KB-x', '<b>bold</b> & \"quoted\"', 'en', 'text')", (BODY,))
    return TestClient(create_app(load_settings(), db, Ports()))


def test_an_article_is_a_readable_page(client: TestClient) -> None:
    got = client.get("/kb/KB-bank-001")
    assert got.status_code == 200
    assert got.headers["content-type"].startswith("text/html")
    assert '<html lang="zh">' in got.text
    assert got.text.count("<h1>") == 1
    assert "<strong>90 天</strong>" in got.text
    assert "<td>招商银行</td>" in got.text
    assert 'href="https://help.example.com/a"' in got.text


def test_nothing_in_an_article_can_run(client: TestClient) -> None:
    got = client.get("/kb/KB-bank-001")
    assert "<script" not in got.text
    assert "<img" not in got.text
    assert 'href="javascript' not in got.text
    policy = got.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "<style" not in got.text


def test_a_title_is_text_not_markup(client: TestClient) -> None:
    page = client.get("/kb/KB-x").text
    assert "<b>bold</b>" not in page
    assert "&lt;b&gt;bold&lt;/b&gt; &amp;" in page
    assert '<html lang="en">' in page


@pytest.mark.parametrize("path", ["/kb/KB-none-999", "/kb/%00", "/kb/" + "x" * 500, "/kb/%3Cscript%3E", "/kb/%ff"])
def test_an_unknown_article_is_a_page_too(client: TestClient, path: str) -> None:
    got = client.get(path)
    assert got.status_code == 404
    assert "没有这篇文章" in got.text
    assert "<script" not in got.text


def test_head_answers_like_get_and_post_does_not(client: TestClient) -> None:
    assert client.head("/kb/KB-bank-001").status_code == 200
    assert client.post("/kb/KB-bank-001").status_code == 405


def test_a_heading_that_differs_from_the_title_stays() -> None:
    assert "<h1>Other</h1>" in rendered("# Other\n\ntext", "Title")
    assert "Title" not in rendered("# Title\n\ntext", "Title")
