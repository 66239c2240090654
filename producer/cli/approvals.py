"""`approvals list/show/approve/reject`: refunds that wait for a human."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import typer

from producer.cli.screen import line, money, print_json, print_table, say
from producer.cli.session import current_settings, open_database, waking_ports
from producer.cli.ticket_view import describe_request
from producer.plain import plain
from supportpilot.db import inbox
from supportpilot.db.approvals import Approval
from supportpilot.db.pool import Database
from supportpilot.desk.rules import APPROVAL
from supportpilot.errors import Misconfigured
from supportpilot.service import approval as service
from supportpilot.service.approval import Verdict

app = typer.Typer(help="Refunds that wait for a human: look, approve, reject.", rich_markup_mode=None)

ApprovalId = Annotated[str, typer.Argument(metavar="APPROVAL", help="Approval id, e.g. A000001.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
By = Annotated[str, typer.Option(help="Your name; it is recorded.")]
Reason = Annotated[str, typer.Option(help="Why; it is recorded.")]
Version = Annotated[int | None, typer.Option(help="The highest message number you have read; without it, that of the request.")]

COLUMNS = [("approval", "id"), ("ticket", "ticket_id"), ("status", "status"), ("request", "summary"),
           ("version", "version"), ("expires", "expires_at"), ("by", "decided_by")]


@app.command("list")
def list_(
    status: Annotated[str | None, typer.Option(help="pending, approved, rejected, expired or withdrawn.")] = None,
    as_json: AsJson = False,
) -> None:
    """List approvals, oldest first."""
    if status is not None and status not in APPROVAL:
        raise Misconfigured(f"--status must be one of {', '.join(APPROVAL)}")
    with open_database(current_settings()) as db:
        found = service.list_approvals(db, status)
    if as_json:
        print_json(found)
    else:
        print_table("approvals", COLUMNS, [_with_summary(approval) for approval in found])


def _with_summary(approval: Approval) -> dict[str, Any]:
    return {**plain(approval), "summary": describe_request(approval.request)}


@app.command()
def show(approval: ApprovalId, as_json: AsJson = False) -> None:
    """Show what is asked, and what the customer has written since."""
    with open_database(current_settings()) as db:
        found = service.get_approval(db, approval)
        since = _written_since(db, found)
    if as_json:
        print_json(plain(found) | {"written_since": since, "latest_version": _latest(found, since)})
    else:
        _print(found, since)


def _written_since(db: Database, approval: Approval) -> list[dict[str, Any]]:
    """Return the customer's messages that came after the request."""
    with db.connection() as conn:
        waiting = inbox.pending(conn, approval.ticket_id)
    return [plain(m) for m in waiting if m.author == "customer" and m.seq > approval.version]


def _latest(approval: Approval, since: list[dict[str, Any]]) -> int:
    return max([approval.version, *(int(m["seq"]) for m in since)])


def _print(approval: Approval, since: list[dict[str, Any]]) -> None:
    request = approval.request
    say(f"{approval.id}  {approval.status}  ticket {approval.ticket_id}  version {approval.version}")
    say(f"request   {describe_request(request)}")
    customer = request.get("customer") or {}
    say(f"customer  {line(customer.get('name') or customer.get('email') or '-')}")
    if approval.assigned_to:
        say(f"assigned  to {line(approval.assigned_to)}")
    if approval.first_by and approval.status == "pending":
        say(f"first     approved by {line(approval.first_by)}, {money(approval.first_amount)}; a second person has to agree")
    if approval.decided_by:
        say(f"decided   by {line(approval.decided_by)}, {money(approval.amount)}: {line(approval.reason or '-')}")
    say(f"findings  {request.get('findings') or '-'}")
    say(f"draft     {request.get('draft') or '-'}")
    for message in since:
        say(f"since     [{message['seq']}] {message['body']}")
    if since and approval.status == "pending":
        say(f"decide with --version {_latest(approval, since)} after reading")


@app.command()
def approve(
    approval: ApprovalId, by: By,
    amount: Annotated[str | None, typer.Option(help="Refund less than was asked, in CNY.")] = None,
    reason: Reason = "", version: Version = None,
) -> None:
    """Approve a refund; refused (exit 3) when stale, decided or expired."""
    given = None if amount is None else _amount(amount)
    _decide(approval, Verdict(approved=True, by=by, reason=reason, amount=given, seen_version=version))


@app.command()
def reject(approval: ApprovalId, by: By, reason: Reason = "", version: Version = None) -> None:
    """Reject a refund; refused (exit 3) when stale, decided or expired."""
    _decide(approval, Verdict(approved=False, by=by, reason=reason, seen_version=version))


def _amount(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise Misconfigured(f"--amount {line(text, 20)!r} is not a number such as 99.00") from None
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -2:
        raise Misconfigured("--amount is in CNY with at most two decimals, such as 99.00")
    return value


def _decide(approval_id: str, verdict: Verdict) -> None:
    settings = current_settings()
    if not verdict.by.strip():
        raise Misconfigured("--by must be a name")
    with open_database(settings) as db, waking_ports(settings) as ports:
        decided = service.decide(db, ports, approval_id, verdict)
    if decided.status == "pending":
        say(f"{decided.id} approved by {decided.first_by} ({money(decided.first_amount)}); above "
            f"{money(decided.two_person_above)} a second person has to approve the same")
        return
    amount = f" ({money(decided.amount)})" if decided.amount is not None else ""
    say(f"{decided.id} {decided.status}{amount} by {decided.decided_by}; ticket {decided.ticket_id} goes on")
