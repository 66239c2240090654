"""`biz.*`: customers, what they pay for, their tickets and refunds. Every read is bound to one customer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from supportpilot.db.pool import Connection, Row


@dataclass(frozen=True)
class TicketOwner:
    """Whose ticket it is; `customer_id` is None for an address that has no account."""

    ticket_id: str
    contact: str
    customer_id: str | None


@dataclass(frozen=True)
class Invoice:
    """An invoice and what of it has been paid back."""

    id: str
    number: str
    amount: Decimal
    status: str
    refunded: Decimal

    @property
    def refundable(self) -> Decimal:
        """What may still be paid back."""
        return self.amount - self.refunded if self.status == "paid" else Decimal(0)


@dataclass(frozen=True)
class Refund:
    """A paid refund."""

    id: str
    ticket_id: str
    approval_id: str
    invoice_id: str
    invoice_number: str
    amount: Decimal
    status: str


@dataclass(frozen=True)
class NewRefund:
    """A refund to be written; `approval_id` is its idempotency key."""

    ticket_id: str
    approval_id: str
    invoice_id: str
    amount: Decimal
    reason: str
    decided_by: str
    message_ids: list[str]
    turn_id: str | None


def ticket_owner(conn: Connection, ticket_id: str) -> TicketOwner | None:
    """Return whose ticket it is, or None if there is no such ticket."""
    row = conn.execute("SELECT id, contact, customer_id FROM biz.tickets WHERE id = %s", (ticket_id,)).fetchone()
    return None if row is None else TicketOwner(row["id"], row["contact"], row["customer_id"])


def insert_ticket(conn: Connection, email: str, subject: str, body: str) -> str:
    """Open a ticket typed in at this machine and return its id; an address with an account is tied to it."""
    row = conn.execute(
        """
        INSERT INTO biz.tickets (customer_id, contact, channel, subject, body, last_written_at)
        VALUES ((SELECT id FROM biz.customers WHERE email = lower(%(email)s)), lower(%(email)s), 'terminal',
                %(subject)s, %(body)s, clock_timestamp())
        RETURNING id
        """, {"email": email, "subject": subject, "body": body}).fetchone()
    assert row is not None  # noqa: S101 -- RETURNING of one inserted row
    return str(row["id"])


def customer(conn: Connection, customer_id: str) -> Row | None:
    """Return a customer's record."""
    return conn.execute(
        "SELECT id, email, name, company, is_vip, locale FROM biz.customers WHERE id = %s", (customer_id,)).fetchone()


def subscriptions(conn: Connection, customer_id: str) -> list[Row]:
    """Return a customer's subscriptions, the newest period first."""
    return conn.execute(
        """
        SELECT id, plan, billing_cycle, status, seats, period_start, period_end
        FROM biz.subscriptions WHERE customer_id = %s ORDER BY period_start DESC, id
        """, (customer_id,)).fetchall()


def invoices(conn: Connection, customer_id: str, limit: int) -> list[Row]:
    """Return a customer's invoices, newest first, each with what was refunded of it."""
    return conn.execute(
        """
        SELECT i.id, i.number, i.description, i.amount, i.status, i.issued_at, i.paid_at,
               coalesce((SELECT sum(r.amount) FROM biz.refunds r WHERE r.invoice_id = i.id), 0.00) AS refunded
        FROM biz.invoices i WHERE i.customer_id = %s ORDER BY i.issued_at DESC, i.number DESC LIMIT %s
        """, (customer_id, limit)).fetchall()


def bank_connections(conn: Connection, customer_id: str) -> list[Row]:
    """Return a customer's bank connections, the one that expires last first."""
    return conn.execute(
        """
        SELECT id, bank, account_tail, status, authorised_at, expires_at, last_sync_at, last_error
        FROM biz.bank_connections WHERE customer_id = %s ORDER BY expires_at DESC, id
        """, (customer_id,)).fetchall()


# Of a ticket `t`: what it notes as promised, unless that reply was never sent or the promise is dropped.
PROMISE = """CASE WHEN NOT coalesce((SELECT every(c.state IN ('unsent', 'dropped')) FROM desk.commitment_states c
                                     WHERE c.ticket_id = t.id AND c.text = t.promise), false) THEN t.promise END AS promise"""


def resolved_tickets(conn: Connection, customer_id: str, limit: int) -> list[Row]:
    """Return a customer's resolved tickets, newest first; a promise that was never sent, or is dropped, is none."""
    return conn.execute(
        f"""
        SELECT t.id, t.subject, t.status, t.category, t.error_code, t.resolution, {PROMISE}, t.wish, t.created_at
        FROM biz.tickets t WHERE t.customer_id = %s AND t.status = 'resolved'
        ORDER BY t.created_at DESC, t.id DESC LIMIT %s
        """, (customer_id, limit)).fetchall()  # noqa: S608 -- a constant


def invoice_by_number(conn: Connection, customer_id: str, number: str) -> Invoice | None:
    """Return the customer's own invoice of that number, or None."""
    row = conn.execute(
        """
        SELECT i.id, i.number, i.amount, i.status,
               coalesce((SELECT sum(r.amount) FROM biz.refunds r WHERE r.invoice_id = i.id), 0.00) AS refunded
        FROM biz.invoices i WHERE i.customer_id = %s AND i.number = %s
        """, (customer_id, number)).fetchone()
    return None if row is None else Invoice(**row)


def lock_invoice(conn: Connection, customer_id: str, invoice_id: str) -> Invoice | None:
    """Lock the customer's own invoice for this transaction, then read it and its refunds.

    The sum is a second statement: inside the locking one it would be read before the wait, and two
    approvals could pay one invoice twice.
    """
    found = conn.execute(
        "SELECT id FROM biz.invoices WHERE customer_id = %s AND id = %s FOR UPDATE",
        (customer_id, invoice_id)).fetchone()
    if found is None:
        return None
    row = conn.execute(
        """
        SELECT i.id, i.number, i.amount, i.status,
               coalesce((SELECT sum(r.amount) FROM biz.refunds r WHERE r.invoice_id = i.id), 0.00) AS refunded
        FROM biz.invoices i WHERE i.id = %s
        """, (invoice_id,)).fetchone()
    return None if row is None else Invoice(**row)


def refund_of_approval(conn: Connection, approval_id: str) -> Refund | None:
    """Return the refund that an approval has paid, or None."""
    row = conn.execute(
        """
        SELECT r.id, r.ticket_id, r.approval_id, r.invoice_id, i.number AS invoice_number, r.amount, r.status
        FROM biz.refunds r JOIN biz.invoices i ON i.id = r.invoice_id WHERE r.approval_id = %s
        """, (approval_id,)).fetchone()
    return None if row is None else Refund(**row)


def refunds_of_ticket(conn: Connection, ticket_id: str) -> list[Refund]:
    """Return the refunds paid on a ticket, oldest first."""
    found = conn.execute(
        """
        SELECT r.id, r.ticket_id, r.approval_id, r.invoice_id, i.number AS invoice_number, r.amount, r.status
        FROM biz.refunds r JOIN biz.invoices i ON i.id = r.invoice_id WHERE r.ticket_id = %s ORDER BY r.created_at
        """, (ticket_id,)).fetchall()
    return [Refund(**row) for row in found]


def refund_for_messages(conn: Connection, ticket_id: str, invoice_id: str, message_ids: list[str]) -> Refund | None:
    """Return the ticket's refund of that invoice that was paid for one of these messages, or None.

    A turn that was given up after it had paid, and is asked again, would else pay a second time.
    """
    row = conn.execute(
        """
        SELECT r.id, r.ticket_id, r.approval_id, r.invoice_id, i.number AS invoice_number, r.amount, r.status
        FROM biz.refunds r JOIN biz.invoices i ON i.id = r.invoice_id
        WHERE r.ticket_id = %s AND r.invoice_id = %s AND r.message_ids && %s::text[]
        ORDER BY r.created_at LIMIT 1
        """, (ticket_id, invoice_id, message_ids)).fetchone()
    return None if row is None else Refund(**row)


def messages_of_turn(conn: Connection, turn_id: str) -> list[str]:
    """Return the ids of the messages that a turn answers."""
    row = conn.execute("SELECT message_ids FROM desk.turns WHERE turn_id = %s", (turn_id,)).fetchone()
    return [] if row is None else list(row["message_ids"])


def insert_refund(conn: Connection, refund: NewRefund) -> None:
    """Write a paid refund; the caller holds the invoice's lock. Its id derives from the approval."""
    conn.execute(
        """
        INSERT INTO biz.refunds (id, ticket_id, approval_id, invoice_id, amount, status, reason, decided_by,
                                 message_ids, turn_id)
        VALUES ('RF-' || %(approval)s, %(ticket)s, %(approval)s, %(invoice)s, %(amount)s, 'paid', %(reason)s,
                %(by)s, %(messages)s::text[], %(turn)s)
        """,
        {"approval": refund.approval_id, "ticket": refund.ticket_id, "invoice": refund.invoice_id,
         "amount": refund.amount, "reason": refund.reason, "by": refund.decided_by,
         "messages": refund.message_ids, "turn": refund.turn_id})


def mark_refunded(conn: Connection, invoice_id: str) -> None:
    """Say that an invoice has been paid back in full."""
    conn.execute("UPDATE biz.invoices SET status = 'refunded' WHERE id = %s", (invoice_id,))


def note_answer(conn: Connection, ticket_id: str, category: str, kb_id: str | None) -> bool:
    """Keep what the answer was about and which article it rests on; False if there is no such ticket."""
    done = conn.execute(
        "UPDATE biz.tickets SET category = %s, resolution_kb = %s WHERE id = %s", (category, kb_id, ticket_id))
    return done.rowcount == 1


def note_promise(conn: Connection, ticket_id: str, promise: str) -> None:
    """Keep what the ticket's last promise was: its customer's profile is made from it."""
    conn.execute("UPDATE biz.tickets SET promise = %s WHERE id = %s", (promise, ticket_id))


def note_details(conn: Connection, ticket_id: str, codes: Sequence[str], wish: str | None) -> None:
    """Note the first of the codes that an article explains, unless there is one already, and the customer's last wish."""
    conn.execute(
        """
        UPDATE biz.tickets SET
            error_code = coalesce(error_code, (
                SELECT c.code FROM unnest(%(codes)s::text[]) WITH ORDINALITY AS c(code, n)
                WHERE c.code IN (SELECT k.code FROM kb.error_codes k) ORDER BY c.n LIMIT 1)),
            wish = coalesce(%(wish)s, wish)
        WHERE id = %(ticket)s
        """, {"codes": list(codes), "wish": wish, "ticket": ticket_id})


def mark_escalated(conn: Connection, ticket_id: str, reason: str) -> bool:
    """Give the ticket to a human, with the reason; False if there is no such ticket."""
    done = conn.execute(
        "UPDATE biz.tickets SET status = 'escalated', handoff_reason = %s WHERE id = %s", (reason, ticket_id))
    return done.rowcount == 1
