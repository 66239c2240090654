"""`supportpilot up` as a process of its own, with its embedded servers, on free ports."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
from fixtures.worker import wait_for

from producer.cli import embedded
from producer.cli.stack import Stack
from supportpilot.db.pool import Database, connect
from supportpilot.service import intake, ticket
from supportpilot.types import InboundMessage
from worker.publish import make_ports

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240), pytest.mark.xdist_group("up")]

# No model is asked in these tests, so none is started; the ports are free ones.
CONFIGURED = {"PORT": "0", "FLOWER_PORT": "0", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}


def environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ} | CONFIGURED


@contextmanager
def data_directory() -> Iterator[Path]:
    # Not under pytest's tmp_path: pytest closes that to all others, and as root Postgres is another user.
    folder = Path(tempfile.mkdtemp(prefix="supportpilot-up-"))
    try:
        yield folder / "data"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def stack() -> Iterator[Stack]:
    """One of this test's own, not started."""
    with data_directory() as folder:
        made = Stack(folder, environment(), demo_data=False)
        try:
            yield made
        finally:
            made.stop()


@pytest.fixture(scope="module")
def shared() -> Iterator[Stack]:
    """A running one that tests leave as they found it."""
    with data_directory() as folder, Stack(folder, environment(), demo_data=False) as started:
        started.wait_ready()
        yield started


def processes_of(stack: Stack) -> list[psutil.Process]:
    """Everything that belongs to a DATA_DIR: the tree under `up`, and whoever names the directory."""
    named = [p for p in psutil.process_iter() if str(stack.data_dir) in " ".join(_command(p))]
    tree = psutil.Process(stack.found()["pid"]).children(recursive=True) if stack.is_running() else []
    return list({p.pid: p for p in named + tree}.values())


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def alive(processes: list[psutil.Process]) -> list[str]:
    return [str(p) for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def run_up(folder: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "producer.cli.main", "up", "--no-demo-data"], capture_output=True, text=True, check=False,
        env=environment() | {"DATA_DIR": str(folder)} | extra, timeout=100,
    )


def test_run_json_is_private_and_says_what_listens_where(shared):
    mode = stat.S_IMODE((shared.data_dir / "run.json").stat().st_mode)
    found = shared.found()
    assert mode == 0o600
    assert found["settings"]["webhook_secret"].startswith("whsec_")
    assert httpx.get(found["urls"]["web"] + "/healthz").status_code == 200
    with connect(found["settings"]["database_url"]) as conn:
        assert conn.execute("SELECT count(*) AS n FROM desk.inbox").fetchone() == {"n": 0}


def test_the_data_directory_holds_secrets_that_only_its_owner_reads(shared):
    for name in ("secrets.json", "run.json", "redis/redis.conf", "up.lock"):
        assert stat.S_IMODE((shared.data_dir / name).stat().st_mode) == 0o600, name


def test_flower_wants_its_password_and_shows_nothing_without(shared):
    found = shared.found()
    user, password = found["settings"]["flower_basic_auth"].split(":")
    assert httpx.get(found["urls"]["flower"] + "/").status_code == 401
    assert httpx.get(found["urls"]["flower"] + "/api/workers").status_code == 401
    assert httpx.get(found["urls"]["flower"] + "/workers", auth=(user, password)).status_code == 200


def test_no_password_is_on_a_command_line(shared):
    secrets = [value for name, value in shared.found()["settings"].items() if "secret" in name or "auth" in name]
    secrets += [part for part in secrets for part in part.split(":")[1:]]
    for process in processes_of(shared):
        assert not any(secret in " ".join(_command(process)) for secret in secrets)


def test_a_killed_worker_is_started_again(shared):
    killed = shared.kill("worker")
    assert wait_for(lambda: shared.pid("worker"), 30, "a new worker") != killed


def test_a_killed_redis_comes_back_at_the_same_address(shared):
    killed = shared.kill("redis")
    wait_for(lambda: shared.pid("redis") not in (None, killed), 30, "a new Redis")
    assert shared.is_running()


def test_a_second_up_on_the_same_data_is_refused_in_one_line(shared):
    done = run_up(shared.data_dir)
    assert done.returncode == 3
    assert "already runs" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert shared.is_running()
    assert shared.found()


def test_a_port_that_cannot_be_had_is_one_line_and_leaves_nothing_running(stack):
    done = run_up(stack.data_dir, HOST="192.0.2.1")
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("PORT: cannot listen on 192.0.2.1")
    assert len(done.stderr.strip().splitlines()) == 1
    assert alive(processes_of(stack)) == []
    assert not (stack.data_dir / "run.json").exists()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_leaves_no_process_and_no_run_json(stack, sign):
    stack.start()
    stack.wait_ready()
    ours = processes_of(stack)
    assert len(ours) >= 6
    os.kill(stack.found()["pid"], sign)
    wait_for(lambda: not stack.is_running(), 40, "up to end")
    assert stack.stop() == 0
    assert alive(ours) == []
    assert not (stack.data_dir / "run.json").exists()
    assert list((stack.data_dir / "pids").iterdir()) == []


def test_after_a_hard_kill_nothing_stays_behind_and_a_new_start_has_the_data_and_the_secrets(stack):
    stack.start()
    before = stack.wait_ready()["settings"]
    with connect(before["database_url"]) as conn:
        conn.execute("CREATE TABLE kept AS SELECT 42 AS n")
    ours = processes_of(stack)
    os.kill(stack.pid("postgres"), signal.SIGKILL)
    stack.kill_all()
    stack.start()           # at once: the keepers of the first are still ending their processes
    after = stack.wait_ready()["settings"]
    assert alive(ours) == []
    assert after["webhook_secret"] == before["webhook_secret"]
    assert after["flower_basic_auth"] == before["flower_basic_auth"]
    with connect(after["database_url"]) as conn:
        assert conn.execute("SELECT n FROM kept").fetchone() == {"n": 42}


def test_when_up_and_all_its_keepers_are_killed_nothing_stays_behind(stack):
    stack.start()
    stack.wait_ready()
    ours = processes_of(stack)
    keepers = [p for p in ours if "producer.cli.keeper" in _command(p)]
    assert len(ours) > len(keepers) > 1
    stack.kill_all()
    for keeper in keepers:
        with contextlib.suppress(psutil.NoSuchProcess):    # it may have noticed already and gone by itself
            keeper.kill()
    wait_for(lambda: not alive(ours), 20, f"the end of {alive(ours)}")


def test_with_nothing_configured_a_customer_of_the_demo_data_gets_an_answer():
    nothing_configured = {name: value for name, value in environment().items() if name != "OPENAI_BASE_URL"}
    with data_directory() as folder, Stack(folder, nothing_configured) as stack:
        stack.wait_ready()
        settings = stack.settings()
        message = InboundMessage(channel="terminal", external_id="m1", contact="wugang@example.com",
                                 body="银行流水同步失败,提示 E3001,应该怎么办?")
        with Database(str(settings.database_url)) as db:
            got = intake.receive(db, settings, make_ports(settings), message)
            shown = wait_for(lambda: (found := ticket.show(db, settings, got.ticket_id))["status"] == "answered" and found, 60,
                             "an answer")
        assert got.ticket_id == "T000153"
        assert settings.public_url in shown["reply"]
        assert stack.pid("model")
        assert "offline rule model, not an LLM" in stack.log.read_text(encoding="utf-8")
        assert "同步失败" not in stack.log.read_text(encoding="utf-8")


def test_a_damaged_secrets_file_is_one_line(stack):
    stack.data_dir.mkdir()
    (stack.data_dir / "secrets.json").write_text("{", encoding="utf-8")
    done = run_up(stack.data_dir)
    assert done.returncode == 2
    assert "secrets.json is damaged" in done.stderr.strip().splitlines()[-1]


def test_a_path_too_long_for_a_socket_still_gets_a_database(stack):
    stack.data_dir /= "資料-" * 12
    stack.data_dir.mkdir(parents=True)
    server = embedded.postgres(stack.data_dir)
    assert str(stack.data_dir.name) not in server.url
    assert stat.S_IMODE(Path(server.command[-1]).stat().st_mode) == 0o700


def test_run_json_of_a_killed_up_is_not_believed_by_the_next(stack):
    stack.data_dir.mkdir()
    stale = {"pid": 1, "settings": {"database_url": "postgresql://postgres@127.0.0.1:1/gone"}}
    (stack.data_dir / "run.json").write_text(json.dumps(stale), encoding="utf-8")
    stack.start()
    assert "gone" not in stack.wait_ready()["settings"]["database_url"]
