"""`inbox`, `outbox`, `quarantine`: what came in, what goes out, and the dead letters of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from producer.channels.port import Channel
from producer.channels.registry import CHANNELS
from producer.cli.screen import print_json, print_table, say
from producer.cli.session import current_settings, open_database, waking_ports
from supportpilot.channels.port import Event
from supportpilot.config import Settings
from supportpilot.errors import Unusable
from supportpilot.service import letters, mail_in

inbox_app = typer.Typer(help="Customers' messages; with --dead those that were given up.", rich_markup_mode=None)
outbox_app = typer.Typer(help="Replies on their way; with --dead those that could not be sent.", rich_markup_mode=None)
quarantine_app = typer.Typer(help="Signed input that could not become a message, kept raw.", rich_markup_mode=None)

Dead = Annotated[bool, typer.Option("--dead", help="Only what was given up.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

INBOX = [("id", "id"), ("ticket", "ticket_id"), ("channel", "channel"), ("author", "author"), ("state", "state"),
         ("received", "received_at"), ("text", "body"), ("error", "last_error")]
OUTBOX = [("id", "id"), ("ticket", "ticket_id"), ("kind", "kind"), ("status", "status"), ("attempts", "attempts"),
          ("created", "created_at"), ("text", "body"), ("error", "last_error")]
QUARANTINE = [("id", "id"), ("channel", "channel"), ("sender", "sender"), ("state", "state"), ("reason", "reason"),
              ("bytes", "bytes"), ("received", "received_at")]


def _show(title: str, columns: list[tuple[str, str]], rows: Sequence[object], as_json: bool) -> None:
    if as_json:
        print_json(list(rows))
    else:
        print_table(title, columns, rows)


@inbox_app.command("list")
def inbox_list(dead: Dead = False, as_json: AsJson = False) -> None:
    """List the newest messages."""
    with open_database(current_settings()) as db:
        rows = letters.list_inbox(db, dead=dead)
    _show("inbox", INBOX, rows, as_json)


@inbox_app.command("retry")
def inbox_retry(message_id: Annotated[str, typer.Argument(help="Id of a dead message, e.g. M000012.")]) -> None:
    """Give a dead message to the agent once more."""
    settings = current_settings()
    with open_database(settings) as db, waking_ports(settings) as ports:
        letters.retry_inbox(db, ports, message_id)
    say(f"{message_id} is queued again")


@outbox_app.command("list")
def outbox_list(dead: Dead = False, as_json: AsJson = False) -> None:
    """List the newest replies, notices and handoffs."""
    with open_database(current_settings()) as db:
        rows = letters.list_outbox(db, dead=dead)
    _show("outbox", OUTBOX, rows, as_json)


@outbox_app.command("retry")
def outbox_retry(reply_id: Annotated[str, typer.Argument(help="Id of a failed reply, e.g. R000012.")]) -> None:
    """Send a failed or withheld reply once more, under the same idempotency key."""
    settings = current_settings()
    with open_database(settings) as db, waking_ports(settings) as ports:
        letters.retry_outbox(db, ports, reply_id)
    say(f"{reply_id} is queued again")


@quarantine_app.command("list")
def quarantine_list(as_json: AsJson = False) -> None:
    """List what is held, newest first."""
    with open_database(current_settings()) as db:
        rows = letters.list_quarantine(db)
    _show("quarantine", QUARANTINE, rows, as_json)


@quarantine_app.command("retry")
def quarantine_retry(quarantine_id: Annotated[str, typer.Argument(help="Id of a held input, e.g. Q000003.")]) -> None:
    """Parse a held input again (after a fix) and file it as a message."""
    settings = current_settings()
    with open_database(settings) as db, waking_ports(settings) as ports:
        if mail_in.channel_of_quarantined(db, quarantine_id) == mail_in.CHANNEL:
            got = mail_in.retry(db, settings, ports, quarantine_id)
            say(f"{quarantine_id}: {got.state} {got.message_id or ''} {got.ticket_id or ''}".rstrip())
            return
        received = letters.retry_quarantine(db, settings, ports, quarantine_id, _parser(settings))
    say(f"{quarantine_id} became message {received.message_id} of ticket {received.ticket_id}")


def _parser(settings: Settings) -> Callable[[str, bytes], Event]:
    def parse(channel: str, raw: bytes) -> Event:
        door = CHANNELS.get(channel)
        if not isinstance(door, Channel):
            raise Unusable(f"channel {channel} has no parser")
        return door.parse(raw, "", settings)
    return parse
