"""What need not be kept any longer: old snapshots after each turn, and each night what has been over for long.

Neither needs a lease to prune: it deletes only what stands behind a thread's last snapshot, and all it does is one
transaction on one snapshot of the database. Only who deletes the last one too locks the ticket's lease.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from supportpilot.config import Settings
from supportpilot.db import audit, erasures, leases, retention, tickets, turns
from supportpilot.db.pool import Connection, Database
from supportpilot.db.retention import Quiet, ThreadSize
from supportpilot.errors import Busy, NotFound, Refused
from supportpilot.memory import prune as rule
from supportpilot.types import Ports

log = logging.getLogger(__name__)

ATTEMPTS = 4
PAUSE_SECONDS = 0.1
TICKETS_PER_RUN = 200       # of each kind; if there are more, the run asks for the next one
ROWS_PER_RUN = 5_000
UNFINISHED = ("running", "waiting")


@dataclass(frozen=True)
class Pruned:
    """What became of a thread: snapshots left, and what was deleted."""

    ticket_id: str
    left: int
    deleted: ThreadSize

    @property
    def said(self) -> str:
        """Say it in a few words for the log; "" if nothing was deleted."""
        gone = self.deleted
        return f"deleted {gone.snapshots} of {gone.snapshots + self.left} snapshots, {gone.bytes} bytes" if gone != ThreadSize() else ""


# after a turn ---------------------------------------------------------------------------------------

def prune(db: Database, settings: Settings, ticket_id: str, *, dry_run: bool = False) -> Pruned:
    """Delete the ticket's snapshots that the rule does not keep; `dry_run` only says what would go.

    Raises:
        NotFound: no such ticket, or an erased one.
        Busy: somebody else prunes it all the time.
        Unavailable: the database is away.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with retention.pruning(db, ticket_id, dry_run=dry_run) as conn:
                return _prune(conn, settings, ticket_id)[0]
        except Busy:
            if attempt == ATTEMPTS:
                raise
        time.sleep(PAUSE_SECONDS * attempt)
    raise AssertionError("unreachable")


def _prune(conn: Connection, settings: Settings, ticket_id: str) -> tuple[Pruned, Quiet | None]:
    if tickets.get(conn, ticket_id) is None:
        raise erasures.absent(conn, ticket_id)
    written = retention.snapshots(conn, ticket_id)
    rows = turns.of_ticket(conn, ticket_id)
    found = rule.numbered(written, {row["turn_id"]: number for number, row in enumerate(rows, 1)})
    unfinished = {number for number, row in enumerate(rows, 1) if row["status"] in UNFINISHED}
    quiet = None if unfinished else retention.quiet(conn, ticket_id)
    over = quiet is not None and 0 < settings.retention_days <= quiet.days
    kept = rule.kept(found, unfinished, resolved=over)
    doomed = [snapshot.id for snapshot in found if snapshot.id not in kept]
    gone = retention.delete_snapshots(conn, ticket_id, sorted(kept), doomed) if doomed else ThreadSize()
    return Pruned(ticket_id, len(kept), gone), quiet if over else None


def prune_all(db: Database, settings: Settings, *, dry_run: bool = False) -> Iterator[Pruned]:
    """Prune every ticket that has more than one snapshot, one transaction each, in order. Raises as `prune`."""
    after = ""
    while True:
        with db.connection() as conn:
            batch = retention.pruned_tickets(conn, after, TICKETS_PER_RUN)
        for ticket_id in batch:
            with suppress(NotFound):    # erased meanwhile
                yield prune(db, settings, ticket_id, dry_run=dry_run)
        if len(batch) < TICKETS_PER_RUN:
            return
        after = batch[-1]


# each night -----------------------------------------------------------------------------------------

def retain(db: Database, settings: Settings, ports: Ports) -> dict[str, int]:
    """Delete what has been over for longer than it has to be kept; return how much of each.

    Bounded: if anything may be left over, it asks for another run.

    Raises:
        Unavailable: the database is away.
    """
    keep, forget = settings.retention_days, settings.retention_forget_days
    counts = {"reduced": 0, "forgotten": 0, "replays": 0, "quarantine": 0, "mails": 0, "notifications": 0, "calls": 0}
    more = False
    if forget:
        counts["forgotten"], full = _each(db, lambda c: retention.tickets_due(c, "forgotten_for", forget, TICKETS_PER_RUN),
                                          lambda ticket_id: _forget(db, settings, ticket_id))
        more |= full
    if keep:
        counts["reduced"], full = _each(db, lambda c: retention.tickets_due(c, "reduced_for", keep, TICKETS_PER_RUN),
                                        lambda ticket_id: _reduce(db, settings, ticket_id))
        more |= full
    for name, days, delete in (
        ("replays", keep, retention.delete_replays),
        ("quarantine", keep, _settled_quarantine),
        ("quarantine", forget, _held_quarantine),
        ("mails", keep, retention.delete_mails),
        ("notifications", keep, retention.delete_notifications),
        ("calls", settings.retention_llm_calls_days, retention.delete_calls),
    ):
        done = _rows(db, days, delete)
        counts[name] += done
        more |= done == ROWS_PER_RUN
    if more:
        ports.schedule_retain()
    if any(counts.values()):
        log.info("retained reduced=%(reduced)d forgotten=%(forgotten)d replays=%(replays)d quarantine=%(quarantine)d "
                 "mails=%(mails)d notifications=%(notifications)d calls=%(calls)d", counts)
    return counts


def _each(db: Database, find: Callable[[Connection], list[str]], act: Callable[[str], bool]) -> tuple[int, bool]:
    """Do it for each ticket that is due; return how many were done, and whether there may be more.

    One that cannot be done now (somebody holds it) is left for the next night, and keeps none of the others.
    """
    with db.connection() as conn:
        due = find(conn)
    done = 0
    for ticket_id in due:
        try:
            done += act(ticket_id)
        except (Busy, Refused) as error:
            log.warning("retention left %s for the next time: %s", ticket_id, error)
    return done, done > 0 and len(due) == TICKETS_PER_RUN


def _reduce(db: Database, settings: Settings, ticket_id: str) -> bool:
    """Leave the ticket's last snapshot only."""
    with retention.pruning(db, ticket_id) as conn:
        _, quiet = _prune(conn, settings, ticket_id)
    if quiet is None:
        return False
    with db.transaction() as conn:
        retention.mark_reduced(conn, ticket_id, quiet.since)
    return True


def _forget(db: Database, settings: Settings, ticket_id: str) -> bool:
    """Delete the ticket's conversation; not while anybody has the ticket or anything on it is open."""
    with db.transaction() as conn:
        lease = leases.lock(conn, ticket_id)
        if lease is None or lease.live or tickets.lock(conn, ticket_id) is None:
            return False
        quiet = retention.quiet(conn, ticket_id)
        if quiet is None or quiet.days < settings.retention_forget_days:
            return False
        retention.forget(conn, ticket_id, quiet.since)
        audit.record(conn, "desk", "ticket.forgotten", ticket_id=ticket_id)
    return True


def _settled_quarantine(conn: Connection, days: float, limit: int) -> int:
    return retention.delete_quarantine(conn, "accepted", days, limit)


def _held_quarantine(conn: Connection, days: float, limit: int) -> int:
    return retention.delete_quarantine(conn, "held", days, limit)


def _rows(db: Database, days: float, delete: Callable[[Connection, float, int], int]) -> int:
    if not days:
        return 0
    with db.transaction() as conn:
        return delete(conn, days, ROWS_PER_RUN)
