"""Routes and tasks belong together."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

from producer.cli.processes import PROCESSES
from supportpilot.config import load_settings
from worker.app import TASK_MODULES, app, configuration
from worker.queues import QUEUES, ROUTES

BROKER = "redis://127.0.0.1:1/0"


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.setenv("REDIS_URL", BROKER)
    for module in TASK_MODULES:
        importlib.import_module(module)
    app.finalize()
    return {name: task for name, task in app.tasks.items() if not name.startswith("celery.")}


def test_every_route_has_a_task_and_every_task_a_route(tasks):
    assert set(tasks) == set(ROUTES)


def test_a_task_is_called_like_its_file_and_function_and_takes_ids_only(tasks):
    for name, task in tasks.items():
        prefix, verb = name.split(".")
        assert (task.run.__module__, task.run.__name__) == (f"worker.tasks.{prefix}", verb)
        for parameter in inspect.signature(task.run).parameters.values():
            assert parameter.name.endswith("_id")
            assert parameter.annotation in (str, "str")
        assert len(inspect.getsource(task.run).splitlines()) <= 15


def test_every_queue_is_read_by_exactly_one_process():
    read = [q for line in PROCESSES.values() if " -Q " in line for q in line.split(" -Q ")[1].split()[0].split(",")]
    assert sorted(read) == sorted(QUEUES)


def test_every_queue_has_an_exchange_of_its_own():
    """Queues that share one would each get a copy of every task."""
    queues = configuration(load_settings(redis_url=BROKER))["task_queues"]
    assert [(q.name, q.exchange.name, q.routing_key) for q in queues] == [(n, n, n) for n in QUEUES]


def test_importing_the_publisher_reaches_no_task_and_needs_no_broker():
    code = (
        "import sys, worker.publish, worker.app\n"
        "print([m for m in sys.modules if m.startswith(('worker.tasks', 'worker.base', 'worker.runtime', 'worker.schedule'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_a_worker_without_a_broker_says_so_in_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "worker.app", "worker"], capture_output=True, text=True, check=False,
    )
    assert done.returncode != 0
    assert "REDIS_URL" in done.stderr
    assert "Traceback" not in done.stderr
