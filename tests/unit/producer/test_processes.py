"""The process table, its Procfile, ports and pid files."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from producer.cli.pids import read_pid, write_pid
from producer.cli.processes import PROCESSES, child_environment, free_port
from producer.cli.up import run
from supportpilot.config import load_settings
from supportpilot.errors import Misconfigured

ROOT = Path(__file__).parents[3]


def test_the_procfile_says_what_up_runs():
    lines = (ROOT / "Procfile").read_text(encoding="utf-8").splitlines()
    assert dict(line.split(": ", 1) for line in lines if line) == PROCESSES


def test_no_secret_is_on_a_command_line():
    for command in PROCESSES.values():
        assert not any(word in command for word in ("AUTH", "SECRET", "KEY", "_URL"))


def test_children_get_the_settings_through_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("REPLY_CALLBACK_URL", "http://127.0.0.1/callback")
    settings = load_settings(database_url="postgresql://db", data_dir=tmp_path, flower_basic_auth="a:b", port=1234)
    found = child_environment(settings)
    assert found["DATABASE_URL"] == "postgresql://db"
    assert found["FLOWER_BASIC_AUTH"] == "a:b"
    assert found["PORT"] == "1234"
    assert found["REPLY_CALLBACK_URL"] == "http://127.0.0.1/callback"
    assert found["PATH"].startswith(str(Path(sys.executable).parent))
    assert "REDIS_URL" not in found


@pytest.mark.enable_socket
def test_a_taken_port_is_replaced_by_the_next_free_one():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert free_port("127.0.0.1", port, "PORT") != port


@pytest.mark.enable_socket
def test_an_address_that_is_not_ours_is_one_line_that_names_the_variable():
    with pytest.raises(Misconfigured, match=r"^PORT: cannot listen on 192\.0\.2\.1 port 8000: .*$"):
        free_port("192.0.2.1", 8000, "PORT")


@pytest.mark.enable_socket
@pytest.mark.parametrize("host", ["a b", "\u00e9" * 300, "999.1.1.1"])
def test_a_host_that_is_none_is_one_line_that_names_the_variable(host):
    with pytest.raises(Misconfigured, match=r"^HOST: ") as error:
        free_port(host, 8000, "PORT")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["WEBHOOK_SECRET", "WEBHOOK_SECRET_GENERIC", "REPLY_CALLBACK_SECRET", "TURN_DEBOUNCE_SECONDS_GENERIC",
                                  "TURN_DEBOUNCE_MAX_SECONDS_TERMINAL"])
def test_up_refuses_what_its_processes_would_end_for(name, monkeypatch, tmp_path):
    monkeypatch.setenv(name, "!!!!")
    with pytest.raises(Misconfigured, match=f"^.*{name}"):
        run(load_settings(data_dir=tmp_path / "d"))
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(("address", "word"), [
    ("foo://u:hunter2@host", "foo://"), ("redis://:hunter2@host:port/0", "redis://host:port"), ("mongodb://:hunter2@host", "pymongo"),
])
def test_up_refuses_a_broker_that_celery_cannot_use_and_shows_no_password(address, word, tmp_path):
    with pytest.raises(Misconfigured, match=r"^BROKER_URL or REDIS_URL: ") as error:
        run(load_settings(data_dir=tmp_path / "d", broker_url=address))
    assert word in str(error.value)
    assert "hunter2" not in str(error.value)


def test_a_pid_file_does_not_name_a_later_process_with_the_same_pid(tmp_path):
    path = tmp_path / "worker.pid"
    write_pid(path, os.getpid())
    assert read_pid(path) == os.getpid()
    path.write_text(f"{os.getpid()}\nanother start time\n", encoding="utf-8")
    assert read_pid(path) is None


def test_a_pid_file_of_an_ended_process_names_none(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    write_pid(tmp_path / "x.pid", process.pid)
    process.communicate(b"\n")
    assert read_pid(tmp_path / "x.pid") is None
