"""Login, roles, forms, languages, static files: what every page of the staff stands on."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fixtures.site import HTML, Staff, hidden_fields
from starlette.testclient import TestClient

from producer.web.app import create_app
from producer.web.auth import local
from supportpilot.config import Settings
from supportpilot.db.pool import Connection, Database
from supportpilot.service import approvers
from supportpilot.types import Ports

pytestmark = pytest.mark.integration


@pytest.fixture
def nobody(web_app: Any) -> TestClient:
    return TestClient(web_app, headers=HTML, follow_redirects=False)


def test_who_is_not_logged_in_is_sent_to_the_login_and_comes_back(nobody: TestClient, staff: Staff) -> None:
    got = nobody.get("/?x=1")
    assert (got.status_code, got.headers["location"]) == (303, "/login?next=/%3Fx%3D1")
    page = nobody.get(got.headers["location"]).text
    token = staff(logged_in=False).token
    got = nobody.post("/login", data={**hidden_fields(page, "/login"), "token": token})
    assert (got.status_code, got.headers["location"]) == (303, "/?x=1")
    assert "王芳" in nobody.get("/").text


def test_the_session_cookie_is_out_of_reach_for_scripts_and_other_sites(db: Database, staff: Staff) -> None:
    plain = staff(logged_in=False)
    cookie = plain.client.post("/login", data={"token": plain.token}).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie
    app = create_app(Settings(public_url="https://support.example.com"), db, Ports())
    cookie = TestClient(app, follow_redirects=False).post("/login", data={"token": plain.token}).headers["set-cookie"]
    assert "secure" in cookie.lower()


def test_neither_tokens_nor_sessions_are_stored_in_plain(staff: Staff, conn: Connection) -> None:
    person = staff()
    secret = person.client.cookies["sp_session"]
    stored = str(conn.execute("SELECT * FROM desk.approvers").fetchall()) + str(conn.execute("SELECT * FROM desk.sessions").fetchall())
    assert person.token not in stored
    assert secret not in stored


def test_a_wrong_token_gets_no_session(nobody: TestClient) -> None:
    for token in ("spt_wrong", "", "x" * 200, "令牌"):
        got = nobody.post("/login", data={"token": token})
        assert got.status_code == 403
        assert "set-cookie" not in got.headers
    assert nobody.post("/login", data={"token": "x" * 201}).status_code == 422


def test_a_revoked_person_is_out_at_once_and_may_come_back_with_a_new_token(staff: Staff, db: Database) -> None:
    person = staff("Li Wei")
    assert person.api.get("/api/approvals").status_code == 200
    approvers.revoke(db, " li  WEI", "boss")
    assert person.client.get("/").status_code == 303
    assert person.api.get("/api/approvals").status_code == 401
    assert person.client.post("/login", data={"token": person.token}).status_code == 403
    assert staff("Li Wei", "viewer").token != person.token


def test_a_session_ends_by_itself(staff: Staff, conn: Connection) -> None:
    person = staff()
    conn.execute("UPDATE desk.sessions SET expires_at = clock_timestamp()")
    assert person.client.get("/").status_code == 303


def test_logging_out_ends_the_session_for_good(staff: Staff) -> None:
    person = staff()
    secret = person.client.cookies["sp_session"]
    assert person.client.get("/logout").status_code == 405
    assert person.send("/logout", person.get("/")).status_code == 303
    person.client.cookies.set("sp_session", secret)
    assert person.client.get("/").status_code == 303


def test_a_form_of_another_session_or_site_does_nothing(staff: Staff) -> None:
    one, two = staff("王芳"), staff("李强")
    foreign = hidden_fields(two.get("/"), "/logout")
    for fields in (foreign, {"x": "1"}, {"csrf": ""}, {"csrf": "é" * 64}):
        assert one.client.post("/logout", data=fields).status_code == 403
    own = hidden_fields(one.get("/"), "/logout")
    assert one.client.post("/logout", data=own, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert one.client.post("/logout", json=own).status_code == 422
    assert one.get("/")
    assert one.client.post("/logout", data=own).status_code == 303


@pytest.mark.parametrize("body", [b"\xff=1", b"a=1&" * 60, b"csrf=%ff"])
def test_a_form_that_cannot_be_read_is_a_clean_refusal(staff: Staff, body: bytes) -> None:
    got = staff().client.post("/logout", content=body, headers={"content-type": "application/x-www-form-urlencoded"})
    assert got.status_code == 422
    assert "<h1>" in got.text


@pytest.mark.parametrize(("given", "leads_to"), [
    ("/approvals/A000001?x=1", "/approvals/A000001?x=1"), ("//evil.example", "/"), ("https://evil.example/", "/"),
    ("/\\evil.example", "/"), ("\\\\evil.example", "/"), ("javascript:alert(1)", "/"), ("approvals", "/"), ("", "/"),
    ("/a\r\nset-cookie: x=1", "/"), ("http:evil.example", "/"), ("/%2f/evil.example", "/%2f/evil.example"),
    ("//[", "/"), ("//[::1", "/"), ("//℀x", "/"),
])
def test_the_login_leads_only_to_our_own_pages(given: str, leads_to: str) -> None:
    assert local(given) == leads_to


def test_a_link_in_a_mail_is_loaded_once_more_before_the_login_is_shown(nobody: TestClient) -> None:
    got = nobody.get("/?a=1", headers={"sec-fetch-site": "cross-site"})
    assert got.status_code == 200
    assert 'http-equiv="refresh"' in got.text
    assert nobody.get("/?a=1", headers={"sec-fetch-site": "same-origin"}).status_code == 303


def test_the_api_wants_a_token_and_says_so_in_json(nobody: TestClient, staff: Staff) -> None:
    for headers in ({}, {"authorization": "Bearer "}, {"authorization": "Bearer spt_no"}, {"authorization": "Basic x"}):
        got = nobody.get("/api/approvals", headers=headers)
        assert got.status_code == 401
        assert got.headers["www-authenticate"] == "Bearer"
        assert "error" in got.json()
    person = staff()
    assert person.client.get("/api/approvals").status_code == 401, "a cookie is no token"


def test_a_page_runs_only_our_own_files(staff: Staff) -> None:
    person = staff()
    got = person.client.get("/")
    policy = got.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<style|<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=", got.text)
    assert got.headers["cache-control"] == "no-store"
    for link in re.findall(r'(?:href|src)="(/static/[^"]+)"', got.text):
        answer = person.client.get(link)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]


def test_static_files_are_few_and_nothing_else_is_read(nobody: TestClient) -> None:
    got = nobody.get("/static/app.css")
    assert got.headers["cache-control"] == "public, max-age=300"
    assert nobody.get("/static/app.css", headers={"if-none-match": got.headers["etag"]}).status_code == 304
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/none.css", "/static/"):
        assert nobody.get(path).status_code == 404


def test_the_language_is_the_one_chosen_then_the_browsers(nobody: TestClient) -> None:
    assert '<html lang="zh">' in nobody.get("/login").text
    assert '<html lang="en">' in nobody.get("/login", headers={"accept-language": "de, en;q=0.8, zh;q=0.3"}).text
    assert '<html lang="zh">' in nobody.get("/login", headers={"accept-language": "zh-TW;q=0.9, en;q=x"}).text
    assert '<html lang="en">' in nobody.get("/login?lang=en").text
    assert '<html lang="en">' in nobody.get("/login", headers={"accept-language": "zh"}).text, "it is remembered"
    assert '<html lang="en">' in nobody.get("/login?lang=<script>").text


def test_an_error_is_a_page_for_a_browser_and_json_for_a_program(nobody: TestClient) -> None:
    got = nobody.get("/nowhere")
    assert got.status_code == 404
    assert "没有这个页面" in got.text
    assert nobody.get("/nowhere", headers={"accept": "application/json"}).json() == {"error": "Not Found"}
    assert nobody.get("/api/nowhere").headers["content-type"] == "application/json"


def test_the_database_away_is_said_on_the_page(staff: Staff, web_app: Any) -> None:
    person = staff()
    with Database("postgresql://127.0.0.1:1/none", timeout=0.2) as away:
        client = TestClient(create_app(Settings(), away, Ports()), headers=HTML, cookies=dict(person.client.cookies))
        got = client.get("/")
    assert got.status_code == 503
    assert "retry-after" in got.headers
    assert "暂时不可用" in got.text
