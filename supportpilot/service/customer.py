"""A customer's right to be forgotten, and to see what is held: `memory/erase.py` says where.

Nothing of a running turn is waited for. The erasure takes the contact's lock from the doors, then the lease and ticket
rows; once it commits, the lease's token is gone and every late write is refused, or hangs on a ticket that is gone.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from supportpilot.db import audit, erasures, leases, personal
from supportpilot.db.erasures import Erasure
from supportpilot.db.personal import Person
from supportpilot.db.pool import Connection, Database
from supportpilot.errors import NotFound, Transient, Unusable
from supportpilot.memory.checkpoint import thread_values
from supportpilot.memory.erase import DELETED

log = logging.getLogger(__name__)

ATTEMPTS = 5
PAUSE_SECONDS = 0.2
REQUEST = re.compile(r"E[0-9]{6,}")


class _StartAgain(Transient):
    """A ticket was opened between the reading and the lock."""


@dataclass(frozen=True)
class Preview:
    """What an erasure would do: rows deleted and kept by table, and what it would cut off."""

    deleted: dict[str, int]
    kept: dict[str, int]
    running_turns: int
    unpaid_refunds: int

    @property
    def empty(self) -> bool:
        """Say whether nothing is held."""
        return not any(self.deleted.values()) and not any(self.kept.values())


def named(subject: str) -> tuple[str | None, str | None]:
    """Return (customer's number, None) or (None, address) for what was typed.

    Raises:
        Unusable: it is neither.
    """
    text = subject.strip()
    if not text or not text.isprintable():
        raise Unusable("name the customer by number (C0010) or by e-mail address")
    return (None, text.lower()) if "@" in text else (text, None)


def preview(db: Database, subject: str) -> Preview:
    """Return what `erase` would do; changes nothing.

    Raises:
        Unusable: neither a number nor an address.
    """
    with db.snapshot() as conn:
        person = personal.find(conn, *named(subject))
        return Preview(
            {rule.table: n for rule in DELETED if (n := personal.count(conn, rule.table, rule.column, person.ids(rule.by)))},
            {table: len(rows) for table, rows in personal.kept(conn, person).items() if rows},
            personal.running_turns(conn, person), personal.unpaid_refunds(conn, person))


def receipt(db: Database, subject: str) -> Erasure | None:
    """Return the receipt of the last erasure of this number or address, if there was one."""
    customer_id, contact = named(subject)
    with db.connection() as conn:
        return erasures.receipt_of(conn, erasures.subject_of(customer_id, [contact] if contact else []))


def erase(db: Database, subject: str, by: str) -> Erasure:
    """Erase a customer, or an address without an account; return the receipt. Where nothing is held, the last one.

    The request is stored first: if this breaks off, the sweeper has it done.

    Raises:
        NotFound: nothing is held, and nothing ever was.
        Unusable: neither a number nor an address.
        Transient: the database is away, or somebody holds a lock for too long; the request stands.
    """
    if preview(db, subject).empty:
        found = receipt(db, subject)
        if found is None:
            raise NotFound(f"nothing is held of {subject}")
        return found
    with db.transaction() as conn:
        wanted = erasures.request(conn, *named(subject), by)
    return run(db, wanted.id)


def erase_requested(db: Database, customer_id: str) -> str:
    """Do what a wake-up asks for: the request of that number, or the customer's; return what happened.

    Raises:
        NotFound: there is neither.
        Transient: try again later; the sweeper does.
    """
    done = run(db, customer_id) if REQUEST.fullmatch(customer_id) else erase(db, customer_id, "task")
    return f"erased: {done.id}"


def run(db: Database, erasure_id: str) -> Erasure:
    """Carry a request out, from the start again when something came in between; return the receipt.

    Raises:
        NotFound: no such request.
        Transient: not possible now.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with db.transaction() as conn:
                done = _erase(conn, erasure_id)
        except Transient as error:
            if attempt == ATTEMPTS:
                raise
            log.info("erasure %s starts again: %s", erasure_id, type(error).__name__)
            time.sleep(PAUSE_SECONDS * attempt)
        else:
            log.info("erasure %s done", erasure_id)
            return done
    raise AssertionError("unreachable")


def _erase(conn: Connection, erasure_id: str) -> Erasure:
    personal.set_limits(conn)
    wanted = erasures.lock(conn, erasure_id)
    if wanted is None:
        raise NotFound(f"no erasure {erasure_id}")
    if wanted.done_at is not None:
        return wanted
    person = _held(conn, wanted)
    by = _asker(wanted, person)
    erasures.ensure_key(conn)
    erasures.bury(conn, erasure_id, person.thread_ids)
    erasures.remember_messages(conn, person.ticket_ids, person.quarantine_ids, person.mail_ids)
    erasures.remember_subjects(conn, erasure_id, erasures.subject_of(
        wanted.customer_id or person.customer_id, [*person.contacts, *([wanted.contact] if wanted.contact else [])]))
    counts = personal.pseudonymise(conn, person, f"erased-{secrets.token_hex(6)}")
    for rule in DELETED:
        counts[rule.table] = personal.delete(conn, rule.table, rule.column, person.ids(rule.by))
    audit.record(conn, by, "customer.erased", subject=erasure_id)
    return erasures.finish(conn, erasure_id, by, {table: n for table, n in counts.items() if n})


def _asker(wanted: Erasure, person: Person) -> str:
    """Return who asked, for the receipt; a customer who did so in person is not named by it."""
    own = {wanted.customer_id, wanted.contact, person.customer_id, *person.contacts} - {None}
    said = wanted.asked_by.strip()
    return "the customer" if any(one and one.lower() in said.lower() for one in own) else said


def _held(conn: Connection, wanted: Erasure) -> Person:
    """Return the person with every row that could still grow locked."""
    person = personal.find(conn, wanted.customer_id, wanted.contact)
    personal.lock_contacts(conn, person.contacts)
    known = personal.find(conn, wanted.customer_id, wanted.contact)
    if known.contacts != person.contacts:
        raise _StartAgain("an address came in between")
    personal.lock_rows(conn, known)
    locked = personal.find(conn, wanted.customer_id, wanted.contact)
    if (locked.customer_id, locked.contacts, locked.ticket_ids) != (known.customer_id, known.contacts, known.ticket_ids):
        raise _StartAgain("a ticket was opened in between")
    return locked


def export(db: Database, subject: str) -> dict[str, Any]:
    """Return everything that is held of a customer or an address, by table, and their conversations by thread.

    Raises:
        NotFound: nothing is held; the text names the receipt if it was erased.
        Unusable: neither a number nor an address.
    """
    with db.snapshot() as conn:
        at: datetime = leases.clock(conn)
        person = personal.find(conn, *named(subject))
        tables = {rule.table: personal.read(conn, rule.table, rule.column, person.ids(rule.by))
                  for rule in DELETED if rule.exported} | personal.kept(conn, person)
    held = {table: rows for table, rows in tables.items() if rows}
    if not held:
        found = receipt(db, subject)
        raise NotFound(f"nothing is held of {subject}" + (f"; erased, receipt {found.id}" if found else ""))
    return {"customer_id": person.customer_id, "addresses": person.contacts, "exported_at": at, "tables": held,
            "conversations": {thread: values for thread in person.thread_ids if (values := thread_values(db, thread))}}
