"""`profile show/rebuild/correct`: what the agent is told of a customer, from which rows, and a human's word on it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from producer.cli.screen import line, moment, print_json, say
from producer.cli.session import current_settings, open_database, waking_ports
from supportpilot.agent.deps import Deps
from supportpilot.db.pool import Database
from supportpilot.errors import Misconfigured
from supportpilot.service import profile as service
from supportpilot.service.profile import Correction

app = typer.Typer(help="Customers' profiles: look at, make anew, correct.", rich_markup_mode=None)

Customer = Annotated[str, typer.Argument(metavar="CUSTOMER", help="Customer id, e.g. C0010, or address.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

DAYS = re.compile(r"(\d{1,4})d", re.ASCII)
DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
HOUSE = timedelta(hours=8)      # China's time, in which the house's days begin


@app.command()
def show(customer: Customer, as_json: AsJson = False) -> None:
    """Show a profile: each sentence with the rows it came from, and the corrections."""
    with open_database(current_settings()) as db:
        found = service.show(db, customer)
    print_json(found) if as_json else _print(found)


@app.command()
def rebuild(customer: Customer, as_json: AsJson = False) -> None:
    """Have the model word a profile anew now, even if nothing has changed."""
    settings = current_settings()
    with open_database(settings) as db, waking_ports(settings) as ports:
        deps = Deps.over(db, settings, ports)
        try:
            found = service.rebuild(db, deps.small_llm, ports, customer)
        finally:
            deps.close()
    print_json(found) if as_json else _print(found)


@app.command()
def correct(  # noqa: PLR0913 -- one option each
    customer: Customer,
    by: Annotated[str, typer.Option("--by", "--author", help="Your name; it is recorded.")],
    set_: Annotated[str | None, typer.Option("--set", metavar="FIELD=VALUE", help="plan, billing_cycle, is_vip, wish, or an error code's count (E3001=2).")] = None,
    suppress: Annotated[str | None, typer.Option(help="What is not to be said: a field, promise, bank, topics, an error code, or a row's id.")] = None,
    note: Annotated[str | None, typer.Option(help="A short note of your own; it is added word for word.")] = None,
    remove: Annotated[str | None, typer.Option(metavar="ID", help="Take a correction back, e.g. V000001.")] = None,
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")] = "",
    expires: Annotated[str | None, typer.Option(metavar="DAY", help="Last day it counts, e.g. 2027-01-31, or days from now: 30d.")] = None,
) -> None:
    """Correct a profile: one of --set, --suppress, --note, --remove. Rebuilds keep it; it gives no right to anything."""
    given = [value for value in (set_, suppress, note, remove) if value is not None]
    if len(given) != 1:
        raise Misconfigured("give exactly one of --set, --suppress, --note and --remove")
    settings = current_settings()
    said = None if remove is not None else _correction(set_, suppress, note, by)
    ends = None if expires is None else _expires(expires)
    if remove is not None and (ends or reason.strip()):
        raise Misconfigured("--remove takes neither --reason nor --expires")
    with open_database(settings) as db, waking_ports(settings) as ports:
        if said is None:
            customer_id = service.withdraw(db, ports, customer, remove or "", by)
            say(f"{line(remove, 40)} of {customer_id} is taken back; its profile is made anew")
        else:
            made = Correction(said.kind, said.target, said.value, by, reason, ends)
            override_id = service.correct(db, ports, customer, made)
            say(f"{override_id}: {_deed(made)}; the next turn sees it. Take it back with "
                f"`supportpilot profile correct {line(customer, 80)} --remove {override_id} --by NAME`")
            _warn(db, customer)


def _correction(set_: str | None, suppress: str | None, note: str | None, by: str) -> Correction:
    if set_ is not None:
        target, sign, value = set_.partition("=")
        if not sign:
            raise Misconfigured("--set needs FIELD=VALUE, such as plan=专业版 or E3001=2")
        return Correction("set", target.strip(), value.strip(), by)
    return Correction("note", "", note, by) if note is not None else Correction("suppress", suppress or "", "", by)


def _expires(text: str) -> datetime:
    """Return the end of the last day that a correction counts on.

    Raises:
        Misconfigured: it is neither a day nor a number of days.
    """
    now = datetime.now(UTC)  # noqa: TID251 -- only turns what a person typed into a day; Postgres decides when it has come
    given = text.strip()
    if found := DAYS.fullmatch(given):
        return now + timedelta(days=int(found[1]))
    try:
        if DAY.fullmatch(given):
            return datetime.fromisoformat(given).replace(tzinfo=UTC) + timedelta(days=1) - HOUSE
    except (ValueError, OverflowError):
        pass
    raise Misconfigured(f"--expires {line(text, 20)!r} is neither a day such as 2027-01-31 nor days from now such as 30d")


def _deed(made: Correction) -> str:
    if made.kind == "note":
        return "the note is part of the profile"
    return f"{line(made.target, 40)} is not mentioned any more" if made.kind == "suppress" else f"{line(made.target, 40)} is {line(made.value, 40)}"


def _warn(db: Database, customer: str) -> None:
    for row in service.corrections_in_conflict(service.show(db, customer)["overrides"]):
        say(_conflict(row))


def _print(found: dict[str, Any]) -> None:
    made = "" if found["updated_at"] is None else f", stored {moment(found['updated_at'])}"
    say(f"{found['customer_id']}  profile {found['state']}{made}, worded by {found['made_by']}, "
        f"{found['source_ticket_count']} resolved tickets")
    for sentence in found["sentences"]:
        say(f"  {line(sentence['text'], 400)}")
        say(f"      from {line(', '.join(sentence['rows']) or '-', 400)}")
    for reason in found["refused"]:
        say(f"refused   {line(reason, 200)}")
    for row in found["overrides"]:
        _print_override(row)


def _print_override(row: dict[str, Any]) -> None:
    what = f"{row['kind']} {row['target']}".strip() + (f"{'=' if row['kind'] == 'set' else ': '}{row['value']}" if row["value"] else "")
    ends = "" if row["expires_at"] is None else f", {'expired' if row['expired'] else 'until'} {moment(row['expires_at'])}"
    why = f": {row['reason']}" if row["reason"] else ""
    say(f"{row['id']}   {line(what, 200)} (by {line(row['author'], 60)}, {moment(row['created_at'])}{ends}){line(why, 220)}")
    if row["conflict"] and not row["expired"]:
        say(f"  {_conflict(row)}")


def _conflict(row: dict[str, Any]) -> str:
    was, now = (line(row["conflict"][name], 120) for name in ("seen", "now"))
    return f"conflict: {row['target']} was {was} when {row['id']} was written, the records say {now} now; it still counts"
