"""The command line as its user meets it: exit codes, one-line errors, JSON, and what the database holds afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeLLM
from fixtures.office import CONTACT, DRAFT, TRIAGE, Office, give_paid_invoice, refund_llm
from fixtures.postgres import PostgresServer

from producer.cli.data import find_psql, without_password
from producer.cli.main import run
from supportpilot.config import get_settings
from supportpilot.db.pool import Database
from supportpilot.service import intake

pytestmark = pytest.mark.integration
UNREACHABLE = "postgresql://nobody@127.0.0.1:1/none"
LONG = "大" * 5_000
BYTES = "T\udcff"     # how Python hands over an argument that is not UTF-8


class Shell:
    """Runs commands in this process on one database; remembers nothing."""

    def __init__(self, capture: pytest.CaptureFixture[str], environment: pytest.MonkeyPatch) -> None:
        self._capture, self._environment = capture, environment

    def use(self, **values: str) -> Shell:
        for name, value in values.items():
            self._environment.setenv(name, value)
        get_settings.cache_clear()
        return self

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Return (exit code, stdout, stderr)."""
        self._capture.readouterr()
        code = run(arguments)
        out, error = self._capture.readouterr()
        return code, out, error

    def json(self, *arguments: str) -> Any:
        code, out, error = self(*arguments, "--json")
        assert code == 0, error
        return json.loads(out)

    def refused(self, *arguments: str) -> str:
        """Run a command that a rule must refuse; return its one line."""
        return self.fails(3, *arguments)

    def fails(self, expected: int, *arguments: str) -> str:
        code, _, error = self(*arguments)
        assert code == expected, (code, error)
        assert error.endswith("\n")
        assert error.count("\n") == 1, error
        assert "Traceback" not in error
        return error


@pytest.fixture
def bare(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell where nothing is configured."""
    return Shell(capsys, monkeypatch)


@pytest.fixture
def shell(bare: Shell, database_url: str) -> Shell:
    """A shell on this test's database, without a broker."""
    return bare.use(DATABASE_URL=database_url, TURN_DEBOUNCE_SECONDS="0")


@pytest.fixture
def demo_shell(bare: Shell, seeded_url: str) -> Shell:
    """A shell on a database with the demo data."""
    return bare.use(DATABASE_URL=seeded_url, TURN_DEBOUNCE_SECONDS="0")


@pytest.fixture
def waiting(db: Database) -> tuple[Office, str]:
    """A ticket whose refund waits for its approval A000001."""
    office = Office(db, refund_llm())
    give_paid_invoice(office)
    ticket_id = office.write("重复扣款,请退 INV-1").ticket_id
    office.work(ticket_id)
    assert office.status(ticket_id) == "waiting_approval"
    return office, ticket_id


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run([sys.executable, "-m", "producer.cli.main", *arguments], env=os.environ | environment,
                          capture_output=True, text=True, encoding="utf-8", timeout=60, check=False)


# usage, configuration, servers that are away

@pytest.mark.parametrize("arguments", [
    ["nonsense"], ["send"], ["ticket"], ["ticket", "show"], ["ticket", "list", "--colour"], ["kb", "search"],
    ["approvals", "approve", "A000001"], ["send", "--email", "a@example.com", "--body", "x", "--timeout", "soon"],
])
def test_wrong_usage_is_one_line_and_exit_2(bare: Shell, arguments: list[str]) -> None:
    assert "--help" in bare.fails(2, *arguments)


@pytest.mark.parametrize("arguments", [
    ["ticket", "list"], ["ticket", "show", "T000001"], ["approvals", "list"], ["kb", "search", "x"], ["inbox", "list"],
    ["outbox", "list"], ["quarantine", "list"], ["migrate"], ["seed"], ["psql"], ["doctor"], ["checkpoints", "reset"],
    ["send", "--email", "a@example.com", "--body", "x"],
])
def test_with_nothing_running_one_line_says_what_to_start(bare: Shell, arguments: list[str]) -> None:
    assert "supportpilot up" in bare.fails(2, *arguments)


@pytest.mark.parametrize("arguments", [
    ["ticket", "list"], ["approvals", "approve", "A000001", "--by", "Chen"], ["migrate"], ["kb", "search", "x"],
    ["send", "--email", "a@example.com", "--body", "x"],
])
def test_a_database_that_is_away_is_one_line_and_exit_1(bare: Shell, arguments: list[str]) -> None:
    assert "database" in bare.use(DATABASE_URL=UNREACHABLE).fails(1, *arguments)


def test_a_malformed_setting_is_named_and_exit_2(bare: Shell) -> None:
    assert "LEASE_SECONDS" in bare.use(LEASE_SECONDS="soon").fails(2, "ticket", "list")


@pytest.mark.parametrize("arguments", [
    ["ticket", "show", BYTES], ["ticket", "release", BYTES], ["ticket", "history", BYTES, "--json"],
    ["ticket", "reply", "T000001", "--body", "x", "--by", BYTES], ["approvals", "show", BYTES],
    ["approvals", "approve", BYTES, "--by", "Chen"], ["approvals", "reject", "A000001", "--by", "Chen", "--reason", BYTES],
    ["inbox", "retry", BYTES], ["outbox", "retry", BYTES], ["quarantine", "retry", BYTES], ["kb", "import", BYTES],
    ["send", "--email", "a@example.com", "--body", BYTES], [BYTES],
])
def test_arguments_that_are_no_text_are_one_line_and_exit_2(bare: Shell, arguments: list[str]) -> None:
    assert "not text" in bare.use(DATABASE_URL=UNREACHABLE).fails(2, *arguments)


@pytest.mark.parametrize("arguments", [
    ["ticket", "show", LONG], ["ticket", "history", LONG], ["ticket", LONG], [LONG], ["approvals", "show", LONG],
    ["profile", "show", LONG], ["profile", "correct", LONG, "--note", "x", "--by", "Li"], ["customer", "erase", LONG],
    ["customer", "export", LONG], ["commitments", "--ticket", LONG], ["commitments", "done", LONG, "--by", "Li"],
    ["commitments", "drop", LONG, "--by", "Li", "--reason", "x"], ["checkpoints", "prune", "--ticket", LONG],
    ["checkpoints", "prune", LONG], ["eval", "memory", "--only", LONG], ["inbox", "retry", LONG], ["kb", "import", LONG],
    ["send", "--email", "a@example.com", "--body", "x", "--ticket", LONG], ["customer", "export", "C0001", "--out", LONG],
])
def test_a_page_pasted_into_a_command_comes_back_as_one_short_line(demo_shell: Shell, arguments: list[str]) -> None:
    code, _, error = demo_shell(*arguments)
    assert code in (2, 3)
    assert error.count("\n") == 1
    assert len(error) < 1_000


@pytest.mark.parametrize("arguments", [
    ["checkpoints", "prune", "--ticket", ""], ["checkpoints", "prune", "--ticket", "", "--dry-run"],
    ["checkpoints", "prune", "--ticket", "", "--all"], ["commitments", "--ticket", ""], ["ticket", "show", ""],
    ["ticket", "history", ""], ["ticket", "resolve", ""], ["send", "--email", "a@example.com", "--body", "x", "--ticket", ""],
    ["customer", "erase", "", "--yes"], ["profile", "rebuild", ""],
])
def test_a_name_that_is_empty_means_nobody_and_never_all_of_them(shell: Shell, office: Office, arguments: list[str]) -> None:
    office.work(office.write("x").ticket_id)
    before = _rows(office)
    code, _, error = shell(*arguments)
    assert (code in (2, 3), error.count("\n")) == (True, 1), (code, error)
    assert _rows(office) == before


def _rows(office: Office) -> list[int]:
    return [office.one(f"SELECT count(*) AS n FROM {table}")["n"] for table in ("checkpoints", "biz.tickets", "desk.inbox", "desk.erasures")]


def test_without_arguments_the_help_is_shown(bare: Shell) -> None:
    code, out, error = bare()
    assert (code, error) == (0, "")
    assert "approvals" in out


def test_the_errors_of_a_real_process_have_no_traceback(database_url: str) -> None:
    away = process("ticket", "list", DATABASE_URL=UNREACHABLE)
    assert (away.returncode, away.stdout, away.stderr.count("\n")) == (1, "", 1)
    unknown = process("ticket", "show", "T999999", DATABASE_URL=database_url)
    assert (unknown.returncode, unknown.stdout, unknown.stderr.count("\n")) == (3, "", 1)


def test_ctrl_c_ends_a_waiting_command_quietly_with_130(database_url: str) -> None:
    command = [sys.executable, "-m", "producer.cli.main", "send", "--email", CONTACT, "--body", "x", "--wait"]
    with subprocess.Popen(command, env=os.environ | {"DATABASE_URL": database_url}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        while not running.stdout.readline().startswith("message"):
            time.sleep(0.01)
        time.sleep(0.3)
        running.send_signal(signal.SIGINT)
        _, error = running.communicate(timeout=20)
    assert (running.returncode, error) == (130, "")


def test_ctrl_c_while_the_commands_are_loading_is_as_quiet(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    done = subprocess.run([sys.executable, "-m", "producer.cli.start", "ticket", "list"], env=os.environ | {"PYTHONPATH": str(tmp_path)},
                          capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    [script] = [entry.value for entry in distribution("supportpilot").entry_points if entry.name == "supportpilot"]
    assert script == "producer.cli.start:main"


def test_a_reader_that_goes_away_causes_no_noise(seeded_url: str) -> None:
    command = f"{sys.executable} -m producer.cli.main ticket list --limit 152 --json | head -1"
    done = subprocess.run(["sh", "-c", command], env=os.environ | {"DATABASE_URL": seeded_url},
                          capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("[\n", "")


# migrate, seed, psql

def test_migrate_can_be_repeated(shell: Shell) -> None:
    assert shell("migrate")[:2] == (0, "the schema is up to date\n")


def test_seed_fills_an_empty_database_without_asking(shell: Shell) -> None:
    code, out, _ = shell("seed")
    assert code == 0
    assert "tickets 152" in out
    assert len(shell.json("ticket", "list", "--limit", "1000")) == 152


def test_seed_asks_before_it_resets_and_does_it_with_yes(demo_shell: Shell) -> None:
    assert "--yes" in demo_shell.fails(2, "seed")
    demo_shell("send", "--email", "wugang@example.com", "--body", "E3001")
    assert demo_shell("seed", "--yes")[0] == 0
    assert demo_shell.json("inbox", "list") == []


def test_seed_refuses_a_database_with_other_data(shell: Shell, office: Office) -> None:
    office.write("真实客户的消息")
    assert "did not put there" in shell.refused("seed", "--yes")
    assert len(shell.json("inbox", "list")) == 1


def test_psql_is_found_and_the_password_is_not_among_its_arguments() -> None:
    assert Path(find_psql()).exists()
    assert without_password("postgresql://me:s%40crt@db:5432/x?sslmode=require") == (
        "postgresql://me@db:5432/x?sslmode=require", "s@crt")


def test_psql_passes_its_arguments_on(seeded_url: str) -> None:
    done = process("psql", "-Atc", "SELECT count(*) FROM biz.tickets", DATABASE_URL=seeded_url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "152\n", "")


# send

def test_send_stores_the_message_as_a_webhook_would(demo_shell: Shell) -> None:
    sent = demo_shell.json("send", "--email", "WuGang@example.com", "--body", "E3001 又来了", "--subject", "同步")
    assert sent == {"ticket_id": "T000153", "message_id": sent["message_id"], "duplicate": False}
    found = demo_shell.json("inbox", "list")[0]
    assert (found["id"], found["channel"], found["body"]) == (sent["message_id"], "terminal", "E3001 又来了")
    assert demo_shell.json("ticket", "show", "T000153")["customer"]["id"] == "C0010"


def test_the_same_message_id_twice_is_a_duplicate(shell: Shell) -> None:
    arguments = ("send", "--email", CONTACT, "--body", "x", "--message-id", "m-1")
    first, again = shell.json(*arguments), shell.json(*arguments)
    assert again == {**first, "duplicate": True}
    assert len(shell.json("inbox", "list")) == 1
    assert "duplicate" in shell(*arguments)[1]


def test_send_to_an_unknown_ticket_is_refused_and_stores_nothing(shell: Shell) -> None:
    assert "T999999" in shell.refused("send", "--email", CONTACT, "--body", "x", "--ticket", "T999999")
    assert shell.json("inbox", "list") == []


def test_send_to_somebody_elses_ticket_opens_a_new_one_and_says_so(shell: Shell) -> None:
    theirs = shell.json("send", "--email", CONTACT, "--body", "x")["ticket_id"]
    code, out, _ = shell("send", "--email", "eve@example.com", "--body", "y", "--ticket", theirs)
    assert code == 0
    assert "another address" in out
    assert shell.json("ticket", "show", theirs)["pending_messages"][0]["body"] == "x"


@pytest.mark.parametrize(("email", "body"), [("nobody", "x"), ("a@example.com", "  "), ("a@example.com", "x" * 20_001)])
def test_send_refuses_what_no_webhook_could_bring(shell: Shell, email: str, body: str) -> None:
    shell.fails(2, "send", "--email", email, "--body", body)
    assert shell.json("inbox", "list") == []


def test_send_waits_for_the_answer_and_prints_it(shell: Shell, office: Office) -> None:
    arguments = ("send", "--email", CONTACT, "--body", "E3001", "--message-id", "m-1")
    sent = shell.json(*arguments)
    office.work(sent["ticket_id"])
    ended = shell.json(*arguments, "--wait")
    assert ended["outcome"] == "resolved"
    assert "重新授权" in ended["reply"]
    assert "重新授权" in shell(*arguments, "--wait")[1]


def test_send_gives_up_waiting_with_exit_1_and_keeps_the_message(shell: Shell) -> None:
    error = shell.fails(1, "send", "--email", CONTACT, "--body", "x", "--wait", "--timeout", "0.3")
    assert "doctor" in error
    assert len(shell.json("inbox", "list")) == 1


def test_send_tells_that_the_refund_waits_and_that_the_next_message_is_held(
        shell: Shell, waiting: tuple[Office, str]) -> None:
    office, ticket_id = waiting
    first = office.one("SELECT external_id FROM desk.inbox WHERE ticket_id = %s", ticket_id)
    assert first["external_id"].startswith("generic:")
    held = shell.json("send", "--email", CONTACT, "--body", "等等", "--ticket", ticket_id, "--wait", "--timeout", "5")
    assert held["outcome"] == "waiting_approval"
    assert held["reply"]


# tickets

def test_ticket_show_has_all_that_other_systems_read(shell: Shell, office: Office) -> None:
    ticket_id = office.write("E3001 同步失败").ticket_id
    office.work(ticket_id)
    shown = shell.json("ticket", "show", ticket_id)
    assert set(shown) >= {"ticket_id", "status", "outcome", "customer", "turns", "summary", "summarized_upto", "ledger",
                          "profile", "context", "tool_log", "approvals", "reply", "cost_cny", "pending_messages",
                          "checkpoints"}
    assert (shown["status"], shown["outcome"]) == ("answered", "resolved")
    first = shown["turns"][0]
    assert (first["role"], first["content"]) == ("customer", "E3001 同步失败")
    assert first.keys() >= {"id", "role", "content", "at"}
    code, out, _ = shell("ticket", "show", ticket_id)
    assert code == 0
    assert "E3001 同步失败" in out


def test_customer_text_cannot_steer_the_terminal_or_the_markup(shell: Shell, office: Office) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07 \x9b31m [red]rot[/red] \u202eabc"
    ticket_id = office.write(evil, subject=evil).ticket_id
    office.work(ticket_id)
    for arguments in (["ticket", "show", ticket_id], ["ticket", "list"], ["inbox", "list"], ["inbox", "list", "--json"],
                      ["ticket", "show", ticket_id, "--json"]):
        out = shell(*arguments)[1]
        assert not set(out) & set("\x1b\x07\x9b\u202e"), arguments
    assert "[red]rot[/red]" in shell("ticket", "show", ticket_id)[1]
    assert shell.json("ticket", "show", ticket_id)["turns"][0]["content"] == evil


def test_an_unknown_ticket_is_refused_in_one_line_everywhere(shell: Shell) -> None:
    for command in (["show", "T999999"], ["release", "T999999"], ["resolve", "T999999"],
                    ["reply", "T999999", "--body", "x", "--by", "Li"]):
        assert "T999999" in shell.refused("ticket", *command)


def test_a_human_answers_gives_back_and_closes(shell: Shell, office: Office) -> None:
    ticket_id = office.write("请帮我").ticket_id
    office.work(ticket_id)
    assert shell("ticket", "reply", ticket_id, "--body", "我来处理", "--by", "李")[0] == 0
    assert shell.json("ticket", "list", "--status", "escalated")[0]["ticket_id"] == ticket_id
    assert (office.outbox(ticket_id)[-1]) == ("human", "我来处理")
    shown = shell("ticket", "show", ticket_id)[1]
    assert "(waits)" in shown
    assert "我来处理" in shown
    assert shell("ticket", "release", ticket_id)[0] == 0
    assert "nothing to release" in shell.refused("ticket", "release", ticket_id)
    office.work(ticket_id)
    assert shell("ticket", "resolve", ticket_id)[0] == 0
    assert office.status(ticket_id) == "resolved"


def test_an_impossible_status_names_the_possible_ones(shell: Shell) -> None:
    assert "escalated" in shell.fails(2, "ticket", "list", "--status", "lost")
    assert "withdrawn" in shell.fails(2, "approvals", "list", "--status", "lost")


# approvals

def test_approvals_are_listed_and_shown_with_what_was_written_since(shell: Shell, waiting: tuple[Office, str]) -> None:
    office, ticket_id = waiting
    listed = shell.json("approvals", "list", "--status", "pending")
    assert [(a["id"], a["ticket_id"], a["status"]) for a in listed] == [("A000001", ticket_id, "pending")]
    office.write("等等", ticket_id=ticket_id)
    shown = shell.json("approvals", "show", "A000001")
    assert [m["body"] for m in shown["written_since"]] == ["等等"]
    assert shown["latest_version"] == 2
    assert "--version 2" in shell("approvals", "show", "A000001")[1]
    assert "INV-1" in shell("approvals", "list")[1]


def test_the_command_obeys_the_rule_of_two_people(shell: Shell, db: Database) -> None:
    office = Office(db, refund_llm(), approval_two_person_cny=100)
    give_paid_invoice(office)
    office.work(office.write("重复扣款,请退 INV-1").ticket_id)
    for name in ("Li Wei", "li wei"):
        code, out, _ = shell("approvals", "approve", "A000001", "--by", name)
        assert code == 0
        assert "a second person has to approve the same" in out
    assert shell.json("approvals", "show", "A000001")["status"] == "pending"
    assert "A000001 approved (¥300.00) by Wang" in shell("approvals", "approve", "A000001", "--by", "Wang")[1]
    assert "approved by Wang at" in shell.refused("approvals", "reject", "A000001", "--by", "Li Wei")


def test_people_are_admitted_listed_and_turned_away(shell: Shell) -> None:
    made = shell.json("approver", "add", " Wang  Min ", "--role", "agent", "--by", "boss")
    assert (made["name"], made["role"]) == ("Wang Min", "agent")
    assert made["token"] not in shell("approver", "list")[1] + str(shell.json("approver", "list"))
    assert "revoke" in shell.refused("approver", "add", "wang min")
    code, out, _ = shell("approver", "add", "李强")
    assert (code, out.splitlines()[0]) == (0, "李强 is approver; the token, shown this once:")
    assert "Wang Min cannot log in any more" in shell("approver", "revoke", "WANG MIN")[1]
    assert "nobody called Wang Min" in shell.refused("approver", "revoke", "Wang Min")
    assert [person["revoked_at"] is None for person in shell.json("approver", "list")] == [False, True]
    for name, role in (("", "agent"), ("x" * 61, "agent"), ("a\u200bb", "agent"), ("Li", "boss")):
        shell.fails(2, "approver", "add", name, "--role", role)


def test_a_stale_approval_is_refused_and_names_the_version_to_give(shell: Shell, waiting: tuple[Office, str]) -> None:
    office, ticket_id = waiting
    office.write("不用退了", ticket_id=ticket_id)
    assert "--version 2" in shell.refused("approvals", "approve", "A000001", "--by", "Chen")
    assert shell.json("approvals", "show", "A000001")["status"] == "pending"
    assert shell("approvals", "approve", "A000001", "--by", "Chen", "--version", "2")[0] == 0


def test_a_smaller_amount_is_what_is_refunded(shell: Shell, waiting: tuple[Office, str]) -> None:
    office, ticket_id = waiting
    assert "300" in shell.refused("approvals", "approve", "A000001", "--by", "Chen", "--amount", "300.01")
    shell.fails(2, "approvals", "approve", "A000001", "--by", "Chen", "--amount", "viel")
    shell.fails(2, "approvals", "approve", "A000001", "--by", "Chen", "--amount", "1.005")
    assert shell("approvals", "approve", "A000001", "--by", "Chen", "--amount", "99.50", "--reason", "partly")[0] == 0
    office.work(ticket_id)
    assert [str(r["amount"]) for r in office.rows("SELECT amount FROM biz.refunds")] == ["99.50"]


def test_only_the_first_decision_counts(shell: Shell, waiting: tuple[Office, str]) -> None:
    office, ticket_id = waiting
    assert shell("approvals", "reject", "A000001", "--by", "Chen", "--reason", "no")[0] == 0
    assert "already rejected" in shell.refused("approvals", "approve", "A000001", "--by", "Li")
    office.work(ticket_id)
    assert office.rows("SELECT 1 FROM biz.refunds") == []


def test_an_expired_or_unknown_approval_is_refused(shell: Shell, waiting: tuple[Office, str]) -> None:
    office, _ = waiting
    office.execute("UPDATE desk.approvals SET expires_at = clock_timestamp()")
    assert "expired" in shell.refused("approvals", "approve", "A000001", "--by", "Chen")
    assert "A999999" in shell.refused("approvals", "show", "A999999")
    assert "A999999" in shell.refused("approvals", "reject", "A999999", "--by", "Chen")


def test_a_decision_needs_a_name(shell: Shell, waiting: tuple[Office, str]) -> None:
    assert "--by" in shell.fails(2, "approvals", "approve", "A000001", "--by", " ")


# knowledge base, checkpoints

ARTICLE = """---
id: KB-test-001
title: 如何找到彩虹
url: https://example.com/rainbow
lang: zh
---
## 步骤
彩虹报表在“报表 > 彩虹”里。
"""


def test_kb_articles_are_imported_and_found(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "kb"
    folder.mkdir()
    (folder / "one.md").write_text(ARTICLE, encoding="utf-8")
    assert shell("kb", "import", str(folder))[:2] == (0, f"imported 1 articles from {folder}\n")
    hits = shell.json("kb", "search", "彩虹报表")
    assert (hits[0]["article_id"], hits[0]["title"]) == ("KB-test-001", "如何找到彩虹")
    assert "KB-test-001" in shell("kb", "search", "彩虹报表")[1]


def test_kb_import_names_the_file_that_is_wrong(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "bad.md").write_text("no front matter", encoding="utf-8")
    assert "bad.md" in shell.fails(1, "kb", "import", str(tmp_path))
    shell.fails(2, "kb", "import", str(tmp_path / "missing"))
    shell.fails(2, "kb", "import", "x" * 5000)


def test_kb_import_names_articles_without_id_or_title_and_takes_the_others(shell: Shell, tmp_path: Path) -> None:
    for name, text in (("a.md", ARTICLE.replace("id: KB-test-001\n", "")), ("b.md", ARTICLE),
                       ("c.md", ARTICLE.replace("title: 如何找到彩虹\n", ""))):
        (tmp_path / name).write_text(text, encoding="utf-8")
    code, out, err = shell("kb", "import", str(tmp_path))
    assert (code, out) == (1, f"imported 1 articles from {tmp_path}, 2 left out\n")
    assert err.splitlines() == ["a.md:1: the front matter has no id", "c.md:1: the front matter has no title"]
    assert [hit["article_id"] for hit in shell.json("kb", "search", "彩虹报表")] == ["KB-test-001"]


def test_the_demo_knowledge_base_answers_an_error_code(demo_shell: Shell) -> None:
    assert demo_shell.json("kb", "search", "E3001 招商银行")[0]["article_id"] == "KB-bank-001"


def test_checkpoints_are_reset_only_with_yes(shell: Shell, office: Office) -> None:
    office.work(office.write("E3001").ticket_id)
    assert "--yes" in shell.fails(2, "checkpoints", "reset")
    code, out, _ = shell("checkpoints", "reset", "--yes")
    assert code == 0
    assert out.startswith("cleared ")
    assert int(out.split()[1]) > 0
    assert shell("checkpoints", "reset", "--yes")[1] == "cleared 0 checkpoints\n"


# dead letters

def test_a_dead_message_is_listed_and_can_be_retried(shell: Shell, db: Database) -> None:
    office = Office(db, FakeLLM([TRIAGE], [], DRAFT))
    received = office.write("毒")
    office.execute("UPDATE desk.inbox SET state = 'dead', last_error = 'gave up'")
    office.execute("UPDATE biz.tickets SET status = 'escalated'")
    assert [m["id"] for m in shell.json("inbox", "list", "--dead")] == [received.message_id]
    assert shell("inbox", "retry", received.message_id)[0] == 0
    assert shell.json("inbox", "list", "--dead") == []
    assert received.message_id in shell.refused("inbox", "retry", received.message_id)
    assert "M999999" in shell.refused("inbox", "retry", "M999999")


def test_a_failed_reply_is_listed_and_can_be_retried(shell: Shell, office: Office) -> None:
    office.work(office.write("E3001").ticket_id)
    office.execute("UPDATE desk.outbox SET status = 'failed', last_error = '500'")
    failed = shell.json("outbox", "list", "--dead")
    assert [(r["kind"], r["status"]) for r in failed] == [("reply", "failed")]
    assert shell("outbox", "retry", failed[0]["id"])[0] == 0
    assert [r["status"] for r in shell.json("outbox", "list")] == ["queued"]
    assert "R999999" in shell.refused("outbox", "retry", "R999999")


def test_quarantined_input_is_listed_and_refused_while_it_is_unusable(shell: Shell, db: Database) -> None:
    bad = intake.keep_unusable(db, "generic", "a@example.com", b"{", "the body is not JSON")
    fine = b'{"message_id": "q1", "from": {"email": "a@example.com"}, "body": "hello"}'
    good = intake.keep_unusable(db, "generic", "a@example.com", fine, "an old bug")
    assert {q["id"]: q["reason"] for q in shell.json("quarantine", "list")} == {
        bad: "the body is not JSON", good: "an old bug"}
    assert bad in shell.refused("quarantine", "retry", bad)
    code, out, _ = shell("quarantine", "retry", good)
    assert code == 0
    assert "became message M" in out
    assert good in shell.refused("quarantine", "retry", good)


@pytest.mark.parametrize("command", [["ticket"], ["approvals"], ["inbox"], ["outbox"], ["quarantine"]])
def test_an_empty_listing_is_an_empty_json_list_and_a_word(shell: Shell, command: list[str]) -> None:
    assert shell.json(*command, "list") == []
    assert "none" in shell(*command, "list")[1]


# doctor

def test_doctor_says_in_one_line_each_what_is_missing(shell: Shell) -> None:
    code, out, error = shell.use(REDIS_URL="redis://127.0.0.1:1/0", OPENAI_BASE_URL="http://127.0.0.1:1/v1")("doctor")
    lines = out.splitlines()
    assert (code, error) == (1, "")
    assert {line.split()[1]: line.split()[0] for line in lines} == {
        "database": "ok", "migrations": "ok", "clock": "ok", "broker": "FAIL", "workers": "FAIL", "queues": "FAIL",
        "llm": "FAIL", "notify": "ok"}


def test_doctor_reports_a_schema_that_is_behind_and_nothing_configured(shell: Shell, postgres_server: PostgresServer) -> None:
    postgres_server.create("empty_for_doctor")
    shell.use(DATABASE_URL=postgres_server.url("empty_for_doctor"))
    code, out, _ = shell("doctor", "--json")
    found = {check["name"]: check for check in json.loads(out)}
    assert code == 1
    assert "supportpilot migrate" in found["migrations"]["detail"]
    assert "no broker" in found["broker"]["detail"]
    assert "no model" in found["llm"]["detail"]
