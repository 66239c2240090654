"""A ticket on one screen, for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from producer.cli.screen import console, line, moment, money, safe
from producer.plain import plain

HELD = {"pending": "  (waits)", "dead": "  (given up)"}


def print_ticket(ticket: dict[str, Any]) -> None:
    """Print what `ticket show --json` holds, as panels."""
    found = plain(ticket)
    screen = console()
    screen.print(_panel("conversation", _conversation([*(found.get("turns") or []), *(found.get("held") or [])]), title=_headline(found)))
    for name, text in (("summary", _summary(found)), ("profile", found.get("profile")), ("context", found.get("context"))):
        if text:
            screen.print(Panel(Text(safe(text)), title=f"memory: {name}", title_align="left", border_style="dim"))
    if found.get("ledger"):
        screen.print(_ledger(found["ledger"]))
    if found.get("commitments"):
        screen.print(_commitments(found["commitments"]))
    if found.get("approvals"):
        screen.print(_approvals(found["approvals"]))
    screen.print(_facts(found))


def _panel(name: str, lines: Iterable[RenderableType], *, title: Text) -> Panel:
    shown = list(lines) or [Text(f"no {name} yet", style="dim")]
    return Panel(Group(*shown), title=title, title_align="left")


def _headline(found: dict[str, Any]) -> Text:
    customer = found.get("customer") or {}
    who = " ".join(line(customer[k]) for k in ("name", "id", "email") if customer.get(k))
    outcome = f", {found['outcome']}" if found.get("outcome") else ""
    return Text(safe(f"{found['ticket_id']} · {found['status']}{outcome} · {who}"))


def _conversation(turns: list[dict[str, Any]]) -> Iterable[RenderableType]:
    for turn in turns:
        customer = turn.get("role") == "customer"
        speaker = "customer" if customer else safe(turn.get("author") or "agent")
        yield Text(f"{speaker}  {moment(turn.get('at') or '')}{HELD.get(turn.get('state') or '', '')}", style="bold cyan" if customer else "bold green")
        yield Text(safe(turn.get("content")) + "\n")


def _summary(found: dict[str, Any]) -> str:
    if not found.get("summary"):
        return ""
    view = found.get("view") or {}
    folded = f"folded up to entry {found.get('summarized_upto', 0)}; the later ones are kept word for word"
    recalled = ", ".join(str(index + 1) for index in view.get("recalled") or [])
    lines = [found["summary"], f"({folded})", f"(recalled in the last turn: entry {recalled})" if recalled else "",
             f"({view['tokens']} tokens of {view['budget']}{', nothing is left to fold' if view.get('irreducible') else ''})"
             if view.get("tokens") else ""]
    return "\n".join(line for line in lines if line)


def _ledger(ledger: list[dict[str, Any]]) -> Table:
    table = Table(title="memory: ledger", title_justify="left", header_style="bold")
    for heading in ("kind", "figure", "said by", "entry", "times", ""):
        table.add_column(heading, overflow="fold")
    for fact in ledger:
        said = "customer (claim)" if fact.get("speaker") == "customer" else "agent"
        notes = ", ".join(note for note in (fact.get("about"), "said later" if fact.get("later") else "",
                                            "folded" if fact.get("folded") else "") if note)
        table.add_row(*(Text(line(str(value))) for value in (
            fact.get("kind"), fact.get("shown"), said, int(fact.get("turn") or 0) + 1, fact.get("count"), notes)))
    return table


def _commitments(commitments: list[dict[str, Any]]) -> Table:
    table = Table(title="promised", title_justify="left", header_style="bold")
    for heading in ("id", "state", "due", "promise"):
        table.add_column(heading, overflow="fold")
    for one in commitments:
        table.add_row(*(Text(line(value, 200)) for value in (
            one.get("id"), one.get("state"), moment(one["due_at"]) if one.get("due_at") else "-", one.get("text"))))
    return table


def _approvals(approvals: list[dict[str, Any]]) -> Table:
    table = Table(title="approvals", title_justify="left", header_style="bold")
    for heading in ("id", "status", "request", "by", "reason"):
        table.add_column(heading, overflow="fold")
    for approval in approvals:
        table.add_row(*(Text(line(value)) for value in (
            approval.get("id"), approval.get("status"), describe_request(approval.get("request") or {}),
            approval.get("decided_by") or "-", approval.get("reason") or "-")))
    return table


def describe_request(request: dict[str, Any]) -> str:
    """Return a refund request in a few words."""
    inner = request.get("request") or request
    invoice = inner.get("invoice_number") or inner.get("invoice_id") or "?"
    return f"refund {money(inner.get('amount'))} of {safe(invoice)}: {line(inner.get('reason') or '')}"


def _facts(found: dict[str, Any]) -> Text:
    cost = found.get("cost_cny")
    pending = found.get("pending_messages")
    waiting = pending if isinstance(pending, int) else len(pending or [])
    parts = [f"cost ¥{float(cost or 0):.4f}", f"{waiting} messages waiting", f"{found.get('checkpoints', 0)} checkpoints",
             f"{len(found.get('tool_log') or [])} tool calls"]
    return Text(" · ".join(parts), style="dim")
