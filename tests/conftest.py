"""What every test gets: an empty environment, its own data directory, and no way out to the network."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_socket

from supportpilot.config import Settings, get_settings

# A runner that starts the suite in the background has Ctrl-C ignored, and so would every process that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

UNIT = Path(__file__).parent / "unit"
LOCAL_HOSTS = ["127.0.0.1", "::1"]
PER_CHANNEL = ("WEBHOOK_SECRET_", "TURN_DEBOUNCE_", "REPLY_CALLBACK_", "DELIVERY_RATE_")
PROCESSES_PER_CORE = 1.5    # most integration tests wait for something most of their time

pytest_plugins = ["fixtures.postgres", "fixtures.redis", "fixtures.worker", "fixtures.llm", "fixtures.office", "fixtures.imap",
                  "fixtures.site", "fixtures.smtp"]


def pytest_xdist_auto_num_workers() -> int:
    """Say how many processes `-n auto` means (`make test`); on one core none, it all happens in this process."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(cores * PROCESSES_PER_CORE) if cores > 1 else 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several processes: the long ones first, and those that share a fixture of their module in the same process."""
    if not hasattr(config, "workerinput"):
        return
    usual = float(config.getini("timeout"))
    items.sort(key=lambda item: -_patience(item, usual))     # stable: within equals the random order stays


def _patience(item: pytest.Item, usual: float) -> float:
    """Return the time-out of a test: who asks for more than the usual takes long."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark else usual


def _is_ours(name: str) -> bool:
    return (
        name.lower() in Settings.model_fields
        or name.startswith(PER_CHANNEL)
        or name.lower().endswith("_proxy")
    )


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Take away whatever the shell has configured, and give DATA_DIR a place of the test's own."""
    for name in [name for name in os.environ if _is_ours(name)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


@pytest.fixture(autouse=True)
def closed_network(request: pytest.FixtureRequest) -> Iterator[None]:
    """Unit tests open no socket (but pairs inside the process); the others reach this machine only."""
    if request.node.get_closest_marker("enable_socket"):
        yield
        return
    if request.path.is_relative_to(UNIT):
        pytest_socket.disable_socket(allow_unix_socket=True)
    else:
        pytest_socket.socket_allow_hosts(LOCAL_HOSTS, allow_unix_socket=True)
    yield
    pytest_socket.enable_socket()
