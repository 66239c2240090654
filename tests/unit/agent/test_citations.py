from __future__ import annotations

import pytest

from supportpilot.agent.citations import cited, foreign_links, render_links, unknown_ids
from supportpilot.tools.citations import citations_in

HITS = [
    {"article_id": "KB-bank-001", "title": "重新授权", "text": "见 https://bank.example.com/help", "url": None},
    {"article_id": "KB-api-1", "title": "Keys [v2]", "text": "…", "url": "https://docs.example.com/api (1)"},
]
PUBLIC = "https://help.example.com/"


def test_a_citation_becomes_a_link_to_our_page():
    assert render_links("请看 [KB-bank-001]。", HITS, PUBLIC) == \
        '请看 [重新授权](https://help.example.com/kb/KB-bank-001 "KB-bank-001")。'


def test_the_articles_own_address_goes_first_and_the_delivery_can_read_the_link():
    reply = render_links("See [KB-api-1].", HITS, PUBLIC)
    (found,) = citations_in(reply)
    assert (found.id, found.title, found.url) == ("KB-api-1", "Keys [v2]", "https://docs.example.com/api%20%281%29")


@pytest.mark.parametrize("text", ["[KB-bank-001, KB-api-1]", "【KB-bank-001、KB-api-1】", "[KB-bank-001][KB-api-1]",
                                  "\uff3bKB-bank-001\uff0cKB-api-1\uff3d"])
def test_several_citations_are_all_linked(text):
    assert [found.id for found in citations_in(render_links(text, HITS, PUBLIC))] == ["KB-bank-001", "KB-api-1"]


def test_an_invented_article_is_named():
    assert unknown_ids("见 [KB-bank-001] 和 KB-made-up-9。", HITS) == ["KB-made-up-9"]
    assert cited("[KB-made-up-9][KB-bank-001]", HITS) == ["KB-bank-001"]
    assert render_links("见[KB-made-up-9]。", HITS, PUBLIC) == "见。"


def test_only_links_of_ours_and_of_the_articles_pass():
    text = "https://evil.example.net/pay 或 https://bank.example.com/help\uff0c或 https://help.example.com/kb/KB-api-1。"
    assert foreign_links(text, HITS, PUBLIC) == ["https://evil.example.net/pay"]


def test_a_link_with_parameters_is_seen_whole():
    assert foreign_links("https://evil.example.net/a?b=1", HITS, PUBLIC) != []


def test_a_lookalike_of_our_address_is_foreign():
    assert foreign_links("https://help.example.com.evil.net/", HITS, PUBLIC) == ["https://help.example.com.evil.net/"]
