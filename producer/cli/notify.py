"""`notify test/list`: does every chat service take our messages, and what became of those we sent?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from producer.cli.screen import line, print_json, print_table, say
from producer.cli.session import current_settings, open_database
from supportpilot.db.pool import Row
from supportpilot.errors import Misconfigured
from supportpilot.notify.targets import Result
from supportpilot.service import notices as service

app = typer.Typer(help="Notifications to colleagues: try the targets, list what was sent.", rich_markup_mode=None)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

COLUMNS = [("notification", "id"), ("kind", "kind"), ("about", "subject_id"), ("state", "state"), ("targets", "shown"),
           ("made", "created_at")]


@app.command("test")
def try_(as_json: AsJson = False) -> None:
    """Send a test message to each target of NOTIFY_URLS; exit 1 if one does not take it."""
    settings = current_settings()
    if not settings.notify_targets():
        raise Misconfigured("NOTIFY_URLS is not set: nobody is told of anything; see docs/howto/notify-approvers.md")
    results: list[Result] = []
    for result in service.send_test(settings):
        results.append(result)
        if not as_json:
            say(f"{'ok  ' if result.ok else 'FAIL'}  {result.number} {result.service}{_because(result)}")
    if as_json:
        print_json([asdict(result) for result in sorted(results, key=lambda found: found.number)])
    unknown = [str(result.number) for result in results if not result.known]
    if unknown:
        raise Misconfigured(f"NOTIFY_URLS: number {', '.join(unknown)} is no target that apprise knows, or lacks a part")
    if not all(result.ok for result in results):
        raise typer.Exit(1)


def _because(result: Result) -> str:
    return f": {line(result.error, 160)}" if result.error else ""


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List notifications, newest first, with what came of each target."""
    with open_database(current_settings()) as db:
        found = service.list_notifications(db)
    if as_json:
        print_json(found)
    else:
        print_table("notifications", COLUMNS, [_with_targets(row) for row in found])


def _with_targets(row: Row) -> dict[str, Any]:
    return {**row, "shown": ", ".join(f"{target['number']} {target['service']} {target['state']}" for target in row["targets"])}
