"""The staff's page of a customer, or of an address without an account, which is named by one of its tickets.

An address is never part of a path: paths stand in logs and in the browser's history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from supportpilot.db import erasures, ticket_pages
from supportpilot.db.erasures import Erasure
from supportpilot.db.pool import Connection, Database, Row
from supportpilot.errors import Erased, NotFound, Unusable
from supportpilot.service import customer, profile
from supportpilot.service.customer import Preview
from supportpilot.types import Ports

SHOWN_TICKETS = 100
ID_CHARS = 40


@dataclass(frozen=True)
class Subject:
    """Whom a page is about; without `row` there is no account, only tickets of the address `contact`."""

    row: Row | None
    contact: str

    @property
    def name(self) -> str:
        """Return the number or address by which erasure and export know them."""
        return str(self.row["id"]) if self.row else self.contact


@dataclass(frozen=True)
class CustomerFile:
    """What the page shows; `cut`: older tickets are left out."""

    subject: Subject
    tickets: list[Row]
    cut: bool
    profile: dict[str, Any] | None


def subject(db: Database, name: str) -> Subject:
    """Return whom a customer's number, or the number of a ticket without an account, stands for.

    Raises:
        NotFound: nobody; `Erased` if there was somebody.
    """
    with db.connection() as conn:
        return _subject(conn, db, name)


def _subject(conn: Connection, db: Database, name: str) -> Subject:
    if name.isalnum() and len(name) <= ID_CHARS:
        row = ticket_pages.customer(conn, name)
        if row is not None:
            return Subject(row, row["email"])
        ticket = ticket_pages.face(conn, name)
        if ticket is not None:
            owner = ticket_pages.customer(conn, ticket["customer_id"]) if ticket["customer_id"] else None
            return Subject(owner, owner["email"] if owner else ticket["contact"])
        if erasures.erased_at(conn, name) is not None:
            raise erasures.absent(conn, name)
        gone = customer.receipt(db, name)
        if gone is not None and gone.done_at is not None:
            raise Erased(f"{name} was erased on {gone.done_at:%Y-%m-%d}, receipt {gone.id}; nothing of it is kept")
    raise NotFound(f"no customer {name[:ID_CHARS]}")


def look(db: Database, name: str) -> CustomerFile:
    """Return what the page of a customer shows. Raises as `subject`."""
    with db.connection() as conn:
        about = _subject(conn, db, name)
        rows = ticket_pages.of_person(conn, about.row["id"] if about.row else None, about.contact, SHOWN_TICKETS + 1)
    known = profile.show(db, about.name) if about.row else None
    return CustomerFile(about, rows[:SHOWN_TICKETS], len(rows) > SHOWN_TICKETS, known)


def preview(db: Database, about: Subject) -> Preview:
    """Return what an erasure would do."""
    return customer.preview(db, about.name)


def ask_erasure(db: Database, ports: Ports, name: str, typed: str, by: str) -> str:
    """Ask for an erasure, which a worker carries out, and return the request's id; asked twice it is the same request.

    typed: the address once more, as whoever asks has typed it.

    Raises:
        NotFound: nobody of that number; `Erased` if it was done already.
        Unusable: the address is another one.
    """
    with db.transaction() as conn:
        about = _subject(conn, db, name)
        if typed.strip().lower() != about.contact:
            raise Unusable("the address that was typed is not this customer's; nothing was erased")
        wanted = erasures.request(conn, *customer.named(about.name), by)
    ports.schedule_erase(wanted.id)
    return wanted.id


def receipt(db: Database, erasure_id: str) -> Erasure:
    """Return an erasure's request or receipt.

    Raises:
        NotFound: no such one.
    """
    with db.connection() as conn:
        found = erasures.get(conn, erasure_id[:ID_CHARS])
    if found is None:
        raise NotFound(f"no erasure {erasure_id[:ID_CHARS]}")
    return found
