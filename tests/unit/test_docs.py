"""What the documents say: commands that exist, links that lead somewhere, two languages that say the same."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from fixtures.documents import MADE, WRITE, with_made_part
from typer.main import get_command

from producer.cli.main import app
from supportpilot.config import Settings

ROOT = Path(__file__).parents[2]
README, CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) ", re.MULTILINE)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)[^)]*\)")
VARIABLE = re.compile(r"`([A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+|PORT|HOST)(?:=[^`]*)?`")
TARGET = re.compile(r"^([a-z-]+):.*##", re.MULTILINE)

# Capitals in the documents that are no settings: the reason.
NOT_SETTINGS = {
    "DATA_DIR": "a setting too; here for clarity", "WEBHOOK_URL": "shell variable of the example", "KB_ID": "placeholder",
    "PYTHON_VERSION": "not ours",
}


def blocks(path: Path) -> list[tuple[str, str]]:
    """Return (language, text) of every code block."""
    return BLOCK.findall(path.read_text(encoding="utf-8"))


def without_blocks(path: Path) -> str:
    """Return a document's prose."""
    return BLOCK.sub("", path.read_text(encoding="utf-8"))


def commands(path: Path) -> list[list[str]]:
    """Return the words of every `supportpilot …` line in a document's shell blocks."""
    found = []
    for language, text in blocks(path):
        for line in text.replace("\\\n", " ").splitlines() if language in {"sh", "console"} else []:
            words = shlex.split(line.removeprefix("$ "), comments=True)
            starts = [i for i, word in enumerate(words) if word in {"supportpilot", ".venv/bin/supportpilot"}]
            found += [words[i + 1:] for i in starts]
    return found


def problem_of(words: list[str]) -> str | None:
    """Say what is wrong with a command's words, None if they would be understood."""
    command, rest = get_command(app), list(words)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        if rest[0] not in command.commands:
            return f"no such command: supportpilot {' '.join(words)}"
        command = command.commands[rest.pop(0)]
    if command.context_settings.get("ignore_unknown_options"):
        return None
    known = {option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]} | {"--help"}
    unknown = {word.split("=")[0] for word in rest if word.startswith("-") and len(word) > 1} - known
    return f"no such option {unknown}: supportpilot {' '.join(words)}" if unknown else None


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_in_a_document_exists_with_its_options(path):
    assert [problem for problem in map(problem_of, commands(path)) if problem] == []


def test_the_readme_shows_every_command():
    shown = {tuple(words[:depth]) for words in commands(README) for depth in (1, 2)}
    root = get_command(app)
    leaves = [(name, *inner) for name, command in root.commands.items()
              for inner in ([(sub,) for sub in command.commands] if hasattr(command, "commands") else [()])]
    assert [leaf for leaf in leaves if leaf not in shown] == []


def test_the_two_readmes_have_the_same_headings_and_the_same_code():
    english, chinese = README.read_text(encoding="utf-8"), CHINESE.read_text(encoding="utf-8")
    assert HEADING.findall(BLOCK.sub("", english)) == HEADING.findall(BLOCK.sub("", chinese))
    assert blocks(README) == blocks(CHINESE)
    assert [len(LINK.findall(text)) for text in (english, chinese)] == [len(LINK.findall(english))] * 2


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_leads_to_one(path):
    targets = [target for target in LINK.findall(without_blocks(path)) if "://" not in target and not target.startswith(("#", "mailto:"))]
    assert [target for target in targets if not (path.parent / target.split("#")[0]).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_variable_in_the_documents_is_a_setting(path):
    known = {name.upper() for name in Settings.model_fields} | set(NOT_SETTINGS)
    bases = tuple(f"{name}_" for name in ("WEBHOOK_SECRET", "TURN_DEBOUNCE_SECONDS", "TURN_DEBOUNCE_MAX_SECONDS", "DELIVERY_RATE"))
    named = {name.removesuffix("_FILE") for name in VARIABLE.findall(without_blocks(path))}
    assert {name for name in named if name not in known and not name.startswith(bases)} - constants() == set()


def constants() -> set[str]:
    """Return the names of the constants in the three packages, which documents may quote."""
    sources = [path for package in ("supportpilot", "worker", "producer") for path in (ROOT / package).rglob("*.py")]
    return {name for path in sources for name in re.findall(r"^([A-Z][A-Z0-9_]+)\b", path.read_text(encoding="utf-8"), re.MULTILINE)}


@pytest.mark.parametrize("path", [README, CHINESE, ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_every_make_target_in_the_documents_exists(path):
    targets = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    named = {word for _, text in blocks(path) for line in text.splitlines() if line.startswith("make ")
             for word in line.split("#")[0].split()[1:] if "=" not in word}
    assert named
    assert named <= targets


@pytest.mark.parametrize("name", MADE)
def test_the_made_parts_are_up_to_date(name):
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert with_made_part(text, MADE[name]()) == text, f"run `{WRITE}`"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_document_names_a_path_of_the_machine_it_was_written_on(path):
    assert not re.search(r"(/work/|/root/|/tmp/\w)", path.read_text(encoding="utf-8"))


def test_every_effect_names_tests_that_exist():
    text = (ROOT / "docs" / "effects.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", text))
    there = {name for path in (ROOT / "tests").rglob("test_*.py")
             for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)}
    assert len(named) > 30
    assert named <= there, named - there
