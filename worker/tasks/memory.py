"""Tasks of memory: of low priority, and nobody waits for them."""

from supportpilot.service import memory, profile, retention
from worker.app import app
from worker.runtime import runtime


@app.task(name="memory.compress")  # type: ignore[untyped-decorator] # celery has no types
def compress(ticket_id: str) -> str:
    """Fold the ticket's early part into a summary."""
    rt = runtime()
    return memory.compress(rt.db, rt.deps.small_llm, rt.settings, ticket_id, rt.deps.commitments_for(ticket_id))


@app.task(name="memory.rebuild_profile")  # type: ignore[untyped-decorator]
def rebuild_profile(customer_id: str) -> str:
    """Word the customer's profile anew."""
    rt = runtime()
    return profile.rebuild_profile(rt.db, rt.deps.small_llm, rt.ports, customer_id)


@app.task(name="memory.sweep_profiles")  # type: ignore[untyped-decorator]
def sweep_profiles() -> int:
    """Ask for the rebuild of profiles that the day, or a change nobody told of, has made out of date."""
    rt = runtime()
    return profile.sweep_profiles(rt.db, rt.ports)


@app.task(name="memory.prune")  # type: ignore[untyped-decorator]
def prune(ticket_id: str) -> str:
    """Delete the ticket's snapshots that nobody needs any more."""
    rt = runtime()
    return retention.prune(rt.db, rt.settings, ticket_id).said


@app.task(name="memory.retain")  # type: ignore[untyped-decorator]
def retain() -> dict[str, int]:
    """Delete what has been over for longer than it has to be kept."""
    rt = runtime()
    return retention.retain(rt.db, rt.settings, rt.ports)
