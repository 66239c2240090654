"""Tasks of an approval."""

from supportpilot.service import notices
from worker.app import app
from worker.runtime import runtime


@app.task(name="approval.notify")  # type: ignore[untyped-decorator] # celery has no types
def notify(approval_id: str) -> str:
    """Tell colleagues that it waits, or remind them."""
    rt = runtime()
    return notices.notify(rt.db, rt.settings, approval_id)
