"""Beat's entries. Loaded by beat only, through the name in `beat_scheduler`; nothing else imports it."""

from __future__ import annotations

from typing import Any

from celery.beat import PersistentScheduler

from supportpilot.config import Settings, get_settings
from supportpilot.mail.folders import read_folders

EXPIRE_APPROVALS_SECONDS = 60.0
SETTLE_SECONDS = 60.0
EMBED_SECONDS = 120.0
# Sent as a point in time by beat's clock: a desk whose clock is ahead of that throws away every tick that is younger.
TICK_EXPIRES_SECONDS = 3600.0


def entries(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the schedule; a tick that nobody took for an hour is thrown away, not piled up."""
    embed = {"kb.embed": _every(EMBED_SECONDS, "kb.embed")} if settings.embedding_model else {}
    polls = {f"mail.poll {one.id}": _every(settings.imap_poll_seconds, "mail.poll", one.id)
             for one in read_folders(settings.imap_urls)}
    return {
        **embed, **polls,
        "desk.sweep": _every(settings.sweep_seconds, "desk.sweep"),
        "desk.expire_approvals": _every(EXPIRE_APPROVALS_SECONDS, "desk.expire_approvals"),
        "desk.settle": _every(SETTLE_SECONDS, "desk.settle"),
    }


def _every(seconds: float, task: str, *ids: str) -> dict[str, Any]:
    return {"task": task, "schedule": seconds, "args": ids, "options": {"expires": max(TICK_EXPIRES_SECONDS, 2 * seconds)}}


class DeskScheduler(PersistentScheduler):  # type: ignore[misc] # celery has no types
    """The stock scheduler with our entries, so that only beat ever loads them."""

    def setup_schedule(self) -> None:
        """Put the entries into the configuration before the stock scheduler reads it."""
        self.app.conf.beat_schedule = entries(get_settings())
        super().setup_schedule()
