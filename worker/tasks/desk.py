"""Tasks of the desk: cheap statements that keep work moving."""

from supportpilot.service import approval, commitments, upkeep
from worker.app import app
from worker.runtime import runtime


@app.task(name="desk.sweep")  # type: ignore[untyped-decorator] # celery has no types
def sweep() -> dict[str, int]:
    """Send again what is due and nobody holds."""
    rt = runtime()
    return upkeep.sweep(rt.db, rt.ports, rt.settings)


@app.task(name="desk.expire_approvals")  # type: ignore[untyped-decorator]
def expire_approvals() -> int:
    """Turn approvals that nobody decided in time into handoffs, and remind of those whose time runs out."""
    rt = runtime()
    approval.remind_due(rt.db)
    return approval.expire_due(rt.db, rt.ports)


@app.task(name="desk.settle")  # type: ignore[untyped-decorator]
def settle() -> int:
    """Resolve answered tickets that have been quiet long enough."""
    rt = runtime()
    return upkeep.settle(rt.db, rt.ports, rt.settings)


@app.task(name="desk.overdue")  # type: ignore[untyped-decorator]
def overdue() -> int:
    """Note promises that have become overdue."""
    return commitments.note_overdue(runtime().db)
