"""Chatwoot: what its messages and conversations mean, and replies by its API.

The hook and the poll read the same message by the same function, so that one that comes by both is one. Account and
conversation are both in our ids: numbers of conversations start at 1 in every account.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from supportpilot.channels import api, reading
from supportpilot.channels.api import Answered, Api, Desk, Sent, target
from supportpilot.channels.port import MARKER, OWN, Heard, Ignored, Moved
from supportpilot.config import Settings
from supportpilot.db.outbox import OutboxRow
from supportpilot.desk.outbox import SendResult
from supportpilot.errors import Unusable
from supportpilot.types import InboundMessage

CHANNEL = "chatwoot"
# The hook writes names, the API numbers.
Kind: TypeAlias = Literal["taken over", "opened", "given back", "resolved"]
TYPES = {"incoming": "incoming", "outgoing": "outgoing", "activity": "activity", "template": "template",
         0: "incoming", 1: "outgoing", 2: "activity", 3: "template"}
# Fields of `content_attributes` that say: a machine wrote this.
MACHINES = {"automation_rule_id": "automation", "external_echo": "echo of another client", "campaign_id": "campaign"}


def read_message(message: dict[str, Any], conversation: dict[str, Any], account: object,
                 settings: Settings) -> Heard | Ignored:
    """Turn a message into what it means to us; only what a person wrote to the other side counts.

    Raises:
        Unusable: it is one to be kept, but cannot be read.
    """
    kind = _kind(message)
    if kind not in {"incoming", "outgoing"}:
        return Ignored(f"message_type {kind}" if kind else "unknown message_type")
    if message.get("private"):
        return Ignored("private note")
    reason = _machine(message)
    if reason:
        return Ignored(reason)
    sender = reading.inner(message, "sender")
    sender_type = str(sender.get("type") or message.get("sender_type") or "").lower()
    if kind == "incoming":
        if sender_type != "contact":
            return Ignored("incoming, but not from a contact")
        return _from_customer(message, conversation, reading.number("account.id", account), settings)
    if sender_type != "user":
        return Ignored("bot or campaign")
    if _is_ours(message, sender, settings):
        return Ignored(OWN)
    return _from_colleague(message, conversation, reading.number("account.id", account), settings)


def writer_of(message: dict[str, Any]) -> str:
    """Return the address or name of who wrote a message that cannot be read; "" if there is none."""
    sender = reading.inner(message, "sender")
    try:
        return reading.line("sender", sender.get("email") or sender.get("name"), 200)
    except Unusable:
        return ""


def _kind(message: dict[str, Any]) -> str:
    value = message.get("message_type")
    return TYPES.get(value, "") if isinstance(value, int | str) else ""


def _machine(message: dict[str, Any]) -> str:
    attributes = reading.inner(message, "content_attributes")
    if message.get("content_type") == "input_csat":
        return "satisfaction survey"
    for field, reason in MACHINES.items():
        if attributes.get(field) or reading.inner(message, "additional_attributes").get(field):
            return reason
    email = reading.inner(attributes, "email")
    return "automatic reply" if email.get("auto_reply") or attributes.get("auto_reply") else ""


def _is_ours(message: dict[str, Any], sender: dict[str, Any], settings: Settings) -> bool:
    marked = MARKER in reading.inner(message, "content_attributes")
    return marked or _is_us(sender, settings)


def _is_us(person: dict[str, Any], settings: Settings) -> bool:
    return settings.chatwoot_user_id is not None and str(person.get("id")) == settings.chatwoot_user_id


def _base(message: dict[str, Any], conversation: dict[str, Any], account: str) -> dict[str, Any]:
    number = reading.number("conversation.id", conversation.get("id"))
    return {"channel": CHANNEL, "external_id": f"{CHANNEL}:{account}:{reading.number('id', message.get('id'))}",
            "conversation_id": f"{account}/{number}", "sent_at": reading.moment(message.get("created_at"))}


def _from_customer(message: dict[str, Any], conversation: dict[str, Any], account: str, settings: Settings) -> Heard:
    sender = reading.inner(message, "sender")
    known_by = f"{CHANNEL}:{account}:contact:{reading.number('sender.id', sender.get('id'))}"
    subject = reading.inner(conversation, "additional_attributes").get("mail_subject")
    verified = bool(reading.inner(conversation, "contact_inbox").get("hmac_verified")
                  or reading.inner(conversation, "meta").get("hmac_verified")
                  or CHANNEL in settings.trusted_addresses.split())
    return Heard(InboundMessage(
        **_base(message, conversation, account),
        contact=reading.contact("sender.email", sender.get("email"), known_by),
        contact_name=reading.line("sender.name", sender.get("name"), reading.MAX_NAME_CHARS),
        subject=reading.line("mail_subject", subject, reading.MAX_SUBJECT_CHARS),
        body=_body(message, settings), verified=verified), held_by=holder(conversation, settings))


def _from_colleague(message: dict[str, Any], conversation: dict[str, Any], account: str, settings: Settings) -> Heard:
    sender = reading.inner(message, "sender")
    name = reading.line("sender.name", sender.get("name") or sender.get("available_name"), reading.MAX_NAME_CHARS)
    return Heard(InboundMessage(**_base(message, conversation, account), contact="", contact_name=name or "agent",
                                body=_body(message, settings), author="human"))


def _body(message: dict[str, Any], settings: Settings) -> str:
    mail = reading.inner(message, "content_attributes", "email").get("text_content")
    parts = mail if isinstance(mail, dict) else {"full": mail}
    found = next((part for part in (message.get("content"), parts.get("reply"), parts.get("full")) if part), "")
    return reading.body(reading.text("content", found), reading.items(message.get("attachments")),
                        settings.max_message_chars)


def holder(conversation: dict[str, Any], settings: Settings) -> str:
    """Return the name of the person who is assigned to a conversation, "" if nobody or ourselves."""
    assignee = reading.inner(conversation, "meta", "assignee")
    if not assignee or _is_us(assignee, settings) or assignee.get("type") == "agent_bot":
        return ""
    return reading.line("assignee.name", assignee.get("name"), reading.MAX_NAME_CHARS) or "an agent"


def read_conversation(conversation: dict[str, Any], account: object, settings: Settings) -> Moved | Ignored:
    """Turn a conversation's change into what it means to us: taken over, given back, closed, or nothing.

    Raises:
        Unusable: the ids cannot be read.
    """
    changes = _changes(conversation)
    moved = _moved(conversation, changes, settings)
    if moved is None:
        return Ignored("conversation changed, not its hands")
    number = reading.number("conversation.id", conversation.get("id"))
    kind, by = moved
    return Moved(CHANNEL, f"{reading.number('account.id', account)}/{number}", kind, by)


def _changes(conversation: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return field -> (before, after)."""
    found: dict[str, tuple[Any, Any]] = {}
    for change in reading.items(conversation.get("changed_attributes")):
        for field, values in change.items():
            if isinstance(values, dict):
                found[field] = (values.get("previous_value"), values.get("current_value"))
    return found


def _moved(conversation: dict[str, Any], changes: dict[str, tuple[Any, Any]], settings: Settings) -> tuple[Kind, str] | None:
    status, held_by = changes.get("status"), holder(conversation, settings)
    if status is not None and status[1] == "resolved":
        return "resolved", CHANNEL
    if held_by:
        return ("taken over", held_by) if "assignee_id" in changes or "status" in changes else None
    if status is not None and status[0] == "pending" and status[1] == "open":
        return "opened", "an agent"
    if status is not None and status[1] == "pending":
        return "given back", CHANNEL
    if "assignee_id" in changes and changes["assignee_id"][1] is None and conversation.get("status") == "pending":
        return "given back", CHANNEL
    return None


def deliver(settings: Settings, row: OutboxRow, _now: int) -> SendResult:
    """Send a reply as the token's user; a conversation that we hand over is opened for the people first."""
    return api.send(DESK, settings, row)


def headers(token: str) -> dict[str, str]:
    """Return what the API wants to see."""
    return {"api_access_token": token}


async def _look(api: Api, settings: Settings, row: OutboxRow) -> Iterable[Sent]:
    account, number = _target(row)
    answer = await api.call("GET", f"/api/v1/accounts/{account}/conversations/{number}/messages")
    return [Sent(id=f"{CHANNEL}:{account}:{m.get('id')}", markup=str(m.get("content") or ""),
                 marker=str(reading.inner(m, "content_attributes").get(MARKER) or ""),
                 ours=_is_us(reading.inner(m, "sender"), settings) if settings.chatwoot_user_id else True)
            for m in reading.items(reading.inner(answer).get("payload"))
            if _kind(m) == "outgoing" and not m.get("private")]


async def _post(api: Api, _settings: Settings, row: OutboxRow) -> str:
    account, number = _target(row)
    path = f"/api/v1/accounts/{account}/conversations/{number}"
    if row.kind == "handoff":
        await _open_for_people(api, path)
    answer = await api.call("POST", f"{path}/messages", body={
        "content": row.body, "message_type": "outgoing", "private": False, "echo_id": row.idempotency_key,
        "content_attributes": {MARKER: row.idempotency_key}})
    found = answer.get("id") if isinstance(answer, dict) else None
    return f"{CHANNEL}:{account}:{found}" if isinstance(found, int) else ""


async def _open_for_people(api: Api, path: str) -> None:
    """Make it show among the open ones, where people look; refused, the words still go out."""
    try:
        await api.call("POST", f"{path}/toggle_status", body={"status": "open"})
    except Answered as error:
        if error.status >= 500:
            raise


def _target(row: OutboxRow) -> list[str]:
    found = target(row, 2)
    if not (found[0].isascii() and found[0].isdigit()):
        raise Unusable("the ticket has no Chatwoot account to reply in")
    return found


DESK = Desk(CHANNEL, headers, _look, _post)
