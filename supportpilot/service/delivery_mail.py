"""A reply as a mail: to whom, in which thread, and at most once more where its fate cannot be found out."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from email.utils import parseaddr

from supportpilot.channels import sent_folder, smtp
from supportpilot.channels.letter import Draft, Letter, compose
from supportpilot.channels.sent_folder import CannotAsk
from supportpilot.config import Settings
from supportpilot.db import mailboxes, mails, outbox, tickets
from supportpilot.db.mails import SentMail, Thread
from supportpilot.db.outbox import OutboxRow
from supportpilot.db.pool import Connection, Database
from supportpilot.desk import outbox as desk
from supportpilot.desk.links import page_url
from supportpilot.desk.outbox import Claimed, SendResult
from supportpilot.errors import Misconfigured
from supportpilot.mail.folders import Folder, read_folders
from supportpilot.mail.headers import ADDRESS
from supportpilot.mail.servers import Server, read_server
from supportpilot.mail.tokens import plain_address

log = logging.getLogger(__name__)

CHANNEL = "email"
MOST_UNANSWERED = 2     # copies that a customer may get where nobody can be asked: the first, and once more
# Nobody reads there; an answer would come back, or start a loop.
MACHINES = re.compile(r"(?:no|not|do[-_.]?not|dont)[-_.]?reply.*|noreply.*|mailer[-_.]?daemon|postmaster|bounces?|bounces?[-+_.].*|"
                      r"auto[-_.]?(?:reply|responder|confirm)|listserv|majordomo|owner-.*|.*-(?:request|bounces?|owner)", re.IGNORECASE)


@dataclass(frozen=True)
class Post:
    """What sending needs besides the mail."""

    server: Server
    secret: str
    sender: tuple[str, str]
    sent: Folder | None


def send(db: Database, settings: Settings, claimed: Claimed) -> SendResult:
    """Send one claimed reply by SMTP.

    Raises:
        Unavailable: the database is away.
    """
    row = claimed.row
    try:
        post = post_of(settings)
    except Misconfigured as error:
        return SendResult("retry", str(error))
    with db.transaction() as conn:
        letter = _letter(conn, settings, post, row)
    if isinstance(letter, SendResult):
        return letter
    if row.unanswered:
        known = _fate(settings, post, letter, row)
        if known is not None:
            return known
    return smtp.send(post.server, letter, settings.smtp_timeout_seconds,
                     lambda: _goes(db, settings, claimed, letter))


def post_of(settings: Settings) -> Post:
    """Return how mails leave.

    Raises:
        Misconfigured: a setting is missing or malformed; the text names it.
    """
    if not settings.smtp_url:
        raise Misconfigured("SMTP_URL is not set")
    if not settings.mail_secret:
        raise Misconfigured("MAIL_SECRET is not set: it signs the Message-ID and the reply address")
    name, address = parseaddr(settings.mail_from or next(iter(settings.mail_addresses.split()), ""))
    if not ADDRESS.fullmatch(address):
        raise Misconfigured("MAIL_FROM or MAIL_ADDRESSES has to name the address that replies come from")
    folders = read_folders(settings.smtp_sent_url, "SMTP_SENT_URL")
    if len(folders) > 1:
        raise Misconfigured("SMTP_SENT_URL must be one folder")
    return Post(read_server(settings.smtp_url), settings.mail_secret, (name, address.lower()), next(iter(folders), None))


def _letter(conn: Connection, settings: Settings, post: Post, row: OutboxRow) -> Letter | SendResult:
    refused = _refused(conn, settings, row.contact)
    if refused is not None:
        return refused
    thread = mails.answered(conn, row.ticket_id, row.in_reply_to) or mails.last_incoming(conn, row.ticket_id)
    writer = [thread.sender] if thread and thread.sender != row.contact and not _refused(conn, settings, thread.sender) else []
    return compose(Draft(
        key=row.idempotency_key, ticket_id=row.ticket_id, body=row.body, subject=(thread and thread.subject) or row.subject,
        sender=_from(settings, post, thread), recipients=(row.contact, *writer), written_at=row.created_at,
        references=thread.references if thread else (), author=row.author, by_human=row.kind == "human",
        message_id=mails.id_of_reply(conn, row.id) or "",
        page_url="" if writer else page_url(settings, row.ticket_id, row.link_key) or "",
        reply_by_token=settings.mail_plus_addresses), post.secret)


def _from(settings: Settings, post: Post, thread: Thread | None) -> tuple[str, str]:
    """MAIL_FROM where it is set, else the one of our addresses that the customer wrote to."""
    ours = settings.own_addresses
    wrote_to = next((a for a in thread.recipients if plain_address(a) in ours), "") if thread and not settings.mail_from else ""
    return (post.sender[0], plain_address(wrote_to)) if wrote_to else post.sender


def _refused(conn: Connection, settings: Settings, address: str) -> SendResult | None:
    """Say why nothing is sent to an address, None if nothing stands against it."""
    if not ADDRESS.fullmatch(address):
        return SendResult("give_up", "the ticket has no mail address to reply to")
    if plain_address(address) in settings.own_addresses:
        return SendResult("withhold", "the address is our own")
    if MACHINES.fullmatch(address.partition("@")[0]):
        return SendResult("withhold", "a machine's address: nobody reads there")
    reason = mailboxes.suppressed(conn, address)
    return SendResult("give_up", f"nothing is sent to this address: {reason}") if reason else None


def _fate(settings: Settings, post: Post, letter: Letter, row: OutboxRow) -> SendResult | None:
    """An earlier text left and nobody answered: return how that ends, None if the mail may leave once more."""
    if post.sent is not None:
        try:
            if sent_folder.holds(post.sent, letter, settings.imap_timeout_seconds):
                return SendResult("accept", provider_id=letter.message_id)
        except CannotAsk as error:
            return SendResult("lose", f"before sending again: {error}")
    if row.unanswered >= MOST_UNANSWERED:
        return SendResult("give_up", f"the mail server took the text {row.unanswered} times without an answer: the customer may have it")
    return None


def _goes(db: Database, settings: Settings, claimed: Claimed, letter: Letter) -> bool:
    """Ask all of it once more at the last moment, and note that the text leaves: from now on it may have arrived.

    The Message-ID is stored before the text leaves, so that no answer, no bounce and no copy of our own is faster.
    """
    row = claimed.row
    with db.transaction() as conn:
        if tickets.lock(conn, row.ticket_id) is None or not desk.may_still_send(conn, claimed, settings.smtp_timeout_seconds):
            return False
        if _refused(conn, settings, letter.recipients[0]) is not None:
            return False
        outbox.note_text(conn, row.id)
        mails.record_sent(conn, SentMail(row.id, row.ticket_id, letter.message_id, letter.sender, letter.recipients,
                                         letter.subject, tuple(reversed(letter.references))))
    return True
