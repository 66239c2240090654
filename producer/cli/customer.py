"""`customer erase/export`: forget a customer, or show everything that is held of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from producer.cli.screen import complain, print_json, say
from producer.cli.session import current_settings, open_database
from producer.plain import plain
from supportpilot.db.erasures import Erasure
from supportpilot.errors import Misconfigured, NotFound
from supportpilot.service import customer as service
from supportpilot.service.customer import Preview

app = typer.Typer(help="Customers: forget one, or show what is held.", rich_markup_mode=None)

Who = Annotated[str, typer.Argument(metavar="CUSTOMER", help="Number (C0010) or e-mail address.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def erase(
    customer: Who,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without it you are only told what would go.")] = False,
    by: Annotated[str, typer.Option(help="Your name, for the receipt.")] = "operator",
    as_json: AsJson = False,
) -> None:
    """Erase a customer, or an address without an account, everywhere; prints the receipt."""
    if not by.strip():
        raise Misconfigured("--by must be a name")
    with open_database(current_settings()) as db:
        if not yes:
            _announce(service.preview(db, customer), service.receipt(db, customer), customer, as_json)
            raise Misconfigured(f"nothing was erased; to do it: supportpilot customer erase {customer.strip()} --yes")
        done = service.erase(db, customer, by.strip())
    if as_json:
        print_json(done)
    else:
        _print_receipt(done)


def _announce(found: Preview, receipt: Erasure | None, customer: str, as_json: bool) -> None:
    if found.empty and receipt is None:
        raise NotFound(f"nothing is held of {customer.strip()}")
    if as_json:
        print_json(found)
        return
    if found.empty:
        say(f"nothing is held; erased before, receipt {receipt.id if receipt else '-'}")
        return
    say("would be deleted: " + _listed(found.deleted))
    say("would be kept without the person: " + _listed(found.kept))
    if found.running_turns:
        say(f"{found.running_turns} turn(s) run now; they are cut off, and no reply of theirs is sent")
    if found.unpaid_refunds:
        say(f"{found.unpaid_refunds} refund(s) wait for a decision or for payment; they would not be paid any more")


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{table} {n}" for table, n in counts.items()) or "nothing"


def _print_receipt(done: Erasure) -> None:
    say(f"receipt   {done.id}")
    say(f"asked by  {done.asked_by}, {done.asked_at:%Y-%m-%d %H:%M}Z")
    say(f"done      {done.done_at:%Y-%m-%d %H:%M}Z")
    for table, n in (done.counts or {}).items():
        say(f"{n:>8}  {table}")


@app.command()
def export(
    customer: Who,
    out: Annotated[Path | None, typer.Option("--out", help="File to write, readable by you alone; else stdout.")] = None,
) -> None:
    """Show everything that is held of a customer, or of an address, as JSON."""
    with open_database(current_settings()) as db:
        found = service.export(db, customer)
    if out is None:
        print_json(found)
        return
    _write(out, found)
    complain(f"wrote {out}")


def _write(path: Path, found: dict[str, Any]) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            json.dump(plain(found), file, ensure_ascii=False, indent=2)
            file.write("\n")
    except OSError as error:
        raise Misconfigured(f"cannot write {path}: {error.strerror}") from None
