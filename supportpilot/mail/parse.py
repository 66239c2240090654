"""Raw RFC 5322 to `ParsedMail`: everything that the rules of the desk ask about a mail.

The stdlib parser with its old policy: the new one raises on fields that exist (`Message-ID: <>`, an unknown charset).
What still goes wrong raises `Unusable`, and the raw mail waits in quarantine.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from datetime import datetime
from email import policy
from email.message import Message
from email.parser import BytesParser

from supportpilot.errors import Unusable
from supportpilot.mail import auth, automatic, bounces, headers, html, tokens
from supportpilot.mail.bounces import Bounce
from supportpilot.mail.parts import Attachment, Limits, Parts, collect
from supportpilot.mail.quotes import Split, split
from supportpilot.mail.threading import Keys

MAX_SUBJECT_CHARS = 300
MAX_NAME_CHARS = 120
MAX_FULL_CHARS = 200_000
SMALL_IMAGE_BYTES = 8_192         # an inline image below this is a logo or a tracking pixel
MAX_SHOWN_FILES = 20

_ENVELOPE = re.compile(rb"^(?:>?From [^\r\n]*\r?\n)+")
_FIELD = re.compile(rb"^[!-9;-~]+[ \t]*:", re.MULTILINE)


@dataclass(frozen=True)
class Views:
    """Who we are: what the parser has to know besides the bytes."""

    addresses: frozenset[str] = frozenset()
    secret: str | None = None
    authserv_id: str | None = None
    trust_senders: bool = False
    limits: Limits = field(default_factory=lambda: Limits(20, 10_485_760))
    envelope_to: str = ""
    envelope_from: str | None = None


@dataclass(frozen=True)
class ParsedMail:
    """One mail. `visible` is what was written this time; `verified`: our server vouches for `sender`."""

    message_id: str | None
    external_id: str
    sender: str
    sender_name: str
    recipients: tuple[str, ...]
    subject: str
    sent_at: datetime | None
    text: Split
    attachments: tuple[Attachment, ...]
    keys: Keys
    verified: bool
    automatic: str | None
    bounce: Bounce | None
    own: bool

    @property
    def references(self) -> tuple[str, ...]:
        """Ids of the mails before, newest first."""
        return self.keys.references


def parse(raw: bytes, views: Views) -> ParsedMail:
    """Read a mail.

    Raises:
        Unusable: it is none, or it breaks the parser; the text says how, and quotes nothing of it.
    """
    try:
        return _parse(raw, views)
    except Unusable:
        raise
    except RecursionError:
        raise Unusable("the mail is nested too deeply") from None
    except Exception as error:
        raise Unusable(f"the parser broke: {type(error).__name__}") from error


def read_message(raw: bytes) -> Message:
    """Return the stdlib's message of some raw bytes.

    Raises:
        Unusable: there is no header field at its start.
    """
    bare = _ENVELOPE.sub(b"", raw.lstrip(b"\r\n"))
    if not _FIELD.match(bare):
        raise Unusable("this is no mail: it does not begin with a header field")
    return BytesParser(policy=policy.compat32).parsebytes(bare)


def sniff_sender(raw: bytes) -> str:
    """Return the sender of a mail that may be broken, "" if it cannot be read."""
    try:
        return headers.sender(read_message(raw[:65_536].partition(b"\r\n\r\n")[0] + b"\r\n\r\n"))[1]
    except Exception:  # noqa: BLE001 -- only shown to the operator, and looked for by an erasure
        return ""


def _parse(raw: bytes, views: Views) -> ParsedMail:
    message = read_message(raw)
    name, sender, alone = headers.sender(message)
    subject = headers.field(message, "Subject")
    bounce = bounces.read(message)
    if not sender and bounce is None:
        raise Unusable("the mail names no sender")
    bare, forwarded = headers.bare_subject(subject)
    references = tuple(headers.ids(message, "In-Reply-To", "References"))
    found = collect(message, views.limits)
    text = _texts(found, forwarded=forwarded and not references)
    recipients = headers.people(message, "To", "Cc", "Delivered-To", "X-Original-To", "Envelope-To")
    if views.envelope_to:
        recipients = list(dict.fromkeys([*recipients, *(a for _, a in headers.addresses([views.envelope_to]))]))
    message_id = headers.message_id(message)
    verified = alone and (views.trust_senders or auth.is_authentic(message, sender, views.authserv_id))
    return ParsedMail(
        message_id=message_id, external_id=external_id(message_id, sender, raw), sender=sender,
        sender_name=name[:MAX_NAME_CHARS].rstrip(), recipients=tuple(recipients), subject=bare[:MAX_SUBJECT_CHARS].rstrip(),
        sent_at=headers.sent_at(message), text=_bounded(text), attachments=tuple(found.attachments),
        keys=_keys(recipients, references, subject, found, views), verified=verified,
        automatic=automatic.reason(message) or ("empty envelope sender" if views.envelope_from == "" else None),
        bounce=bounce, own=sender in views.addresses)


def external_id(message_id: str | None, sender: str, raw: bytes) -> str:
    """Return what makes two deliveries the same mail, whichever door they came through.

    The sender belongs to it: whoever has seen an id could else send another mail under it before the real one comes.
    """
    if message_id is None:
        head, _, body = raw.replace(b"\r\n", b"\n").partition(b"\n\n")
        said = b"\n".join(line for line in head.split(b"\n") if line.lower().startswith((b"date:", b"from:", b"subject:")))
        what = said + bytes(2) + body.strip()
    else:
        what = f"{sender} {message_id}".encode()
    return f"email:{hashlib.sha256(what).hexdigest()[:48]}"


def _texts(found: Parts, *, forwarded: bool) -> Split:
    """HTML first for the quotes (its elements are no guess); the words themselves from plain text where there is some."""
    plain = "\n\n".join(found.plain).strip()
    by_html = html.split_html("\n".join(found.html), forwarded=forwarded) if found.html else None
    if by_html is not None and (not plain or by_html.quoted):
        return by_html
    return split(plain, forwarded=forwarded)


def _bounded(text: Split) -> Split:
    return Split(text.full[:MAX_FULL_CHARS], text.visible[:MAX_FULL_CHARS], text.quoted[:MAX_FULL_CHARS])


def _keys(recipients: list[str], references: tuple[str, ...], subject: str, found: Parts, views: Views) -> Keys:
    token = next((t for a in recipients if (t := tokens.ticket_of_address(views.secret, a))), None)
    body = "\n".join([*found.plain, *found.html])[:MAX_FULL_CHARS]
    return Keys(token, references, tokens.ticket_of_body(views.secret, body), tokens.ticket_of_subject(subject))


def body_for_inbox(mail: ParsedMail, limit: int) -> str:
    """Return what the agent reads: the new words, then a line for each file.

    Raises:
        Unusable: the mail says nothing at all.
    """
    files = [f"📎 {a.name}" for a in mail.attachments if not (a.inline and a.size < SMALL_IMAGE_BYTES)][:MAX_SHOWN_FILES]
    visible = mail.text.visible.strip() or mail.subject
    if not (visible or files):
        raise Unusable("the mail is empty: no subject, no text, no file")
    tail = "\n".join(files)
    room = max(200, limit - len(tail) - 60)
    if len(visible) > room:
        visible = f"{visible[:room].rstrip()}\n[… {len(visible) - room} characters left out]"
    return "\n".join(part for part in (visible, tail) if part)[:limit]
