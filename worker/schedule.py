"""Beat's entries. Loaded by beat only, through the name in `beat_scheduler`; nothing else imports it."""

from __future__ import annotations

from typing import Any

from celery.beat import PersistentScheduler
from celery.schedules import crontab

from supportpilot.config import Settings, get_settings
from supportpilot.mail.folders import read_folders

EXPIRE_APPROVALS_SECONDS = 60.0
SETTLE_SECONDS = 60.0
OVERDUE_SECONDS = 60.0
EMBED_SECONDS = 120.0
# UTC: night in China. Profiles soon after its midnight, which is when "expires in 9 days" becomes 8.
SWEEP_PROFILES_AT = (17, 10)
RETAIN_AT = (19, 20)
NIGHT_EXPIRES_SECONDS = 43_200.0
# Sent as a point in time by beat's clock: a desk whose clock is ahead of that throws away every tick that is younger.
TICK_EXPIRES_SECONDS = 3600.0


def entries(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the schedule; a tick that nobody took for an hour is thrown away, not piled up."""
    embed = {"kb.embed": _every(EMBED_SECONDS, "kb.embed")} if settings.embedding_model else {}
    lost = {} if settings.chatwoot_account_id is None else {
        "channel.reconcile": {**_every(settings.chatwoot_reconcile_seconds, "channel.reconcile"), "args": ["chatwoot"]}}
    polls = {f"mail.poll {one.id}": _every(settings.imap_poll_seconds, "mail.poll", one.id)
             for one in read_folders(settings.imap_urls)}
    return {
        **embed, **lost, **polls,
        "desk.sweep": _every(settings.sweep_seconds, "desk.sweep"),
        "desk.expire_approvals": _every(EXPIRE_APPROVALS_SECONDS, "desk.expire_approvals"),
        "desk.settle": _every(SETTLE_SECONDS, "desk.settle"),
        "desk.overdue": _every(OVERDUE_SECONDS, "desk.overdue"),
        "memory.sweep_profiles": _nightly(SWEEP_PROFILES_AT, "memory.sweep_profiles"),
        "memory.retain": _nightly(RETAIN_AT, "memory.retain"),
    }


def _every(seconds: float, task: str, *ids: str) -> dict[str, Any]:
    return {"task": task, "schedule": seconds, "args": ids, "options": {"expires": max(TICK_EXPIRES_SECONDS, 2 * seconds)}}


def _nightly(at: tuple[int, int], task: str) -> dict[str, Any]:
    return {"task": task, "schedule": crontab(hour=str(at[0]), minute=str(at[1])), "options": {"expires": NIGHT_EXPIRES_SECONDS}}


class DeskScheduler(PersistentScheduler):  # type: ignore[misc] # celery has no types
    """The stock scheduler with our entries, so that only beat ever loads them."""

    def setup_schedule(self) -> None:
        """Put the entries into the configuration before the stock scheduler reads it."""
        self.app.conf.beat_schedule = entries(get_settings())
        super().setup_schedule()
