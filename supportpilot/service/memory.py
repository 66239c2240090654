"""Background memory: fold a long ticket. Nobody waits for it; the profile is `service/profile.py`'s.

It only reads what a turn has finished and writes rows of its own, so it needs no lease and may run while an
approval waits. A run that is lost is made up for after the ticket's next turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from supportpilot.config import Settings
from supportpilot.db import summaries
from supportpilot.db.pool import Database
from supportpilot.db.summaries import StoredSummary
from supportpilot.errors import SupportPilotError
from supportpilot.memory.checkpoint import thread_values
from supportpilot.memory.compress import fold
from supportpilot.memory.entries import Turns, language_of_text
from supportpilot.memory.ports import ChatModel
from supportpilot.memory.stored import newest_summary, source_hash
from supportpilot.memory.view import fold_end, room_of
from supportpilot.types import Ports, TurnScope, turn_scope

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Task:
    """What has to be folded: `turns[:end]`; `after` is the newest version, whatever it covers."""

    turns: Turns
    end: int
    after: int


@dataclass(frozen=True)
class _KeptNotes:
    """The notes of one ticket's chunks, each read and written by a statement of its own."""

    db: Database
    ticket_id: str

    def get(self, key: str, /) -> str | None:
        with self.db.connection() as conn:
            return summaries.note(conn, self.ticket_id, key)

    def put(self, key: str, note: str, /) -> None:
        with self.db.transaction() as conn:
            summaries.put_note(conn, self.ticket_id, key, note)


def compress(db: Database, llm: ChatModel, settings: Settings, ticket_id: str, commitments: Sequence[str] = ()) -> str:
    """Store a summary of the ticket's early part if it is over budget; return what was done, "" if nothing.

    Of two at once one stores its version. It reads the thread and never writes to it.

    Raises:
        Unavailable: the database is away.
    """
    turns = finished(thread_values(db, ticket_id).get("turns") or [])
    task = _task(db, settings, ticket_id, turns, commitments)
    if task is None:
        return ""
    with turn_scope(TurnScope(ticket_id, "", node="memory.compress")):
        folded = fold(llm, turns, task.end, _KeptNotes(db, ticket_id))
    version = StoredSummary(ticket_id, folded.upto, source_hash(turns[:folded.upto]), folded.summary, folded.made_by,
                            folded.refused)
    with db.transaction() as conn:
        stored = summaries.put(conn, version, task.after)
    return f"folded {folded.upto} entries, by {folded.made_by}" if stored else ""


def over_budget(db: Database, settings: Settings, ticket_id: str, turns: Turns, commitments: Sequence[str] = ()) -> bool:
    """Tell whether `compress` would have something to do; a ticket within the budget costs no statement."""
    return _task(db, settings, ticket_id, finished(turns), commitments) is not None


def finished(turns: Turns) -> Turns:
    """Return the entries up to the last answer: what the customer wrote after it belongs to an unfinished turn."""
    end = next((i + 1 for i in reversed(range(len(turns))) if turns[i]["role"] == "agent"), 0)
    return turns[:end]


def _task(db: Database, settings: Settings, ticket_id: str, turns: Turns, commitments: Sequence[str]) -> _Task | None:
    said = "\n".join(turn["content"] for turn in turns if turn["role"] == "customer")
    room = room_of(settings, commitments=commitments, lang=language_of_text(said))      # as the view counts
    if fold_end(turns, "", 0, room) == 0:
        return None
    with db.connection() as conn:
        stored = newest_summary(conn, ticket_id, turns[:-room.keep_last])
        after = summaries.newest_version(conn, ticket_id)
    summary, upto = (stored.summary, stored.upto) if stored else ("", 0)
    end = fold_end(turns, summary, upto, room)
    return None if end == upto else _Task(turns, end, after)


def ask_for_compression(
    db: Database, settings: Settings, ports: Ports, ticket_id: str, turns: Turns,
    commitments_for: Callable[[str], Sequence[str]] = lambda _ticket_id: (),
) -> None:
    """Ask for `compress` if the ticket is over budget. Advice only: it never fails the turn that gives it."""
    try:
        if over_budget(db, settings, ticket_id, turns, commitments_for(ticket_id)):
            ports.schedule_compress(ticket_id)
    except SupportPilotError as error:
        log.warning("did not ask for the compression of %s: %s; its next turn will", ticket_id, error)
