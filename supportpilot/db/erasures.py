"""`desk.erasures` and its companions: requests and receipts, erased ticket numbers, keyed hashes of erased ids.

The hashes are there so that a webhook sent again, or a mailbox read again, does not bring erased messages back. Their
key stands in the database: it keeps the ids from being guessed from a copy of the hashes alone, and one that was lost
with a setting would let every erased message in again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from supportpilot.db.pool import Connection, Row
from supportpilot.errors import Erased, NotFound
from supportpilot.types import InboundMessage

BLOCK_BYTES = 64    # of SHA-256, for HMAC


@dataclass(frozen=True)
class Erasure:
    """A request; a receipt once `done_at` is set, which names nobody any more."""

    id: str
    customer_id: str | None
    contact: str | None
    asked_by: str
    asked_at: datetime
    done_at: datetime | None
    counts: dict[str, int] | None


def _record(row: Row | None) -> Erasure | None:
    return None if row is None else Erasure(**{name: row[name] for name in Erasure.__dataclass_fields__})


# requests and receipts ------------------------------------------------------------------------------

def request(conn: Connection, customer_id: str | None, contact: str | None, asked_by: str) -> Erasure:
    """Note that somebody is to be erased; an open request for the same is returned instead."""
    found = _record(conn.execute(
        """
        SELECT * FROM desk.erasures
        WHERE done_at IS NULL AND customer_id IS NOT DISTINCT FROM %s AND contact IS NOT DISTINCT FROM %s
        ORDER BY asked_at LIMIT 1
        """, (customer_id, contact)).fetchone())
    found = found or _record(conn.execute(
        "INSERT INTO desk.erasures (customer_id, contact, asked_by) VALUES (%s, %s, %s) RETURNING *",
        (customer_id, contact, asked_by)).fetchone())
    assert found is not None  # noqa: S101 -- INSERT ... RETURNING
    return found


def lock(conn: Connection, erasure_id: str) -> Erasure | None:
    """Lock a request and return it; one that is done meanwhile comes back as its receipt."""
    return _record(conn.execute("SELECT * FROM desk.erasures WHERE id = %s FOR UPDATE", (erasure_id,)).fetchone())


def get(conn: Connection, erasure_id: str) -> Erasure | None:
    """Return a request or receipt."""
    return _record(conn.execute("SELECT * FROM desk.erasures WHERE id = %s", (erasure_id,)).fetchone())


def finish(conn: Connection, erasure_id: str, asked_by: str, counts: Mapping[str, int]) -> Erasure:
    """Turn a request into its receipt: whom it was about is forgotten."""
    found = _record(conn.execute(
        """
        UPDATE desk.erasures
        SET customer_id = NULL, contact = NULL, asked_by = %s, done_at = clock_timestamp(), counts = %s, woken_at = NULL
        WHERE id = %s RETURNING *
        """, (asked_by, json.dumps(dict(counts)), erasure_id)).fetchone())
    assert found is not None  # noqa: S101 -- the caller holds the row's lock
    return found


def receipt_of(conn: Connection, subjects: Sequence[str]) -> Erasure | None:
    """Return the last receipt of these subjects (`subject_of`), None if none of them was ever erased."""
    return _record(conn.execute(
        """
        SELECT r.* FROM desk.erasure_key k, unnest(%s::text[]) AS s(value)
        JOIN desk.erased_hashes h ON true JOIN desk.erasures r ON r.id = h.erasure_id
        WHERE h.hash = sha256(k.outer_pad || sha256(k.inner_pad || convert_to(s.value, 'UTF8')))
        ORDER BY r.done_at DESC LIMIT 1
        """, (list(subjects),)).fetchone())


def wake_due(conn: Connection, grace_seconds: float, limit: int) -> list[str]:
    """Return open requests to send again, each with a growing grace."""
    found = conn.execute(
        """
        WITH due AS (
            SELECT id FROM desk.erasures
            WHERE done_at IS NULL AND coalesce(woken_at, asked_at) <= clock_timestamp()
                  - make_interval(secs => %(grace)s * power(2, least(wakes, 6)) - %(grace)s * 0.5)
            ORDER BY asked_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
        UPDATE desk.erasures e SET woken_at = clock_timestamp(), wakes = wakes + 1
        FROM due WHERE e.id = due.id RETURNING e.id
        """, {"grace": grace_seconds, "limit": limit}).fetchall()
    return [str(row["id"]) for row in found]


# tombstones -----------------------------------------------------------------------------------------

def bury(conn: Connection, erasure_id: str, thread_ids: Sequence[str]) -> None:
    """Note that these tickets and replays are erased."""
    conn.execute("INSERT INTO desk.erased_tickets (thread_id, erasure_id) SELECT unnest(%s::text[]), %s ON CONFLICT DO NOTHING",
                 (list(thread_ids), erasure_id))


def erased_at(conn: Connection, ticket_id: str) -> datetime | None:
    """Return when a ticket was erased, None if it was not."""
    row = conn.execute("SELECT e.done_at FROM desk.erased_tickets t JOIN desk.erasures e ON e.id = t.erasure_id "
                       "WHERE t.thread_id = %s", (ticket_id,)).fetchone()
    return None if row is None else row["done_at"]


def absent(conn: Connection, ticket_id: str) -> NotFound:
    """Return the error that says why there is no such ticket: never there, or erased."""
    at = erased_at(conn, ticket_id)
    if at is not None:
        return Erased(f"{ticket_id} was erased on {at:%Y-%m-%d}: its customer asked for it, and nothing of it is kept")
    return NotFound(f"no ticket {ticket_id}; see `supportpilot ticket list`")


# keyed hashes ---------------------------------------------------------------------------------------

def subject_of(customer_id: str | None, contacts: Sequence[str]) -> list[str]:
    """Return whom an erasure is about in the form that is hashed."""
    return [*([f"customer\n{customer_id}"] if customer_id else []), *(f"contact\n{contact}" for contact in contacts)]


def ensure_key(conn: Connection) -> None:
    """Make the hashes' key at the first erasure; two at once make one."""
    key = secrets.token_bytes(BLOCK_BYTES)
    conn.execute("INSERT INTO desk.erasure_key (inner_pad, outer_pad) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                 (bytes(b ^ 0x36 for b in key), bytes(b ^ 0x5C for b in key)))


def remember_subjects(conn: Connection, erasure_id: str, subjects: Sequence[str]) -> None:
    """Keep hashes of whom this erasure was about, so that the receipt is found again; the last one counts."""
    conn.execute(
        """
        INSERT INTO desk.erased_hashes (hash, erasure_id)
        SELECT DISTINCT sha256(k.outer_pad || sha256(k.inner_pad || convert_to(s.value, 'UTF8'))), %s
        FROM desk.erasure_key k, unnest(%s::text[]) AS s(value)
        ON CONFLICT (hash) DO UPDATE SET erasure_id = EXCLUDED.erasure_id, erased_at = EXCLUDED.erased_at
        """, (erasure_id, list(subjects)))


def remember_messages(conn: Connection, ticket_ids: Sequence[str], quarantine_ids: Sequence[str],
                      mail_ids: Sequence[str]) -> int:
    """Keep hashes of the ids of these tickets' messages and deliveries, of quarantined ones and of mails; return how many."""
    return conn.execute(
        """
        INSERT INTO desk.erased_hashes (hash)
        SELECT sha256(k.outer_pad || sha256(k.inner_pad || convert_to(concat_ws(E'\\n', v.kind, v.channel, v.id), 'UTF8')))
        FROM desk.erasure_key k, (
            SELECT 'message' AS kind, channel, external_id AS id FROM desk.inbox WHERE ticket_id = ANY(%(tickets)s)
            UNION SELECT 'delivery', channel, delivery_id FROM desk.inbox
                  WHERE ticket_id = ANY(%(tickets)s) AND delivery_id IS NOT NULL
            UNION SELECT 'delivery', channel, delivery_id FROM desk.quarantine
                  WHERE id = ANY(%(quarantine)s) AND delivery_id IS NOT NULL
            UNION SELECT 'message', 'email', external_id FROM desk.mails
                  WHERE id = ANY(%(mails)s) AND direction = 'in' AND external_id IS NOT NULL
            UNION SELECT 'delivery', 'email', 'email:' || digest FROM desk.mails
                  WHERE id = ANY(%(mails)s) AND direction = 'in') v
        ON CONFLICT DO NOTHING
        """, {"tickets": list(ticket_ids), "quarantine": list(quarantine_ids), "mails": list(mail_ids)}).rowcount


def was_erased(conn: Connection, message: InboundMessage) -> bool:
    """Say whether a message or its delivery was erased before (asked under the contact's lock)."""
    return _known(conn, message.channel, message.external_id, message.delivery_id)


def mail_was_erased(conn: Connection, external_id: str | None, digest: str) -> bool:
    """Say whether a mail was erased before: by its own id, or by its bytes."""
    return _known(conn, "email", external_id, f"email:{digest}")


def delivery_was_erased(conn: Connection, channel: str, delivery_id: str | None) -> bool:
    """Say whether a delivery that cannot be read was erased before."""
    return delivery_id is not None and _known(conn, channel, None, delivery_id)


def _known(conn: Connection, channel: str, external_id: str | None, delivery_id: str | None) -> bool:
    given = [("message", external_id), ("delivery", delivery_id)]
    row = conn.execute(
        """
        SELECT EXISTS (
            SELECT 1 FROM desk.erasure_key k, unnest(%s::text[]) AS v(value) JOIN desk.erased_hashes h ON true
            WHERE h.hash = sha256(k.outer_pad || sha256(k.inner_pad || convert_to(v.value, 'UTF8')))) AS known
        """, ([f"{kind}\n{channel}\n{value}" for kind, value in given if value is not None],)).fetchone()
    return bool(row and row["known"])


def forget_old(conn: Connection, days: float) -> int:
    """Delete hashes of messages that nobody sends again after so many days; return how many."""
    return conn.execute(
        "DELETE FROM desk.erased_hashes WHERE erasure_id IS NULL "
        "AND erased_at < clock_timestamp() - make_interval(secs => %s)", (days * 86_400,)).rowcount
