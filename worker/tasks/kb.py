"""Tasks of the knowledge base."""

from supportpilot.service import knowledge
from worker.app import app
from worker.runtime import runtime


@app.task(name="kb.embed")  # type: ignore[untyped-decorator] # celery has no types
def embed() -> str:
    """Embed articles that are new, changed, or embedded with another model."""
    rt = runtime()
    return knowledge.embed(rt.db, rt.settings)
