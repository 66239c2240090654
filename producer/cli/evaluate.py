"""`eval memory`: does the desk remember what it should? Scenarios with gold facts, on a Postgres of their own."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from producer.cli import embedded
from producer.cli.keeper import dies_with_parent, rights
from producer.cli.screen import line, print_json, say
from producer.cli.ticket import AsJson
from producer.evaluation.scenarios import Result, Scenario, run, scenarios
from supportpilot.config import Settings, load_settings
from supportpilot.db.scratch import copy_of, demo_template
from supportpilot.errors import Misconfigured
from supportpilot.llm.offline.server import serve_in_thread
from supportpilot.llm.offline.wire import LABEL

STOP_SECONDS = 20.0
FOUND_CHARS = 300

app = typer.Typer(help="Scenarios with known answers, on servers of their own.", rich_markup_mode=None)


@app.callback()
def evaluate() -> None:
    """Group the evaluations; one command alone would lose its name."""


@app.command("memory")
def memory(
    only: Annotated[list[str] | None, typer.Option(help="Run this scenario alone; may be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play the memory scenarios against the configured model, else the offline one; exit 1 if a fact is missed.

    The model is that of OPENAI_API_KEY, OPENAI_BASE_URL, LLM_MODEL and LLM_SMALL_MODEL; no other server is used.
    """
    chosen = _chosen(only or [])
    with _model() as (model, settings), own_postgres() as server_url:
        template = demo_template(server_url)
        if not as_json:
            say(f"model: {model}")
        results = []
        for scenario in chosen:
            started = time.monotonic()
            url = copy_of(server_url, template, f"eval_{scenario.name}")
            results.append(run(scenario, settings.model_copy(update={"database_url": url})))
            if not as_json:
                _tell(results[-1], time.monotonic() - started)
    failed = [result for result in results if not result.passed]
    if as_json:
        print_json({"model": model, "passed": not failed, "scenarios": [_record(result) for result in results]})
    else:
        held = sum(result.facts - len(result.missed) for result in results if not result.error)
        say(f"{len(results) - len(failed)} of {len(results)} scenarios, {held} of {sum(r.facts for r in results)} facts")
    if failed:
        raise typer.Exit(1)


def _chosen(names: Sequence[str]) -> list[Scenario]:
    known = {scenario.name: scenario for scenario in scenarios()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Misconfigured(f"no scenario {unknown[0]!r}; there are: {', '.join(known)}")
    return [known[name] for name in names or known]


def _tell(result: Result, seconds: float) -> None:
    held = "-" if result.error else f"{result.facts - len(result.missed)}/{result.facts}"
    say(f"{'ok' if result.passed else 'FAILED':7}{result.name:30}{held:>5}  {seconds:5.1f} s  {result.about}")
    if result.error:
        say(f"       {line(result.error, FOUND_CHARS)}")
    for missed in result.missed:
        say(f"       missed: {missed.fact}; {missed.place}: {line(missed.found, FOUND_CHARS) or '(empty)'}")


def _record(result: Result) -> dict[str, Any]:
    return {"name": result.name, "about": result.about, "passed": result.passed, "facts": result.facts, "error": result.error,
            "missed": [{"fact": m.fact, "in": m.place, "found": m.found} for m in result.missed]}


@contextmanager
def _model() -> Iterator[tuple[str, Settings]]:
    """Lend settings with a model: the environment's, else the offline one; what `up` runs is not asked."""
    fixed: dict[str, object] = {"turn_debounce_seconds": 0}
    stop: Callable[[], None] | None = None
    settings = load_settings(**fixed)
    name = f"{settings.llm_model}{f', {settings.llm_small_model}' if settings.llm_small_model else ''}"
    if not settings.openai_api_key and not settings.openai_base_url:
        url, stop = serve_in_thread()
        settings, name = load_settings(**fixed, openai_base_url=url), LABEL
    try:
        yield name, settings
    finally:
        if stop is not None:
            stop()


@contextmanager
def own_postgres() -> Iterator[str]:
    """Lend the URL of a Postgres in a folder of its own; both go at the end.

    Raises:
        Misconfigured: it is not installed or does not start.
    """
    folder = Path(tempfile.mkdtemp(prefix="supportpilot-eval-"))
    try:
        (folder / "logs").mkdir(mode=0o700)
        server = embedded.postgres(folder)
        with (folder / "logs" / "postgres.log").open("ab") as out:
            child = subprocess.Popen(
                [*server.command, "-c", "fsync=off", "-c", "full_page_writes=off"], cwd="/", stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True, preexec_fn=dies_with_parent(signal.SIGINT), **rights(str(server.options.get("user") or "")))
        try:
            embedded.wait(server, child, folder)
            yield server.url
        finally:
            child.send_signal(signal.SIGINT)
            child.wait(STOP_SECONDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
