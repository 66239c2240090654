"""The deployment files: what they start exists, what they set is a setting, nobody is let in who should not be."""

from __future__ import annotations

import fnmatch
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from producer.cli.main import app as command_line
from producer.cli.processes import PROCESSES
from supportpilot.config import CHANNEL_DEFAULTS, Settings
from supportpilot.secret_files import SECRETS
from worker.queues import QUEUES

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("supportpilot:")}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SETTINGS = {name.upper() for name in Settings.model_fields}
FILES = {f"{name.upper()}_FILE" for name in SECRETS}
OF_ONE_CHANNEL = {f"{name}_{channel}".upper() for name, channel in CHANNEL_DEFAULTS}
POSTGRES_IMAGE = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD_FILE"}     # documented by that image
SHELL = {"HOSTNAME"}                                                            # set by the engine in every container
LONG_RUNNING = {"web", "worker", "background", "desk", "beat", "flower"}
NOT_HANDED_OVER = {"REDIS_URL"}                                                 # BROKER_URL goes before it


def recipe() -> list[tuple[str, str]]:
    """Return (instruction, rest) of the image recipe, continuation lines joined."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


def problem_of(words: list[str]) -> str | None:
    """Say what is wrong with a command of ours, None if it can be started."""
    program, rest = words[0], words[1:]
    if program == "python" and rest[0] == "-m":
        return None if importlib.util.find_spec(rest[1]) else f"no module {rest[1]}"
    if program == "python" and rest[0] == "-c":
        return compile(rest[1], "healthcheck", "exec") and None
    if program == "celery":
        right = rest[:3] == ["-q", "-A", "worker.app"] and rest[3] in {"worker", "beat", "inspect"}
        return None if right else f"not a Celery command of ours: {words}"
    if program == "supportpilot":
        return None if rest[0] in get_command(command_line).commands else f"no command {rest[0]}"
    return None if program == "find" else f"unknown program {program}"


def health_command(service: dict[str, Any]) -> list[str]:
    kind, *rest = service["healthcheck"]["test"]
    return rest if kind == "CMD" else shlex.split(rest[0])


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_the_services_that_others_rely_on_are_there():
    assert {"db", "redis", "web", "worker", "background", "desk", "beat", "flower", "migrate"} <= SERVICES.keys()
    assert {name for name, service in SERVICES.items() if service.get("profiles")} == {"model", "rabbitmq"}
    assert SERVICES["db"]["environment"]["POSTGRES_USER"] == SERVICES["db"]["environment"]["POSTGRES_DB"] == "supportpilot"


@pytest.mark.parametrize("name", OURS)
def test_every_command_exists(name):
    assert problem_of(SERVICES[name]["command"]) is None
    if name != "migrate":
        assert problem_of(health_command(SERVICES[name])) is None


@pytest.mark.parametrize("name", sorted(LONG_RUNNING))
def test_compose_runs_what_up_runs(name):
    told = PROCESSES[name].replace('"$WORKER_CONCURRENCY"', "${WORKER_CONCURRENCY:-16}").replace('"$DATA_DIR/', '"/data/')
    assert shlex.split(told) == SERVICES[name]["command"]


def test_every_queue_is_read_by_exactly_one_service():
    commands = [SERVICES[name]["command"] for name in ("worker", "background", "desk")]
    read = [queue for words in commands for queue in option(words, "-Q").split(",")]
    assert sorted(read) == sorted(QUEUES)
    assert re.search(r"-16}", option(SERVICES["worker"]["command"], "-c"))
    assert Settings().worker_concurrency == 16


@pytest.mark.parametrize("name", ["worker", "background", "desk"])
def test_a_health_check_asks_the_worker_of_its_own_container(name):
    node = option(SERVICES[name]["command"], "-n")
    assert node == f"{name}@%h"
    assert option(health_command(SERVICES[name]), "--destination") == f"{name}@$$HOSTNAME"


@pytest.mark.parametrize("name", OURS)
def test_every_variable_is_a_setting_and_no_secret_is_a_variable(name):
    variables = set(SERVICES[name].get("environment", {}))
    assert variables - SETTINGS - FILES - OF_ONE_CHANNEL == set()
    assert variables & {secret.upper() for secret in SECRETS} == set()


def test_every_other_variable_is_one_that_its_image_documents():
    named = set(re.findall(r"\$\{?([A-Z][A-Z_]+)", (ROOT / "docker-compose.yml").read_text(encoding="utf-8")))
    assert named - SETTINGS - SHELL == set()
    for name in SERVICES.keys() - OURS.keys():
        assert set(SERVICES[name].get("environment", {})) <= POSTGRES_IMAGE


def test_every_setting_reaches_some_service():
    handed = {variable.removesuffix("_FILE") for service in OURS.values() for variable in service.get("environment", {})}
    assert SETTINGS - NOT_HANDED_OVER - handed == set(), "add it to the services in docker-compose.yml that read it"


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_gets_the_secret_files_that_it_names_and_no_other(name):
    secrets = SERVICES[name].get("secrets", [])
    given = {secret if isinstance(secret, str) else secret["source"] for secret in secrets}
    assert given <= COMPOSE["secrets"].keys()
    files = [Path(value) for variable, value in SERVICES[name].get("environment", {}).items() if variable.endswith("_FILE")]
    if name in {"redis", "rabbitmq"}:
        assert files == []
    else:
        assert {path.name for path in files} == given
        assert all(path.parent == Path("/run/secrets") for path in files)


def test_only_web_and_flower_are_published_and_only_on_this_machine():
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published.keys() == {"web", "flower"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)
    for name in SERVICES.keys() - {"web", "flower", "worker", "background"}:
        assert SERVICES[name]["networks"] == ["inner"]
    assert COMPOSE["networks"]["inner"] == {"internal": True}


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_watched_restarted_and_held_tight(name):
    service = SERVICES[name]
    assert service["init"] is True
    assert "no-new-privileges:true" in service["security_opt"]
    assert service.get("read_only") or name == "rabbitmq"
    assert not re.search(r":latest$|^[^:]+$", service["image"])
    if name == "migrate":
        assert service["restart"] == "no"
    else:
        assert service["restart"] == "unless-stopped"
        assert service["healthcheck"]["test"]


@pytest.mark.parametrize("name", sorted(LONG_RUNNING))
def test_nothing_starts_before_the_schema_is_up_to_date(name):
    assert SERVICES[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}


@pytest.mark.parametrize("name", ["worker", "background", "desk"])
def test_every_turn_is_handed_back_before_its_worker_is_killed(name):
    assert int(SERVICES[name]["stop_grace_period"].removesuffix("s")) > 2 * Settings().drain_seconds


def test_what_has_to_survive_lies_in_a_named_volume():
    mounts = {name: service["volumes"] for name, service in SERVICES.items() if "volumes" in service}
    assert {name: volumes[0].split(":")[0] for name, volumes in mounts.items()} == {
        "db": "db-data", "beat": "beat-data", "flower": "flower-data", "rabbitmq": "rabbitmq-data"}
    assert COMPOSE["volumes"].keys() == {volumes[0].split(":")[0] for volumes in mounts.values()}


def test_the_image_is_built_from_pins_for_the_server_alone():
    runs = " ".join(rest for instruction, rest in recipe() if instruction == "RUN")
    assert "install --only-binary=:all: -r requirements.txt" in runs
    assert re.search(r"install --only-binary=:all: setuptools==[\d.]+ ", runs)
    assert "--no-deps" in runs
    pins = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    assert [line for line in pins.splitlines() if line and not re.match(r"[a-z0-9-]+==\S+$", line)] == []
    for requirement in PROJECT["optional-dependencies"]["local"] + PROJECT["optional-dependencies"]["dev"]:
        assert not re.search(rf"^{re.split('[~=<>]', requirement)[0]}==", pins, re.MULTILINE)


def test_the_pins_hold_every_dependency():
    pins = {line.split("==")[0] for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()}
    assert {re.split(r"[~=<>\[]", requirement)[0].lower() for requirement in PROJECT["dependencies"]} <= pins


def test_the_image_runs_as_a_fixed_user_that_is_not_root():
    instructions = recipe()
    users = [rest for instruction, rest in instructions if instruction == "USER"]
    assert users == ["10001:10001"]
    assert [instruction for instruction, _ in instructions].index("USER") > [
        index for index, (instruction, _) in enumerate(instructions) if instruction == "RUN"][-1]
    bases = [rest.split()[0] for instruction, rest in instructions if instruction == "FROM"]
    assert len(set(bases)) == 1
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", bases[0])
    assert all(service["image"] == f"supportpilot:{PROJECT['version']}" for service in OURS.values())


def test_the_recipes_command_is_the_web_server():
    assert dict(recipe())["CMD"] == '["python", "-m", "producer.web"]'
    assert SERVICES["web"]["command"] == ["python", "-m", "producer.web"]


def test_what_the_recipe_copies_is_there_and_let_through():
    let_through = [line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")]
    copied = {source.removeprefix("./") for instruction, rest in recipe() if instruction == "COPY" and "--from=" not in rest
              for source in rest.split()[:-1]}
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert copied == set(let_through)


def test_secrets_and_caches_stay_out_of_image_and_repository():
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {"/secrets/", ".env"} <= set(ignored)
    assert (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()[1] == "*"
    assert not any(fnmatch.fnmatch("secrets", line[1:]) for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!"))


def test_every_line_of_the_example_environment_is_a_setting_and_no_secret():
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    named = {line.lstrip("#").split("=")[0] for line in lines if re.match(r"#?[A-Z_]+=", line)}
    assert named - SETTINGS == set()
    assert named & {secret.upper() for secret in SECRETS} == set()


@pytest.fixture
def deployed(tmp_path: Path) -> Path:
    """A copy of the deployment files with secrets of its own."""
    (tmp_path / "deploy").mkdir()
    for name in ("docker-compose.yml", "Dockerfile", "deploy/make-secrets.sh"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / ".env.example", tmp_path / ".env")
    subprocess.run(["sh", "deploy/make-secrets.sh"], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    return tmp_path


def test_the_secrets_that_are_made_are_those_that_are_named_and_fit_together(deployed):
    made = {path.name: path.read_text(encoding="utf-8").strip() for path in (deployed / "secrets").iterdir()}
    assert {f"./secrets/{name}" for name in made} == {secret["file"] for secret in COMPOSE["secrets"].values()}
    assert f":{made['postgres_password']}@db:5432/supportpilot" in made["database_url"]
    assert f"requirepass {made['broker_url'].split(':')[2].split('@')[0]}\n" in made["redis_conf"]
    assert oct((deployed / "secrets").stat().st_mode)[-3:] == "700"


def test_making_secrets_again_changes_nothing_and_another_broker_only_its_address(deployed):
    before = {path.name: path.read_text(encoding="utf-8") for path in (deployed / "secrets").iterdir()}
    for arguments in ([], ["rabbitmq"]):
        subprocess.run(["sh", "deploy/make-secrets.sh", *arguments], cwd=deployed, check=True, capture_output=True, timeout=60)
        after = {path.name: path.read_text(encoding="utf-8") for path in (deployed / "secrets").iterdir()}
        assert {name for name in after if after[name] != before[name]} == ({"broker_url"} if arguments else set())
    password = before["rabbitmq_conf"].split("default_pass = ")[1].strip()
    assert after["broker_url"] == f"amqp://supportpilot:{password}@rabbitmq:5672//\n"


def _compose() -> list[str] | None:
    """Return the command of Compose v2, None where this machine has none."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]):
            done = subprocess.run([*command, "version", "--short"], capture_output=True, text=True, timeout=30)
            if done.returncode == 0 and done.stdout.strip().removeprefix("v").startswith(("2", "3", "4", "5")):
                return command
    return None


@pytest.mark.parametrize("arguments", [[], ["--profile", "*"]], ids=["plain", "all profiles"])
def test_compose_itself_accepts_the_file(deployed, arguments):
    command = _compose()
    if command is None:
        pytest.skip("no Compose v2 on this machine (docker compose)")
    environment = {"PATH": os.environ["PATH"], "HOME": str(deployed)}
    done = subprocess.run([*command, *arguments, "config", "--quiet"], cwd=deployed, env=environment,
                          capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
