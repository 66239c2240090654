"""A handle on a whole running SupportPilot: the demo and the tests start the same `up` that an operator starts."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from producer.cli.keeper import dies_with_parent
from producer.cli.pids import read_pid
from supportpilot.config import Settings, load_settings
from supportpilot.errors import Misconfigured

READY_SECONDS = 90.0
STOP_SECONDS = 40.0


class Stack:
    """`supportpilot up` on a DATA_DIR, as a child process; a context manager stops it at the end.

    The child ends with the thread that started it (Linux), so start it from the main thread.
    """

    def __init__(self, data_dir: Path, environment: Mapping[str, str] | None = None, *, demo_data: bool = True) -> None:
        self.data_dir = data_dir
        self._arguments = [] if demo_data else ["--no-demo-data"]
        inherited = dict(os.environ) if environment is None else dict(environment)  # noqa: TID251 -- handed on
        self._environment = inherited | {"DATA_DIR": str(data_dir)}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Stack:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def log(self) -> Path:
        """What `up` and its processes print."""
        return self.data_dir / "logs" / "up.log"

    def start(self) -> None:
        """Start it; `wait_ready` says when it can be used."""
        for folder in (self.data_dir, self.log.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "producer.cli.up", *self._arguments], env=self._environment,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                preexec_fn=dies_with_parent(signal.SIGTERM),
            )

    def wait_ready(self, timeout: float = READY_SECONDS) -> dict[str, Any]:
        """Wait until web, Flower and the worker processes run; return what `run.json` says.

        Raises:
            Misconfigured: it ended or is not ready in time; the text has the last line of its log.
        """
        deadline = time.monotonic() + timeout
        while not self._is_ready():
            if time.monotonic() > deadline or not self.is_running():
                text = self.log.read_text(encoding="utf-8", errors="replace").strip() if self.log.exists() else ""
                raise Misconfigured(f"`up` is not ready: {text.splitlines()[-1] if text else 'no output'}")
            time.sleep(0.1)
        return self.found()

    def found(self) -> dict[str, Any]:
        """Return the contents of `run.json`; {} before this `up` has written it."""
        try:
            values = dict(json.loads((self.data_dir / "run.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {}
        return values if self._process and values["pid"] == self._process.pid else {}

    def settings(self) -> Settings:
        """Return the settings of the running system, for code that talks to it directly."""
        return load_settings(**self.found()["settings"], data_dir=self.data_dir)

    def is_running(self) -> bool:
        """Say whether `up` itself runs."""
        return self._process is not None and self._process.poll() is None

    def pid(self, name: str) -> int | None:
        """Return the pid of a process (`worker`, `web`, `postgres`, ...), or None while it does not run."""
        return read_pid(self.data_dir / "pids" / f"{name}.pid")

    def kill(self, name: str) -> int:
        """Kill a process with SIGKILL and return its old pid once it is gone; its keeper starts it again.

        Raises:
            Misconfigured: it does not run.
        """
        pid = self.pid(name)
        if pid is None:
            raise Misconfigured(f"{name} does not run")
        os.kill(pid, signal.SIGKILL)
        while self.pid(name) == pid:
            time.sleep(0.01)
        return pid

    def kill_all(self) -> None:
        """Kill `up` itself with SIGKILL, as the system would when memory runs out."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, timeout: float = STOP_SECONDS) -> int:
        """Stop everything as Ctrl-C does and return the exit code of `up`."""
        if self._process is None:
            return 0
        if self.is_running():
            self._process.terminate()
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill_all()
            raise

    def _is_ready(self) -> bool:
        found = self.found()
        if not found or any(self.pid(name) is None for name in found["processes"]):
            return False
        login = found["settings"]["flower_basic_auth"]
        return _answers(f"{found['urls']['web']}/healthz") and _answers(f"{found['urls']['flower']}/", login)


def _answers(url: str, login: str = "") -> bool:
    request = urllib.request.Request(url)  # noqa: S310 -- our own address
    if login:
        request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
