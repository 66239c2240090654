"""The product as it runs in production, in a folder of its own: servers, model, web, workers, desk, beat.

Every process is this one's child and dies with it; nothing is touched that was not started here. Start processes
from the main thread only: the system ends a child when the thread that started it ends.
"""

from __future__ import annotations

import base64
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from producer.cli import embedded
from producer.cli.embedded import HOST, Embedded
from producer.cli.keeper import dies_with_parent, rights
from producer.cli.processes import free_port
from supportpilot.config import Settings
from supportpilot.db.migrate import migrate
from supportpilot.db.pool import Connection, connect
from supportpilot.db.seed import seed

POSTGRES = "fsync = off\nfull_page_writes = off\nmax_connections = 300\n"
SKEW = Path(__file__).parent / "skew"
START_SECONDS = 90.0
MODEL_MILLISECONDS = 400.0      # as usual: a turn takes a second or two, so that faults meet turns
SETTINGS = {
    "TURN_DEBOUNCE_SECONDS": "0.3", "TURN_DEBOUNCE_MAX_SECONDS": "1", "LEASE_SECONDS": "6", "SWEEP_SECONDS": "1", "TURN_DEADLINE_SECONDS": "60",
    "LLM_TIMEOUT_SECONDS": "3", "REPLY_TIMEOUT_SECONDS": "2", "MAX_CRASHES": "1000", "MAX_ATTEMPTS": "50",
    "TICKET_COST_CAP_CNY": "1000", "WORKER_CONCURRENCY": "8",
    "TICKET_RATE_LIMITS": "off",      # the storm's customers write like machines
}
_WORKER = ("celery", "-A", "worker.app", "worker", "-P", "threads", "-E", "--without-gossip", "--without-mingle")
MAIN_QUEUES = "approvals,tickets,delivery"
MAIN_WORKERS = ("worker1", "worker2")


@dataclass
class Slot:
    """A place for one process; `process` is None while it is down."""

    name: str
    command: list[str]
    skewed: bool = False
    user: str = ""
    process: subprocess.Popen[bytes] | None = None
    frozen: bool = False
    told: bool = False          # to end; else its end is its own doing
    starts: int = 0

    @property
    def up(self) -> bool:
        return self.process is not None and self.process.poll() is None


@dataclass
class World:
    """All of it; use as a context manager."""

    seed: int
    callback_url: str
    callback_secret: str
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="supportpilot-chaos-")))
    slots: dict[str, Slot] = field(default_factory=dict)
    offsets: list[float] = field(default_factory=list)
    webhook_secret: str = field(default_factory=lambda: "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode())

    def __post_init__(self) -> None:
        self._rng = random.Random(f"world/{self.seed}")
        self._postgres, self._redis, self._model = self._servers()
        self.port = free_port(HOST, 0, "PORT")
        self.environment = self._environment()
        self.settings = Settings(database_url=self._postgres.url, redis_url=self._redis.url, turn_debounce_seconds=0)
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def database_url(self) -> str:
        return self._postgres.url

    def _servers(self) -> tuple[Embedded, Embedded, Embedded]:
        postgres = embedded.postgres(self.folder)
        with (self.folder / "postgres" / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(POSTGRES)
        return postgres, embedded.redis(self.folder), embedded.offline_model(sys.executable)

    def _environment(self) -> dict[str, str]:
        ours = {name.upper() for name in Settings.model_fields}
        kept = {k: v for k, v in os.environ.items()
                if k not in ours and not k.startswith(("WEBHOOK_", "REPLY_", "TURN_", "PYTEST_")) and k != "PYTHONPATH"
                and not k.lower().endswith("_proxy")}
        return kept | SETTINGS | {
            "DATABASE_URL": self._postgres.url, "REDIS_URL": self._redis.url, "OPENAI_BASE_URL": self._model.url,
            "DATA_DIR": str(self.folder), "HOST": HOST, "PORT": str(self.port), "WEBHOOK_SECRET": self.webhook_secret,
            "REPLY_CALLBACK_URL": self.callback_url, "REPLY_CALLBACK_SECRET": self.callback_secret, "PYTHONUNBUFFERED": "1",
        }

    def __enter__(self) -> World:
        try:
            self._start_servers()
            self._start_processes()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start_servers(self) -> None:
        for server in (self._postgres, self._redis, self._model):
            user = str(server.options.get("user", ""))
            self.slots[server.name] = Slot(server.name, server.command, user=user)
            self.start(server.name)
        for server in (self._postgres, self._redis, self._model):
            self.wait_for(server.answers, server.name)
        self._control(latency_ms=MODEL_MILLISECONDS, times=None)
        migrate(self._postgres.url)
        seed(self._postgres.url)

    def _start_processes(self) -> None:
        python = [sys.executable, "-P", "-m"]
        workers = dict.fromkeys(MAIN_WORKERS, ("8", MAIN_QUEUES)) | {"desk": ("1", "desk"), "background": ("2", "background")}
        self.slots["web"] = Slot("web", [*python, "producer.web"])
        for name, (slots, queues) in workers.items():
            command = [*python, *_WORKER, "-n", f"{name}@chaos", "-c", slots, "-Q", queues]
            self.slots[name] = Slot(name, command, skewed=True)
        self.slots["beat"] = Slot("beat", [*python, "celery", "-A", "worker.app", "beat", "--pidfile=", "-s",
                                           str(self.folder / "beat-schedule")])
        for name in ("web", *workers, "beat"):
            self.start(name)
        for name in workers:
            self.wait_for(lambda name=name: "ready." in self.log_of(name), f"{name} to be ready")
        self.wait_for(lambda: "web listening" in self.log_of("web"), "web to listen")

    def wait_for(self, condition: Callable[[], object], what: str, seconds: float = START_SECONDS) -> None:
        """Wait until the condition holds; raise TimeoutError."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {seconds:g} s in vain for {what}; logs in {self.folder}")
            time.sleep(0.05)

    def log_of(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def start(self, name: str) -> None:
        """Start a slot's process and do not wait for it; a worker gets another clock each time."""
        slot = self.slots[name]
        if slot.up:
            return
        environment = self.environment
        if slot.skewed:
            offset = self._offset(slot)
            self.offsets.append(offset)
            environment = environment | {"PYTHONPATH": str(SKEW), "CHAOS_CLOCK_OFFSET": f"{offset:.3f}"}
        with (self.folder / f"{name}.log").open("ab") as out:
            out.write(f"--- start {slot.starts}\n".encode())
            slot.process = subprocess.Popen(
                slot.command, env=environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True, preexec_fn=dies_with_parent(_gentle(name)), **rights(slot.user))
        slot.frozen, slot.told, slot.starts = False, False, slot.starts + 1

    def _offset(self, slot: Slot) -> float:
        """Return 100 ms to 60 s, the main workers' on different sides of Postgres' clock, and far apart at first.

        Else a short storm could have two workers whose clocks agree by chance, and prove nothing about them.
        """
        far = slot.starts == 0 and slot.name in MAIN_WORKERS
        size = self._rng.uniform(10, 30) if far else 10 ** self._rng.uniform(-1, 1.778)
        side = {MAIN_WORKERS[0]: 1, MAIN_WORKERS[1]: -1}.get(slot.name) or self._rng.choice((-1, 1))
        return size * side

    def send(self, name: str, number: int) -> bool:
        """Send a signal to a slot's process; False if it is down."""
        slot = self.slots[name]
        if not slot.up or slot.process is None:
            return False
        slot.process.send_signal(number)
        if number in {signal.SIGSTOP, signal.SIGCONT}:
            slot.frozen = number == signal.SIGSTOP
        else:
            slot.told = True
        if number == signal.SIGKILL:
            slot.process.wait(20)
        return True

    def is_up(self, name: str) -> bool:
        return self.slots[name].up and not self.slots[name].frozen

    def kill_backend(self, rng: random.Random) -> bool:
        """Kill one client's backend of our Postgres with -9; False if there was none."""
        try:
            with self.connection() as conn:
                rows = conn.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
                                    "AND pid <> pg_backend_pid() AND state IN ('active', 'idle in transaction')").fetchall()
                rows = rows or conn.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
                                            "AND pid <> pg_backend_pid()").fetchall()
                pids = [int(r["pid"]) for r in rows]
        except Exception:
            return False
        ours = [pid for pid in pids if self._is_our_backend(pid)]
        if not ours:
            return False
        os.kill(rng.choice(ours), signal.SIGKILL)
        return True

    def _is_our_backend(self, pid: int) -> bool:
        postmaster = self.slots["postgres"].process
        try:
            parent = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1]
        except OSError:
            return False
        return postmaster is not None and int(parent) == postmaster.pid

    def connection(self) -> Connection:
        return connect(self._postgres.url)

    def flush_redis(self) -> bool:
        try:
            with redis.Redis.from_url(self._redis.url, socket_timeout=2, socket_connect_timeout=2) as client:
                client.flushall()
        except redis.RedisError:
            return False
        return True

    def order_model(self, **order: Any) -> None:
        """Order what the offline model does to its next requests, in place of earlier orders; then it is usual again."""
        self._control(reset=True, **order)
        self._control(latency_ms=MODEL_MILLISECONDS, times=None)

    def _control(self, **order: Any) -> None:
        address = self._model.url.removesuffix("/v1") + "/_control"
        request = urllib.request.Request(address, json.dumps(order).encode(), {"Content-Type": "application/json"})
        with self._open(request, timeout=10):
            pass

    def mend(self) -> None:
        """Thaw, start and wait for everything."""
        for name, slot in self.slots.items():
            if slot.frozen:
                self.send(name, signal.SIGCONT)
        for name in self.slots:
            self.start(name)
        for server in (self._postgres, self._redis, self._model):
            self.wait_for(server.answers, server.name)
        self._control(reset=True)

    def ended_by_themselves(self) -> list[str]:
        """Return whose process has ended without being told, each once."""
        ended = [n for n, s in self.slots.items() if s.process is not None and not s.up and not s.told]
        for name in ended:
            self.slots[name].told = True
        return ended

    def close(self) -> None:
        """End everything, the servers last."""
        for name, slot in sorted(self.slots.items(), key=lambda item: item[0] in {"postgres", "redis", "model"}):
            if slot.frozen:
                self.send(name, signal.SIGCONT)
            if slot.up and slot.process is not None:
                slot.process.send_signal(signal.SIGINT if name == "postgres" else signal.SIGKILL)
        for slot in self.slots.values():
            if slot.process is not None:
                try:
                    slot.process.wait(20)
                except subprocess.TimeoutExpired:
                    slot.process.kill()
                    slot.process.wait(20)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _gentle(name: str) -> int:
    return signal.SIGINT if name == "postgres" else signal.SIGKILL


