"""The base of every task: log context, one line per run, and what an unexpected error does.

Bookkeeping of failed turns is the domain's (`service/`), in Postgres; nothing is retried here. An error that
gets this far leaves a log entry, and the sweeper sends the work again when it is due.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

import structlog
from celery import Task
from celery.signals import setup_logging
from structlog.typing import EventDict, Processor

from supportpilot.config import get_settings
from supportpilot.errors import LeaseLost, SupportPilotError, shown_error

log = structlog.get_logger("worker")


class Unexpected(SupportPilotError):
    """An error that nobody foresaw, by type and place: Celery would show its text in the log and in Flower."""


class DeskTask(Task):  # type: ignore[misc] # celery has no types
    """Run the task with its name and ids in the log context."""

    abstract = True
    # Celery logs these as one line instead of a traceback: they say in their text what happened.
    throws = (SupportPilotError,)

    def __call__(self, *args: str, **kwargs: str) -> Any:  # noqa: ANN401 -- as the task
        """Run it; every error is logged and raised again, for Celery's own events."""
        started = time.monotonic()
        with structlog.contextvars.bound_contextvars(task=self.name, ids=" ".join([*args, *kwargs.values()])):
            try:
                outcome = self.run(*args, **kwargs)
            except LeaseLost as error:
                log.info("lease lost", reason=str(error))
                raise
            except SupportPilotError as error:
                log.warning("given back", error=type(error).__name__, reason=str(error))
                raise
            except Exception as error:  # noqa: BLE001 -- the last line of defence; it is raised again
                log.error("failed unexpectedly", error=shown_error(error))  # noqa: TRY400 -- one line, not a traceback
                raise Unexpected(shown_error(error)) from None
            took = round((time.monotonic() - started) * 1000)
            (log.info if _happened(outcome) else log.debug)("done", outcome=outcome, ms=took)
        return outcome


def _happened(outcome: object) -> bool:
    return any(outcome.values()) if isinstance(outcome, dict) else bool(outcome)


@setup_logging.connect  # type: ignore[untyped-decorator] # celery has no types
def configure_logging(**_: object) -> None:
    """Write one line per event to stderr, ours and the libraries' alike."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars, structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(), structlog.processors.TimeStamper(fmt="iso"),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(), wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    _one_line, structlog.dev.ConsoleRenderer(colors=False)],
    ))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(get_settings().log_level)
    for chatty in ("httpx", "celery.beat", "celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(chatty).setLevel(logging.WARNING)     # our own line says the same, with the outcome


def _one_line(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Put an error's type and place on the event's line; the stock traceback shows the variables of every frame."""
    found = event.pop("exc_info", None)
    error = sys.exc_info()[1] if found is True else found[1] if isinstance(found, tuple) else found
    return {**event, "error": shown_error(error)} if isinstance(error, BaseException) else event
