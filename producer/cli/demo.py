"""`demo`: the main job from end to end, on servers of its own, in a folder of its own, and each step proved."""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import typer

from producer.cli.demo_callback import Callback
from producer.cli.demo_memory import BUDGET_TOKENS, KEPT_ENTRIES
from producer.cli.demo_story import STORY, tell_story
from producer.cli.demo_view import View
from producer.cli.demo_world import Ran, World
from producer.cli.stack import Stack
from supportpilot.config import Settings, load_settings
from supportpilot.db.pool import Database
from supportpilot.errors import SupportPilotError

COMMAND_SECONDS = 60.0
# What the shell has configured is for the real thing; so are settings of the programs that run below the demo.
FOREIGN_PREFIXES = ("WEBHOOK_SECRET_", "TURN_DEBOUNCE_", "REPLY_CALLBACK_", "OPENAI_", "CELERY_", "FLOWER_", "PG")
QUICK = {"TURN_DEBOUNCE_SECONDS": "0.3", "PROFILE_DEBOUNCE_SECONDS": "0", "SWEEP_SECONDS": "2", "LEASE_SECONDS": "6", "WORKER_CONCURRENCY": "4",
         "CONTEXT_BUDGET_TOKENS": str(BUDGET_TOKENS), "CONTEXT_KEEP_LAST": str(KEPT_ENTRIES),
         "HOST": "127.0.0.1", "PORT": "0", "FLOWER_PORT": "0", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


def demo() -> None:
    """Show the main job from end to end on demo data; exit 0 only if every step really happened."""
    view = View()
    folder = Path(tempfile.mkdtemp(prefix="supportpilot-demo-"))
    view.tell(f"Own Postgres, Redis, offline model, web server and workers, on free ports, in {folder}")
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    failed = False
    try:
        failed = run(folder / "data", view) != 0
    except SupportPilotError:
        failed = True
        raise
    finally:
        if failed:
            view.tell(f"what was left behind for you to look into: {folder / 'data' / 'logs'}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if failed:
        raise typer.Exit(1)


def _as_ctrl_c(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def run(data_dir: Path, view: View) -> int:
    """Start everything, tell the story, stop everything; return the exit code.

    Raises:
        Misconfigured: the servers do not start; the text says why.
    """
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    with Callback(secret) as callback:
        own = {**QUICK, "REPLY_CALLBACK_URL": callback.url, "REPLY_CALLBACK_SECRET": secret, "DATA_DIR": str(data_dir)}
        environment = own_environment(dict(os.environ), own)  # noqa: TID251 -- handed on without what is configured
        started = time.monotonic()
        with Stack(data_dir, environment) as stack:
            stack.wait_ready()
            view.tell(f"running after {time.monotonic() - started:.0f} s, with demo data")
            with _world(stack, callback, commands(environment)) as world:
                return tell_story(world, view, STORY)


def own_environment(inherited: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the demo's processes: nothing of what is configured here, and `own`."""
    kept = {name: value for name, value in inherited.items()
            if name.lower() not in Settings.model_fields and not name.upper().startswith(FOREIGN_PREFIXES)}
    return kept | dict(own)


def commands(environment: Mapping[str, str]) -> Callable[..., Ran]:
    """Return a function that runs a `supportpilot` command on the demo's servers."""
    def command(*arguments: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "producer.cli.main", *arguments], env=dict(environment), text=True,
            encoding="utf-8", capture_output=True, check=False, timeout=COMMAND_SECONDS, stdin=subprocess.DEVNULL)
        return Ran(done.returncode, done.stdout, done.stderr)
    return command


@contextmanager
def _world(stack: Stack, callback: Callback, command: Callable[..., Ran]) -> Iterator[World]:
    found = stack.found()
    settings = load_settings(**found["settings"], data_dir=stack.data_dir)
    with (Database(str(settings.database_url)) as db,
          httpx.Client(base_url=found["urls"]["web"], timeout=10.0, trust_env=False) as http):
        yield World(settings, found["settings"]["webhook_secret"], stack, db, callback, http, command)
