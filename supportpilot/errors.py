"""What can go wrong, drawn as a tree.

    SupportPilotError
    ├─ Transient          try again later; counts as an attempt of the turn
    │  ├─ Unavailable     something outside is away (database, broker, model): not counted
    │  │  ├─ Busy         somebody else holds the lock; ask again in a few seconds
    │  │  └─ HandedBack   this process is about to stop; another one goes on at once
    │  ├─ Gone            the row that it hangs on was deleted meanwhile (an erasure)
    │  └─ TornThread      read the thread again and go on; counts as a crash, not as an attempt
    │     ├─ TailLost     the parent checkpoint is gone: commits were lost under a living worker
    │     └─ ClockBehind  the new checkpoint's id is not above its parent's
    ├─ Permanent          trying again cannot help; the turn is given up
    │  └─ ModelOutputUnusable   the model's answer did not fit its schema, even after one repair
    ├─ LeaseLost          the ticket belongs to another worker now; write nothing
    ├─ Overtaken          the customer wrote again before the answer stood; one turn answers both
    ├─ Refused            a rule says no (exit code 3, HTTP 409)
    │  ├─ NotFound        unknown id (HTTP 404)
    │  │  └─ Erased       it was there until its customer asked to be erased (HTTP 410)
    │  ├─ Stale           the customer has written since the approver looked
    │  ├─ AlreadyDecided  somebody else was first, or the time ran out
    │  └─ Forbidden       the person's role does not include it (HTTP 403)
    ├─ Misconfigured      wrong usage or configuration (exit code 2)
    └─ Unusable           signed input that cannot be a message; kept in quarantine

Foreign errors are translated where they enter: psycopg in `db/`, openai in `llm/`. Three shells turn the
tree into something else: `worker/base.py` (retry or dead), `producer/web/errors.py` (status),
`producer/cli/main.py` (exit code).
"""

from __future__ import annotations

import traceback
from pathlib import Path


class SupportPilotError(Exception):
    """Base of everything this product raises on purpose; its text is one line for a person."""


class Transient(SupportPilotError):
    """It may work later; counts as one of the turn's attempts."""


class Unavailable(Transient):
    """Something outside is away; waiting for it costs no attempt."""


class Busy(Unavailable):
    """A lock was not granted in time."""


class HandedBack(Unavailable):
    """The process is about to stop; the turn goes on in another one."""


class Gone(Transient):
    """The row that it hangs on was deleted meanwhile."""


class TornThread(Transient):
    """What this process has in memory does not fit what is on disk."""


class TailLost(TornThread):
    """The parent checkpoint is not in the database any more."""


class ClockBehind(TornThread):
    """The new checkpoint's id is not above its parent's."""


class Permanent(SupportPilotError):
    """Trying again cannot help."""


class ModelOutputUnusable(Permanent):
    """The model's output did not validate, even after one repair."""


class LeaseLost(SupportPilotError):
    """The lease token is gone: another worker has the ticket."""


class Overtaken(SupportPilotError):
    """The customer has written again, and nothing of this turn has left its thread yet."""


class Refused(SupportPilotError):
    """A rule says no."""


class NotFound(Refused):
    """No such id."""


class Erased(NotFound):
    """It was erased at the customer's request."""


class Stale(Refused):
    """The customer has written since the version that was decided on."""


class AlreadyDecided(Refused):
    """The approval is not pending any more."""


class Forbidden(Refused):
    """The person's role does not include it."""


class Misconfigured(SupportPilotError):
    """Wrong usage or configuration."""


class Unusable(SupportPilotError):
    """Input with a good signature that cannot become a message."""


def shown_error(error: BaseException) -> str:
    """Return an error for the log and Flower: ours by its text, a foreign one by type and place.

    A foreign text may quote the customer (pydantic does), and so may the variables that a traceback can show.
    """
    if isinstance(error, SupportPilotError):
        return str(error)
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-3:]]
    return f"{type(error).__name__} at {' > '.join(places) or 'no line'}"
