"""`supportpilot eval memory`: its table can be passed, and cannot be passed by a model that forgets or invents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from producer.cli import evaluate
from producer.cli.main import run
from producer.evaluation.scenarios import Gold, scenarios
from supportpilot.llm.offline import draft

pytestmark = pytest.mark.integration

# What the shell or the tests have configured must not reach an evaluation, but for the model's address.
ELSEWHERE = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "REDIS_URL": "redis://127.0.0.1:1/0", "HTTP_PROXY": "http://127.0.0.1:1"}


@pytest.mark.timeout(240)
def test_the_offline_model_passes_every_scenario_on_servers_of_the_command_s_own(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENAI_")} | ELSEWHERE | {"DATA_DIR": str(tmp_path / "none")}
    done = subprocess.run([sys.executable, "-m", "producer.cli.main", "eval", "memory", "--json"], env=environment, capture_output=True,
                          text=True, encoding="utf-8", timeout=220, check=False)
    told = json.loads(done.stdout)
    assert [s for s in told["scenarios"] if not s["passed"]] == []
    assert done.returncode == 0, done.stderr
    assert told["passed"]
    assert told["model"] == "offline rule model, not an LLM"
    assert [s["name"] for s in told["scenarios"]] == [s.name for s in scenarios()]
    assert not (tmp_path / "none").exists()


FORGETFUL = {
    "forgets": ("您好,请先检查网络是否正常。", {"repeat_bank_sync", "bill_folded_away", "promise_of_turn_3"}),
    "invents": ("您好,您的合同号是 HT20260088,账单号 INV-202605-9999,3 个工作日内处理。", {"never_said", "bill_folded_away", "promise_of_turn_3"}),
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("reply", "failing"), FORGETFUL.values(), ids=FORGETFUL.keys())
def test_a_model_that_forgets_or_invents_ends_with_exit_1(monkeypatch, capsys, migrated_server, reply, failing):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr(draft, "draft", lambda _sections: reply)
    assert run(["eval", "memory", *[word for name in sorted(failing) for word in ("--only", name)]]) == 1
    told = capsys.readouterr().out
    assert {line.split()[1] for line in told.splitlines() if line.startswith("FAILED")} == failing
    assert "missed: " in told


@pytest.fixture
def migrated_server(monkeypatch, postgres_server, seeded_template):
    """Let the command use the session's Postgres and demo data: starting its own is tested above."""
    made = []

    def copy_of(_server: str, template: str, name: str) -> str:
        made.append(f"{name}_{len(made)}")
        return postgres_server.create(made[-1], template)
    monkeypatch.setattr(evaluate, "demo_template", lambda _url: seeded_template)
    monkeypatch.setattr(evaluate, "copy_of", copy_of)
    monkeypatch.setattr(evaluate, "own_postgres", lambda: nullcontext(postgres_server.url()))
    yield
    for name in made:
        postgres_server.drop(name)


def test_an_unknown_scenario_is_one_line(capsys):
    assert run(["eval", "memory", "--only", "nothing"]) == 2
    assert "repeat_bank_sync" in capsys.readouterr().err


def test_every_fact_can_be_missed():
    for scenario in scenarios():
        assert scenario.steps
        assert scenario.gold
        for gold in scenario.gold:
            assert bool(gold.has) != bool(gold.lacks), f"{scenario.name}: {gold.fact}"
    assert not Gold("f", "reply", has="x").holds("")
    assert not Gold("f", "reply", lacks="x").holds("x")
