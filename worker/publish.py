"""The only caller of `send_task`: by name, ids only, bounded, and never in the caller's way.

A request that stored a message must not wait for the broker: a black-holed broker costs seconds per call, a
frozen one for ever. So a bounded queue and one daemon thread stand in between; what does not fit or cannot be
sent is dropped with a log line, because the sweeper sends again whatever Postgres says is due.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass
from queue import Empty, Full, Queue

from celery import Celery
from kombu.exceptions import KombuError, OperationalError

from supportpilot.config import Settings
from supportpilot.errors import Misconfigured, Unavailable
from supportpilot.types import Ports
from worker.app import publisher_app
from worker.queues import ROUTES

log = logging.getLogger(__name__)

QUEUE_LENGTH = 1_000
SOCKET_SECONDS = 1.0
SENT_AGAIN = {"memory": "the next turn asks for it again", "kb": "beat will send it"}
PAUSE_SECONDS = 2.0     # after a failed send nothing is tried for so long: no retry storm


@dataclass(frozen=True)
class Wakeup:
    """One task to send: its name and ids, nothing else."""

    name: str
    ids: tuple[str, ...]
    countdown: float = 0.0

    @property
    def comes_back(self) -> str:
        """Say what brings the work back if this is lost; memory is advice, which nobody waits for."""
        return SENT_AGAIN.get(self.name.partition(".")[0], "the sweeper will send it")


class Publisher:
    """A bounded queue and the thread that empties it; one per process and broker."""

    def __init__(self, settings: Settings, *, length: int = QUEUE_LENGTH) -> None:
        self._settings = settings
        self._length = length
        self._starting = threading.Lock()
        self._app: Celery | None = None
        self._pid = 0
        self._reset()

    def _reset(self) -> None:
        self._queue: Queue[Wakeup] = Queue(self._length)
        self._thread: threading.Thread | None = None
        self._paused_until = 0.0

    def ports(self) -> Ports:
        """Return the ports that the domain calls."""
        return Ports(
            schedule_turn=lambda ticket_id, message_id, countdown:
                self.put(Wakeup("ticket.handle_message", (ticket_id, message_id), countdown)),
            schedule_resume=lambda ticket_id, approval_id: self.put(Wakeup("ticket.resume", (ticket_id, approval_id))),
            schedule_delivery=lambda reply_id: self.put(Wakeup("reply.deliver", (reply_id,))),
            schedule_compress=lambda ticket_id: self.put(Wakeup("memory.compress", (ticket_id,))),
            # Late, so that the first of a burst of changes finds them all and the others nothing to do.
            schedule_profile=lambda customer_id: self.put(
                Wakeup("memory.rebuild_profile", (customer_id,), self._settings.profile_debounce_seconds)),
            schedule_prune=lambda ticket_id: self.put(Wakeup("memory.prune", (ticket_id,))),
            schedule_retain=lambda: self.put(Wakeup("memory.retain", ())),
            schedule_erase=lambda customer_id: self.put(Wakeup("privacy.erase_customer", (customer_id,))),
            schedule_embed=lambda: self.put(Wakeup("kb.embed", ())),
            schedule_notify=lambda about, subject_id: self.put(Wakeup(f"{about}.notify", (subject_id,))),
            schedule_mail=lambda mail_id: self.put(Wakeup("mail.file", (mail_id,))),
        )

    def put(self, wakeup: Wakeup) -> None:
        """Hand a wake-up to the background thread; returns at once and never raises."""
        self._ensure_thread()
        try:
            self._queue.put_nowait(wakeup)
        except Full:
            log.warning("publisher full, dropped %s %s; %s", wakeup.name, wakeup.ids, wakeup.comes_back)

    def flush(self, timeout: float) -> bool:
        """Wait until everything handed in was sent or dropped; False if `timeout` seconds were not enough."""
        deadline = time.monotonic() + timeout
        while self._queue.unfinished_tasks:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        return True

    def _ensure_thread(self) -> None:
        with self._starting:
            if self._pid != os.getpid():    # after a fork the thread is gone and the queue's locks may be held
                self._pid = os.getpid()
                self._app = None
                self._reset()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="publisher", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            wakeup = self._queue.get()
            try:
                self._send_or_drop(wakeup)
            except Exception:
                log.exception("publisher dropped %s %s; %s", wakeup.name, wakeup.ids, wakeup.comes_back)
            finally:
                self._queue.task_done()

    def _send_or_drop(self, wakeup: Wakeup) -> None:
        if time.monotonic() < self._paused_until:
            log.debug("publisher paused, dropped %s %s", wakeup.name, wakeup.ids)
            return
        try:
            self._app = self._app or publisher_app(self._settings, SOCKET_SECONDS)
            _send(self._app, wakeup)
        except (Unavailable, Misconfigured) as error:
            dropped = 1 + self._drop_waiting()
            log.warning("%s; dropped %d wake-ups: the sweeper will send them, the next turn asks again for its memory", error, dropped)
            self._paused_until = time.monotonic() + PAUSE_SECONDS

    def _drop_waiting(self) -> int:
        dropped = 0
        while True:
            try:
                self._queue.get_nowait()
            except Empty:
                return dropped
            self._queue.task_done()
            dropped += 1


def _send(app: Celery, wakeup: Wakeup) -> None:
    """Raise Unavailable if the broker did not take it."""
    if wakeup.name not in ROUTES:
        raise ValueError(f"no queue is known for task {wakeup.name!r}")
    try:
        app.send_task(
            wakeup.name, args=list(wakeup.ids), countdown=wakeup.countdown or None, queue=ROUTES[wakeup.name],
            retry=False, ignore_result=True,
        )
    except (KombuError, OperationalError, OSError, *app.connection_for_write().connection_errors) as error:
        raise Unavailable(f"broker away: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}") from error


_publishers: dict[str, Publisher] = {}
_registering = threading.Lock()


def make_ports(settings: Settings) -> Ports:
    """Return ports that wake the workers up through the broker of `settings`; without one they do nothing."""
    if not settings.broker:
        return Ports()
    with _registering:
        publisher = _publishers.setdefault(settings.broker, Publisher(settings))
    return publisher.ports()


def flush(timeout: float = 3.0) -> bool:
    """Wait until what was handed in is sent or dropped (commands that end at once); False if it took too long."""
    deadline = time.monotonic() + timeout
    return all(p.flush(max(0.0, deadline - time.monotonic())) for p in list(_publishers.values()))


def send_now(settings: Settings, name: str, *ids: str) -> None:
    """Send one task and wait for the broker's answer (`doctor`, tests).

    Raises:
        Misconfigured: no broker is configured.
        Unavailable: the broker did not take it.
    """
    _send(publisher_app(settings, SOCKET_SECONDS), Wakeup(name, ids))
