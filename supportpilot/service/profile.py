"""A customer's profile: made anew in the background, looked at and corrected by people.

It tells the agent who writes; it decides nothing. What a customer may do is read from the business rows.
"""

from __future__ import annotations

import contextlib
import logging
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from supportpilot.db import audit, leases, overrides, profiles
from supportpilot.db.overrides import Kind, NewOverride
from supportpilot.db.pool import Connection, Database
from supportpilot.errors import Misconfigured, NotFound, Refused, SupportPilotError
from supportpilot.memory.masking import masked
from supportpilot.memory.ports import ChatModel
from supportpilot.memory.profile import Sources, sources, sources_of, template, worded
from supportpilot.memory.profile_facts import HIDEABLE, conflict, is_row_id, problem_of_value, row_ids, underlying
from supportpilot.memory.profile_rule import NOTE_CHARS, by_rule, language
from supportpilot.memory.verify import orders_its_reader
from supportpilot.types import Ports, TurnScope, turn_scope

log = logging.getLogger(__name__)

BATCH = 200
SWEPT_AT_MOST = 500         # rebuilds that one sweep asks for; a new version of the rules makes every profile stale at once
REASON_CHARS = 200
BUSY = "another one is making it"


@dataclass(frozen=True)
class Correction:
    """What a person says about a profile; `value` is the new value, or the note's text."""

    kind: Kind
    target: str
    value: str
    author: str
    reason: str = ""
    expires_at: datetime | None = None


# in the background ------------------------------------------------------------------------------------

def rebuild_profile(db: Database, llm: ChatModel, ports: Ports, customer_id: str, *, force: bool = False) -> str:
    """Reword the customer's profile if its rows have changed; return what was done, "" if nothing.

    Of several at once one asks the model. What it worded from rows that have changed meanwhile is thrown away, and
    asked for again.

    Raises:
        NotFound: there is no such customer.
        Transient: the model or the database is away; turns go on with the template.
    """
    with db.snapshot() as conn:
        if sources(conn, customer_id).fresh and not force:
            return ""
    with db.transaction() as conn:
        token = profiles.claim(conn, customer_id)
    if token is None:
        return BUSY
    try:
        done = _made(db, llm, customer_id, token, force=force)
    except SupportPilotError:
        with contextlib.suppress(SupportPilotError), db.transaction() as conn:
            profiles.release(conn, customer_id, token)
        raise
    # Whoever came while the claim stood has gone away: look once more for what it came for.
    with db.snapshot() as conn:
        stale = not sources(conn, customer_id).fresh
    if stale:
        ports.schedule_profile(customer_id)
        return "the facts changed meanwhile; asked again"
    return done


def _made(db: Database, llm: ChatModel, customer_id: str, token: str, *, force: bool) -> str:
    with db.snapshot() as conn:
        read = sources(conn, customer_id)
    made = None
    if force or not read.fresh:
        with turn_scope(TurnScope("", "", node="memory.rebuild_profile")):
            made = worded(llm, read.facts, read.plans)
    with db.transaction() as conn:
        profiles.lock_customer(conn, customer_id)
        if made and sources(conn, customer_id).mark == read.mark:
            profiles.put(conn, read.profile(made))
        profiles.release(conn, customer_id, token)
    return "rebuilt" if made else ""


def sweep_profiles(db: Database, ports: Ports) -> int:
    """Ask for a rebuild of every stored profile whose rows, or what the day makes of them, have changed; return how many.

    It asks no model: an authorisation that ends soon, or a correction that has run out, shows in the fingerprint.
    """
    asked, last = 0, ""
    while asked < SWEPT_AT_MOST:
        with db.snapshot() as conn:
            ids = profiles.stored_after(conn, last, BATCH)
            stale = [read.customer_id for read in sources_of(conn, ids) if not read.fresh]
        for customer_id in stale[:SWEPT_AT_MOST - asked]:
            ports.schedule_profile(customer_id)
        asked += min(len(stale), SWEPT_AT_MOST - asked)
        if len(ids) < BATCH:
            break
        last = ids[-1]
    if asked:
        log.info("profiles out of date: %d asked for%s", asked, ", more tomorrow" if asked >= SWEPT_AT_MOST else "")
    return asked


# for people -------------------------------------------------------------------------------------------

def find(conn: Connection, name: str) -> str:
    """Return the id of the customer with this id or address.

    Raises:
        NotFound: there is none.
    """
    found = profiles.find_customer(conn, name.strip())
    if found is None:
        raise NotFound(f"no customer {name.strip()[:80]!r}: give a customer's id such as C0010, or an address")
    return found


def show(db: Database, name: str) -> dict[str, Any]:
    """Return a customer's profile: what a turn sees now, each sentence with its rows, corrections and their conflicts.

    Raises:
        NotFound: there is no such customer.
    """
    with db.snapshot() as conn:
        read = sources(conn, find(conn, name))
        updated = profiles.updated_at(conn, read.customer_id)
    stored = read.stored
    fresh = [] if stored is None else stored.sentences
    return {
        "customer_id": read.customer_id,
        "profile": stored.summary if stored and read.fresh else template(read.facts),
        "state": "missing" if stored is None else "up to date" if read.fresh else "out of date",
        "made_by": stored.made_by if stored and read.fresh else "rule",
        "updated_at": updated, "source_ticket_count": read.ticket_count,
        "refused": stored.refused if stored else [],
        "sentences": fresh if read.fresh else [{"text": s.text, "rows": s.rows} for s in by_rule(read.facts)],
        "overrides": [_override(row, read) for row in read.given.overrides],
        "facts": read.facts,
    }


def _override(row: Any, read: Sources) -> dict[str, Any]:  # noqa: ANN401 -- a row
    return {**{name: row[name] for name in ("id", "kind", "target", "value", "author", "reason", "created_at", "expires_at", "expired")},
            "conflict": conflict(row, read.given, read.today)}


def rebuild(db: Database, llm: ChatModel, ports: Ports, name: str) -> dict[str, Any]:
    """Word a profile anew now, whether its facts have changed or not, and return it as `show` does.

    Raises:
        NotFound: there is no such customer.
        Refused: it is being made at this moment.
        Transient: the model or the database is away.
    """
    with db.connection() as conn:
        customer_id = find(conn, name)
    if rebuild_profile(db, llm, ports, customer_id, force=True) == BUSY:
        raise Refused(f"the profile of {customer_id} is being made at this moment; see `supportpilot profile show {customer_id}`")
    return show(db, customer_id)


def correct(db: Database, ports: Ports, name: str, said: Correction) -> str:
    """Store a person's correction, with an audit row, and ask for the rebuild; return the correction's id.

    Raises:
        Misconfigured: the target, the value, the text or the author cannot be used.
        NotFound: there is no such customer, or no such row of theirs.
    """
    author = _line("--author", said.author, REASON_CHARS)
    reason = _line("--reason", said.reason, REASON_CHARS) if said.reason.strip() else ""
    with db.transaction() as conn:
        customer_id = find(conn, name)
        profiles.lock_customer(conn, customer_id)
        if said.expires_at is not None and said.expires_at <= leases.clock(conn):
            raise Misconfigured("--expires must lie ahead")
        read = sources(conn, customer_id)
        target, value = _checked(said, read)
        seen = None if said.kind == "note" else underlying(read.given, target, read.today)
        override_id = overrides.put(conn, NewOverride(
            customer_id, said.kind, target, value, author, reason, said.expires_at, seen))
        # Without a note's words: the record of who did what outlives an erasure.
        audit.record(conn, author, f"profile.{said.kind}", subject=customer_id, detail={
            "override": override_id, "target": target, "expires_at": said.expires_at and said.expires_at.astimezone(UTC).isoformat()})
    ports.schedule_profile(customer_id)
    return override_id


def withdraw(db: Database, ports: Ports, name: str, override_id: str, author: str) -> str:
    """Take a correction back, with an audit row, and ask for the rebuild; return the customer's id.

    Raises:
        Misconfigured: the author is no name.
        NotFound: there is no such customer, or no such correction of theirs.
    """
    by = _line("--author", author, REASON_CHARS)
    with db.transaction() as conn:
        customer_id = find(conn, name)
        profiles.lock_customer(conn, customer_id)   # else the audit row would name a customer who is erased meanwhile
        gone = overrides.remove(conn, customer_id, override_id.strip().upper())
        if gone is None:
            raise NotFound(f"{customer_id} has no correction {override_id.strip()[:40]!r}: see `supportpilot profile show {customer_id}`")
        audit.record(conn, by, "profile.remove", subject=customer_id,
                     detail={"override": gone["id"], "kind": gone["kind"], "target": gone["target"]})
    ports.schedule_profile(customer_id)
    return customer_id


def _checked(said: Correction, read: Sources) -> tuple[str, str]:
    """Return target and value in the form that is stored."""
    if said.kind == "note":
        return "", _note(said.value, read)
    target = _target(said.target, row_ids(read.given))
    if said.kind == "set":
        value = _line("--set", said.value, REASON_CHARS)
        value = value.lower() if target in ("is_vip", "billing_cycle", "wish") else value
        problem = problem_of_value(target, value)
        if problem:
            raise Misconfigured(f"--set: {problem}")
        return target, str(int(value)) if value.isdigit() else value
    if is_row_id(target) and target not in row_ids(read.given):
        raise NotFound(f"{read.customer_id} has no row {target!r} that speaks in the profile; a field is one of "
                       f"{', '.join(HIDEABLE)}, else an error code or a row of `supportpilot profile show`")
    return target, ""


def _target(text: str, rows: Collection[str]) -> str:
    """Return a target as it is stored: a field in lower case, a code or a row's id in capitals, without its table."""
    target = unicodedata.normalize("NFKC", text).strip().split(" ")[-1]
    if not target:
        raise Misconfigured("a correction needs a field, an error code or a row, such as plan, E3001 or T000034")
    lowered = target.lower()
    if target in rows:
        return target
    return "is_vip" if lowered == "vip" else lowered if lowered in HIDEABLE else target.upper()


def _note(text: str, read: Sources) -> str:
    limit = NOTE_CHARS[language(read.facts)]
    note = masked(_line("--note", text, limit)).rstrip("。. ")
    if orders_its_reader(note):
        raise Misconfigured("--note gives its reader orders; write what is so, not what to do")
    return note


def _line(option: str, text: str, limit: int) -> str:
    """Return a human's text on one line.

    Raises:
        Misconfigured: it is empty, too long, or has signs that cannot be seen.
    """
    said = " ".join(text.split())
    if not said:
        raise Misconfigured(f"{option} must not be empty")
    if len(said) > limit:
        raise Misconfigured(f"{option} has {len(said)} characters, at most {limit} are allowed")
    if any(unicodedata.category(ch) in ("Cc", "Cf", "Cs", "Co") for ch in said):
        raise Misconfigured(f"{option} has signs that cannot be seen or stored")
    return said


def corrections_in_conflict(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those corrections whose row says something else than when they were written."""
    return [row for row in found if row["conflict"] and not row["expired"]]
