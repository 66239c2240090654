"""The demo tells the truth: it runs from end to end, and a step that does not happen ends it with exit 1."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from producer.cli.demo import own_environment
from producer.cli.demo_callback import Callback
from producer.cli.demo_memory import FOUR_TIMES, newest_turn
from producer.cli.demo_story import Step, check_profile, tell_story
from producer.cli.demo_view import OFFLINE, View
from producer.cli.demo_world import StepFailed, World, require
from producer.signatures import sign
from supportpilot.errors import Unavailable

pytestmark = pytest.mark.integration

SECRET = "whsec_" + "c2VjcmV0" * 4
NO_WORLD = cast("World", None)
# It is to take less than three minutes; beside other tests nobody can tell.
LONGEST = 400 if "PYTEST_XDIST_WORKER" in os.environ else 180


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may enter too: as root, Postgres is one, and pytest's own folders are closed."""
    folder = Path(tempfile.mkdtemp(prefix="supportpilot-test-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.timeout(LONGEST + 20)
def test_the_whole_demo_happens_whatever_the_shell_has_configured(tmp_path: Path, open_folder: Path) -> None:
    elsewhere = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "REDIS_URL": "redis://127.0.0.1:1/0",
                 "OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "LLM_MODEL": "dear", "DATA_DIR": str(tmp_path / "mine"),
                 "WEBHOOK_SECRET": "whsec_b3RoZXI=", "HTTP_PROXY": "http://127.0.0.1:1", "TMPDIR": str(open_folder),
                 "COLUMNS": "120", "CONTEXT_BUDGET_TOKENS": "99999"}
    done = subprocess.run([sys.executable, "-m", "producer.cli.main", "demo"], env=os.environ | elsewhere,
                          capture_output=True, text=True, encoding="utf-8", timeout=LONGEST, check=False)
    logs = "".join(p.read_text(encoding="utf-8", errors="replace")[-6000:] for p in open_folder.rglob("logs/up.log"))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr + logs
    assert done.stderr == ""
    assert "not an LLM" in done.stdout
    assert done.stdout.count("✓") >= 32
    for told in ("folded up to entry 8", "the last 4 stand word for word", "E3001 now four times", "the same as then",
                 "nothing was sent", "costs by part", "the price of remembering"):
        assert told in " ".join(done.stdout.split()), told
    assert not (tmp_path / "mine").exists()
    assert not list(open_folder.iterdir())


def _happens(_world: World, _view: View) -> None:
    require(True, "never")


def _does_not_happen(_world: World, _view: View) -> None:
    require([], "no reply arrived")


def _database_goes(_world: World, _view: View) -> None:
    raise Unavailable("database away")


@pytest.mark.parametrize(("act", "why"), [(_does_not_happen, "no reply arrived"), (_database_goes, "database away")])
def test_a_step_that_does_not_happen_is_named_and_makes_exit_1(act: Any, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    after: list[str] = []
    steps = [Step("first", _happens), Step("the refund", act), Step("later", lambda _w, _v: after.append("ran"))]
    assert tell_story(NO_WORLD, View(), steps) == 1
    out = capsys.readouterr().out
    assert "step 2 did not happen (the refund)" in out
    assert why in out
    assert OFFLINE.split(":")[0] not in " ".join(out.split())
    assert after == []


def test_a_story_that_happened_ends_with_a_summary_and_says_that_no_llm_answered(capsys: pytest.CaptureFixture[str]) -> None:
    assert tell_story(NO_WORLD, View(), [Step("first", _happens), Step("second", _happens)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "✓ first" in out
    assert "✓ second" in out
    assert OFFLINE in out


@pytest.mark.parametrize("profile", ["", "专业版,VIP", "E3001 出现过 2 次", "三次联系客服"])
def test_a_profile_that_does_not_count_three_times_e3001_fails_the_step(profile: str) -> None:
    with pytest.raises(StepFailed):
        check_profile(f"view with {profile}", profile)


@pytest.mark.parametrize(("profile", "is_counted"), [
    ("VIP 客户。E3001 已出现 4 次(2026年4月)。", True), ("E3001 出现四次", True), ("E3001 已出现 3 次。E2001 已出现 4 次。", False)])
def test_only_e3001_itself_counts_as_four_times(profile: str, is_counted: bool) -> None:
    assert bool(FOUR_TIMES.search(profile)) is is_counted


def test_of_a_history_the_newest_turn_is_told_and_the_rest_counted() -> None:
    assert newest_turn("turn 2 · b\n one\n two\nturn 1 · a\n three\n") == (
        "turn 2 · b\n one\n two\n... 2 more lines, of the earlier turns")
    assert newest_turn("turn 1 · a\n one\n") == "turn 1 · a\n one"


def test_the_demos_processes_see_nothing_of_what_the_shell_has_configured() -> None:
    shell = {"PATH": "/bin", "HOME": "/home/me", "DATABASE_URL": "x", "broker_url": "x", "OPENAI_ORG_ID": "x",
             "WEBHOOK_SECRET_GENERIC": "x", "PGHOST": "x", "CELERY_BROKER_URL": "x", "LLM_MODEL": "dear"}
    assert own_environment(shell, {"PORT": "0"}) == {"PATH": "/bin", "HOME": "/home/me", "PORT": "0"}


def _deliver(callback: Callback, key: str, reply: dict[str, str], *, secret: str = SECRET, age: int = 0) -> int:
    body, stamp = json.dumps(reply).encode(), int(time.time()) - age
    headers = {"webhook-id": key, "webhook-timestamp": str(stamp), "webhook-signature": sign(secret, key, stamp, body)}
    return httpx.post(callback.url, content=body, headers=headers, trust_env=False).status_code


def test_the_callback_believes_only_good_signatures_and_takes_a_repeated_reply_once() -> None:
    reply = {"ticket_id": "T1", "kind": "reply", "body": "hello"}
    with Callback(SECRET) as callback:
        assert _deliver(callback, "k1", reply, secret="whsec_b3RoZXI=") == 401
        assert _deliver(callback, "k1", reply, age=3600) == 401
        assert callback.received("T1") == []
        assert [_deliver(callback, "k1", reply) for _ in range(2)] == [204, 204]
        assert callback.received("T1", "reply") == [reply]
        assert callback.wait("T1", "reply", 1, 5) == reply
        assert callback.wait("T1", "reply", 2, 0.2) is None
        assert callback.refused == 2
