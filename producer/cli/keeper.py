"""Run one process, start it again when it dies, end it when its owner is gone: `python -m producer.cli.keeper`.

Without it a killed worker would stay dead, and a killed `up` would leave a worker behind that nobody sees.
The owner is whoever holds the lock on OWNER_FILE under the pid that the keeper was given; the system drops such
a lock however the owner ends.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TypedDict

from producer.cli.pids import write_pid

OWNER_FILE = "up.lock"
POLL_SECONDS = 0.1
OWNER_CHECK_SECONDS = 0.5
FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 15.0
HEALTHY_SECONDS = 20.0      # a process that lived that long starts again without a growing pause
PR_SET_PDEATHSIG = 1


def owner_lives(owner_file: Path, pid: int) -> bool:
    """Say whether process `pid` still holds the owner's lock."""
    try:
        with owner_file.open("r+", encoding="ascii") as file:
            if file.read().strip() != str(pid):
                return False
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:     # held by the owner
        return True
    return False


def dies_with_parent(sign: int) -> Callable[[], None]:
    """Return a `preexec_fn`: the system sends `sign` when the parent (its starting thread) ends. Linux only."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def set_signal() -> None:
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, sign)
    return set_signal


class Rights(TypedDict, total=False):
    """Arguments of `subprocess.Popen` that change the user."""

    user: int
    group: int
    extra_groups: list[int]


class Keeper:
    """One process and its restarts."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._pid_file = Path(options.pid_file)
        self._stop_signal = signal.Signals[f"SIG{options.signal}"]
        self._stopping = False
        self._checked = 0.0

    def ask_to_stop(self, _signal: int, _frame: FrameType | None) -> None:
        """Signal handler."""
        self._stopping = True

    def run(self) -> int:
        """Keep the process alive until asked to stop or until the owner is gone."""
        pause = FIRST_BACKOFF_SECONDS
        while self._wanted():
            started = time.monotonic()
            child = self._start()
            code = self._watch(child)
            if code is None:
                break
            pause = FIRST_BACKOFF_SECONDS if time.monotonic() - started > HEALTHY_SECONDS else pause
            self._say(f"ended ({code}), starts again in {pause:g} s")
            self._wait(pause)
            pause = min(pause * 2, LONGEST_BACKOFF_SECONDS)
        self._pid_file.unlink(missing_ok=True)
        return 0

    def _wanted(self) -> bool:
        if not self._stopping and time.monotonic() - self._checked > OWNER_CHECK_SECONDS:
            self._checked = time.monotonic()
            self._stopping = not owner_lives(Path(self._options.owner_file), self._options.owner)
        return not self._stopping

    def _start(self) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            self._options.command, cwd=self._options.cwd, start_new_session=True, stdin=subprocess.DEVNULL,
            preexec_fn=dies_with_parent(self._stop_signal if self._options.gentle else signal.SIGKILL),
            **rights(self._options.user),
        )
        write_pid(self._pid_file, child.pid)
        return child

    def _watch(self, child: subprocess.Popen[bytes]) -> int | None:
        """Return the exit code if the process ended by itself, None if it was ended because it is not wanted."""
        while self._wanted():
            code = child.poll()
            if code is not None:
                return code
            time.sleep(POLL_SECONDS)
        self._end(child)
        return None

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        if child.poll() is None:
            child.send_signal(self._stop_signal)
        try:
            child.wait(self._options.grace)
        except subprocess.TimeoutExpired:
            self._say(f"did not stop within {self._options.grace:g} s, killed")
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._wanted() and time.monotonic() < until:
            time.sleep(POLL_SECONDS)

    def _say(self, text: str) -> None:
        print(f"{self._pid_file.stem} {text}", flush=True)


def rights(user: str) -> Rights:
    """Return what `subprocess` needs to run something as `user`; nothing if that is empty."""
    if not user:
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def keeper_command(name: str, data_dir: Path, command: list[str], **options: object) -> list[str]:
    """Return the command line that keeps `command` alive for the calling process."""
    line = [
        sys.executable, "-P", "-m", "producer.cli.keeper",
        "--pid-file", str(data_dir / "pids" / f"{name}.pid"),
        "--owner-file", str(data_dir / OWNER_FILE), "--owner", str(os.getpid()), "--cwd", str(data_dir),
    ]
    for option, value in options.items():
        line += [f"--{option}"] if value is True else [f"--{option}", str(value)]
    return [*line, "--", *command]


def main() -> int:
    """Read the command line and keep the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pid-file", required=True)
    parser.add_argument("--owner-file", required=True)
    parser.add_argument("--owner", type=int, required=True)
    parser.add_argument("--cwd", required=True)
    parser.add_argument("--signal", default="TERM", help="what asks the process to stop")
    parser.add_argument("--gentle", action="store_true", help="send that signal, not KILL, if the keeper is killed")
    parser.add_argument("--grace", type=float, default=10.0, help="seconds between asking and killing")
    parser.add_argument("--user", default="", help="run as this user (root only)")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    options.command = [part for i, part in enumerate(options.command) if i or part != "--"]
    keeper = Keeper(options)
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sign, keeper.ask_to_stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})    # `up` starts us with both held back
    return keeper.run()


if __name__ == "__main__":
    sys.exit(main())
