"""Tasks of a ticket: a message has come, an approval was decided, a human has to look at it."""

from supportpilot.service import notices, turn
from worker.app import app
from worker.runtime import runtime


@app.task(name="ticket.handle_message")  # type: ignore[untyped-decorator] # celery has no types
def handle_message(ticket_id: str, message_id: str) -> str:
    """Answer what waits on the ticket."""
    return turn.handle_message(runtime(), ticket_id, message_id)


@app.task(name="ticket.resume")  # type: ignore[untyped-decorator]
def resume(ticket_id: str, approval_id: str) -> str:
    """Go on where the ticket waited for this approval."""
    return turn.resume(runtime(), ticket_id, approval_id)


@app.task(name="ticket.notify")  # type: ignore[untyped-decorator]
def notify(ticket_id: str) -> str:
    """Tell colleagues that the ticket waits for a human."""
    rt = runtime()
    return notices.notify(rt.db, rt.settings, ticket_id)
