"""Tasks of mail: a stored one is filed, a mailbox is read."""

from supportpilot.service import mail_in, mail_poll
from worker.app import app
from worker.runtime import runtime


@app.task(name="mail.file")  # type: ignore[untyped-decorator] # celery has no types
def file(mail_id: str) -> str:
    """Read a stored mail and put it where it belongs."""
    rt = runtime()
    return mail_in.file(rt.db, rt.settings, rt.ports, mail_id).state


@app.task(name="mail.poll")  # type: ignore[untyped-decorator]
def poll(mailbox_id: str) -> str:
    """Take what is new in a mailbox."""
    rt = runtime()
    return mail_poll.poll_by_id(rt.db, rt.settings, rt.ports, mailbox_id)
