"""The demo data hangs together, whoever edits it."""

from __future__ import annotations

import json
from importlib.resources import files

from supportpilot.db.seed import demo_articles
from supportpilot.db.seed.rows import build_tickets

CUSTOMERS = json.loads((files("supportpilot.db.seed") / "customers.json").read_text(encoding="utf-8"))


def test_there_are_enough_articles_in_both_languages() -> None:
    languages = [article.lang for article in demo_articles()]
    assert languages.count("zh") >= 22
    assert languages.count("en") >= 5
    assert {"KB-bank-001", "KB-refund-002"} <= {article.id for article in demo_articles()}


def test_every_article_that_a_ticket_was_solved_by_exists() -> None:
    ids = {article.id for article in demo_articles()}
    assert {ticket["resolution_kb"] for ticket in build_tickets()} - {None} <= ids


def test_every_error_code_of_a_ticket_is_explained_by_an_article() -> None:
    text = "\n".join(article.title + article.body for article in demo_articles())
    assert [code for code in {ticket["error_code"] for ticket in build_tickets()} - {None} if code not in text] == []


def test_all_addresses_are_invented() -> None:
    assert all(customer["email"].endswith("@example.com") for customer in CUSTOMERS["customers"])


def test_every_ticket_belongs_to_an_invented_customer_and_none_is_from_the_future() -> None:
    ids = {customer["id"] for customer in CUSTOMERS["customers"]}
    tickets = build_tickets()
    assert {ticket["customer_id"] for ticket in tickets} <= ids
    assert max(ticket["created_at"] for ticket in tickets).isoformat() < "2026-12-01"


def test_no_placeholder_of_a_template_is_left_over() -> None:
    assert [t["id"] for t in build_tickets() if "{" in t["subject"] + t["body"] + (t["resolution"] or "")] == []


def test_an_english_speaking_customer_has_written_in_english() -> None:
    [emily] = [customer for customer in CUSTOMERS["customers"] if customer["locale"] == "en"]
    assert all(t["body"].isascii() for t in build_tickets() if t["customer_id"] == emily["id"])
