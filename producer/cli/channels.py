"""`channels`: what each door stored, ignored and refused lately, and how far helpdesks were asked for lost hooks."""

from __future__ import annotations

from typing import Annotated

import typer

from producer.cli.screen import print_json, print_table
from producer.cli.session import current_settings, open_database
from supportpilot.service.channels import overview

COUNTS = [("channel", "channel"), ("outcome", "outcome"), ("reason", "reason"), ("number", "n"), ("last", "last_at")]
ASKED = [("channel", "channel"), ("account", "account"), ("asked up to", "asked_to"), ("lost hooks found", "found"),
         ("last asked", "checked_at"), ("error", "last_error")]


def channels(
    days: Annotated[int, typer.Option(min=1, max=90, help="How many days are counted.")] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what came by which channel, and what was ignored or refused, with the reason."""
    with open_database(current_settings()) as db:
        found = overview(db, days)
    if as_json:
        print_json(found)
        return
    print_table("channels", COUNTS, found["counts"])
    if found["asked"]:
        print_table("asked for lost messages", ASKED, found["asked"])
