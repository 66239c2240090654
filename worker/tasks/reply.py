"""Tasks of a reply."""

from supportpilot.service import delivery
from worker.app import app
from worker.runtime import runtime


@app.task(name="reply.deliver")  # type: ignore[untyped-decorator] # celery has no types
def deliver(reply_id: str) -> str:
    """Send the reply by its ticket's channel."""
    rt = runtime()
    return delivery.deliver(rt.db, rt.settings, rt.ports, reply_id)
