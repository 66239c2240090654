"""What an approver has to see of the money: the invoice, what was paid back of it, who else asked for it. Read live."""

from __future__ import annotations

from supportpilot.db.pool import Connection, Row


def invoice(conn: Connection, invoice_id: str) -> Row | None:
    """Return an invoice with what was refunded of it."""
    return conn.execute(
        """
        SELECT i.id, i.customer_id, i.number, i.description, i.amount, i.status, i.issued_at, i.paid_at,
               coalesce((SELECT sum(r.amount) FROM biz.refunds r WHERE r.invoice_id = i.id), 0.00) AS refunded
        FROM biz.invoices i WHERE i.id = %s
        """, (invoice_id,)).fetchone()


def refunds_of_customer(conn: Connection, customer_id: str, limit: int = 50) -> list[Row]:
    """Return what the customer got back so far, newest first."""
    return conn.execute(
        """
        SELECT r.id, r.ticket_id, r.approval_id, i.number AS invoice_number, i.id AS invoice_id, r.amount, r.decided_by,
               r.reason, r.created_at
        FROM biz.refunds r JOIN biz.invoices i ON i.id = r.invoice_id
        WHERE i.customer_id = %s ORDER BY r.created_at DESC, r.id LIMIT %s
        """, (customer_id, limit)).fetchall()


def other_requests(conn: Connection, approval_id: str, invoice_id: str) -> list[Row]:
    """Return the other approvals that were asked for the same invoice, newest first."""
    return conn.execute(
        """
        SELECT id, ticket_id, status, request -> 'request' ->> 'amount' AS amount, decided_by, created_at FROM desk.approvals
        WHERE id <> %s AND request -> 'request' ->> 'invoice_id' = %s ORDER BY created_at DESC, id LIMIT 20
        """, (approval_id, invoice_id)).fetchall()


def messages(conn: Connection, ticket_id: str, upto: int, limit: int = 12) -> list[Row]:
    """Return what was written on a ticket: the last `limit` messages up to a `seq`, and all after it, in order."""
    return conn.execute(
        """
        SELECT * FROM (
            (SELECT id, seq, author, author_name, body, received_at, false AS new FROM desk.inbox
             WHERE ticket_id = %(ticket)s AND seq <= %(upto)s ORDER BY seq DESC LIMIT %(limit)s)
            UNION ALL
            (SELECT id, seq, author, author_name, body, received_at, true FROM desk.inbox
             WHERE ticket_id = %(ticket)s AND seq > %(upto)s)) m
        ORDER BY seq
        """, {"ticket": ticket_id, "upto": upto, "limit": limit}).fetchall()


def unverified(conn: Connection, ticket_id: str) -> bool:
    """Say whether somebody whose address nobody vouches for has written on the ticket, or opened it."""
    row = conn.execute(
        """
        SELECT NOT t.verified OR EXISTS (SELECT 1 FROM desk.mails m WHERE m.ticket_id = t.id AND m.direction = 'in'
                                         AND m.state IN ('filed', 'note') AND NOT m.verified) AS unverified
        FROM biz.tickets t WHERE t.id = %s
        """, (ticket_id,)).fetchone()
    return bool(row and row["unverified"])


def audit_of(conn: Connection, ticket_id: str, approval_id: str) -> list[Row]:
    """Return who did what with an approval, oldest first."""
    return conn.execute("SELECT at, actor, action, detail FROM desk.audit WHERE ticket_id = %s AND subject = %s ORDER BY id",
                        (ticket_id, approval_id)).fetchall()
