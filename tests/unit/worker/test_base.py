"""What a worker writes down about an error that nobody foresaw: where it was, not what the customer said."""

from __future__ import annotations

import subprocess
import sys

SAID = "my-password-is-hunter2"
SETUP = f"""
import logging
from celery import Celery
from worker.base import DeskTask, configure_logging
app = Celery(broker="memory://", task_cls="worker.base:DeskTask")
configure_logging()

@app.task(name="x.breaks")
def breaks(ticket_id):
    body = "{SAID}"
    raise ValueError("cannot read " + body)
"""


def _output(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", SETUP + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_an_unforeseen_error_of_a_task_is_logged_by_type_and_place_without_its_text():
    text = _output("breaks.apply(args=['T1'])\n")
    assert "failed unexpectedly" in text
    assert "ValueError at " in text
    assert "T1" in text
    assert SAID not in text


def test_what_celery_is_told_of_it_for_flower_has_not_its_text_either():
    text = _output("found = breaks.apply(args=['T1'])\nprint(repr(found.result), found.traceback)\n")
    assert "Unexpected('ValueError at " in text
    assert SAID not in text


def test_a_librarys_error_with_its_traceback_is_one_line_that_shows_no_variable():
    text = _output(f"""
try:
    password = "{SAID}"
    raise ConnectionError(password)
except ConnectionError as error:
    logging.getLogger("library").warning("connection lost", exc_info=True)
    logging.getLogger("library").warning("connection lost", exc_info=error)
    logging.getLogger("library").exception("connection lost")
""")
    lines = text.splitlines()
    assert len(lines) == 3
    assert all("connection lost" in line and "ConnectionError at <string>:" in line for line in lines)
    assert SAID not in text


def test_our_own_errors_are_given_back_with_their_text():
    text = _output("""
from supportpilot.errors import Misconfigured, Unavailable
@app.task(name="x.away")
def away(ticket_id):
    raise Unavailable("the database is away")
@app.task(name="x.wrong")
def wrong(ticket_id):
    raise Misconfigured("LLM_MODEL is wrong")
away.apply(args=["T1"])
wrong.apply(args=["T1"])
""")
    assert "the database is away" in text
    assert "LLM_MODEL is wrong" in text
    assert "Traceback" not in text
