"""A mail that could not be delivered comes back: which one, to whom, and is it for good?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.message import Message

from supportpilot.mail.charsets import decode
from supportpilot.mail.headers import addresses, field, fields, ids

SENDERS = re.compile(r"^(mailer-daemon|postmaster|mail-daemon|mailerdaemon|mdaemon)([@+.-]|$)", re.IGNORECASE)
SUBJECT = re.compile(r"退信|投递失败|邮件无法投递|无法送达|投遞失敗|undeliver|delivery (status notification|failure|has failed)|"
                     r"mail delivery (failed|system)|returned mail|failure notice", re.IGNORECASE)
# Permanent codes that say nothing about the address: full, too large, content, policy.
NOT_THE_ADDRESS = re.compile(r"5\.(2\.2|2\.3|3\.4|6\.\d+|7\.\d+)")
MAX_ATTACHED_BYTES = 200_000


@dataclass(frozen=True)
class Bounce:
    """What a bounce says: `hard` addresses do not exist (any more); `originals` are ids of mails that may be ours."""

    failed: tuple[str, ...]
    hard: tuple[str, ...]
    status: str
    originals: tuple[str, ...]


def read(message: Message) -> Bounce | None:
    """Return what a bounce says, None if the mail is none."""
    report = _is_report(message)
    if not (report or _looks_like_one(message)):
        return None
    failed: dict[str, str] = {}
    for block in _status_blocks(message):
        if field(block, "Action").lower().strip() in {"delivered", "relayed", "expanded"}:
            continue
        address = field(block, "Final-Recipient") or field(block, "Original-Recipient")
        for _, found in addresses([address.partition(";")[2].strip()]):
            failed[found] = _status(block)
    hard = [address for address, status in failed.items() if status.startswith("5.") and not NOT_THE_ADDRESS.match(status)]
    return Bounce(tuple(failed), tuple(hard), next(iter(failed.values()), ""), tuple(_originals(message)))


def _is_report(message: Message) -> bool:
    return (message.get_content_type() == "multipart/report"
            and str(message.get_param("report-type", "delivery-status")).lower() == "delivery-status")


def _looks_like_one(message: Message) -> bool:
    senders = [address for _, address in addresses(fields(message, "From"))]
    if any(SENDERS.match(address) for address in senders):
        return True
    empty = any(value.strip() == "<>" for value in fields(message, "Return-Path"))
    return bool(SUBJECT.search(field(message, "Subject"))) and (empty or not senders)


def _status_blocks(message: Message) -> list[Message]:
    found = []
    for part in message.walk():
        if part.get_content_type() == "message/delivery-status" and part.is_multipart():
            found += [block for block in part.get_payload() if isinstance(block, Message)]
    return found


def _status(block: Message) -> str:
    """Return the status; a delay or an unknown action never counts as final."""
    match = re.search(r"\d\.\d{1,3}\.\d{1,3}", field(block, "Status")) or re.search(
        r"\b[45]\.\d{1,3}\.\d{1,3}\b", field(block, "Diagnostic-Code"))
    status = match.group(0) if match else ""
    return status if field(block, "Action").lower().strip() == "failed" else status.replace("5.", "4.", 1)


def _originals(message: Message) -> list[str]:
    """Return the ids of the mail that came back: from the attached one, else from any field or text that shows it."""
    found: list[str] = []
    for part in message.walk():
        kind = part.get_content_type()
        if kind == "message/rfc822" and part.is_multipart():
            inner = part.get_payload(0)
            found += ids(inner, "Message-ID") if isinstance(inner, Message) else []
        elif kind in {"text/rfc822-headers", "text/plain"}:
            raw = part.get_payload(decode=True)
            text = decode(raw[:MAX_ATTACHED_BYTES], part.get_content_charset()) if isinstance(raw, bytes) else ""
            found += re.findall(r"^message-id:\s*(<[^<>\s]+>)", text, re.IGNORECASE | re.MULTILINE)
    return list(dict.fromkeys([*found, *ids(message, "In-Reply-To", "References")]))[:20]
