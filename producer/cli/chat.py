"""`chat`: a conversation in the terminal. It puts messages into the inbox like every other channel and watches."""

from __future__ import annotations

import getpass
import time
import uuid
from dataclasses import dataclass
from typing import Annotated

import typer

from producer.cli import send
from producer.cli.chat_view import Printer, Viewer
from producer.cli.screen import money
from producer.cli.session import current_settings, open_database, waking_ports
from supportpilot.config import Settings
from supportpilot.db import approvals, erasures, inbox, tickets, turns
from supportpilot.db.approvals import Approval
from supportpilot.db.pool import Database
from supportpilot.errors import Misconfigured, Refused, SupportPilotError, Unusable
from supportpilot.service import approval as decisions
from supportpilot.service import intake
from supportpilot.service.approval import Verdict
from supportpilot.types import Ports

POLL_SECONDS = 0.2
SHOWN_SECONDS = 3.0          # how long the live view may lag behind the database
SILENCE_SECONDS = 6.0        # after this long without a worker the person is told


@dataclass
class Talk:
    """One person at one terminal on one ticket."""

    db: Database
    settings: Settings
    ports: Ports
    printer: Printer
    viewer: Viewer
    ticket_id: str
    contact: str
    by: str


def chat(
    email: Annotated[str | None, typer.Argument(help="The customer's address.")] = None,
    message: Annotated[str | None, typer.Argument(help="The first message.")] = None,
    ticket: Annotated[str | None, typer.Option(help="Go on with this ticket.")] = None,
    by: Annotated[str | None, typer.Option(help="Your name, for approvals; default: the login name.")] = None,
) -> None:
    """Talk with the agent: live steps, tokens and tool calls, approvals inline. Ctrl-C leaves, --ticket goes on."""
    if (ticket is None) == (email is None or message is None):
        raise Misconfigured("give EMAIL and MESSAGE to begin, or --ticket T to go on")
    settings = current_settings()
    with open_database(settings) as db, waking_ports(settings) as ports:
        ticket_id, contact, first = _begin(db, settings, ports, ticket, (email or "", message or ""))
        printer = Printer()
        viewer = Viewer(db, settings, ticket_id, printer)
        talk = Talk(db, settings, ports, printer, viewer, ticket_id, contact, by or getpass.getuser())
        viewer.start()
        try:
            printer.line(f"ticket {ticket_id} ({contact}); Ctrl-C leaves")
            if first is not None:
                _follow(talk, first)
            else:
                _decide(talk)
            _converse(talk)
        except (KeyboardInterrupt, EOFError):
            printer.line(f"\ngo on later with: supportpilot chat --ticket {ticket_id}")
        finally:
            viewer.stop()


def _begin(db: Database, settings: Settings, ports: Ports, ticket: str | None,
           opening: tuple[str, str]) -> tuple[str, str, str | None]:
    """Return (ticket, contact, first message's id); a ticket that goes on has no first message."""
    if ticket is not None:
        with db.connection() as conn:
            row = tickets.get(conn, ticket)
            if row is None:
                raise erasures.absent(conn, ticket)
        return row.id, row.contact, None
    message = send.as_message(_given(opening[0], opening[1]), settings)
    received = intake.receive(db, settings, ports, message)
    return received.ticket_id, message.contact, received.message_id


def _given(email: str, body: str, ticket_id: str | None = None) -> dict[str, object]:
    return {"message_id": uuid.uuid4().hex, "from": {"email": email}, "body": body, "ticket_id": ticket_id}


def _converse(talk: Talk) -> None:
    while True:
        body = input("you> ").strip()
        if not body:
            continue
        try:
            message = send.as_message(_given(talk.contact, body, talk.ticket_id), talk.settings)
        except Unusable as error:
            talk.printer.line(f"not sent: {error}")
            continue
        received = intake.receive(talk.db, talk.settings, talk.ports, message)
        _follow(talk, received.message_id)


def _follow(talk: Talk, message_id: str) -> None:
    """Wait until the message's turn has ended, then ask for what only a human may decide."""
    started, told = time.monotonic(), False
    while (turn_id := _ended(talk, message_id)) is None:
        if not told and time.monotonic() - started > SILENCE_SECONDS and _nobody_works(talk, message_id):
            talk.printer.line("no worker has picked the message up yet; it is kept. See `supportpilot doctor`, "
                              "start one with `supportpilot up`")
            told = True
        time.sleep(POLL_SECONDS)
    if turn_id and not talk.viewer.wait_shown(turn_id, SHOWN_SECONDS):
        talk.viewer.show_end(turn_id, "done")
    if not turn_id:
        talk.printer.line("a human has this ticket; your message is kept for them")
    _decide(talk)


def _ended(talk: Talk, message_id: str) -> str | None:
    """Return the id of the turn that ended with the message; "" if a human comes first; None while it runs."""
    with talk.db.connection() as conn:
        ended = send.look(conn, message_id)
        turn = turns.of_message(conn, message_id)
    if ended is None:
        return None
    if turn is None and ended.outcome == "waiting_approval":
        talk.printer.line(ended.reply or "your message is kept until the refund is decided")
        return ""
    return str(turn["turn_id"]) if turn else ""


def _nobody_works(talk: Talk, message_id: str) -> bool:
    with talk.db.connection() as conn:
        turn = turns.open_turn(conn, talk.ticket_id)
        wait = inbox.seconds_until_due(conn, message_id)
    return turn is None and wait == 0


def _decide(talk: Talk) -> None:
    """Ask for the ticket's pending approval here and now, and wait for what comes of it."""
    with talk.db.connection() as conn:
        waiting = approvals.pending_of_ticket(conn, talk.ticket_id)
        seen = inbox.highest_customer_seq(conn, talk.ticket_id)
    if waiting is None:
        return
    yes = input(f"{_question(waiting)} [y/N] ").strip().lower() in {"y", "yes"}
    talk.viewer.forget(waiting.turn_id)
    try:
        decided = decisions.decide(talk.db, talk.ports, waiting.id, Verdict(approved=yes, by=talk.by, seen_version=seen))
    except Refused as error:
        talk.printer.line(f"not decided: {error}")
        return
    if decided.status == "pending":
        talk.printer.line(f"approved by {decided.first_by}; above {money(decided.two_person_above)} a second person has to agree")
        return
    _await_applied(talk, waiting)


def _question(waiting: Approval) -> str:
    request = waiting.request.get("request") or {}
    return (f"[approval {waiting.id}] refund {money(request.get('amount'))} of {request.get('invoice_number')}: "
            f"{request.get('reason', '')}?")


def _await_applied(talk: Talk, waiting: Approval) -> None:
    deadline = time.monotonic() + talk.settings.turn_deadline_seconds
    while time.monotonic() < deadline:
        with talk.db.connection() as conn:
            found = approvals.get(conn, waiting.id)
        if found is not None and found.applied_at is not None:
            if not talk.viewer.wait_shown(waiting.turn_id, SHOWN_SECONDS):
                talk.viewer.show_end(waiting.turn_id, "done")
            return
        time.sleep(POLL_SECONDS)
    raise SupportPilotError(f"{waiting.id} is decided but not applied yet: see `supportpilot doctor`")
