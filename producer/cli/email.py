"""`email pipe` and `email poll`: mail from an MTA's pipe, mail from IMAP folders."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from producer.cli.screen import complain, print_json, say
from producer.cli.session import current_settings, open_database, waking_ports
from supportpilot.config import Settings
from supportpilot.db.mails import RawMail
from supportpilot.db.pool import Database
from supportpilot.errors import Misconfigured, SupportPilotError
from supportpilot.mail.folders import read_folders
from supportpilot.mail.parse import read_message
from supportpilot.service import mail_in, mail_poll
from supportpilot.types import Ports

app = typer.Typer(help="Mail in: from an MTA's pipe, from IMAP mailboxes.", rich_markup_mode=None)

CHUNK = 65_536
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("pipe")
def pipe(
    sender: Annotated[str | None, typer.Option(help="Envelope sender; empty for a bounce. Postfix: ${sender}")] = None,
    recipient: Annotated[str, typer.Option(help="Envelope recipient. Postfix: ${original_recipient}")] = "",
) -> None:
    """Take one mail from standard input, for an MTA; exit codes are those of sysexits.h.

    0: it is stored and cannot be lost. 75: not now, the MTA keeps it (whatever is wrong on our side). 65: this is no
    mail, or it is too large: the MTA gives it back to its sender. 66: nothing came.
    """
    settings = current_settings()
    raw = read_bounded(settings.mail_max_bytes)
    if not raw:
        complain("no mail came on standard input")
        raise typer.Exit(os.EX_NOINPUT)
    if len(raw) > settings.mail_max_bytes:
        complain(f"this mail is too large: at most {settings.mail_max_bytes} bytes are accepted")
        raise typer.Exit(os.EX_DATAERR)
    try:
        read_message(raw)
    except SupportPilotError as error:
        complain(str(error))
        raise typer.Exit(os.EX_DATAERR) from None
    with open_database(settings) as db, waking_ports(settings) as ports:
        mail_id = mail_in.store(db, RawMail("pipe", raw, envelope_from=sender, envelope_to=recipient))
        say(_file(db, settings, ports, mail_id))


def read_bounded(limit: int) -> bytes:
    """Return standard input; of one that is too large a little more than the limit (the rest is read and dropped)."""
    kept = bytearray()
    while chunk := sys.stdin.buffer.read(CHUNK):
        if len(kept) <= limit:
            kept += chunk
    return bytes(kept)


def _file(db: Database, settings: Settings, ports: Ports, mail_id: str) -> str:
    """File the stored mail at once; what fails now is done by the sweeper, and the MTA need not know."""
    try:
        got = mail_in.file(db, settings, ports, mail_id)
    except SupportPilotError as error:
        return f"{mail_id} stored, not filed yet: {error}"
    where = " ".join(part for part in (got.ticket_id, got.message_id, got.quarantine_id) if part)
    return " ".join(part for part in (mail_id, got.state, where, "(duplicate)" if got.duplicate else "") if part)


@app.command("poll")
def poll(
    mailbox: Annotated[str | None, typer.Option(help="Id of one mailbox (user/host/folder); all without it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Look once into the mailboxes of IMAP_URLS and take what is new; beat does the same every IMAP_POLL_SECONDS."""
    settings = current_settings()
    folders = [one for one in read_folders(settings.imap_urls) if mailbox in (None, one.id)]
    if not folders:
        raise Misconfigured("IMAP_URLS names no such mailbox")
    found, failed = [], 0
    with open_database(settings) as db, waking_ports(settings) as ports:
        for folder in folders:
            try:
                got = mail_poll.poll(db, settings, ports, folder)
                found.append({"mailbox": got.mailbox_id, "taken": got.taken, "left": got.left, "busy": got.busy})
            except SupportPilotError as error:      # one mailbox that is away keeps nobody from the others
                complain(str(error))
                found.append({"mailbox": folder.id, "error": str(error)})
                failed += 1
    _show(found, as_json=as_json)
    if failed:
        raise typer.Exit(1)


def _show(found: list[dict[str, object]], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for row in found:
        say(f"{row['mailbox']}: " + ("another process reads it" if row.get("busy") else
                                     str(row.get("error") or f"{row['taken']} taken, {row['left']} not filed yet")))
