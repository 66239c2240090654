"""What one worker process owns: pool, ports, compiled graph, lease heartbeat.

Opened at the first task (so after any fork), closed by Celery's shutdown signals.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from dataclasses import replace

from celery.signals import worker_process_shutdown, worker_shutdown, worker_shutting_down

from supportpilot.agent.deps import Deps
from supportpilot.agent.graph import build_graph
from supportpilot.config import Settings, get_settings
from supportpilot.db.pool import Database
from supportpilot.desk.lease import Heartbeat
from supportpilot.errors import Misconfigured
from supportpilot.memory.checkpoint import checkpointer_over
from supportpilot.service import turn
from supportpilot.service.live import LiveBoard
from supportpilot.service.turn import Runtime
from worker.publish import flush, make_ports

log = logging.getLogger(__name__)

SPARE_CONNECTIONS = 4   # besides one per running turn

_current: Runtime | None = None
_opening = threading.Lock()


def runtime() -> Runtime:
    """Return this process' runtime, opened on first use.

    Raises:
        Misconfigured: no database is configured.
    """
    global _current
    with _opening:
        if _current is None:
            _current = open_runtime(get_settings())
        return _current


def open_runtime(settings: Settings) -> Runtime:
    """Build a runtime; the caller closes it with `close_runtime`.

    Raises:
        Misconfigured: no database is configured.
    """
    if not settings.database_url:
        raise Misconfigured("no database: set DATABASE_URL, or start everything with `supportpilot up`")
    db = Database(settings.database_url, max_size=settings.worker_concurrency + SPARE_CONNECTIONS).open()
    keeper = Heartbeat(settings.database_url, settings)
    keeper.start()
    live = LiveBoard(db)
    live.start()
    ports = make_ports(settings)
    deps = replace(Deps.over(db, settings, ports), check_lease=keeper.check)
    return Runtime(
        db=db, graph=build_graph(deps, checkpointer_over(db)), deps=deps, settings=settings,
        ports=ports, keeper=keeper, holder=_holder(), live=live,
    )


def close_runtime(opened: Runtime) -> None:
    """Stop the heartbeat and close the pool."""
    opened.keeper.stop()
    if opened.live is not None:
        opened.live.stop()
    flush(1.0)
    opened.deps.close()
    opened.db.close()


def _holder() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


@worker_shutting_down.connect  # type: ignore[untyped-decorator] # celery has no types
def _hand_back(**_: object) -> None:
    """Called in a signal handler, which must not wait for a lock: a thread of its own does it."""
    threading.Thread(target=_stop_turns, name="hand-back", daemon=True).start()


def _stop_turns() -> None:
    opened = _current
    if opened is None:
        return
    late = turn.stop(opened, opened.settings.drain_seconds)
    if late:
        log.warning("handed back %d turns in mid-node", late)


@worker_shutdown.connect  # type: ignore[untyped-decorator] # celery has no types
@worker_process_shutdown.connect  # type: ignore[untyped-decorator]
def _close(**_: object) -> None:
    global _current
    with _opening:
        if _current is not None:
            close_runtime(_current)
            _current = None
