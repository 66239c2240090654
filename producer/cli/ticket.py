"""`ticket list/show/reply/release/resolve/link`: what a ticket holds, and a human's hand on it."""

from __future__ import annotations

from typing import Annotated

import typer

from producer.cli.screen import print_json, print_table, say
from producer.cli.session import current_settings, open_database, waking_ports
from producer.cli.ticket_view import print_ticket
from supportpilot.desk.rules import TICKET
from supportpilot.errors import Misconfigured
from supportpilot.service import links
from supportpilot.service import ticket as service

app = typer.Typer(help="Tickets: list, look into, answer, give back, close.", rich_markup_mode=None)

TicketId = Annotated[str, typer.Argument(metavar="TICKET", help="Ticket id, e.g. T000153.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

COLUMNS = [("ticket", "ticket_id"), ("status", "status"), ("customer", "customer_id"), ("contact", "contact"),
           ("subject", "subject"), ("category", "category"), ("waiting", "pending_messages"), ("written", "last_written_at")]


@app.command("list")
def list_(
    status: Annotated[str | None, typer.Option(help="open, answered, waiting_approval, escalated or resolved.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List tickets, last written first."""
    if status is not None and status not in TICKET:
        raise Misconfigured(f"--status must be one of {', '.join(TICKET)}")
    with open_database(current_settings()) as db:
        rows = service.list_tickets(db, status, limit)
    if as_json:
        print_json(rows)
    else:
        print_table("tickets", COLUMNS, rows)


@app.command()
def show(ticket: TicketId, as_json: AsJson = False) -> None:
    """Show a ticket: conversation, memory, approvals, cost."""
    settings = current_settings()
    with open_database(settings) as db:
        found = service.show(db, settings, ticket)
    if as_json:
        print_json(found)
    else:
        print_ticket(found)


@app.command()
def reply(
    ticket: TicketId,
    body: Annotated[str, typer.Option(help="What the customer reads.")],
    by: Annotated[str, typer.Option(help="Your name; the customer sees it.")],
) -> None:
    """Answer a customer yourself; the ticket is yours from then on."""
    settings = current_settings()
    if not by.strip():
        raise Misconfigured("--by must be a name")
    with open_database(settings) as db, waking_ports(settings) as ports:
        service.reply(db, ports, ticket, body, by)
    say(f"your reply goes to the customer; {ticket} is yours until `supportpilot ticket release {ticket}`")


@app.command()
def release(ticket: TicketId) -> None:
    """Give a ticket back to the agent, which answers what no human has answered."""
    settings = current_settings()
    with open_database(settings) as db, waking_ports(settings) as ports:
        waiting = service.release(db, ports, ticket)
    say(f"the agent has {ticket} again; {waiting} messages wait for it")


@app.command()
def resolve(ticket: TicketId) -> None:
    """Close the matter now; it becomes part of the customer's history."""
    settings = current_settings()
    with open_database(settings) as db, waking_ports(settings) as ports:
        status = service.resolve(db, ports, ticket)
    say(f"{ticket} is resolved" if status == "resolved" else
        f"{ticket} becomes resolved as soon as the held messages are in the conversation")


@app.command()
def link(
    ticket: TicketId,
    renew: Annotated[bool, typer.Option("--renew", help="Make all links worthless that were given out, and a new one.")] = False,
    by: Annotated[str, typer.Option(help="Your name, for the record.")] = "operator",
    as_json: AsJson = False,
) -> None:
    """Print the link to the customer's own page."""
    settings = current_settings()
    with open_database(settings) as db:
        url = links.renew(db, settings, ticket, by) if renew else links.link_of(db, settings, ticket)
    if as_json:
        print_json({"ticket_id": ticket, "page": url})
    else:
        say(url)
