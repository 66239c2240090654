"""`up`: start what is missing, migrate, run the process table, and stop all of it again."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from producer.channels.registry import CHANNELS, STANDARD
from producer.cli import embedded
from producer.cli.embedded import Embedded, write_private
from producer.cli.keeper import OWNER_FILE
from producer.cli.pids import end_leftovers
from producer.cli.processes import PROCESSES, child_environment, free_port, process_manager
from producer.cli.send import CHANNEL as TERMINAL
from producer.signatures import check_secrets
from supportpilot.config import Settings, load_settings
from supportpilot.db.migrate import migrate
from supportpilot.db.pool import connect
from supportpilot.db.seed import is_empty, seed
from supportpilot.errors import Misconfigured, Refused, Unavailable
from worker.app import check_broker

LOCK_PATIENCE_SECONDS = 2.0     # keepers touch the lock for a moment when they look whether their owner lives
STOP_SECONDS = 25.0
WRITTEN = ("database_url", "redis_url", "broker_url", "openai_base_url", "webhook_secret", "flower_basic_auth",
           "customer_link_secret", "public_url", "host", "port", "flower_port")


def up(
    no_demo_data: Annotated[bool, typer.Option("--no-demo-data", help="Leave a new embedded database empty.")] = False,
) -> int:
    """Start everything that is missing and run SupportPilot until Ctrl-C."""
    return run(load_settings(), demo_data=not no_demo_data)


def run(settings: Settings, *, demo_data: bool = True) -> int:
    """Run everything until SIGINT or SIGTERM; return the exit code.

    `settings` must come from the environment alone (`load_settings`): what a `run.json` of an earlier run says about
    servers is not true any more.

    Raises:
        Refused: another `up` runs on this DATA_DIR.
        Misconfigured: a server, a port or a setting cannot be had.
        Unavailable: a configured database does not answer.
    """
    _check(settings)
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    with _owned(settings.data_dir), _servers() as keepers:
        try:
            settings.run_file.unlink(missing_ok=True)    # of one that was killed
            configured = settings
            settings, is_own = _start_servers(_complete(settings), keepers)
            _prepare_database(settings, seeding=is_own and demo_data)
            _write_run_file(settings)
            greet(settings, configured)
            return _run_table(settings)
        except KeyboardInterrupt:
            return 0
        finally:
            settings.run_file.unlink(missing_ok=True)


def _check(settings: Settings) -> None:
    """Refuse now what a process would end for as soon as it is started, again and again."""
    check_secrets(settings, STANDARD)
    if settings.broker:
        check_broker(settings.broker)
    for channel in (*CHANNELS, TERMINAL):
        settings.debounce(channel)


def _as_ctrl_c(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def _owned(data_dir: Path) -> Iterator[None]:
    """Hold DATA_DIR; the lock goes with the process, however that ends.

    Raises:
        Refused: another `up` has it.
        Misconfigured: it cannot be written.
    """
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("pids", "logs"):
            (data_dir / name).mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(data_dir / OWNER_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Misconfigured(f"DATA_DIR: cannot write to {data_dir}: {error.strerror}") from None
    try:
        _lock(descriptor, data_dir)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        end_leftovers(data_dir / "pids")
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, data_dir: Path) -> None:
    deadline = time.monotonic() + LOCK_PATIENCE_SECONDS
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                owner = os.read(descriptor, 20).decode(errors="replace").strip()
                raise Refused(f"`supportpilot up` already runs on {data_dir} (pid {owner}); stop it, or set another DATA_DIR") from None
            time.sleep(0.05)
        else:
            return


@contextmanager
def _servers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Collect the keepers of the servers, and stop them in the opposite order, whatever happens meanwhile."""
    keepers: list[subprocess.Popen[bytes]] = []
    try:
        yield keepers
    finally:
        for sign in (signal.SIGINT, signal.SIGTERM):
            signal.signal(sign, signal.SIG_IGN)     # stopping is what they ask for
        for keeper in reversed(keepers):
            keeper.terminate()
            with suppress(subprocess.TimeoutExpired):
                keeper.wait(STOP_SECONDS)


def _start_servers(settings: Settings, keepers: list[subprocess.Popen[bytes]]) -> tuple[Settings, bool]:
    """Return the settings with the addresses of what was started, and whether the database is our own."""
    data_dir, own_database = settings.data_dir, not settings.database_url

    def started(server: Embedded) -> str:
        print(f"starting the embedded {server.name} ...", flush=True)
        keepers.append(embedded.launch(server, data_dir, child_environment(settings)))
        embedded.wait(server, keepers[-1], data_dir)
        return server.url

    if own_database:
        settings = settings.model_copy(update={"database_url": started(embedded.postgres(data_dir))})
    if not settings.broker:
        settings = settings.model_copy(update={"redis_url": started(embedded.redis(data_dir))})
    if not settings.openai_api_key and not settings.openai_base_url:
        settings = settings.model_copy(update={"openai_base_url": started(embedded.offline_model(sys.executable))})
    return settings, own_database


def _complete(settings: Settings) -> Settings:
    """Fill in ports and the secrets that are not set (kept in DATA_DIR, so that they are the same next time)."""
    port = free_port(settings.host, settings.port, "PORT")
    flower_port = free_port(settings.host, settings.flower_port, "FLOWER_PORT")
    made = {name: value for name, value in _kept_secrets(settings.data_dir).items() if not getattr(settings, name)}
    if "public_url" not in settings.model_fields_set:
        made["public_url"] = _url(settings.host, port)
    return settings.model_copy(update={**made, "port": port, "flower_port": flower_port})


def _kept_secrets(data_dir: Path) -> dict[str, str]:
    path = data_dir / "secrets.json"
    kept = {
        "webhook_secret": "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode(),
        "flower_basic_auth": "admin:" + secrets.token_urlsafe(18),
        "customer_link_secret": secrets.token_hex(32),
    }
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        found = {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Misconfigured(f"{path} is damaged; delete it to get new secrets")
    if kept.keys() - found.keys():
        write_private(path, json.dumps(kept | found))
    kept |= found
    return {str(name): str(value) for name, value in kept.items()}


def _prepare_database(settings: Settings, *, seeding: bool) -> None:
    url = str(settings.database_url)
    try:
        connect(url).close()
    except Unavailable as error:
        raise Unavailable(f"{error}; check DATABASE_URL") from None
    applied = migrate(url)
    if applied:
        print(f"migrated: {', '.join(applied)}", flush=True)
    with connect(url) as conn:
        empty = is_empty(conn)
    if seeding and empty:
        seed(url)
        print("filled the empty database with demo data", flush=True)


def _urls(settings: Settings) -> dict[str, str]:
    return {"web": _url(settings.host, settings.port), "flower": _url(settings.host, settings.flower_port),
            "public": settings.public_url}


def _url(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104 -- compared
    return f"http://{shown}:{port}"


def _write_run_file(settings: Settings) -> None:
    values = {name: str(getattr(settings, name)) for name in WRITTEN if getattr(settings, name) is not None}
    pid_files = {name: str(settings.data_dir / "pids" / f"{name}.pid") for name in PROCESSES}
    found = {"pid": os.getpid(), "settings": values, "urls": _urls(settings), "processes": pid_files}
    write_private(settings.run_file, json.dumps(found, indent=2))


def greet(settings: Settings, configured: Settings) -> None:
    """Print what runs where; a secret only if it was made here: whoever configured one knows it."""
    urls = _urls(settings)
    offline = not settings.openai_api_key and (settings.openai_base_url or "").startswith(f"http://{embedded.HOST}")
    print(f"web       {urls['web']}")
    login = "as configured" if configured.flower_basic_auth else settings.flower_basic_auth
    secret = " as configured" if configured.webhook_secret else f"={settings.webhook_secret}"
    print(f"flower    {urls['flower']}  login {login}")
    print(f"webhooks  {urls['web']}/webhooks/generic  WEBHOOK_SECRET{secret}")
    print(f"model     {'offline rule model, not an LLM' if offline else settings.llm_model}")
    print(f"data      {settings.data_dir}")
    print("Ctrl-C stops everything", flush=True)


def _run_table(settings: Settings) -> int:
    manager = process_manager(settings.data_dir, child_environment(settings))
    manager.loop()
    asked = manager.returncode in (130, 143)     # a keeper never ends by itself
    return 0 if asked else 1


if __name__ == "__main__":
    typer.run(up)
