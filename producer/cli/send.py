"""`send`: put a customer's message into the inbox as a webhook would, and wait for the answer if asked to."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import typer

from producer.channels import generic
from producer.cli.screen import print_json, say
from producer.cli.session import current_settings, open_database, waking_ports
from supportpilot.config import Settings
from supportpilot.db import erasures, inbox, outbox, tickets, turns
from supportpilot.db.pool import Connection, Database, Row
from supportpilot.errors import Erased, Refused, SupportPilotError
from supportpilot.service import intake
from supportpilot.types import InboundMessage, Received

CHANNEL = "terminal"
POLL_SECONDS = 0.2
ANSWER_KINDS = ("reply", "handoff")


@dataclass(frozen=True)
class Ended:
    """How a message's turn ended; `reply` is what the customer got, None if nothing."""

    outcome: str
    reply: str | None


def send(  # noqa: PLR0913 -- a parameter is an option of the command
    email: Annotated[str, typer.Option(help="The customer's address.")],
    body: Annotated[str, typer.Option(help="The text of the message.")],
    subject: Annotated[str, typer.Option(help="Subject of a new ticket.")] = "",
    ticket: Annotated[str | None, typer.Option(help="Ticket that the message belongs to.")] = None,
    message_id: Annotated[str | None, typer.Option(help="The sender's id of the message; the same id again is a duplicate.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the message's turn has ended and print the reply.")] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds that --wait waits at most.")] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Send a customer's message, as a webhook would."""
    settings = current_settings()
    given: dict[str, object] = {"message_id": message_id or uuid.uuid4().hex, "from": {"email": email}, "body": body,
             "subject": subject, "ticket_id": ticket}
    message = as_message(given, settings)
    with open_database(settings) as db:
        if ticket is not None:
            _require_ticket(db, ticket)
        with waking_ports(settings) as ports:
            received = intake.receive(db, settings, ports, message)
        if received.erased:
            raise Refused("a message with this id was erased at its sender's request; nothing was stored")
        if not as_json:
            _tell_received(received, ticket)
        ended = wait_for_end(db, received.message_id, timeout) if wait else None
    if as_json:
        shown = {"ticket_id": received.ticket_id, "message_id": received.message_id, "duplicate": received.duplicate}
        print_json(shown | (asdict(ended) if ended else {}))
    elif ended:
        say(f"outcome: {ended.outcome}")
        say(ended.reply or "(no reply)")


def as_message(given: dict[str, object], settings: Settings) -> InboundMessage:
    """Check what was typed by the rules of the webhook, and make a message of the terminal's channel.

    Raises:
        Unusable: it cannot be a message; the text says why.
    """
    message = generic.parse(json.dumps(given).encode(), None, settings).message
    return replace(message, channel=CHANNEL, external_id=f"{CHANNEL}:{given['message_id']}")


def _require_ticket(db: Database, ticket_id: str) -> None:
    with db.connection() as conn:
        if tickets.get(conn, ticket_id) is None:
            raise erasures.absent(conn, ticket_id)


def _tell_received(received: Received, wanted: str | None) -> None:
    say(f"ticket  {received.ticket_id}")
    say(f"message {received.message_id}{' (duplicate: it was stored before)' if received.duplicate else ''}")
    if wanted and wanted != received.ticket_id:
        say(f"note    {wanted} belongs to another address, so this is a ticket of its own")


def wait_for_end(db: Database, message_id: str, timeout: float) -> Ended:
    """Wait until the message's turn has ended, or until it is clear that a human comes first.

    Raises:
        SupportPilotError: it took longer than `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        with db.connection() as conn:
            ended = look(conn, message_id)
        if ended:
            return ended
        if time.monotonic() >= deadline:
            raise SupportPilotError(f"{message_id} is stored but not answered after {timeout:g} s: "
                                    "see `supportpilot doctor`, then `supportpilot ticket show`")
        time.sleep(POLL_SECONDS)


def look(conn: Connection, message_id: str) -> Ended | None:
    """Return how the message's turn ended, None while it has not.

    Raises:
        Erased: it was stored, and is not there any more.
    """
    message, turn = inbox.get(conn, message_id), turns.of_message(conn, message_id)
    if message is None:
        raise Erased(f"{message_id} is gone: its ticket was erased while it waited")
    sent = outbox.rows(conn, ticket_id=message["ticket_id"])
    if turn is None or turn["status"] == "replaced":
        return _held(conn, message, sent)
    if turn["status"] == "running":
        return None
    outcome = "escalated" if turn["status"] == "dead" else str(turn["outcome"] or "resolved")
    return Ended(outcome, _text_of_turn(sent, turn["turn_id"]))


def _held(conn: Connection, message: Row, sent: list[Row]) -> Ended | None:
    """A ticket that waits for a human keeps the message; nobody answers it before that."""
    if message["state"] == "dead":
        return Ended("escalated", None)
    ticket, standing = tickets.get(conn, message["ticket_id"]), turns.open_turn(conn, message["ticket_id"])
    if ticket is None or (standing is not None and standing.status == "running"):
        return None
    if standing is not None:
        acks = [str(row["body"]) for row in sent if row["kind"] == "ack" and row["turn_id"] == standing.turn_id]
        return Ended("waiting_approval", acks[0] if acks else None)
    return Ended("escalated", None) if ticket.status == "escalated" else None


def _text_of_turn(sent: list[Row], turn_id: str) -> str | None:
    """Return the turn's answer; while it waits for an approval, the notice."""
    rows = [row for row in sent if row["turn_id"] == turn_id]
    answers = [row for row in rows if row["kind"] in ANSWER_KINDS] or rows
    return str(answers[0]["body"]) if answers else None
