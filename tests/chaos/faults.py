"""Breaks things at random from the seed, several at once; the end of a fault is an event like its beginning.

One thread, no waiting inside an event: whatever takes time (a frozen worker, a restart) is thawed or started again
by a later event.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import random
import signal
import time
from collections import Counter
from collections.abc import Callable

from chaos.load import Load
from chaos.world import MAIN_WORKERS, World

log = logging.getLogger(__name__)

LEASE_SECONDS = 6.0
MODEL_ERRORS = ("429", "500", "timeout", "cut", "malformed_json", "adversarial_summary", "no_json_schema", "slow")
GAP_SECONDS = (0.8, 5.0)
POSTGRES_GAP_SECONDS = (5.0, 40.0)
BREATH_SECONDS = 3.0        # after Postgres came back, before it is shaken again
IN_FLIGHT_SECONDS = 1.0

Fault = Callable[["Injector"], str]      # returns what was done, "" if it was not possible just now


class Injector:
    """Runs the faults until `until`; `done` counts them."""

    def __init__(self, world: World, load: Load, seed: int) -> None:
        self.world, self.load = world, load
        self.rng = random.Random(f"faults/{seed}")
        self.done: Counter[str] = Counter()
        self.died: Counter[str] = Counter()
        self._ends: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._deck: list[Fault] = []
        self._model_deck: list[str] = []
        self.postgres_up_since = time.monotonic()

    def run(self, seconds: float) -> None:
        """Inject for `seconds`; faults that are still on at the end are ended by `World.mend`."""
        until = time.monotonic() + seconds
        fault_at = time.monotonic() + 1.0
        postgres_at = time.monotonic() + self.rng.uniform(*POSTGRES_GAP_SECONDS)
        while (now := time.monotonic()) < until:
            self._end_due(now)
            self._notice_deaths()
            if now >= fault_at:
                self.count(self._draw()(self))
                fault_at = now + self.rng.uniform(*GAP_SECONDS)
            if now >= postgres_at:
                self.count(restart_postgres(self))
                postgres_at = now + 1.0 + self.rng.uniform(*POSTGRES_GAP_SECONDS)
            time.sleep(0.02)

    def later(self, seconds: float, end: Callable[[], None]) -> None:
        heapq.heappush(self._ends, (time.monotonic() + seconds, next(self._order), end))

    def start_later(self, name: str, low: float = 0.2, high: float = 2.0) -> None:
        self.later(self.rng.uniform(low, high), lambda: self.world.start(name))

    def count(self, what: str) -> None:
        if what:
            self.done[what] += 1
            log.info(what)

    def calm(self) -> bool:
        """Say whether Postgres has been up for a breath."""
        return self.world.is_up("postgres") and time.monotonic() - self.postgres_up_since > BREATH_SECONDS

    def _end_due(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            heapq.heappop(self._ends)[2]()

    def _draw(self) -> Fault:
        """Every kind comes once before any comes again, in a new order each time."""
        if not self._deck:
            self._deck = [fault for fault, times in DECK.items() for _ in range(times)]
            self.rng.shuffle(self._deck)
        return self._deck.pop()

    def draw_model_error(self) -> str:
        """Return the next kind of model error, in the same manner."""
        if not self._model_deck:
            self._model_deck = self.rng.sample(MODEL_ERRORS, len(MODEL_ERRORS))
        return self._model_deck.pop()

    def _notice_deaths(self) -> None:
        """A process that ended without being told is counted, and started again as a supervisor would."""
        for name in self.world.ended_by_themselves():
            self.died[name] += 1
            self.start_later(name)


def _some_worker(i: Injector) -> str:
    up = [name for name in MAIN_WORKERS if i.world.is_up(name)]
    return i.rng.choice(up) if up else ""


def kill_worker(i: Injector) -> str:
    name = _some_worker(i)
    if not name:
        return ""
    i.world.send(name, signal.SIGKILL)
    i.start_later(name)
    return "worker killed (-9)"


def stop_worker(i: Injector) -> str:
    name = _some_worker(i)
    if not name:
        return ""
    i.world.send(name, signal.SIGTERM)
    process = i.world.slots[name].process

    def again() -> None:
        """It may take its time; and it may have been killed and started meanwhile."""
        if process is not None and process.poll() is None:
            i.later(0.5, again)
        else:
            i.world.start(name)
    i.later(0.5, again)
    return "worker told to stop (SIGTERM)"


def freeze_worker(i: Injector) -> str:
    name = _some_worker(i)
    if not name:
        return ""
    i.world.send(name, signal.SIGSTOP)
    process = i.world.slots[name].process
    i.later(i.rng.uniform(1.3, 2.5) * LEASE_SECONDS,
            lambda: i.world.slots[name].process is process and i.world.send(name, signal.SIGCONT) and None)
    return "worker frozen past its lease, then woken"


def flush_redis(i: Injector) -> str:
    return "Redis flushed" if i.world.is_up("redis") and i.world.flush_redis() else ""


def kill_redis(i: Injector) -> str:
    if not i.world.is_up("redis"):
        return ""
    i.world.send("redis", signal.SIGKILL)
    i.start_later("redis", 0.5, 4.0)
    return "Redis killed, back empty"


def freeze_redis(i: Injector) -> str:
    if not i.world.is_up("redis"):
        return ""
    i.world.send("redis", signal.SIGSTOP)
    i.later(8.0, lambda: i.world.send("redis", signal.SIGCONT) and None)
    return "Redis frozen for 8 s"


def restart_postgres(i: Injector) -> str:
    """SIGINT ends every connection and writes all down; SIGQUIT is a crash."""
    if not i.calm():
        return ""
    hard = i.rng.random() < 0.4
    i.world.send("postgres", signal.SIGQUIT if hard else signal.SIGINT)
    process = i.world.slots["postgres"].process

    def again() -> None:
        if process is not None and process.poll() is None:
            i.later(0.1, again)
        else:
            i.world.start("postgres")
            i.postgres_up_since = time.monotonic()
    i.later(i.rng.uniform(0.2, 2.0), again)
    return "Postgres crashed and restarted" if hard else "Postgres stopped and restarted"


def kill_backend(i: Injector) -> str:
    if not i.calm() or not i.world.kill_backend(i.rng):
        return ""
    i.postgres_up_since = time.monotonic()
    return "Postgres backend killed (-9), recovery"


def break_model(i: Injector) -> str:
    kind = i.draw_model_error()
    times = i.rng.randint(1, 3 if kind in {"timeout", "malformed_json"} else 8)
    if kind == "slow":
        i.world.order_model(latency_ms=i.rng.uniform(500, 2500), times=times)
    else:
        i.world.order_model(error=kind, times=times)
    return f"model: {kind}"


def kill_web(i: Injector) -> str:
    """In mid-request if there is one soon."""
    deadline = time.monotonic() + IN_FLIGHT_SECONDS
    while not i.load.in_flight and time.monotonic() < deadline:
        time.sleep(0.0005)
    caught = bool(i.load.in_flight)
    if not i.world.send("web", signal.SIGKILL):
        return ""
    i.start_later("web", 0.1, 1.0)
    return "web killed in mid-request" if caught else "web killed"


def _killer(name: str, what: str) -> Fault:
    def kill(i: Injector) -> str:
        if not i.world.send(name, signal.SIGKILL):
            return ""
        i.start_later(name)
        return what
    return kill


DECK: dict[Fault, int] = {
    kill_worker: 4, stop_worker: 1, freeze_worker: 2, flush_redis: 1, kill_redis: 1, freeze_redis: 1, kill_backend: 2,
    break_model: 4, kill_web: 2, _killer("beat", "beat killed"): 1, _killer("desk", "desk worker killed"): 1,
    _killer("background", "background worker killed"): 1,
}
