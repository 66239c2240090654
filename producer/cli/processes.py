"""The process table: what `up` runs besides the servers. The top-level Procfile says the same (a test compares)."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import socket
import sys
import sysconfig
from pathlib import Path
from typing import Any

import honcho.manager
from honcho.manager import Manager
from honcho.process import Process

from producer.cli.keeper import keeper_command
from supportpilot.config import Settings
from supportpilot.errors import Misconfigured

_WORKER = "celery -q -A worker.app worker -P threads -E --without-gossip --without-mingle"

PROCESSES: dict[str, str] = {
    "web": "python -m producer.web",
    "worker": f'{_WORKER} -n worker@%h -c "$WORKER_CONCURRENCY" -Q approvals,tickets,delivery',
    "background": f"{_WORKER} -n background@%h -c 2 -Q background",
    "desk": f"{_WORKER} -n desk@%h -c 1 -Q desk",
    "beat": 'celery -q -A worker.app beat -s "$DATA_DIR/beat-schedule" --pidfile=',
    "flower": "python -m worker.flower",
}

KILL_SECONDS = 15   # above the keepers' grace, so that they finish first
NEXT_PORTS = 50
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class DrainedProcess(Process):  # type: ignore[misc] # honcho has no types
    """honcho's reader of one process' output; it goes on reading, but tells nobody, once `up` was killed.

    The stock one would wait for ever for somebody to read what it wants to tell.
    """

    def run(self, events: Any = None, ignore_signals: bool = False) -> None:  # noqa: ANN401 -- multiprocessing's queue
        """Read until the process ends."""
        self._up = os.getppid()
        super().run(events, ignore_signals)
        if os.getppid() != self._up:
            events.cancel_join_thread()

    def _send_message(self, data: object, type: str = "line") -> None:
        if os.getppid() == self._up:
            super()._send_message(data, type)


class ProcessManager(Manager):  # type: ignore[misc] # honcho has no types
    """honcho's manager, deaf to Ctrl-C until all its processes have reported (it would trip over the others)."""

    def __init__(self) -> None:
        super().__init__()
        self._process_ctor = DrainedProcess

    def _start(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        super()._start()

    def _all_started(self) -> bool:
        started = bool(super()._all_started())
        if started:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        return started


def process_manager(data_dir: Path, environment: dict[str, str]) -> Manager:
    """Return a manager that runs the table, each process under its keeper."""
    honcho.manager.KILL_WAIT = KILL_SECONDS
    manager = ProcessManager()
    for name, command in PROCESSES.items():
        kept = keeper_command(name, data_dir, ["sh", "-c", f"exec {_with_this_python(command)}"])
        manager.add_process(name, "exec " + shlex.join(kept), env=environment, cwd=str(data_dir))
    return manager


def _with_this_python(command: str) -> str:
    """The table's programs are those of the Python that runs `up`, whatever the PATH says."""
    program, _, rest = command.partition(" ")
    python = f"{shlex.quote(sys.executable)} -P"
    return f"{python} {rest}" if program == "python" else f"{python} -m {program} {rest}"


def child_environment(settings: Settings) -> dict[str, str]:
    """Return what the children inherit, the programs of this Python first on the path."""
    ours = {
        "DATABASE_URL": settings.database_url, "REDIS_URL": settings.redis_url, "BROKER_URL": settings.broker_url,
        "OPENAI_BASE_URL": settings.openai_base_url, "WEBHOOK_SECRET": settings.webhook_secret,
        "FLOWER_BASIC_AUTH": settings.flower_basic_auth, "PUBLIC_URL": settings.public_url,
        "CUSTOMER_LINK_SECRET": settings.customer_link_secret, "HOST": settings.host,
        "PORT": settings.port, "FLOWER_PORT": settings.flower_port, "DATA_DIR": settings.data_dir,
        "WORKER_CONCURRENCY": settings.worker_concurrency, "PYTHONUNBUFFERED": 1,
    }
    inherited = dict(os.environ)  # noqa: TID251 -- children see everything that `up` was started with
    programs = [str(Path(sys.executable).parent), sysconfig.get_path("scripts"), inherited.get("PATH", os.defpath)]
    return inherited | {k: str(v) for k, v in ours.items() if v is not None} | {"PATH": os.pathsep.join(programs)}


def free_port(host: str, wanted: int, variable: str) -> int:
    """Return `wanted`, or the next free port if it is taken.

    Raises:
        Misconfigured: this address or port cannot be had; the text names the variable.
    """
    for port in [*range(wanted, min(wanted + NEXT_PORTS, 65_536)), 0] if wanted else [0]:
        try:
            return _try_port(host, port)
        except (socket.gaierror, UnicodeError) as error:
            raise Misconfigured(f"HOST: {host[:80]} is no address of this machine: {error}") from None
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                reason = error.strerror or str(error)
                raise Misconfigured(f"{variable}: cannot listen on {host} port {port}: {reason}") from None
    raise Misconfigured(f"{variable}: no free port on {host}")


def _try_port(host: str, port: int) -> int:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trial.bind(address)
        return int(trial.getsockname()[1])
