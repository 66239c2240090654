"""Raw mails to records: charsets, names, ids, files, who is vouched for."""

from __future__ import annotations

import base64
import contextlib
import quopri

import pytest
from fixtures.mails import MTA, OURS, bounce, letter, multipart, part, word

from supportpilot.errors import Unusable
from supportpilot.mail import automatic, bounces, tokens
from supportpilot.mail.charsets import decode
from supportpilot.mail.folders import read_folders
from supportpilot.mail.headers import bare_subject
from supportpilot.mail.parse import ParsedMail, Views, body_for_inbox, parse, read_message, sniff_sender
from supportpilot.mail.parts import Limits

TEXT = "您好,镕基公司的银行流水同步失败,提示E3001。"       # 镕 is not in GB2312
TRADITIONAL = "您好,銀行流水同步失敗,請協助。"


def read(raw: bytes, **views: object) -> ParsedMail:
    return parse(raw, Views(**{"addresses": frozenset([OURS]), "authserv_id": MTA, "secret": "s", **views}))  # type: ignore[arg-type]


# label, real encoding, text
CHARSETS = [
    ("utf-8", "utf-8", TEXT), ("gb2312", "gbk", TEXT), ("gb2312", "gb18030", TEXT + "😀"), ("GBK", "gbk", TEXT), ("gb18030", "gb18030", TEXT),
    ("gb2312", "utf-8", TEXT), ("big5", "big5", TRADITIONAL), ("big5", "utf-8", TRADITIONAL), ("us-ascii", "utf-8", TEXT), ("us-ascii", "gb18030", TEXT),
    (None, "gb18030", TEXT), (None, "utf-8", TEXT), ("x-unknown", "utf-8", TEXT), ("iso-8859-1", "latin-1", "café à Genève"),
    ("iso-8859-1", "utf-8", TEXT), ("hz-gb-2312", "hz", "银行流水"), ("iso-2022-jp", "iso-2022-jp", "銀行の残高"), ("utf-16", "utf-16", TEXT),
    ("gb2312", "gbk", "联通"), ("windows-1252", "cp1252", "“quoted” – dash"), ("\"utf-8\"", "utf-8", TEXT), ("no-such-charset", "gb18030", TEXT),
]


@pytest.mark.parametrize(("label", "real", "text"), CHARSETS)
def test_a_part_is_read_whatever_its_label_claims(label: str | None, real: str, text: str) -> None:
    assert decode(text.encode(real), label) == text


@pytest.mark.parametrize("raw", [b"\xff\xfe\x00\xd8", b"\x00\x00", bytes(range(256)), b"\xed\xa0\x80"])
def test_no_bytes_break_the_decoder_or_the_database(raw: bytes) -> None:
    for label in ("utf-8", "gb2312", "big5", "utf-16", None, "base64", "rot13", ""):
        found = decode(raw, label)
        assert "\x00" not in found
        found.encode()


SUBJECTS = {
    "=?gb2312?B?" + base64.b64encode(TEXT.encode("gbk")).decode() + "?=": TEXT,
    # split in the middle of a character
    "=?utf-8?B?5YaN?= =?utf-8?B?6KeB5Q==?= =?utf-8?B?uZY=?=": "再见平".replace("平", b"\xe5\xb9\x96".decode()),
    "=?UTF-8?Q?E3001_=E5=8F=88=E6=9D=A5=E4=BA=86?=": "E3001 又来了",
    "plain =?utf-8?B?5pel5pys?= tail": "plain 日本 tail",
    "=?utf-8?B?***?=": "",
    "=?no-such?Q?abc?=": "abc",
}


@pytest.mark.parametrize("written", SUBJECTS)
def test_subjects_are_decoded_as_clients_write_them(written: str) -> None:
    raw = letter().replace(b"Subject: E3001", f"Subject: {written}".encode())
    assert read(raw).subject == SUBJECTS[written]


def test_a_raw_eight_bit_head_is_read() -> None:
    raw = letter().replace(b"Subject: E3001", "Subject: 回复：发票".encode("gb18030"))
    assert read(raw).subject == "发票"


@pytest.mark.parametrize("subject", ["回复：发票", "答复: 发票", "回覆：发票", "Re: 发票", "RE：Re[2]: 回复: 发票", "Re: Fw: 发票", " re:发票"])
def test_prefixes_are_taken_off_a_subject(subject: str) -> None:
    assert bare_subject(subject) == ("发票", False)


@pytest.mark.parametrize("subject", ["转发：发票", "Fw: 发票", "FWD：Re: 发票", "轉寄: 发票"])
def test_a_forward_is_known_by_its_prefix(subject: str) -> None:
    assert bare_subject(subject) == ("发票", True)


@pytest.mark.parametrize("subject", ["Report: 发票", "回复一下我的发票", "Refund"])
def test_words_that_begin_like_a_prefix_stay(subject: str) -> None:
    assert bare_subject(subject)[0] == subject


FROM = {
    'wang@example.com': ("wang@example.com", ""),
    '"Wang, Min" <Wang@Example.com>': ("wang@example.com", "Wang, Min"),
    f'{word("王, 敏")} <wang@example.com>': ("wang@example.com", "王, 敏"),
    f'"{word("王敏", "gb18030")}" <wang@example.com>': ("wang@example.com", "王敏"),
    '<wang@example.com>': ("wang@example.com", ""),
    'wang@example.com (Wang Min)': ("wang@example.com", "Wang Min"),
}


@pytest.mark.parametrize("written", FROM)
def test_the_sender_is_read_as_clients_write_it(written: str) -> None:
    raw = b"From: " + written.encode() + b"\r\nSubject: x\r\n\r\nhello"
    found = read(raw)
    assert (found.sender, found.sender_name) == FROM[written]


@pytest.mark.parametrize("field", ["From: nobody", "From: <>", "From: a@b", "Subject: none"])
def test_a_mail_without_a_sender_is_unusable(field: str) -> None:
    with pytest.raises(Unusable, match="no sender"):
        read(field.encode() + b"\r\n\r\nhello")


def test_ids_that_are_none_do_not_break_the_mail() -> None:
    found = read(letter(message_id="<>", fields=[("In-Reply-To", "<>"), ("References", "<a@x>,<b@x>\r\n <c@x> garbage <d d@x>")]))
    assert found.message_id is None
    assert found.references == ("<c@x>", "<b@x>", "<a@x>")


def test_mails_without_an_id_are_told_apart_by_what_they_say() -> None:
    first, second = read(letter("一", message_id=None)), read(letter("二", message_id=None))
    again = read(b"Received: from a by b\r\n" + letter("一", message_id=None).replace(b"\r\n", b"\n"))
    assert first.external_id == again.external_id != second.external_id


def test_at_most_twenty_references_count_the_newest_first() -> None:
    found = read(letter(fields=[("In-Reply-To", "<last@x>"), ("References", " ".join(f"<{i}@x>" for i in range(50)))]))
    assert found.references[:3] == ("<last@x>", "<49@x>", "<48@x>")
    assert len(found.references) == 20


def test_html_only_mails_are_read_as_text() -> None:
    html = "<html><body><p>第一行</p><p>第二行&nbsp;<b>粗体</b></p><ul><li>一</li></ul><script>x()</script></body></html>"
    found = read(letter(html, kind="text/html"))
    assert [line.strip() for line in found.text.visible.splitlines() if line.strip()] == ["第一行", "第二行 粗体", "* 一"]


def test_the_plain_part_is_taken_and_the_html_part_tells_its_quote() -> None:
    html = '<div>还是不行</div><div class="gmail_quote">旧的内容</div>'
    found = read(multipart([part("还是不行\n\n旧的内容"), part(html, "text/html; charset=utf-8")], "alternative"))
    assert (found.text.visible, found.text.quoted) == ("还是不行", "旧的内容")


def test_nested_parts_are_walked_through_and_bounded() -> None:
    inner = part("里面的字")
    content = b""
    for level in range(15):
        kind = f'multipart/mixed; boundary="=_{level}"'
        fields, body = inner
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items()).encode()
        content = f"--=_{level}\r\n".encode() + head + b"\r\n" + body + f"\r\n--=_{level}--\r\n".encode()
        inner = ({"Content-Type": kind}, content)
    assert read(multipart([inner])).text.visible == "里面的字"
    deep = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n" * 5000
    with contextlib.suppress(Unusable):       # read or refused, nothing else
        read(b"From: a@example.com\r\n" + deep)


def test_what_hangs_on_a_mail_is_listed_and_a_mail_inside_it_is_a_file() -> None:
    raw = multipart([
        part("见附件"), part(b"TNEF", "application/ms-tnef"), part(b"p" * 10, "image/png", Content_ID="<logo>"),
        part(b"%PDF", "application/pdf", Content_Disposition="attachment; filename*=UTF-8''%E5%8F%91%E7%A5%A8.pdf"),
        part(b"x", "application/octet-stream; name=\"" + "长" * 300 + ".txt\""),
        ({"Content-Type": "message/rfc822"}, letter("里面的信", message_id="<inner@x>")),
    ])
    found = read(raw)
    assert [a.name for a in found.attachments][:3] == ["winmail.dat", "image.png", "发票.pdf"]
    assert found.attachments[4].name == "mail.eml"
    assert b"Message-ID: <inner@x>" in (found.attachments[4].data or b"")
    assert all(len(a.name) <= 120 for a in found.attachments)
    assert "里面的信" not in found.text.full
    assert "image.png" not in body_for_inbox(found, 1000)      # a small inline image is a logo
    assert found.message_id == "<m1@example.com>"


def test_a_mail_of_thousands_of_parts_is_bounded() -> None:
    found = read(multipart([part("x", "text/plain", Content_Disposition="attachment") for _ in range(3000)]), limits=Limits(5, 100))
    assert len(found.attachments) <= 500
    assert sum(a.data is not None for a in found.attachments) == 5


def test_a_mail_that_is_only_a_subject_or_only_a_file_says_that() -> None:
    assert body_for_inbox(read(letter("", subject="发票什么时候开?")), 1000) == "发票什么时候开?"
    assert body_for_inbox(read(multipart([part(b"x", "image/png; name=a.png")], subject="")), 1000) == "📎 a.png"


@pytest.mark.parametrize("raw", [b"", b"\r\n", b"hello", b"\x89PNG\r\n", b"no colon here\r\nFrom: a@example.com\r\n\r\n"])
def test_what_is_no_mail_is_unusable(raw: bytes) -> None:
    with pytest.raises(Unusable):
        read(raw)
    assert sniff_sender(raw) == ""


def test_quoted_printable_and_an_envelope_line_are_read() -> None:
    raw = (b"From wang@example.com Wed Dec  2 15:00:00 2026\nFrom: wang@example.com\nContent-Type: text/plain; charset=gb2312\n"
           b"Content-Transfer-Encoding: quoted-printable\n\n" + quopri.encodestring(TEXT.encode("gbk")))
    assert read(raw).text.full == TEXT


# Authentication-Results as servers write them, and whether they vouch for wang@example.com
RESULTS = [
    (f"{MTA}; dmarc=pass (p=reject dis=none) header.from=example.com", True),
    (f"{MTA} 1; spf=pass smtp.mailfrom=wang@example.com", True),
    (f"{MTA}; spf=pass smtp.mailfrom=example.com; dkim=none", True),
    (f"{MTA}; dkim=pass header.d=example.com header.s=s1", True),
    (f"{MTA}; dkim=pass (2048-bit key; unprotected) header.i=@example.com", True),
    (f"{MTA}; dkim=fail header.d=example.com; spf=softfail smtp.mailfrom=example.com", False),
    (f"{MTA}; dmarc=fail header.from=example.com; spf=pass smtp.mailfrom=example.com", False),
    (f"{MTA}; dmarc=pass header.from=attacker.example", False),
    (f"{MTA}; spf=pass smtp.mailfrom=attacker.example", False),
    (f"{MTA}; dkim=pass header.d=user.example.com", False),
    (f"{MTA}; dkim=pass header.d=com", False),
    (f"{MTA}; none", False),
    ("mx.attacker.example; dmarc=pass header.from=example.com", False),
    (f"x ({MTA}); dmarc=pass header.from=example.com", False),
    (f"{MTA}; x=\"dmarc=pass header.from=example.com\"", False),
    (f"{MTA}; dmarc=pass header.from=\"example.com\"", True),
    # The envelope's sender as a server copies it: what stands in quotes is the sender's own word.
    (f"{MTA}; dmarc=fail header.from=example.com; spf=pass smtp.mailfrom=\"a; dmarc=pass header.from=example.com\"@evil.example", False),
    (f"{MTA}; dmarc=none header.from=example.com; spf=pass smtp.mailfrom=\"a; dmarc=pass header.from=example.com\"@evil.example", False),
    (f"{MTA}; spf=pass smtp.mailfrom=\"a smtp.mailfrom=x@example.com\"@evil.example", False),
    (f"{MTA}; spf=pass smtp.mailfrom=\"a\\\" smtp.mailfrom=x@example.com\"@evil.example", False),
    (f"{MTA}; spf=pass (domain of \"a); dmarc=pass header.from=example.com\"@evil.example) smtp.mailfrom=evil.example", False),
    (f"{MTA}; spf=pass smtp.mailfrom=evil.example smtp.mailfrom=x@example.com", False),
    (f"{MTA}; dmarc=pass header.from=example.com; dmarc=fail header.from=example.com", False),
    (f"{MTA}; dmarc=pass header.from=example.com (never closed", False),
    (f"{MTA}; dmarc=pass header.from=example.com \"never closed", False),
    ("", False),
]


@pytest.mark.parametrize(("said", "vouched"), RESULTS)
def test_only_our_own_server_vouches_for_a_sender(said: str, vouched: bool) -> None:
    assert read(letter(fields=[("Authentication-Results", said)])).verified is vouched


def test_a_field_below_the_topmost_is_the_senders_own() -> None:
    good = ("Authentication-Results", f"{MTA}; dmarc=pass header.from=example.com")
    bad = ("Authentication-Results", f"{MTA}; dmarc=fail header.from=example.com")
    assert read(letter(fields=[good, bad])).verified
    assert not read(letter(fields=[bad, good])).verified
    assert not read(letter(fields=[good]), authserv_id=None).verified
    assert read(letter(), authserv_id=None, trust_senders=True).verified


@pytest.mark.parametrize("more", [("From", "boss@example.com"), ("From", "a@example.com, b@example.com")])
def test_a_mail_with_two_senders_is_vouched_for_by_nobody(more: tuple[str, str]) -> None:
    good = ("Authentication-Results", f"{MTA}; dmarc=pass header.from=example.com")
    assert not read(letter(fields=[good, more])).verified


def test_a_token_is_ours_or_nothing() -> None:
    address = tokens.reply_address("s", OURS, "T000153")
    assert tokens.ticket_of_address("s", address) == tokens.ticket_of_address("s", address.upper()) == "T000153"
    assert tokens.ticket_of_address("other", address) is None
    assert tokens.ticket_of_address(None, address) is None
    assert tokens.ticket_of_address("s", address.replace("t000153", "t000154")) is None
    assert tokens.ticket_of_address("s", "support+t000153@example.com") is None
    assert tokens.plain_address(address) == OURS


@pytest.mark.parametrize("fields", [[("Auto-Submitted", "no")], [("Precedence", "first-class")], [("X-Auto-Response-Suppress", "None")], []])
def test_a_persons_mail_is_not_automatic(fields: list[tuple[str, str]]) -> None:
    assert automatic.reason(read_message(letter(fields=fields, subject="自动回复功能怎么关闭?"))) is None


def test_a_bounce_is_read() -> None:
    found = bounces.read(read_message(bounce("<ours@example.com>")))
    assert found == bounces.Bounce(("wang@example.com",), ("wang@example.com",), "5.1.1", ("<ours@example.com>",))
    assert bounces.read(read_message(letter(subject="退信了怎么办"))) is None
    plain = letter("Message-ID: <ours@example.com>", sender="postmaster@qq.example.com", subject="系统退信")
    assert bounces.read(read_message(plain)) == bounces.Bounce((), (), "", ("<ours@example.com>",))


def test_folders_are_read_from_their_addresses_and_never_show_the_password() -> None:
    folder, other = read_folders("imaps://support%40example.com:p%2Fw@imap.example.com/Support imap://u:p@127.0.0.1:1143")
    assert (folder.id, folder.port, folder.password) == ("support@example.com/imap.example.com/Support", 993, "p/w")
    assert (other.id, other.port) == ("u/127.0.0.1/INBOX", 1143)
    assert "p/w" not in repr(folder)
