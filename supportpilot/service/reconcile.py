"""Insert what a helpdesk has and its hook did not bring."""

from __future__ import annotations

import logging
from datetime import timedelta

from supportpilot.channels import chatwoot, chatwoot_poll
from supportpilot.channels.api import Answered, NoAnswer, NotSent
from supportpilot.channels.port import Heard
from supportpilot.config import Settings
from supportpilot.db import channels as rows
from supportpilot.db import inbox, leases
from supportpilot.db.pool import Database
from supportpilot.errors import Misconfigured, NotFound
from supportpilot.service import channels
from supportpilot.types import Ports, Received

log = logging.getLogger(__name__)

# The helpdesk's clock is not ours, and a message may show in its list after one with a later time.
OVERLAP = timedelta(minutes=10)


def reconcile(db: Database, settings: Settings, ports: Ports, channel_id: str) -> int:
    """Ask a helpdesk what was written since it was last asked; return how many messages were missing.

    The first time it looks back only over the overlap: what is older was written before we were connected.

    Raises:
        NotFound: this channel cannot be asked.
        Unavailable: the database is away.
    """
    if channel_id != chatwoot.CHANNEL:
        raise NotFound(f"channel {channel_id} cannot be asked; only {chatwoot.CHANNEL} can")
    if settings.chatwoot_account_id is None:
        return 0
    account = str(settings.chatwoot_account_id)
    with db.transaction() as conn:
        since = (rows.asked_to(conn, channel_id, account) or leases.clock(conn)) - OVERLAP
        rows.note_asked(conn, channel_id, account, since + OVERLAP, 0)
        rows.drop_old_counts(conn)
    try:
        written = chatwoot_poll.written_since(settings, since)
    except (Answered, NotSent, NoAnswer, Misconfigured) as error:
        log.warning("%s could not be asked for lost messages: %s", channel_id, error)
        with db.transaction() as conn:
            rows.note_failed(conn, channel_id, account, str(error))
        return 0
    for message_id, why in written.unreadable:
        log.warning("%s message %s cannot be read: %s", channel_id, message_id, why)
    found = sum(_insert(db, settings, ports, heard) for heard in written.messages)
    with db.transaction() as conn:
        rows.note_asked(conn, channel_id, account, written.until or since + OVERLAP, found)
    return found


def _insert(db: Database, settings: Settings, ports: Ports, heard: Heard) -> bool:
    """Store a message if it is missing."""
    with db.connection() as conn:
        if inbox.find_known(conn, heard.message) is not None:
            return False
    taken = channels.take(db, settings, ports, heard.message.channel, heard)
    if isinstance(taken, Received) and not taken.duplicate:
        log.warning("message %s of %s had no hook; stored now", taken.message_id, heard.message.channel)
        return True
    return False
