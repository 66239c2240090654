"""Articles from files: a mistake is told with the file, the line and what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from supportpilot.errors import Misconfigured
from supportpilot.kb.importer import read_directory

GOOD = "---\nid: KB-bank-001\ntitle: 授权到期\nlang: zh\nurl: https://help.example.com/a\n---\n\n重新授权。\n"


def write(folder: Path, name: str, text: str) -> Path:
    folder.joinpath(name).write_text(text, encoding="utf-8")
    return folder


def test_an_article_is_read_with_all_its_fields(tmp_path: Path) -> None:
    [article] = read_directory(write(tmp_path, "a.md", GOOD)).articles
    assert (article.id, article.title, article.lang) == ("KB-bank-001", "授权到期", "zh")
    assert (article.url, article.body) == ("https://help.example.com/a", "重新授权。")


def test_a_file_from_windows_is_read_the_same(tmp_path: Path) -> None:
    tmp_path.joinpath("a.md").write_bytes(("\ufeff" + GOOD.replace("\n", "\r\n")).encode())
    [article] = read_directory(tmp_path).articles
    assert (article.title, article.body) == ("授权到期", "重新授权。")


def test_a_title_may_contain_colons_and_quotes(tmp_path: Path) -> None:
    [article] = read_directory(write(tmp_path, "a.md", GOOD.replace("授权到期", '"E3001: 到期"'))).articles
    assert article.title == "E3001: 到期"


def test_language_is_chinese_and_address_is_ours_unless_given(tmp_path: Path) -> None:
    [article] = read_directory(write(tmp_path, "a.md", "---\nid: KB-x-1\ntitle: t\n---\nbody")).articles
    assert (article.lang, article.url) == ("zh", None)


@pytest.mark.parametrize(("text", "line", "problem"), [
    ("没有开头\n", 1, "front matter is missing"),
    ("", 1, "front matter is missing"),
    ("---\nid: KB-a-1\ntitle: t\n", 1, "no closing ---"),
    (GOOD.replace("id: KB-bank-001\n", ""), 1, "no id"),
    (GOOD.replace("title: 授权到期", "title:"), 1, "no title"),
    (GOOD.replace("KB-bank-001", "bank 1"), 2, "'bank 1' is not of the form"),
    (GOOD.replace("KB-bank-001", "KB-a](http"), 2, "is not of the form"),
    (GOOD.replace("lang: zh", "lang: fr"), 4, "'fr' is not one of zh, en"),
    (GOOD.replace("https:", "javascript:"), 5, "is not an http(s) address"),
    (GOOD.replace("lang: zh", "language: zh"), 4, "'language' is not one of"),
    (GOOD.replace("lang: zh", "lang"), 4, "not of the form name: value"),
    (GOOD.replace("lang: zh", "id: KB-b-1"), 4, "given twice"),
    (GOOD.replace("重新授权。", ""), 7, "no text below"),
    (GOOD.replace("重新授权", "重新\0授权"), 1, "NUL"),
])
def test_a_malformed_article_names_its_file_its_line_and_the_mistake(
    tmp_path: Path, text: str, line: int, problem: str,
) -> None:
    folder = read_directory(write(tmp_path, "broken.md", text))
    assert folder.articles == []
    [said] = folder.problems
    assert said.startswith(f"broken.md:{line}: ")
    assert problem in said
    assert "\n" not in said


def test_every_broken_file_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    write(tmp_path, "a.md", GOOD.replace("id: KB-bank-001\n", ""))
    write(tmp_path, "b.md", GOOD)
    write(tmp_path, "c.md", GOOD.replace("title: 授权到期\n", "").replace("bank", "c"))
    folder = read_directory(tmp_path)
    assert [article.id for article in folder.articles] == ["KB-bank-001"]
    assert folder.problems == ["a.md:1: the front matter has no id", "c.md:1: the front matter has no title"]


def test_two_files_with_one_id_are_both_named(tmp_path: Path) -> None:
    write(tmp_path, "a.md", GOOD)
    folder = read_directory(write(tmp_path, "b.md", GOOD.replace("授权到期", "另一篇")))
    assert [article.title for article in folder.articles] == ["授权到期"]
    assert folder.problems == ["b.md:1: id KB-bank-001 is already used by a.md"]


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    tmp_path.joinpath("gbk.md").write_bytes(GOOD.encode("gbk"))
    [problem] = read_directory(tmp_path).problems
    assert problem.startswith("gbk.md:1: not UTF-8")


def test_a_directory_that_is_missing_or_holds_no_article_is_said(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"no \.md file"):
        read_directory(tmp_path)
    with pytest.raises(Misconfigured, match="not a directory"):
        read_directory(tmp_path / "nowhere")
