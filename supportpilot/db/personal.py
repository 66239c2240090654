"""One person's rows wherever they stand: found, locked, counted, read, deleted, replaced by a pseudonym.

Which tables these are is `memory/erase.py`'s to say. A table of that list that this database lacks has no rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from psycopg import sql

from supportpilot.db.pool import Connection, Row

LOCK_TIMEOUT_MS = 15_000
TRANSACTION_TIMEOUT_MS = 300_000


@dataclass(frozen=True)
class Person:
    """A customer, or an address without an account, and the ids under which something is held."""

    customer_id: str | None
    contacts: list[str]
    ticket_ids: list[str] = field(default_factory=list)
    thread_ids: list[str] = field(default_factory=list)
    quarantine_ids: list[str] = field(default_factory=list)
    mail_ids: list[str] = field(default_factory=list)
    message_ids: list[str] = field(default_factory=list)

    def ids(self, by: str) -> list[str]:
        """Return the ids of one sort, as `memory/erase.py` names them."""
        if by == "customer":
            return [self.customer_id] if self.customer_id else []
        return {"ticket": self.ticket_ids, "thread": self.thread_ids, "quarantine": self.quarantine_ids,
                "mail": self.mail_ids, "message": self.message_ids, "address": self.contacts}[by]


def find(conn: Connection, customer_id: str | None, contact: str | None) -> Person:
    """Return who is meant by a customer's number or by an address, with all ids; without any if nothing is held.

    An address belongs to the customer who has it now, else to the only customer who ever wrote from it.
    """
    owner = _existing(conn, customer_id) if customer_id else _owner(conn, contact or "")
    contacts = _contacts(conn, owner, contact)
    tickets = _ticket_ids(conn, owner, contacts)
    forks = conn.execute("SELECT thread_id FROM desk.forks WHERE ticket_id = ANY(%s) ORDER BY 1", (tickets,)).fetchall()
    held = _quarantine_ids(conn, contacts, tickets)
    mails = _mail_ids(conn, contacts, tickets, held)
    return Person(owner, contacts, tickets, [*tickets, *(str(row["thread_id"]) for row in forks)], held,
                  mails, _message_ids(conn, tickets, mails))


def _existing(conn: Connection, customer_id: str) -> str | None:
    row = conn.execute("SELECT id FROM biz.customers WHERE id = %s", (customer_id,)).fetchone()
    return None if row is None else str(row["id"])


def _owner(conn: Connection, contact: str) -> str | None:
    found = conn.execute(
        """
        SELECT id, true AS now FROM biz.customers WHERE email = %(contact)s
        UNION ALL
        SELECT customer_id, false FROM biz.tickets WHERE contact = %(contact)s AND customer_id IS NOT NULL GROUP BY 1
        ORDER BY now DESC
        """, {"contact": contact}).fetchall()
    return str(found[0]["id"]) if found and (found[0]["now"] or len(found) == 1) else None


def _contacts(conn: Connection, owner: str | None, contact: str | None) -> list[str]:
    """Return the person's addresses in order; one that is another customer's now is left to that one."""
    found = conn.execute(
        """
        SELECT DISTINCT a.contact FROM (
            SELECT email AS contact FROM biz.customers WHERE id = %(owner)s
            UNION ALL SELECT contact FROM biz.tickets WHERE customer_id = %(owner)s
            UNION ALL SELECT %(contact)s WHERE %(contact)s::text IS NOT NULL) a
        WHERE NOT EXISTS (SELECT 1 FROM biz.customers c WHERE c.email = a.contact AND c.id IS DISTINCT FROM %(owner)s)
        ORDER BY a.contact
        """, {"owner": owner, "contact": contact}).fetchall()
    return [str(row["contact"]) for row in found]


def _ticket_ids(conn: Connection, owner: str | None, contacts: list[str]) -> list[str]:
    found = conn.execute(
        "SELECT id FROM biz.tickets WHERE customer_id = %s OR (customer_id IS NULL AND contact = ANY(%s)) ORDER BY id",
        (owner, contacts)).fetchall()
    return [str(row["id"]) for row in found]


def _quarantine_ids(conn: Connection, contacts: list[str], ticket_ids: list[str]) -> list[str]:
    """By sender; what became a message of theirs; and what has no sender but the address in its bytes.

    The whole address: li@x.com does not stand in wuli@x.com, nor in li@x.com.cn.
    """
    found = conn.execute(
        """
        SELECT id FROM desk.quarantine q
        WHERE lower(q.sender) = ANY(%(contacts)s)
           OR q.message_id IN (SELECT i.id FROM desk.inbox i WHERE i.ticket_id = ANY(%(tickets)s))
           OR (q.sender = '' AND EXISTS (SELECT 1 FROM unnest(%(patterns)s::text[]) AS p(pattern)
                                         WHERE lower(encode(q.raw, 'escape')) ~ p.pattern))
        ORDER BY id
        """, {"contacts": contacts, "tickets": ticket_ids, "patterns": [_whole(contact) for contact in contacts]}).fetchall()
    return [str(row["id"]) for row in found]


def _mail_ids(conn: Connection, contacts: list[str], ticket_ids: list[str], quarantine_ids: list[str]) -> list[str]:
    """By ticket, by sender, by the row that holds its bytes; and bounces that say the address and belong to no ticket."""
    found = conn.execute(
        """
        SELECT id FROM desk.mails m
        WHERE m.ticket_id = ANY(%(tickets)s) OR m.sender = ANY(%(contacts)s) OR m.quarantine_id = ANY(%(quarantine)s)
           OR (m.state = 'ignored' AND m.reason LIKE 'bounce%%' AND EXISTS (
                   SELECT 1 FROM unnest(%(patterns)s::text[]) AS p(pattern) WHERE lower(encode(m.raw, 'escape')) ~ p.pattern))
        ORDER BY id
        """, {"contacts": contacts, "tickets": ticket_ids, "quarantine": quarantine_ids,
              "patterns": [_whole(contact) for contact in contacts]}).fetchall()
    return [str(row["id"]) for row in found]


def _message_ids(conn: Connection, ticket_ids: list[str], mail_ids: list[str]) -> list[str]:
    """The tickets' messages, and the notes that the person's mails are on tickets of others."""
    found = conn.execute("SELECT id FROM desk.inbox WHERE ticket_id = ANY(%s)", (ticket_ids,)).fetchall()
    notes = conn.execute("SELECT inbox_id AS id FROM desk.mails WHERE id = ANY(%s) AND state = 'note' AND inbox_id IS NOT NULL",
                         (mail_ids,)).fetchall() if mail_ids else []
    return sorted({str(row["id"]) for row in (*found, *notes)})


def _whole(contact: str) -> str:
    """Return a pattern for an address in `encode(…, 'escape')`; a sign before it may itself be written with letters."""
    escaped = "".join(chr(byte) if byte < 0x80 else f"\\{byte:03o}" for byte in contact.encode())
    quoted = re.sub(r"([^a-z0-9@_-])", r"\\\1", escaped)
    return rf"(?:^|[^a-z0-9._+-]|\\[0-7]{{3}}|\\\\(?:[nrt]|u[0-9a-f]{{4}})|%[0-9a-f]{{2}}){quoted}(?![a-z0-9_-]|\.[a-z0-9])"


# locking --------------------------------------------------------------------------------------------

def set_limits(conn: Connection) -> None:
    """Give this transaction the time that an erasure may take; a running turn's limits are too short for it."""
    conn.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(LOCK_TIMEOUT_MS))
    if conn.info.server_version >= 170000:
        conn.execute("SET LOCAL transaction_timeout = 0")     # a clock that runs is not set anew, only stopped
        conn.execute(sql.SQL("SET LOCAL transaction_timeout = {}").format(TRANSACTION_TIMEOUT_MS))


def lock_contacts(conn: Connection, contacts: Sequence[str]) -> None:
    """Keep every door from filing something of these addresses until the transaction ends."""
    for contact in sorted(contacts):
        conn.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))", (contact,))


def lock_rows(conn: Connection, person: Person) -> None:
    """Lock leases, tickets, replays, invoices and the customer, in this order; FOR UPDATE, so that foreign keys wait too."""
    conn.execute("SELECT 1 FROM desk.leases WHERE ticket_id = ANY(%s) ORDER BY ticket_id FOR UPDATE", (person.ticket_ids,))
    conn.execute("SELECT 1 FROM biz.tickets WHERE id = ANY(%s) ORDER BY id FOR UPDATE", (person.ticket_ids,))
    # A replay's step asks for its row here: one that came between the deletes of snapshots and of this row would stay.
    conn.execute("SELECT 1 FROM desk.forks WHERE ticket_id = ANY(%s) ORDER BY thread_id FOR UPDATE", (person.ticket_ids,))
    conn.execute("SELECT 1 FROM biz.invoices WHERE customer_id = %s ORDER BY id FOR UPDATE", (person.customer_id,))
    conn.execute("SELECT 1 FROM biz.customers WHERE id = %s FOR UPDATE", (person.customer_id,))


# rows -----------------------------------------------------------------------------------------------

def _there(conn: Connection, table: str) -> bool:
    row = conn.execute("SELECT to_regclass(%s) IS NOT NULL AS there", (table,)).fetchone()
    return bool(row and row["there"])


def count(conn: Connection, table: str, column: str, ids: Sequence[str]) -> int:
    """Return how many rows of a table are the person's."""
    if not ids or not _there(conn, table):
        return 0
    return _number(conn.execute(sql.SQL("SELECT count(*) AS n FROM {} WHERE {} = ANY(%s)").format(*_names(table, column)),
                                (list(ids),)).fetchone())


def read(conn: Connection, table: str, column: str, ids: Sequence[str]) -> list[Row]:
    """Return the person's rows of a table."""
    if not ids or not _there(conn, table):
        return []
    return conn.execute(sql.SQL("SELECT * FROM {} WHERE {} = ANY(%s) ORDER BY 1, 2").format(*_names(table, column)),
                        (list(ids),)).fetchall()


def delete(conn: Connection, table: str, column: str, ids: Sequence[str]) -> int:
    """Delete the person's rows of a table; return how many there were."""
    if not ids or not _there(conn, table):
        return 0
    return conn.execute(sql.SQL("DELETE FROM {} WHERE {} = ANY(%s)").format(*_names(table, column)), (list(ids),)).rowcount


def _names(table: str, column: str) -> tuple[sql.Identifier, sql.Identifier]:
    return sql.Identifier(*table.split(".")), sql.Identifier(column)


def running_turns(conn: Connection, person: Person) -> int:
    """Return how many turns of the person run now."""
    return _number(conn.execute("SELECT count(*) AS n FROM desk.turns WHERE ticket_id = ANY(%s) AND status = 'running'",
                                (person.ticket_ids,)).fetchone())


def unpaid_refunds(conn: Connection, person: Person) -> int:
    """Return how many refunds of the person wait for a decision, or are approved and not paid yet."""
    return _number(conn.execute(
        "SELECT count(*) AS n FROM desk.approvals WHERE ticket_id = ANY(%s) "
        "AND (status = 'pending' OR status = 'approved' AND applied_at IS NULL)", (person.ticket_ids,)).fetchone())


def _number(row: Row | None) -> int:
    return int(row["n"]) if row else 0


# kept -----------------------------------------------------------------------------------------------

def kept(conn: Connection, person: Person) -> dict[str, list[Row]]:
    """Return the rows that stay under a pseudonym, by table."""
    return {
        "biz.invoices": conn.execute("SELECT * FROM biz.invoices WHERE customer_id = %s ORDER BY id",
                                     (person.customer_id,)).fetchall(),
        "biz.refunds": conn.execute("SELECT * FROM biz.refunds WHERE ticket_id = ANY(%s) ORDER BY id",
                                    (person.ticket_ids,)).fetchall(),
        "desk.audit": conn.execute(
            "SELECT * FROM desk.audit WHERE ticket_id = ANY(%s) OR subject = ANY(%s) ORDER BY id",
            (person.ticket_ids, _subjects(person))).fetchall(),
    }


def _subjects(person: Person) -> list[str]:
    return [*person.ids("customer"), *person.contacts]


def pseudonymise(conn: Connection, person: Person, pseudonym: str) -> dict[str, int]:
    """Take the person out of the rows that have to stay; return how many rows of each table these are."""
    invoices = conn.execute(
        "UPDATE biz.invoices SET customer_id = %s, subscription_id = NULL, description = '' WHERE customer_id = %s",
        (pseudonym, person.customer_id)).rowcount
    refunds = conn.execute("UPDATE biz.refunds SET reason = '', message_ids = '{}', turn_id = NULL WHERE ticket_id = ANY(%s)",
                           (person.ticket_ids,)).rowcount
    audit = conn.execute(
        """
        UPDATE desk.audit a
        SET subject = CASE WHEN a.subject = ANY(%(subjects)s) THEN %(pseudonym)s ELSE a.subject END,
            detail = coalesce((SELECT jsonb_object_agg(d.key, d.value) FROM jsonb_each(a.detail) d
                               WHERE jsonb_typeof(d.value) IN ('number', 'boolean', 'null')
                                  OR d.value #>> '{}' ~ '^[0-9]{1,12}([.][0-9]{1,2})?$' AND d.key = 'amount'), '{}')
        WHERE a.ticket_id = ANY(%(tickets)s) OR a.subject = ANY(%(subjects)s)
        """, {"pseudonym": pseudonym, "subjects": _subjects(person), "tickets": person.ticket_ids}).rowcount
    return {"biz.invoices": invoices, "biz.refunds": refunds, "desk.audit": audit}
