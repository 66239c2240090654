"""The house itself: what a change must bring along, and the sizes that keep a file readable.

Tested elsewhere: routes, tasks and their arguments (`worker/test_queues.py`), the Procfile (`producer/test_processes.py`),
prompts in both languages (`prompts/test_loader.py`), kept and per-turn state (`agent/test_state.py`), import directions
(`lint-imports`).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from fixtures.documents import settings_table

from supportpilot.config import Settings
from worker.app import TASK_MODULES, app
from worker.queues import QUEUES, ROUTES

ROOT = Path(__file__).parents[2]
PACKAGES = ("supportpilot", "worker", "producer")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
LONGEST_FILE, LONGEST_FUNCTION = 400, 50
CELL = re.compile(r"\s*\|\s*")

# Read through a method of Settings: the setting is used where that method is.
THROUGH = {
    "broker_url": "broker", "redis_url": "broker", "data_dir": "run_file", "webhook_secret": "webhook_secrets",
    "turn_debounce_seconds": "debounce", "turn_debounce_max_seconds": "debounce",
    "ticket_rate_limits": "rate_limits", "notify_urls": "notify_targets", "delivery_rate": "rate_of",
    **{f"{helpdesk}_{name}": "helpdesk_api" for helpdesk in ("chatwoot", "zendesk", "freshdesk", "intercom", "zammad")
       for name in ("url", "token")},
}
# Imported by name although another requirement brings them: the one that does.
BROUGHT_BY = {"click": "celery", "starlette": "fastapi", "markupsafe": "jinja2", "typing_extensions": "pydantic",
              "requests": "apprise", "langchain_core": "langgraph", "lxml": "inscriptis", "psycopg_pool": "psycopg[pool]"}
# Required although no module imports them: what needs them.
NOT_IMPORTED = {
    "redis": "celery's transport", "flower": "the process `flower`",
}


def rows_of(document: str) -> list[list[str]]:
    """Return the cells of every table row of a document, header and rule left out."""
    lines = [line for line in (ROOT / "docs" / document).read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return [CELL.split(line.strip("| ")) for line in lines]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_and_no_function_is_too_long_to_be_read(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_FILE
    long = [f"{node.name}: {(node.end_lineno or 0) - node.lineno + 1} lines" for node in functions(text)
            if (node.end_lineno or 0) - node.lineno + 1 > LONGEST_FUNCTION]
    assert long == []


def functions(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function of a module."""
    yield from (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_no_module_is_called_by_a_name_that_says_nothing():
    bad = {"utils", "helpers", "common", "manager", "misc", "base_utils"}
    assert [str(path) for path in SOURCES if path.stem in bad] == []


def test_the_product_names_no_path_of_the_machine_it_was_written_on():
    pattern = re.compile(r"['\"](/work/|/root/|/home/)")
    assert [str(path.relative_to(ROOT)) for path in SOURCES if pattern.search(path.read_text(encoding="utf-8"))] == []


def test_every_setting_is_in_the_documents_with_its_unit_default_and_meaning():
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert settings_table() in text, "run `python tests/fixtures/documents.py`"
    assert all(field.description for field in Settings.model_fields.values())


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_used_somewhere(name):
    used = THROUGH.get(name, name)
    pattern = re.compile(rf"\b{used}\b|\b{name}\b|[\"']{name.upper()}[\"']")
    assert [path for path in SOURCES if path.name != "config.py" and pattern.search(path.read_text(encoding="utf-8"))]


def test_every_task_is_in_the_documents_with_its_queue_and_arguments(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    for module in TASK_MODULES:
        importlib.import_module(module)
    app.finalize()
    real = {name: (queue, ", ".join(inspect.signature(app.tasks[name].run).parameters)) for name, queue in ROUTES.items()}
    rows = [row for row in rows_of("tasks.md") if row[0].strip("`") in ROUTES]
    assert {row[0].strip("`"): (row[1].strip("`"), row[2].strip("`")) for row in rows} == real
    assert all(len(row) == 6 and all(row[3:]) for row in rows), "what it does, what twice, what never"


def test_every_queue_is_in_the_documents():
    text = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    assert [queue for queue in QUEUES if f"`{queue}`" not in text] == []


def required() -> set[str]:
    """Return the names of the product's requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {re.split(r"[\[~<>=! ]", line)[0].lower() for line in project["dependencies"]}


def imported() -> set[str]:
    """Return the top-level modules that the product imports from outside."""
    found: set[str] = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - set(PACKAGES)


def test_every_import_is_a_requirement_and_every_requirement_is_imported():
    homes = packages_distributions()
    names = {module: {name.lower() for name in homes.get(module, [module])} for module in imported()}
    assert {module for module, brought in names.items() if not brought & required()} == set(BROUGHT_BY)
    unused = required() - {name for brought in names.values() for name in brought} - set(NOT_IMPORTED)
    assert unused == set()


def test_the_pins_hold_every_requirement_and_no_registry():
    for name in ("requirements.txt", "requirements-dev.txt"):
        text = (ROOT / name).read_text(encoding="utf-8")
        pinned = {line.split("==")[0] for line in text.splitlines() if "==" in line}
        assert required() <= pinned, name
        assert "://" not in text
        assert "--" not in text
