"""A reply as bytes: what mail programs, filters and other people's machines get to see."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest

from supportpilot.channels.letter import Draft, compose
from supportpilot.errors import Misconfigured
from supportpilot.mail.servers import Server, read_server

SECRET = "s"
BODY = "您好，请重新授权 [银行流水同步失败](https://help.example.com/kb/1 \"KB-bank-001\")。"


def draft(**fields: Any) -> Draft:
    return Draft(**{"key": "turn:1:reply", "ticket_id": "T000153", "body": BODY, "subject": "E3001",
                    "sender": ("云账本客服", "support@example.com"), "recipients": ("wang@example.com",),
                    "written_at": datetime(2026, 12, 2, 9, tzinfo=UTC), **fields})


def read(**fields: Any) -> EmailMessage:
    found = message_from_bytes(compose(draft(**fields), SECRET).raw, policy=policy.default)
    assert isinstance(found, EmailMessage)
    return found


def text(mail: EmailMessage, kind: str) -> str:
    part = mail.get_body((kind,))
    assert part is not None
    return str(part.get_content())


def test_the_same_reply_is_the_same_bytes_and_its_id_cannot_be_guessed() -> None:
    assert compose(draft(), SECRET) == compose(draft(), SECRET)
    ids = {compose(draft(), SECRET).message_id, compose(draft(), "another").message_id, compose(draft(key="turn:2:reply"), SECRET).message_id}
    assert len(ids) == 3
    assert compose(draft(message_id="<first@example.com>"), "another").message_id == "<first@example.com>"


@pytest.mark.parametrize(("subject", "shown"), [
    ("回复：Re: 答复：流水 [T000153]", "Re: 流水 [T000153]"), ("Re: [t000153] a", "Re: a [T000153]"), ("", "Re: 您的咨询 [T000153]"),
    ("a\r\nBcc: x@example.com", "Re: a Bcc: x@example.com [T000153]"), ("x" * 500, f"Re: {'x' * 200} [T000153]"),
    ("流水同步" * 40, f"Re: {'流水同步' * 40} [T000153]"), ("é " * 90, f"Re: {('é ' * 90).strip()} [T000153]")])
def test_the_subject_has_the_ticket_once_and_survives_the_wire(subject: str, shown: str) -> None:
    mail = read(subject=subject)
    assert mail["Subject"] == shown
    assert mail["Bcc"] is None
    assert all(len(line) <= 998 and (line.isascii()) for line in compose(draft(subject=subject), SECRET).raw.split(b"\r\n"))
    head = compose(draft(subject=subject), SECRET).raw.partition(b"\r\n\r\n")[0]
    assert all(len(line) <= 78 for line in head.split(b"\r\n") if not line.startswith((b"Subject: Re: xxx", b" xxx")))


def test_nothing_of_the_customers_becomes_a_field_or_a_tag() -> None:
    mail = read(author="小王\r\nBcc: x@example.com", by_human=True, sender=('a"\r\nBcc: y@example.com', "support@example.com"),
                body="<script>alert(1)</script> <img src=x onerror=alert(1)> [a](javascript:alert(1))")
    assert mail["Bcc"] is None
    html = text(mail, "html")
    assert "<script" not in html
    assert "<img" not in html
    assert "href=\"javascript" not in html


def test_the_text_reads_well_in_both_forms() -> None:
    mail = read()
    assert mail["From"] == "云账本客服 <support@example.com>"
    assert "请重新授权 银行流水同步失败（https://help.example.com/kb/1）。" in text(mail, "plain")
    assert 'href="https://help.example.com/kb/1"' in text(mail, "html")
    assert 'lang="zh-CN"' in text(mail, "html")
    english = read(body="Hello, *please* wait 3\\. See [this](https://x.example.com/a_b).", subject="")
    assert english["Subject"] == "Re: Your request [T000153]"
    assert "wait 3. See this (https://x.example.com/a_b)." in text(english, "plain")
    assert "Ticket T000153" in text(english, "plain")


def test_a_line_of_any_length_travels_whole() -> None:
    long = "长" * 5000 + "\n.\n" + "x" * 5000
    raw = compose(draft(body=long), SECRET).raw
    assert max(map(len, raw.split(b"\r\n"))) <= 100
    assert long.replace("\n", "\r\n") in text(read(body=long), "plain").replace("\r\n", "\n").replace("\n", "\r\n")


def test_references_keep_the_first_and_the_newest() -> None:
    ids = [f"<{n}@example.com>" for n in range(50)]
    found = read(references=ids)
    assert found["References"].split() == [ids[0], *ids[31:]]
    assert found["In-Reply-To"] == ids[-1]
    assert read()["In-Reply-To"] is None


def test_the_customers_page_and_the_reply_address_are_there_when_they_are_wanted() -> None:
    mail = read(page_url="https://help.example.com/t/T000153-x?a=1&b=2")
    assert "https://help.example.com/t/T000153-x?a=1&b=2" in text(mail, "plain")
    assert "a=1&amp;b=2" in text(mail, "html")
    assert mail["Reply-To"].startswith("support+t000153.")
    assert read(reply_by_token=False)["Reply-To"] is None


@pytest.mark.parametrize(("url", "server"), [
    ("smtps://a%40b:p%3Aw@mx.example.com", Server("mx.example.com", 465, "tls", "a@b", "p:w")),
    ("smtp://mx.example.com", Server("mx.example.com", 587, "starttls")),
    ("smtp://mx.example.com:25?starttls=required", Server("mx.example.com", 25, "starttls")),
    ("smtp://relay:25?starttls=off", Server("relay", 25, "none")),
    ("smtp://u:p@127.0.0.1:2525?starttls=off", Server("127.0.0.1", 2525, "none", "u", "p"))])
def test_a_servers_address_is_read(url: str, server: Server) -> None:
    assert read_server(url) == server
    assert str(server) == f"{server.host}:{server.port}"


@pytest.mark.parametrize("url", [
    "mx.example.com", "http://mx", "smtp://", "smtp://u@mx", "smtp://mx:99999", "smtp://mx?starttls=perhaps", "smtp://mx?tls=1",
    "smtp://mx/path", "smtp://u:hunter2@mx?starttls=off", "smtps://ü:hunter2@mx", "smtp://[::1", "smtp://mx?x"])
def test_an_address_that_is_none_or_would_show_the_password_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(Misconfigured, match=r"^SMTP_URL: ") as error:
        read_server(url)
    assert "hunter2" not in str(error.value)
