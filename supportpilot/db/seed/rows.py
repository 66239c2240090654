"""The demo's rows: `customers.json` as it stands, tickets from `tickets.json`; fixed dates, no chance."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

from psycopg import sql

from supportpilot.db.pool import Connection

TICKETS = 152
FIRST_DAY = datetime(2026, 1, 5, 1, 20, tzinfo=UTC)
BETWEEN_TICKETS = timedelta(days=2, hours=4, minutes=37)

_COLUMNS = {
    "customers": ("id", "email", "name", "company", "is_vip", "locale", "created_at"),
    "subscriptions": ("id", "customer_id", "plan", "billing_cycle", "status", "seats", "period_start", "period_end"),
    "invoices": ("id", "customer_id", "subscription_id", "number", "description", "amount", "status", "issued_at",
                 "paid_at"),
    "bank_connections": ("id", "customer_id", "bank", "account_tail", "status", "authorised_at", "expires_at",
                         "last_sync_at", "last_error"),
    "tickets": ("id", "customer_id", "contact", "contact_name", "channel", "subject", "body", "status", "category",
                "error_code", "resolution_kb", "resolution", "promise", "wish", "handoff_reason", "last_written_at",
                "created_at", "resolved_at"),
}


def insert_customers(conn: Connection) -> int:
    """Insert customers and all they have but tickets; return how many customers."""
    data = _load("customers.json")
    for table in ("customers", "subscriptions", "invoices", "bank_connections"):
        _insert(conn, table, data[table])
    return len(data["customers"])


def insert_tickets(conn: Connection) -> int:
    """Insert the tickets with a lease row each, and number on behind them; return how many."""
    tickets = build_tickets()
    _insert(conn, "tickets", tickets)
    conn.execute("INSERT INTO desk.leases (ticket_id) SELECT id FROM biz.tickets")
    conn.execute(sql.SQL("ALTER SEQUENCE biz.ticket_number RESTART WITH {}").format(len(tickets) + 1))
    return len(tickets)


def build_tickets() -> list[dict[str, Any]]:
    """Return all tickets in the order of their dates, numbered from T000001."""
    customers = {row["id"]: row for row in _load("customers.json")["customers"]}
    data = _load("tickets.json")
    tickets = [_own(entry, customers[entry["customer_id"]]) for entry in data["own"]]
    tickets += _from_templates(data, customers, TICKETS - len(tickets))
    tickets.sort(key=lambda ticket: (ticket["created_at"], ticket["customer_id"]))
    for number, ticket in enumerate(tickets, start=1):
        ticket["id"] = f"T{number:06d}"
    return tickets


def _own(entry: dict[str, Any], customer: dict[str, Any]) -> dict[str, Any]:
    created = datetime.fromisoformat(entry["created_at"])
    return {**_ticket(entry, customer, created), "status": entry["status"], "channel": entry["channel"],
            "resolved_at": created + timedelta(hours=5) if entry["status"] == "resolved" else None}


def _from_templates(data: dict[str, Any], customers: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Go through customers and templates side by side, with steps that share no factor with their numbers."""
    taken = {entry["customer_id"] for entry in data["own"] if entry.get("only_these")}
    owners = [customer for customer_id, customer in sorted(customers.items()) if customer_id not in taken]
    tickets = []
    for number in range(count):
        customer = owners[number % len(owners)]
        templates = [t for t in data["templates"] if t["lang"] == customer["locale"]]
        template = templates[(number * 5 + number // len(owners)) % len(templates)]
        created = FIRST_DAY + number * BETWEEN_TICKETS
        tickets.append(_ticket(template, customer, created))
    return tickets


def _ticket(source: dict[str, Any], customer: dict[str, Any], created: datetime) -> dict[str, Any]:
    month = (created.date().replace(day=1) - timedelta(days=1)).month
    values = {"company": customer["company"], "name": customer["name"], "month": month}
    resolved = created + timedelta(hours=5)
    return {
        "customer_id": customer["id"], "contact": customer["email"], "contact_name": customer["name"],
        "channel": "generic", "status": "resolved", "last_written_at": created, "created_at": created,
        "resolved_at": resolved, "subject": source["subject"].format(**values), "body": source["body"].format(**values),
        **{name: source.get(name) for name in
           ("category", "error_code", "resolution_kb", "resolution", "promise", "wish", "handoff_reason")},
    }


def _insert(conn: Connection, table: str, records: list[dict[str, Any]]) -> None:
    columns = _COLUMNS[table]
    statement = sql.SQL("INSERT INTO biz.{} ({}) VALUES ({})").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(", ").join(map(sql.Placeholder, columns)))
    with conn.cursor() as cursor:
        cursor.executemany(statement, [{column: record.get(column) for column in columns} for record in records])


def _load(name: str) -> Any:  # noqa: ANN401 -- JSON of our own, its shape is tested
    return json.loads((files("supportpilot.db.seed") / name).read_text(encoding="utf-8"))
