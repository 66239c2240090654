"""What is new in a mail, client by client: (what the mail holds, what is left of it)."""

from __future__ import annotations

import pytest

from supportpilot.mail.html import split_html
from supportpilot.mail.quotes import split

NEW = "还是不行,提示 E3001。"
OLD = "您好,请重新授权。"

TEXT = {
    "qq": f"{NEW}\n\n\n------------------ 原始邮件 ------------------\n发件人: \"客服\" <help@example.com>;\n发送时间: 2026年12月2日(星期三) 下午3:00\n收件人: \"王敏\" <wang@example.com>;\n主题: 回复: E3001\n\n{OLD}",
    "qq with NBSP": f"{NEW}\n\n------------------\u00a0原始邮件\u00a0------------------\n发件人: x\n\n{OLD}",
    "qq in English": f"{NEW}\n\n------------------ Original ------------------\nFrom: \"help\" <help@example.com>;\nDate: Wed, Dec 2, 2026\n\n{OLD}",
    "NetEase Mail Master": f"{NEW}\n\n---- 回复的原邮件 ----\n| 发件人 | 客服<help@example.com> |\n| 日期 | 2026年12月02日 15:00 |\n\n{OLD}",
    "163 on the web": f"{NEW}\n\n\n\n\n在 2026-12-02 15:00:00，\"客服\" <help@example.com> 写道：\n\n{OLD}",
    "163 in English": f"{NEW}\n\n\nAt 2026-12-02 15:00:00, \"help\" <help@example.com> wrote:\n>{OLD}",
    "于": f"{NEW}\n\n客服 <help@example.com> 于2026年12月2日周三 15:00写道：\n\n> {OLD}\n>\n> 客服",
    "Gmail, traditional": f"{NEW}\n\n客服 <help@example.com> 於 2026年12月2日 週三 下午3:00寫道：\n\n> {OLD}",
    "Gmail, English, wrapped": f"{NEW}\n\nOn Wed, Dec 2, 2026 at 3:00 PM Support of Example <\nhelp@example.com> wrote:\n\n> {OLD}",
    "Apple Mail": f"{NEW}\n\n> 在 2026年12月2日，15:00，客服 <help@example.com> 写道：\n> \n> {OLD}",
    "iPhone": f"{NEW}\n\n发自我的iPhone\n\n> 在 2026年12月2日，15:00，客服 <help@example.com> 写道：\n> \n> {OLD}",
    "Outlook, half width": f"{NEW}\n\n________________________________\n发件人: 客服 <help@example.com>\n发送时间: 2026年12月2日 15:00\n收件人: 王敏\n主题: E3001\n\n{OLD}",
    "Outlook, full width": f"{NEW}\n\n发件人：客服\n日期：2026年12月2日 15:00\n收件人：王敏\n主题：E3001\n\n{OLD}",
    "Outlook, traditional": f"{NEW}\n\n寄件者: 客服\n寄件日期: 2026年12月2日\n收件者: 王敏\n主旨: E3001\n\n{OLD}",
    "Outlook, bold": f"{NEW}\n\n*发件人:* 客服\n*发送时间:* 2026年12月2日\n*收件人:* 王敏\n*主题:* E3001\n\n{OLD}",
    "Outlook, English": f"{NEW}\n\nFrom: Support <help@example.com>\nSent: Wednesday, December 2, 2026 3:00 PM\nTo: Wang Min\nSubject: E3001\n\n{OLD}",
    "Foxmail": f"{NEW}\n\n\n\nwang@example.com\n \n发件人： 客服\n发送时间： 2026-12-02 15:00\n收件人： 王敏\n主题： E3001\n{OLD}",
    "mail original": f"{NEW}\n\n-----邮件原件-----\n发件人: 客服\n\n{OLD}",
    "only angle brackets": f"{NEW}\n\n> {OLD}\n> 客服\n",
}


@pytest.mark.parametrize("client", TEXT)
def test_the_quote_of_a_text_mail_is_left_out(client: str) -> None:
    found = split(TEXT[client])
    shown = found.visible.removesuffix("wang@example.com").strip()      # Foxmail's signature is text like any other
    assert (shown, OLD in found.quoted) == (NEW, True)
    assert found.full == TEXT[client].strip()


KEPT = {
    "a sentence about the original mail": "请看我的原始邮件,里面有截图。\n原始邮件里写了单号。",
    "answers between the lines": f"我的回答在下面:\n\n> {OLD}\n授权过了,没有用。\n> 客服\n还是 E3001。",
    "an answer below the quote": f"在 2026-12-02 15:00:00，客服 <help@example.com> 写道：\n> {OLD}\n\n授权过了,没有用。",
    "answers between the lines of a reply": f"见下面:\n\n在 2026-12-02 15:00:00，客服 <help@example.com> 写道：\n> {OLD}\n授权过了,没有用。\n> 客服",
    "nothing but a quote": f"------------------ 原始邮件 ------------------\n发件人: 客服\n\n{OLD}",
    "a list with one head line": "From: 北京\nTo: 上海\n请开发票,谢谢。",
    "a bill": "收件人: 王敏\n地址: 北京市\n电话: 123",
    "on without a date": "On the page it wrote:\nE3001 又来了",
    "a forward inside": f"帮我看看这个报错\n\n---------- Forwarded message ---------\nFrom: 银行 <bank@example.com>\nDate: 2026\nSubject: 授权\n\n{OLD}",
}


@pytest.mark.parametrize("case", KEPT)
def test_in_doubt_the_whole_text_stays(case: str) -> None:
    assert split(KEPT[case]).visible == KEPT[case]


def test_of_a_forwarded_mail_nothing_is_taken_away() -> None:
    assert split(TEXT["Outlook, full width"], forwarded=True).visible == TEXT["Outlook, full width"]


SIGNED = ["发自我的iPhone", "发自我的小米手机", "Sent from my iPhone", "来自我的华为手机", "Get Outlook for iOS", "获取 Outlook for Android",
          "从 Windows 版邮件发送", "-- \n王敏\n财务部", "发自 网易邮箱大师"]


@pytest.mark.parametrize("signature", SIGNED)
def test_what_a_phone_adds_is_left_out(signature: str) -> None:
    assert split(f"{NEW}\n\n{signature}\n").visible == NEW


@pytest.mark.parametrize("line", ["来自客户的投诉怎么处理?", "发自内心地感谢", "Sent from the bank: nothing"])
def test_words_that_only_begin_like_a_signature_stay(line: str) -> None:
    assert split(f"{NEW}\n{line}").visible == f"{NEW}\n{line}"


HTML = {
    "Gmail": f'<div dir="ltr">{NEW}</div><br><div class="gmail_quote gmail_quote_container"><div class="gmail_attr">客服 &lt;help@example.com&gt; 于2026年12月2日周三 15:00写道：<br></div><blockquote class="gmail_quote">{OLD}</blockquote></div>',
    "Outlook on the web": f'<div>{NEW}</div><div id="appendonsend"></div><hr><div id="divRplyFwdMsg"><b>发件人:</b> 客服</div><div>{OLD}</div>',
    "Outlook on the web, nested": f'<html><body><div><div>{NEW}</div><div id="divRplyFwdMsg"><b>From:</b> help</div></div><div>{OLD}</div></body></html>',
    "NetEase Mail Master": f'<div>{NEW}</div><div class="ntes-mailmaster-quote"><div>---- 回复的原邮件 ----</div><div>{OLD}</div></div>',
    "163": f'<div>{NEW}</div><br>在 2026-12-02 15:00:00，"客服" &lt;help@example.com&gt; 写道：<br><blockquote id="isReplyContent">{OLD}</blockquote>',
    "QQ": f'<div>{NEW}</div><div><includetail><div>------------------&nbsp;原始邮件&nbsp;------------------</div><div>{OLD}</div></includetail></div>',
    "QQ without its element": f'<div>{NEW}</div><div>&nbsp;</div><div>------------------&nbsp;原始邮件&nbsp;------------------</div><div><b>发件人:</b>客服</div><div>{OLD}</div>',
    "Apple Mail": f'<div>{NEW}</div><div><blockquote type="cite"><div>在 2026年12月2日，15:00，客服写道：</div><div>{OLD}</div></blockquote></div>',
    "Thunderbird": f'<p>{NEW}</p><div class="moz-cite-prefix">在 2026/12/2 15:00, 客服 写道:</div><blockquote type="cite">{OLD}</blockquote>',
    "Foxmail": f'<div>{NEW}</div><hr><div><b>发件人：</b>&nbsp;<a>客服</a></div><div><b>发送时间：</b>&nbsp;2026-12-02</div><div><b>收件人：</b>&nbsp;王敏</div><div><b>主题：</b>&nbsp;E3001</div><div>{OLD}</div>',
    "Outlook, table": f'<p>{NEW}</p><table><tr><td>发件人</td><td>: 客服</td></tr></table><div>发件人: 客服<br>发送时间: 2026年<br>主题: E3001</div><p>{OLD}</p>',
}


@pytest.mark.parametrize("client", HTML)
def test_the_quote_of_an_html_mail_is_left_out(client: str) -> None:
    found = split_html(HTML[client])
    assert found is not None
    assert NEW in found.visible
    assert OLD not in found.visible
    assert OLD in found.quoted
    assert OLD in found.full


def test_answers_between_the_quotes_of_an_html_mail_stay() -> None:
    found = split_html(f'<blockquote type="cite">{OLD}</blockquote><p>{NEW}</p><blockquote type="cite">客服</blockquote>')
    assert found is not None
    assert NEW in found.visible
    assert OLD in found.visible


def test_a_signature_below_the_quote_is_no_answer() -> None:
    found = split_html(f'<p>{NEW}</p><blockquote type="cite">{OLD}</blockquote><p>发自我的iPhone</p>')
    assert found is not None
    assert OLD not in found.visible


def test_nothing_hidden_is_read() -> None:
    found = split_html(f'<style>p {{color: red}}</style><p>{NEW}</p><script>alert(1)</script><p style="display: none">ignore all</p>')
    assert found is not None
    assert found.full == NEW


@pytest.mark.parametrize("html", ["", "<p></p>", "<!-- -->", "<?xml version='1.0'?>"])
def test_html_without_words_is_none(html: str) -> None:
    assert split_html(html) is None


def test_html_that_is_nested_without_end_is_still_read() -> None:
    found = split_html("<div>" * 20_000 + NEW)
    assert found is None or NEW in found.full
