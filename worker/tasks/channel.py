"""Tasks of the channels."""

from supportpilot.service import reconcile as service
from worker.app import app
from worker.runtime import runtime


@app.task(name="channel.reconcile")  # type: ignore[untyped-decorator] # celery has no types
def reconcile(channel_id: str) -> int:
    """Insert messages whose hook was lost."""
    rt = runtime()
    return service.reconcile(rt.db, rt.settings, rt.ports, channel_id)
