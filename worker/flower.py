"""Flower with our settings: `python -m worker.flower`.

Started by hand it listens on every address and lets everybody in unless told otherwise; from here it asks for a
login, listens on HOST only, keeps what it saw in DATA_DIR, and only looks: what is done to a ticket is done with
`supportpilot`, in Postgres.
"""

from __future__ import annotations

import sys

from supportpilot.config import Settings, get_settings
from supportpilot.errors import Misconfigured
from worker.app import app

MAX_TASKS = 10_000              # about 110 MB
SAVE_MILLISECONDS = 60_000      # what a killed Flower has seen since the last save is lost
OFFLINE_WORKER_SECONDS = 6 * 3600
COLUMNS = "name,args,state,received,runtime,worker,uuid"


def options(settings: Settings) -> list[str]:
    """Return Flower's options.

    Raises:
        Misconfigured: there is no login, or one that Flower would read as several.
    """
    login = settings.flower_basic_auth
    if not login:
        raise Misconfigured("FLOWER_BASIC_AUTH: set user:password (or FLOWER_BASIC_AUTH_FILE); Flower does not start without a login")
    user, _, password = login.partition(":")
    if not user or not password or "," in login:
        raise Misconfigured("FLOWER_BASIC_AUTH: must be user:password, without a comma")
    return [
        f"--basic_auth={login}", f"--address={settings.host}", f"--port={settings.flower_port}",
        "--read_only=True", "--persistent=True", f"--db={settings.data_dir / 'flower'}",
        f"--state_save_interval={SAVE_MILLISECONDS}", f"--max_tasks={MAX_TASKS}",
        f"--purge_offline_workers={OFFLINE_WORKER_SECONDS}", f"--tasks_columns={COLUMNS}", "--logging=warning",
    ]


def main() -> int:
    """Serve until SIGTERM or SIGINT and return the exit code; the login is on no command line."""
    try:
        app.start(["flower", *options(get_settings())])
    except Misconfigured as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
