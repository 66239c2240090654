"""A reply's forms, and the comparison that finds it again."""

from __future__ import annotations

import time

import pytest

from supportpilot.channels.wording import essences_of_reply, is_echo, same_words, to_html, to_text

REPLY = "您好：\n\n1. 打开 [重新授权](http://127.0.0.1:8000/kb/KB-bank-001)\n2. 再试一次 <E3001> & \"好\"\n\n**谢谢**"


@pytest.mark.parametrize("back", [
    REPLY, to_html(REPLY), f"<div class='x'>{to_html(REPLY)}</div><!-- tail -->", to_text(to_html(REPLY)),
    to_html(REPLY).replace("<li>", "<li style='a'>\n  ").replace(" ", " &nbsp; "),
    REPLY.replace("(http://127.0.0.1:8000/kb/KB-bank-001)", " <http://127.0.0.1:8000/kb/KB-bank-001>"),
])
def test_a_reply_is_known_again_in_every_form_a_helpdesk_gives_it(back: str) -> None:
    assert same_words(essences_of_reply(REPLY), back)
    assert is_echo([REPLY], back)


@pytest.mark.parametrize("other", ["", "谢谢", REPLY + "还有", REPLY.replace("E3001", "E3002"), "<p></p>"])
def test_other_words_are_not_taken_for_it(other: str) -> None:
    assert not same_words(essences_of_reply(REPLY), other)
    assert not is_echo([REPLY], other)


def test_a_short_answer_of_the_customer_is_no_echo_of_the_same_short_reply() -> None:
    assert same_words(essences_of_reply("好的，谢谢"), "好的，谢谢")
    assert not is_echo(["好的，谢谢"], "好的，谢谢")


def test_scripts_and_markup_of_a_reply_do_not_reach_the_helpdesk_as_such() -> None:
    shown = to_html("<script>alert(1)</script> [x](javascript:alert(1)) <img src=x onerror=y>")
    assert "<script" not in shown
    assert "<img" not in shown
    assert "href" not in shown


def test_html_becomes_lines() -> None:
    html = "<style>p{}</style><p>第一行<br>第二&nbsp;行</p><div>a &lt;b&gt; <b>c</b></div><script>x</script>"
    assert to_text(html) == "第一行\n第二 行\na <b> c"


@pytest.mark.parametrize("piece", ["<", "<!--", "<a ", "<![CDATA[", "&", "<p>", "</", "<!", "<?", "[", "`", "<a href='"])
def test_what_is_written_to_slow_us_down_does_not(piece: str) -> None:
    hostile = piece * (200_000 // len(piece))
    started = time.process_time()
    to_text(hostile)
    is_echo([REPLY] * 20, hostile)
    assert time.process_time() - started < 10      # minutes where it is quadratic
