"""`biz.tickets` as the desk sees it: which ticket a message joins, its state, the row that hands out `seq`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from supportpilot.db.pool import Connection, Row
from supportpilot.types import InboundMessage


@dataclass(frozen=True)
class TicketRow:
    """One ticket; `last_seq` is the last message's number, `taken_over_seq` the last a human took it at."""

    id: str
    customer_id: str | None
    contact: str
    contact_name: str
    channel: str
    conversation_id: str | None
    linked_to: str | None
    subject: str
    body: str
    status: str
    last_seq: int
    taken_over_seq: int
    handoff_reason: str | None
    verified: bool = True


def _record(row: Row | None) -> TicketRow | None:
    return None if row is None else TicketRow(**{name: row[name] for name in TicketRow.__dataclass_fields__})


def lock_contact(conn: Connection, contact: str, channel: str) -> None:
    """Keep two messages of one contact on one channel apart until the transaction ends, and an erasure out.

    The shared lock stands first: an erasure takes it alone, for all channels (`personal.lock_contacts`).
    """
    conn.execute("SELECT pg_advisory_xact_lock_shared(hashtextextended(%s, 1)), "
                 "pg_advisory_xact_lock(hashtextextended(%s, 0))", (contact, f"{channel}\n{contact}"))


def get(conn: Connection, ticket_id: str) -> TicketRow | None:
    """Return one ticket."""
    return _record(conn.execute("SELECT * FROM biz.tickets WHERE id = %s", (ticket_id,)).fetchone())


def lock(conn: Connection, ticket_id: str) -> TicketRow | None:
    """Lock a ticket's row; NO KEY, so that foreign-key checks of a running turn do not wait."""
    return _record(conn.execute("SELECT * FROM biz.tickets WHERE id = %s FOR NO KEY UPDATE", (ticket_id,)).fetchone())


def of_conversation(conn: Connection, channel: str, conversation_id: str, contact: str) -> TicketRow | None:
    """Return the contact's own newest ticket of a channel's conversation, else the newest of anybody's.

    Without the preference two senders who take turns in one conversation would open a ticket with each message.
    """
    return _record(conn.execute(
        """
        SELECT * FROM biz.tickets WHERE channel = %s AND conversation_id = %s
        ORDER BY (contact = %s) DESC, created_at DESC, id DESC LIMIT 1
        """, (channel, conversation_id, contact)).fetchone())


def current_of_contact(conn: Connection, message: InboundMessage, idle_minutes: float) -> TicketRow | None:
    """Return the contact's ticket that a message without any id joins.

    One that waits for an approval or belongs to a human, however old; else one that was written to lately. A mail whose
    sender nobody vouches for joins only a ticket of its own kind, and no verified one joins such a ticket.
    """
    return _record(conn.execute(
        """
        SELECT * FROM biz.tickets
        WHERE contact = %s AND channel = %s AND verified = %s
          AND (status IN ('waiting_approval', 'escalated')
               OR (status IN ('open', 'answered')
                   AND last_written_at > clock_timestamp() - make_interval(secs => %s)))
        ORDER BY (status IN ('waiting_approval', 'escalated')) DESC, last_written_at DESC NULLS LAST, id DESC LIMIT 1
        """, (message.contact, message.channel, message.verified, idle_minutes * 60)).fetchone())


def create(conn: Connection, message: InboundMessage, *, linked_to: str | None = None) -> TicketRow:
    """Open a ticket for a message; an unknown or unproved address has no customer."""
    found = _record(conn.execute(
        """
        INSERT INTO biz.tickets (customer_id, contact, contact_name, channel, conversation_id, linked_to, subject, body, verified)
        VALUES ((SELECT id FROM biz.customers WHERE email = %(contact)s AND %(verified)s), %(contact)s, %(name)s, %(channel)s,
                %(conversation)s, %(linked)s, %(subject)s, %(body)s, %(verified)s)
        RETURNING *
        """, {"contact": message.contact, "name": message.contact_name, "channel": message.channel,
              "conversation": message.conversation_id, "linked": linked_to,
              "subject": message.subject or message.body[:30], "body": message.body, "verified": message.verified}).fetchone())
    assert found is not None  # noqa: S101 -- INSERT ... RETURNING
    return found


def take_message(conn: Connection, ticket_id: str, seq: int, status: str) -> None:
    """Note a stored message on the locked ticket row."""
    conn.execute(
        "UPDATE biz.tickets SET last_seq = %s, status = %s, last_written_at = clock_timestamp(), "
        "resolved_at = CASE WHEN %s = 'resolved' THEN resolved_at END WHERE id = %s",
        (seq, status, status, ticket_id))


def take_note(conn: Connection, ticket_id: str, seq: int) -> None:
    """Count a note on the locked ticket row; it changes neither the status nor when the ticket was last written to."""
    conn.execute("UPDATE biz.tickets SET last_seq = %s WHERE id = %s", (seq, ticket_id))


def set_status(conn: Connection, ticket_id: str, status: str) -> None:
    """Move a locked ticket to a status that `desk/rules.py` allowed; a handoff's reason ends with the human's part."""
    conn.execute(
        """
        UPDATE biz.tickets SET status = %(status)s,
               handoff_reason = CASE WHEN %(status)s = 'escalated' THEN handoff_reason END,
               resolved_at = CASE WHEN %(status)s = 'resolved' THEN coalesce(resolved_at, clock_timestamp()) END
        WHERE id = %(id)s
        """, {"status": status, "id": ticket_id})
    if status == "resolved":
        note_error_codes(conn, [ticket_id])


def close_again(conn: Connection, ticket_id: str, message_ids: Sequence[str]) -> None:
    """Resolve a locked ticket as it was before one of these messages opened it; nothing if none did, or a human answered."""
    conn.execute(
        """
        UPDATE biz.tickets t SET status = 'resolved', resolved_at = i.ticket_resolved_at FROM desk.inbox i
        WHERE t.id = %s AND i.ticket_id = t.id AND i.id = ANY(%s) AND i.ticket_resolved_at IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM desk.inbox h WHERE h.id = ANY(%s) AND h.author = 'human')
        """, (ticket_id, list(message_ids), list(message_ids)))


def note_error_codes(conn: Connection, ticket_ids: Sequence[str]) -> None:
    """Note on resolved tickets the first known error code that the customer wrote: what the profile counts.

    An answered ticket has it already (`business.note_details`); this is for those that a human answered.
    """
    conn.execute(
        """
        UPDATE biz.tickets t SET error_code = named.code
        FROM (SELECT DISTINCT ON (i.ticket_id) i.ticket_id, upper(found.code[1]) AS code
              FROM desk.inbox i, regexp_matches(i.body, '(?<![A-Za-z0-9])([Ee][0-9]{4})(?![A-Za-z0-9])') AS found(code)
              WHERE i.ticket_id = ANY(%s) AND i.author = 'customer' AND upper(found.code[1]) IN (SELECT k.code FROM kb.error_codes k)
              ORDER BY i.ticket_id, i.seq) named
        WHERE t.id = named.ticket_id AND t.error_code IS NULL
        """, (list(ticket_ids),))


def lock_quiet(conn: Connection, quiet_hours: float, limit: int) -> list[str]:
    """Lock answered tickets, quiet for so long on both sides, with nothing open; one that somebody holds is left out."""
    found = conn.execute(
        """
        SELECT t.id FROM biz.tickets t
        WHERE t.status = 'answered'
          AND coalesce(t.last_written_at, t.created_at) <= clock_timestamp() - make_interval(secs => %(quiet)s)
          AND NOT EXISTS (SELECT 1 FROM desk.unsettled_tickets u WHERE u.ticket_id = t.id)
          AND NOT EXISTS (SELECT 1 FROM desk.outbox o WHERE o.ticket_id = t.id
                          AND coalesce(o.sent_at, o.created_at) > clock_timestamp() - make_interval(secs => %(quiet)s))
        ORDER BY t.last_written_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
        """, {"quiet": quiet_hours * 3600, "limit": limit}).fetchall()
    return [str(row["id"]) for row in found]


def settle(conn: Connection, ticket_ids: Sequence[str], quiet_hours: float) -> list[tuple[str, str | None]]:
    """Resolve those of the locked tickets that are still quiet, with nothing open; return (ticket, customer) of each.

    Asked again in a statement of its own: the locking one does not see what was written while it waited.
    """
    if not ticket_ids:
        return []
    done = conn.execute(
        """
        UPDATE biz.tickets t SET status = 'resolved', resolved_at = clock_timestamp()
        WHERE t.id = ANY(%(ids)s) AND t.status = 'answered'
          AND coalesce(t.last_written_at, t.created_at) <= clock_timestamp() - make_interval(secs => %(quiet)s)
          AND NOT EXISTS (SELECT 1 FROM desk.unsettled_tickets u WHERE u.ticket_id = t.id)
          AND NOT EXISTS (SELECT 1 FROM desk.outbox o WHERE o.ticket_id = t.id
                          AND coalesce(o.sent_at, o.created_at) > clock_timestamp() - make_interval(secs => %(quiet)s))
        RETURNING t.id, t.customer_id
        """, {"ids": list(ticket_ids), "quiet": quiet_hours * 3600}).fetchall()
    note_error_codes(conn, [str(row["id"]) for row in done])
    return [(str(row["id"]), row["customer_id"]) for row in done]


def take_over(conn: Connection, ticket_id: str, seq: int) -> None:
    """Note that a human has the ticket from this `seq` on."""
    conn.execute("UPDATE biz.tickets SET taken_over_seq = %s WHERE id = %s", (seq, ticket_id))


def set_handoff_reason(conn: Connection, ticket_id: str, reason: str | None) -> None:
    """Note why a human has the ticket; None when it was given back."""
    conn.execute("UPDATE biz.tickets SET handoff_reason = %s WHERE id = %s", (reason, ticket_id))


def rows(conn: Connection, *, status: str | None = None, limit: int = 50) -> list[Row]:
    """Return tickets for people, last written first."""
    return conn.execute(
        """
        SELECT t.id AS ticket_id, t.status, t.customer_id, t.contact, t.channel, t.subject, t.category,
               t.handoff_reason, t.created_at, t.last_written_at,
               (SELECT count(*) FROM desk.inbox i WHERE i.ticket_id = t.id AND i.state = 'pending') AS pending_messages
        FROM biz.tickets t
        WHERE %(status)s::text IS NULL OR t.status = %(status)s
        ORDER BY coalesce(t.last_written_at, t.created_at) DESC, t.id DESC LIMIT %(limit)s
        """, {"status": status, "limit": limit}).fetchall()
