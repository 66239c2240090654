"""Pid files that a recycled pid cannot fool: the second line says which process it was."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path


def identity(pid: int) -> str:
    """Return what tells this process from a later one with the same pid; empty if there is no such process."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] in "ZX" else fields[19]      # state; start time in ticks since boot
    found = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def write_pid(path: Path, pid: int) -> None:
    """Write the pid file in one step, so that no reader sees half of it."""
    part = path.with_suffix(".part")
    part.write_text(f"{pid}\n{identity(pid)}\n", encoding="utf-8")
    part.replace(path)


def read_pid(path: Path) -> int | None:
    """Return the pid of the process the file names, or None if that process is not running any more."""
    try:
        pid, _, known = path.read_text(encoding="utf-8").strip().partition("\n")
        number = int(pid)
    except (OSError, ValueError):
        return None
    return number if known and identity(number) == known else None


def end_leftovers(folder: Path, patience: float = 15.0) -> None:
    """Wait for the processes of an `up` that was killed (their keepers are ending them), then kill what is left."""
    deadline = time.monotonic() + patience
    while any(read_pid(path) for path in folder.glob("*.pid")) and time.monotonic() < deadline:
        time.sleep(0.1)
    for path in folder.glob("*.pid"):
        pid = read_pid(path)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        path.unlink(missing_ok=True)
