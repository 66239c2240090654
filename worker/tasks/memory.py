"""Tasks of memory: of low priority, and nobody waits for them."""

from supportpilot.service import memory, profile
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
