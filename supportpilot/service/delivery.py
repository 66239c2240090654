"""A reply out: by the ticket's channel, under the same key at every attempt, loudly `failed` when it never works."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import httpx

from supportpilot.channels.registry import SENDERS
from supportpilot.config import Settings
from supportpilot.db import leases, outbox, tickets
from supportpilot.db.outbox import OutboxRow
from supportpilot.db.pool import Database
from supportpilot.desk import outbox as desk
from supportpilot.desk.links import page_url
from supportpilot.desk.outbox import Claimed, SendResult, Skipped
from supportpilot.desk.signing import sign
from supportpilot.errors import Misconfigured
from supportpilot.service import delivery_mail
from supportpilot.types import Ports

log = logging.getLogger(__name__)

CLAIM_MARGIN_SECONDS = 5.0
LONGEST_ERROR = 300

Sender = Callable[[Settings, OutboxRow, int], SendResult]


def deliver(db: Database, settings: Settings, ports: Ports, reply_id: str, send: Sender | None = None) -> str:
    """Send one outbox row if it is its turn, then wake the ticket's next one; return what happened.

    `send` gets (settings, row, Unix time by Postgres) and replaces the channel's own way (tests).

    Raises:
        Unavailable: the database is away; the claim runs out and the row becomes `unknown`.
    """
    with db.transaction() as conn:
        channel = outbox.channel_of(conn, reply_id)
        seconds, claim_seconds = _times(settings, channel)
        claimed = desk.claim(conn, reply_id, claim_seconds, settings.rate_of(channel))
    if isinstance(claimed, Skipped):
        if claimed.next_id and claimed.next_id != reply_id:
            ports.schedule_delivery(claimed.next_id)
        return claimed.why
    with db.transaction() as conn:
        allowed = desk.may_still_send(conn, claimed, seconds)
        if allowed and channel in SENDERS:
            outbox.note_text(conn, reply_id)    # a mail notes it between the envelope and the text
        now = int(leases.clock(conn).timestamp())
    if not allowed:
        _wake_next(db, ports, claimed)
        return "claim lost, or a human has the ticket"
    return _close(db, ports, claimed, _sent(send or _sender_of(db, settings, claimed), settings, claimed.row, now))


def _times(settings: Settings, channel: str) -> tuple[float, float]:
    """Return the seconds that a send may take from its last check on, and those of the claim.

    A mail's last check stands between the envelope and the text.
    """
    if channel == delivery_mail.CHANNEL:
        return settings.smtp_timeout_seconds, 2 * settings.smtp_timeout_seconds + CLAIM_MARGIN_SECONDS
    return settings.reply_timeout_seconds, settings.reply_timeout_seconds + CLAIM_MARGIN_SECONDS


def _sender_of(db: Database, settings: Settings, claimed: Claimed) -> Sender:
    if claimed.row.channel == delivery_mail.CHANNEL and settings.smtp_url:
        return lambda _settings, _row, _now: delivery_mail.send(db, settings, claimed)
    return sender_of(claimed.row.channel)


def _sent(send: Sender, settings: Settings, row: OutboxRow, now: int) -> SendResult:
    """Send; a mistake of the sender's counts as an attempt too, else it would be made again for ever."""
    try:
        return send(settings, row, now)
    except Exception as error:  # noqa: BLE001 -- written down below; the text may quote the reply and stays out
        log.error("sending %s broke off: %s", row.id, type(error).__name__)  # noqa: TRY400
        return SendResult("lose", f"unexpected {type(error).__name__} while sending")


def _close(db: Database, ports: Ports, claimed: Claimed, result: SendResult) -> str:
    with db.transaction() as conn:
        ticket = None if result.event == "accept" else tickets.lock(conn, claimed.row.ticket_id)
        status = desk.close(conn, claimed, result)
        if status == "failed" and ticket is not None:
            desk.give_to_human(conn, claimed, ticket, result.error)
    if status == "failed":
        log.error("reply %s of ticket %s failed for good: %s", claimed.row.id, claimed.row.ticket_id, result.error)
    if status in {"accepted", "failed", "withheld", desk.LOST_CLAIM}:     # a mail's last check may have withheld it
        _wake_next(db, ports, claimed)
    return status if result.error is None else f"{status}: {result.error}"


def _wake_next(db: Database, ports: Ports, claimed: Claimed) -> None:
    with db.connection() as conn:
        following = desk.next_unsent(conn, claimed.row.ticket_id)
    if following is not None and following != claimed.row.id:
        ports.schedule_delivery(following)


def sender_of(channel: str) -> Sender:
    """Return the way a channel sends; a terminal reads its replies from the database."""
    return send_callback if channel == "generic" else SENDERS.get(channel, keep)


def keep(_settings: Settings, row: OutboxRow, _now: int) -> SendResult:
    """Count a reply as accepted where it is: whoever waits for it reads the outbox."""
    return SendResult("accept", provider_id=row.id)


def send_callback(settings: Settings, row: OutboxRow, now: int) -> SendResult:
    """POST the reply to REPLY_CALLBACK_URL, signed by the Standard Webhooks rules.

    `webhook-id` is the idempotency key, the same at every attempt, so a receiver can drop what it has.
    """
    if not settings.reply_callback_url:
        return keep(settings, row, now)
    body = json.dumps(callback_body(settings, row), ensure_ascii=False).encode()
    try:
        headers = _headers(settings, row, now, body)
    except Misconfigured as error:
        return SendResult("retry", f"REPLY_CALLBACK_SECRET: {error}")
    try:
        answer = asyncio.run(_post(settings.reply_callback_url, body, headers, settings.reply_timeout_seconds))
    except httpx.ConnectError as error:
        return SendResult("retry", f"no connection: {error}"[:LONGEST_ERROR])
    except httpx.InvalidURL as error:
        return SendResult("retry", f"REPLY_CALLBACK_URL: {error}"[:LONGEST_ERROR])
    except (httpx.HTTPError, TimeoutError) as error:
        return SendResult("lose", f"no answer: {type(error).__name__} {error}".strip()[:LONGEST_ERROR])
    return _judge(answer)


async def _post(url: str, body: bytes, headers: dict[str, str], seconds: float) -> httpx.Response:
    """Post within `seconds` in all, which the claim outlasts; the answer's body is not read.

    httpx's own time-outs are each for one read: a receiver that answers by drops would outlast every claim.
    """
    async with (asyncio.timeout(seconds), httpx.AsyncClient(timeout=seconds) as client,
                client.stream("POST", url, content=body, headers=headers) as answer):
        return answer


def _headers(settings: Settings, row: OutboxRow, now: int, body: bytes) -> dict[str, str]:
    headers = {"content-type": "application/json", "webhook-id": row.idempotency_key, "webhook-timestamp": str(now)}
    if settings.reply_callback_secret:
        headers["webhook-signature"] = sign(settings.reply_callback_secret, row.idempotency_key, now, body)
    return headers


def callback_body(settings: Settings, row: OutboxRow) -> dict[str, Any]:
    """Return the JSON object of a callback.

    `in_reply_to` is the sender's own id of the message, `page` the customer's own page (null where pages are off).
    """
    answered = row.in_reply_to.removeprefix(f"{row.channel}:") if row.in_reply_to else None
    return {"ticket_id": row.ticket_id, "conversation_id": row.conversation_id, "in_reply_to": answered,
            "kind": row.kind, "body": row.body, "citations": row.citations, "page": page_url(settings, row.ticket_id, row.link_key)}


def _judge(answer: httpx.Response) -> SendResult:
    if answer.is_success:
        return SendResult("accept", provider_id=answer.headers.get("x-message-id"))
    error = f"HTTP {answer.status_code} from the callback"
    return SendResult("give_up" if answer.status_code == httpx.codes.GONE else "retry", error)
