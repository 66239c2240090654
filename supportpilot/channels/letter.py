"""A reply as a mail: ids that answers come back by, the fields that stop loops, plain text and HTML.

Everything in it follows from stored rows and settings, so the second attempt is the same mail under the same id.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.header import Header
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.policy import SMTP, compat32
from email.utils import format_datetime, formataddr
from html import escape

from supportpilot.channels.wording import to_html
from supportpilot.mail import tokens
from supportpilot.mail.headers import bare_subject, one_line

ID_CHARS = 32
MAX_REFERENCES = 20
MAX_SUBJECT_CHARS = 200
KEY_FIELD = "X-SupportPilot-Id"     # survives a server that gives mails an id of its own
PRODUCT = "SupportPilot"

_LINK = re.compile(r"\[((?:[^\[\]\\]|\\.)+)\]\(<?(https?://[^\s)>]+)>?(?:\s+\"[^\"]*\")?\)")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_CJK = re.compile(r"[\u3400-\u9fff]")

# Inline, because mail programs drop style sheets; no image, no font and no script, so nothing tells when it is read.
_PAGE = """<!DOCTYPE html>
<html lang="{lang}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"></head>
<body style="margin:0;padding:0">
<div style="max-width:640px;padding:16px;font-family:-apple-system,'PingFang SC','Microsoft YaHei',\
'Segoe UI',Roboto,Helvetica,Arial,sans-serif;font-size:15px;line-height:1.65">
{body}
<p style="margin:24px 0 0;padding-top:12px;border-top:1px solid #d0d7de;font-size:13px;line-height:1.5;color:#57606a">{foot}</p>
</div>{hidden}
</body></html>
"""
_HIDDEN = '\n<div style="display:none;font-size:0;max-height:0;overflow:hidden">{}</div>'

_TEXTS = {
    "zh": {"subject": "您的咨询", "agent": "工单 {ticket} · 本邮件由 {product} 自动回复，直接回复即可继续咨询。",
           "human": "工单 {ticket} · {author} · 直接回复本邮件即可继续。", "page": "在线查看工单", "link": "{text}（{url}）"},
    "en": {"subject": "Your request", "agent": "Ticket {ticket} · answered automatically by {product}. Reply to this mail to go on.",
           "human": "Ticket {ticket} · {author} · Reply to this mail to go on.", "page": "Your ticket online",
           "link": "{text} ({url})"},
}


@dataclass(frozen=True)
class Draft:
    """What a reply says, to whom, and which mail it answers; `references` are oldest first."""

    key: str
    ticket_id: str
    body: str
    subject: str
    sender: tuple[str, str]
    recipients: Sequence[str]
    written_at: datetime
    references: Sequence[str] = ()
    author: str = ""
    by_human: bool = False
    page_url: str = ""
    message_id: str = ""        # of an earlier attempt, whatever the settings were then
    reply_by_token: bool = True


@dataclass(frozen=True)
class Letter:
    """A mail that is ready to leave; the first recipient is the one it is for."""

    message_id: str
    key_hash: str
    sender: str
    recipients: tuple[str, ...]
    subject: str
    references: tuple[str, ...]
    raw: bytes


def keyed(secret: str, key: str) -> str:
    """Return the part of a Message-ID that only we can make: one that can be guessed lets strangers into a thread."""
    signed = hmac.new(secret.encode(), f"message:{key}".encode(), hashlib.sha256).digest()
    return base64.b32encode(signed).decode().lower()[:ID_CHARS]


def compose(draft: Draft, secret: str) -> Letter:
    """Return the mail of a reply."""
    name, address = draft.sender
    lang = "zh" if _CJK.search(draft.body) else "en"
    key_hash = keyed(secret, draft.key)
    message_id = draft.message_id or f"<{key_hash}@{address.rpartition('@')[2]}>"
    subject = subject_of(draft, lang)
    references = _bounded(draft.references)
    mail = MIMEMultipart("alternative", boundary=f"=_{key_hash[:20]}", policy=compat32)
    fields = {
        "From": _address(name, address), "To": draft.recipients[0], "Cc": ", ".join(draft.recipients[1:]),
        "Reply-To": tokens.reply_address(secret, address, draft.ticket_id) if draft.reply_by_token else "",
        "Subject": _words(subject), "Date": format_datetime(draft.written_at), "Message-ID": message_id,
        "In-Reply-To": references[-1] if references else "", "References": "\r\n ".join(references),
        "Auto-Submitted": "no" if draft.by_human else "auto-replied",
        "X-Auto-Response-Suppress": "" if draft.by_human else "All", KEY_FIELD: key_hash,
    }
    for field, value in fields.items():
        if value:
            mail[field] = value
    mail.attach(MIMEText(plain(draft, lang), "plain", "utf-8"))
    mail.attach(MIMEText(_html(draft, lang, secret), "html", "utf-8"))
    raw = mail.as_bytes(policy=compat32.clone(linesep=SMTP.linesep, max_line_length=None))
    return Letter(message_id, key_hash, address, tuple(draft.recipients), subject, references, raw)


def subject_of(draft: Draft, lang: str) -> str:
    """Return `Re: …` with the ticket's number, once however often it went to and fro."""
    bare = one_line(bare_subject(draft.subject)[0])
    bare = re.sub(rf"\s*\[{draft.ticket_id}\]\s*", " ", bare, flags=re.IGNORECASE).strip()
    return f"Re: {bare[:MAX_SUBJECT_CHARS].strip() or _TEXTS[lang]['subject']} [{draft.ticket_id}]"


def plain(draft: Draft, lang: str) -> str:
    """Return the text part: the reply's Markdown reads well as it is, links excepted."""
    texts = _TEXTS[lang]
    said = _LINK.sub(lambda m: texts["link"].format(text=m.group(1), url=m.group(2)), draft.body.strip())
    foot = [_foot(draft, lang)] + ([f"{texts['page']}: {draft.page_url}"] if draft.page_url else [])
    return "\n".join([_ESCAPED.sub(r"\1", said), "", "-- ", *foot, ""])


def _html(draft: Draft, lang: str, secret: str) -> str:
    foot = escape(_foot(draft, lang))
    if draft.page_url:
        foot += f'<br><a href="{escape(draft.page_url)}">{escape(_TEXTS[lang]["page"])}</a>'
    return _PAGE.format(lang="zh-CN" if lang == "zh" else "en", body=to_html(draft.body), foot=foot,
                        hidden=_HIDDEN.format(escape(tokens.body_marker(secret, draft.ticket_id))))


def _foot(draft: Draft, lang: str) -> str:
    kind = "human" if draft.by_human and draft.author else "agent"
    if draft.by_human and not draft.author:
        return draft.ticket_id
    return _TEXTS[lang][kind].format(ticket=draft.ticket_id, product=PRODUCT, author=one_line(draft.author))


def _bounded(references: Sequence[str]) -> tuple[str, ...]:
    """Keep the first id, which mail programs hang the thread on, and the newest."""
    known = tuple(dict.fromkeys(references))
    return known if len(known) <= MAX_REFERENCES else (known[0], *known[1 - MAX_REFERENCES:])


def _words(text: str) -> str:
    """Return a field's value in RFC 2047 words of at most 75 characters, none of which splits a character."""
    if text.isascii():
        return "\r\n ".join(_folded(text))
    return Header(text, "utf-8", maxlinelen=75, header_name="Subject").encode(linesep="\r\n")


def _folded(text: str, width: int = 66) -> list[str]:
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + len(word) >= width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return [*lines, line]


def _address(name: str, address: str) -> str:
    return formataddr((one_line(name), address), "utf-8") if name else address
