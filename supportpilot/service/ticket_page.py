"""The staff's pages of tickets: the list, and all of one ticket in the order in which people read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from supportpilot.config import Settings
from supportpilot.db import erasures, events, links, ticket_pages
from supportpilot.db.events import Event
from supportpilot.db.pool import Database, Row
from supportpilot.db.ticket_pages import Filters, Key
from supportpilot.desk.rules import TICKET
from supportpilot.errors import NotFound, Unusable
from supportpilot.service import profile, ticket
from supportpilot.service.timeline import Timeline, timeline

__all__ = ["PAGE_SIZE", "Filters", "Listing", "TicketPage", "find", "look", "missed"]

PAGE_SIZE = 40
EMAIL_CHARS, CHANNEL_CHARS = 200, 40
Speaker = Literal["customer", "agent", "human", "notice", "automatic"]
LONG_AGO = datetime.min.replace(tzinfo=UTC)


# the list -------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Listing:
    """One page of the list; `next_key` is where the next one begins, "" at the end."""

    rows: list[Row]
    next_key: str
    channels: list[str]


def find(db: Database, filters: Filters, after: str = "", size: int = PAGE_SIZE) -> Listing:
    """Return a page of the tickets that fit, last written first.

    Raises:
        Unusable: there is no such status, or the key is none.
    """
    if filters.status and filters.status not in TICKET:
        raise Unusable(f"status must be one of {', '.join(TICKET)}")
    key = _key(after) if after else None
    with db.connection() as conn:
        rows = ticket_pages.find(conn, filters, key, size + 1)
        names = ticket_pages.channels(conn)
    shown = rows[:size]
    return Listing(shown, _key_text(shown[-1]) if len(rows) > size else "", names)


def _key_text(row: Row) -> str:
    return f"{row['written_at'].astimezone(UTC):%Y%m%dT%H%M%S.%f}_{row['ticket_id']}"


def _key(text: str) -> Key:
    at, _, ticket_id = text.partition("_")
    try:
        written_at = datetime.strptime(at, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC)
    except ValueError:
        raise Unusable("this is no place in the list; begin at its head") from None
    if not ticket_id.isalnum() or len(ticket_id) > 40:
        raise Unusable("this is no place in the list; begin at its head")
    return Key(written_at, ticket_id)


# one ticket -----------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Said:
    """One text of the conversation.

    state: "" once the agent has it in its thread, `pending` while it is held, `dead` if it was given up. delivery: what
    became of a text of ours ("" unknown). recalled: the last turn's memory showed it again though it is folded.
    """

    id: str
    speaker: Speaker
    author: str
    body: str
    at: datetime | None
    state: str = ""
    delivery: str = ""
    folded: bool = False
    recalled: bool = False


@dataclass(frozen=True)
class TicketPage:
    """All that a ticket's page shows. `shown` is what `ticket show` has; `can`: what a person may do to it now."""

    shown: dict[str, Any]
    face: Row
    said: list[Said]
    timeline: Timeline
    profile: dict[str, Any] | None
    pulse: str
    running: bool
    can: frozenset[str] = field(default_factory=frozenset)


def look(db: Database, settings: Settings, ticket_id: str) -> TicketPage:
    """Return what a ticket's page shows.

    Raises:
        NotFound: no such ticket; `Erased` if its customer was erased.
    """
    with db.connection() as conn:       # before what it stands for: a change in between shows at the next pulse, not never
        pulse = links.pulses(conn, [ticket_id]).get(ticket_id, "")
    shown = ticket.show(db, settings, ticket_id)
    with db.snapshot() as conn:
        face = ticket_pages.face(conn, ticket_id)
        if face is None:
            raise erasures.absent(conn, ticket_id)
        went = timeline(conn, ticket_id, shown["tool_log"])
        by_humans = ticket_pages.human_deliveries(conn, ticket_id)
    running = any(turn.status == "running" for turn in went.turns)
    can = frozenset(deed for deed in ("release", "resolve") if TICKET[shown["status"]].get(deed, shown["status"]) != shown["status"])
    return TicketPage(shown, face, conversation(shown, face, by_humans), went, _profile(db, face["customer_id"]), pulse, running, can)


def _profile(db: Database, customer_id: str | None) -> dict[str, Any] | None:
    """Return the profile as it stands now; the one that the last turn saw is the ticket's own."""
    if customer_id is None:
        return None
    try:
        return profile.show(db, customer_id)
    except NotFound:        # erased in this very moment
        return None


def conversation(shown: Mapping[str, Any], face: Mapping[str, Any], by_humans: Mapping[str, str]) -> list[Said]:
    """Return every text of a ticket in order: the thread's, those held back, notices sent in between, automatic notes."""
    sent = {row["idempotency_key"]: row["status"] for row in shown["outbox"]} | dict(by_humans)
    upto, recalled = int(shown["summarized_upto"] or 0), set((shown["view"] or {}).get("recalled") or [])
    entries = [_entry(entry, sent, folded=index < upto, recalled=index in recalled) for index, entry in enumerate(shown["turns"])]
    entries += [_entry(entry, sent) for entry in shown["held"]]
    known = {entry.id for entry in entries}
    rest = [Said(row["id"], "notice" if row["kind"] in ("notice", "ack") else "agent", row["author"] or "", row["body"],
                 row["created_at"], delivery=row["status"])
            for row in shown["outbox"] if row["idempotency_key"] not in known and row["kind"] != "human"]
    rest += [Said(row["id"], "automatic", row["author"], row["body"], row["at"]) for row in shown["notes"]]
    return _merged(entries, sorted(rest, key=lambda one: one.at or LONG_AGO)) or _old(face)


def _entry(entry: Mapping[str, Any], sent: Mapping[str, str], *, folded: bool = False, recalled: bool = False) -> Said:
    author = str(entry.get("author") or "")
    speaker: Speaker = "customer" if entry.get("role") == "customer" else "human" if author else "agent"
    return Said(str(entry.get("id", "")), speaker, author, str(entry.get("content", "")), _moment(entry.get("at")),
                str(entry.get("state") or ""), sent.get(str(entry.get("id")), ""), folded, recalled)


def _moment(at: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(at))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _merged(entries: Sequence[Said], rest: Sequence[Said]) -> list[Said]:
    """Put `rest` in by time; the thread's own order stays as it is."""
    merged, waiting = [], list(rest)
    for entry in entries:
        while waiting and entry.at is not None and (waiting[0].at or LONG_AGO) < entry.at:
            merged.append(waiting.pop(0))
        merged.append(entry)
    return merged + waiting


def _old(face: Mapping[str, Any]) -> list[Said]:
    """A ticket from before the inbox has only its first text and how it was resolved."""
    found = [Said(face["id"], "customer", "", face["body"], face["created_at"])] if face["body"] else []
    return found + ([Said(f"{face['id']}-resolution", "notice", "", face["resolution"], face["resolved_at"])] if face["resolution"] else [])


# live -----------------------------------------------------------------------------------------------

def missed(db: Database, ticket_id: str, last_id: int | None) -> list[Event]:
    """Return the live events after `last_id`, as far as they are kept; None: those of the turn that runs now."""
    with db.connection() as conn:
        if last_id is not None:
            return events.since(conn, ticket_id, last_id)
        running = next((row["turn_id"] for row in ticket_pages.turns(conn, ticket_id) if row["status"] == "running"), None)
        return [] if running is None else [event for event in events.since(conn, ticket_id, 0) if event.turn_id == running]


def exists(db: Database, ticket_id: str) -> None:
    """Raise NotFound (`Erased` if it was) unless there is such a ticket."""
    with db.connection() as conn:
        if ticket_pages.face(conn, ticket_id) is None:
            raise erasures.absent(conn, ticket_id)
