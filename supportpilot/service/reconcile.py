"""Insert what a helpdesk has and its hook did not bring, conversation by conversation, the longest quiet one first."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from supportpilot.channels import chatwoot, chatwoot_poll, reading
from supportpilot.channels.api import Answered, NoAnswer, NotSent
from supportpilot.channels.chatwoot_poll import Unread
from supportpilot.channels.port import Heard
from supportpilot.config import Settings
from supportpilot.db import channels as rows
from supportpilot.db import inbox, leases, quarantine
from supportpilot.db.pool import Connection, Database
from supportpilot.errors import Misconfigured, NotFound, Unusable
from supportpilot.service import channels, intake
from supportpilot.types import Ports, Received

log = logging.getLogger(__name__)

CHANNEL = chatwoot.CHANNEL
# The helpdesk's clock is not ours, and a message may show in its list after one with a later time.
OVERLAP = timedelta(minutes=10)
# A conversation that fails is asked again for so long before the others go on without it.
PATIENCE = timedelta(hours=1)
SECONDS = 300.0                         # then the rest waits for the next time
FOR_ALL = frozenset({401, 402, 429})    # not this conversation's fault: the next one would be answered the same


@dataclass
class _Round:
    """One asking. `holds`: the cursor stays where it is, since something behind it has to be asked again."""

    db: Database
    settings: Settings
    ports: Ports
    account: str
    since: datetime
    patient: bool
    holds: bool = False
    error: str = ""
    found: int = 0
    failed: list[str] = field(default_factory=list)     # why conversations since the last one that answered did not


def reconcile(db: Database, settings: Settings, ports: Ports, channel_id: str) -> int:
    """Ask a helpdesk what was written since it was last asked; return how many messages were missing.

    The first time it looks back only over the overlap: what is older was written before we were connected. A round that
    is cut short goes on where it stopped.

    Raises:
        NotFound: this channel cannot be asked.
        Unavailable: the database is away.
    """
    if channel_id != CHANNEL:
        raise NotFound(f"channel {channel_id} cannot be asked; only {CHANNEL} can")
    if settings.chatwoot_account_id is None:
        return 0
    account = str(settings.chatwoot_account_id)
    with db.transaction() as conn:
        cursor = rows.start_asking(conn, CHANNEL, account)
        now = leases.clock(conn)
        rows.drop_old_counts(conn)
    since = cursor.asked_to - OVERLAP
    asking = _Round(db, settings, ports, account, since, patient=now - cursor.asked_to < PATIENCE)
    latest = cursor.asked_to
    try:
        listed = chatwoot_poll.listed_since(settings, max(since, cursor.reached or since))
        latest = max(map(chatwoot_poll.active_at, listed.conversations), default=latest)
        asking.holds, asking.error = bool(listed.error), listed.error
        _ask_each(asking, listed.conversations)
    except (NotSent, Misconfigured) as error:
        asking.holds, asking.error = True, str(error)
    with db.transaction() as conn:
        if not asking.holds and not asking.failed:
            rows.note_asked(conn, CHANNEL, account, latest)
        if asking.error:
            rows.note_failed(conn, CHANNEL, account, asking.error)
    if asking.error:
        log.warning("%s could not be asked for all lost messages: %s", CHANNEL, asking.error)
    return asking.found


def _ask_each(asking: _Round, conversations: list[dict[str, Any]]) -> None:
    """Ask one after another; one that fails costs the others nothing.

    Raises:
        NotSent: the next one would fail too, or the time is over; what is left is asked the next time.
    """
    until = time.monotonic() + SECONDS
    for done, conversation in enumerate(conversations):
        if time.monotonic() >= until:
            raise NotSent(f"{len(conversations) - done} conversations are left for the next time")
        try:
            found = _ask(asking, conversation)
        except (Answered, NoAnswer, Unusable) as error:
            if isinstance(error, Answered) and error.status in FOR_ALL:
                raise NotSent(str(error)) from None
            asking.failed.append(str(error))
            asking.error = f"conversation {str(conversation.get('id'))[:20]}: {error}"
            asking.holds = asking.holds or asking.patient
            continue
        asking.found += found
        with asking.db.transaction() as conn:
            rows.note_reached(conn, CHANNEL, asking.account, None if asking.holds else chatwoot_poll.active_at(conversation), found)
            if not asking.holds:
                _pass_over(conn, asking)


def _pass_over(conn: Connection, asking: _Round) -> None:
    """A later conversation was answered, so it is not the helpdesk that fails: go on without those that do, and say so."""
    for error in asking.failed:
        log.error("%s: %s is passed over, what its hooks lost is missing", CHANNEL, asking.error)
        rows.count(conn, CHANNEL, "ignored", f"conversation passed over by the poll: {error}")
    asking.failed.clear()


def _ask(asking: _Round, conversation: dict[str, Any]) -> int:
    written = chatwoot_poll.written_in(asking.settings, conversation, asking.since)
    for unread in written.unread:
        _hold(asking, unread)
    return sum(_insert(asking, heard) for heard in written.messages)


def _insert(asking: _Round, heard: Heard) -> bool:
    """Store a message if it is missing."""
    with asking.db.connection() as conn:
        if inbox.find_known(conn, heard.message) is not None:
            return False
    taken = channels.take(asking.db, asking.settings, asking.ports, CHANNEL, heard)
    if isinstance(taken, Received) and not taken.duplicate:
        log.warning("message %s of %s had no hook; stored now", taken.message_id, CHANNEL)
        return True
    return False


def _hold(asking: _Round, unread: Unread) -> None:
    """Keep a message that cannot be read, unless its hook brought it: then it is held, or was read after a fix."""
    known_by = f"{CHANNEL}:{asking.account}:{unread.id}"
    with asking.db.connection() as conn:
        held = quarantine.raws_since(conn, CHANNEL, asking.since - OVERLAP)
        if inbox.id_of(conn, CHANNEL, known_by) or any(_message_in(raw) == unread.id for raw in held):
            return
    intake.keep_unusable(asking.db, CHANNEL, unread.sender, unread.raw, unread.why, delivery_id=f"{known_by}:poll")


def _message_in(raw: bytes) -> str:
    try:
        return str(reading.inner(reading.json_of(raw)).get("id"))
    except Unusable:
        return ""
