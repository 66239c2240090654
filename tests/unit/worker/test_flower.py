"""How Flower is started: never without a login, on HOST only, looking only, with a memory."""

from __future__ import annotations

import subprocess
import sys

import pytest
from flower.options import options as known

from supportpilot.config import load_settings
from supportpilot.errors import Misconfigured
from worker.flower import options


def test_every_option_is_one_that_flower_has():
    names = [option.lstrip("-").partition("=")[0] for option in options(load_settings(flower_basic_auth="a:b"))]
    assert [name for name in names if name not in known] == []


def test_it_listens_on_host_keeps_its_state_and_only_looks(tmp_path):
    found = options(load_settings(flower_basic_auth="a:b", host="127.0.0.1", flower_port=1234, data_dir=tmp_path))
    assert {"--address=127.0.0.1", "--port=1234", "--persistent=True", "--read_only=True", f"--db={tmp_path}/flower"} <= set(found)


@pytest.mark.parametrize("login", [None, "", "admin", "admin:", ":secret", "a:b,c:d"])
def test_without_a_proper_login_it_does_not_start(login):
    with pytest.raises(Misconfigured, match=r"^FLOWER_BASIC_AUTH: "):
        options(load_settings(flower_basic_auth=login))


def test_a_missing_login_is_one_line_and_exit_2():
    done = subprocess.run([sys.executable, "-P", "-m", "worker.flower"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr.startswith("FLOWER_BASIC_AUTH: ")
