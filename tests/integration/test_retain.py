"""What has been over for long is deleted at night, and by hand: the conversation of tickets, replays, quarantine, calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from fixtures.crash.scenarios import ScriptedLLM
from fixtures.office import Office, give_paid_invoice, refund_llm

from producer.cli.checkpoints import size
from producer.cli.main import run
from supportpilot.config import get_settings
from supportpilot.db import leases, mailboxes, mails, notifications, quarantine, retention
from supportpilot.db.llm_calls import record_call
from supportpilot.db.mails import End, RawMail
from supportpilot.db.pool import Database
from supportpilot.mail.parts import Attachment
from supportpilot.memory.checkpoint import truncate_checkpoints
from supportpilot.service import approval, history, ticket
from supportpilot.service import retention as service
from supportpilot.service.approval import Verdict
from supportpilot.types import LLMCall

pytestmark = pytest.mark.integration
NOTHING = {"reduced": 0, "forgotten": 0, "replays": 0, "quarantine": 0, "mails": 0, "notifications": 0, "calls": 0}
THREAD = ("checkpoints", "checkpoint_writes", "checkpoint_blobs")


def resolved(office: Office, turns: int = 3, contact: str = "c@example.com") -> str:
    """A ticket with some turns behind it, answered and closed."""
    ticket_id = None
    for _ in range(turns):
        ticket_id = office.write("E3001 还是不行,怎么办?", ticket_id=ticket_id, contact=contact).ticket_id
        office.work(ticket_id)
    office.deliver()
    assert ticket.resolve(office.db, office.ports, str(ticket_id)) == "resolved"
    return str(ticket_id)


def days_pass(office: Office, days: float) -> None:
    """Everything so far was so many days earlier."""
    back = f"- interval '{days * 86400} seconds'"
    office.execute(f"UPDATE biz.tickets SET resolved_at = resolved_at {back}, last_written_at = last_written_at {back}, "
                   f"reduced_for = reduced_for {back}, forgotten_for = forgotten_for {back}")
    for table, column in (("desk.forks", "created_at"), ("desk.quarantine", "received_at"), ("desk.llm_calls", "created_at"),
                          ("desk.mails", "received_at"), ("desk.notifications", "closed_at")):
        office.execute(f"UPDATE {table} SET {column} = {column} {back}")


def retain(office: Office, **settings: float) -> dict[str, int]:
    """Return what the night's run deleted."""
    counts = service.retain(office.db, office.settings.model_copy(update=settings), office.ports)
    return {name: n for name, n in counts.items() if n}


def rows(office: Office, thread_id: str) -> list[int]:
    return [office.one(f"SELECT count(*) AS n FROM {table} WHERE thread_id = %s", thread_id)["n"] for table in THREAD]


# tickets --------------------------------------------------------------------------------------------

def test_a_resolved_ticket_keeps_its_last_snapshot_after_the_period_and_none_after_the_second(office: Office) -> None:
    ticket_id = resolved(office)
    entries = office.thread(ticket_id)["turns"]
    days_pass(office, 89)
    assert retain(office) == {}
    days_pass(office, 2)
    assert retain(office) == {"reduced": 1}
    assert rows(office, ticket_id)[:2] == [1, 0]
    assert office.thread(ticket_id)["turns"] == entries
    assert retain(office) == {}
    days_pass(office, 640)
    assert retain(office) == {"forgotten": 1}
    assert rows(office, ticket_id) == [0, 0, 0]
    assert retain(office) == {}
    assert len(office.outbox(ticket_id)) == 3       # what was said stays on the ticket
    assert office.one("SELECT action FROM desk.audit WHERE action = 'ticket.forgotten'")


def test_a_customer_who_writes_again_after_all_that_is_answered_and_the_ticket_is_due_anew(office: Office) -> None:
    ticket_id = resolved(office)
    days_pass(office, 1000)
    assert retain(office) == {"forgotten": 1}
    office.write("又出现了,怎么办?", ticket_id=ticket_id, contact="c@example.com")
    assert office.work(ticket_id) == "resolved"
    assert office.status(ticket_id) == "answered"
    assert office.roles(ticket_id) == ["customer", "agent"]
    office.deliver()
    days_pass(office, 1000)
    assert retain(office) == {}
    ticket.resolve(office.db, office.ports, ticket_id)
    assert retain(office) == {}
    days_pass(office, 1000)
    assert retain(office) == {"forgotten": 1}
    assert rows(office, ticket_id) == [0, 0, 0]


def test_after_a_reduced_ticket_s_next_turn_the_rule_of_open_tickets_applies_again(office: Office) -> None:
    ticket_id = resolved(office)
    days_pass(office, 100)
    retain(office)
    office.write("又出现了,怎么办?", ticket_id=ticket_id, contact="c@example.com")
    office.work(ticket_id)
    assert service.prune(office.db, office.settings, ticket_id).left == 10
    assert len(office.thread(ticket_id)["turns"]) == 8


def test_zero_keeps_everything_for_ever(office: Office) -> None:
    ticket_id = resolved(office)
    before = rows(office, ticket_id)
    days_pass(office, 100_000)
    assert retain(office, retention_days=0, retention_forget_days=0) == {}
    assert rows(office, ticket_id) == before
    assert retain(office, retention_days=0.5, retention_forget_days=0) == {"reduced": 1}


OPEN: dict[str, str] = {
    "a message that waits": "INSERT INTO desk.inbox (ticket_id, seq, channel, external_id, author, body, due_at) "
                            "SELECT id, 99, 'generic', 'late', 'customer', '?', clock_timestamp() FROM biz.tickets",
    "a turn that runs": "UPDATE desk.turns SET status = 'running' WHERE turn_id = (SELECT min(turn_id) FROM desk.turns)",
    "a pending approval": "INSERT INTO desk.approvals (ticket_id, turn_id, interrupt_id, request, version, expires_at) "
                          "SELECT ticket_id, min(turn_id), 'i', '{}', 1, clock_timestamp() FROM desk.turns GROUP BY 1",
    "a reply that could not be sent": "UPDATE desk.outbox SET status = 'failed'",
    "opened again": "UPDATE biz.tickets SET status = 'answered', resolved_at = NULL",
    "a human who has it": "UPDATE biz.tickets SET status = 'escalated'",
}


@pytest.mark.parametrize("change", OPEN.values(), ids=OPEN.keys())
def test_a_ticket_with_anything_open_keeps_its_conversation(office: Office, change: str) -> None:
    ticket_id = resolved(office, turns=2)
    days_pass(office, 1000)
    office.execute(change)
    assert retain(office) == {}
    before = rows(office, ticket_id)
    service.prune(office.db, office.settings, ticket_id)
    assert rows(office, ticket_id)[0] >= min(before[0], 9)


def test_a_ticket_that_somebody_works_on_is_not_forgotten_and_a_zombie_s_lease_is_taken(office: Office) -> None:
    ticket_id = resolved(office)
    days_pass(office, 1000)
    with office.db.transaction() as conn:
        token = leases.grant(conn, ticket_id, "somebody", 60, 60)
    assert retain(office) == {"reduced": 1}
    office.execute("UPDATE desk.leases SET expires_at = clock_timestamp()")
    assert retain(office) == {"forgotten": 1}
    assert office.one("SELECT token FROM desk.leases")["token"] != token


def test_one_ticket_that_is_locked_does_not_keep_the_others(office: Office) -> None:
    held, free = resolved(office, 1, "a@example.com"), resolved(office, 1, "b@example.com")
    days_pass(office, 1000)
    with office.db.transaction() as conn:
        leases.lock(conn, held)
        assert retain(office, retention_days=0) == {"forgotten": 1}
    assert (rows(office, held)[0], rows(office, free)[0]) == (9, 0)


def test_a_message_that_comes_while_the_conversation_is_being_deleted_finds_the_ticket_whole_or_empty(office: Office) -> None:
    """The conversation goes under the ticket's lock, which a message needs too: it is judged again after the wait."""
    ticket_id = resolved(office)
    days_pass(office, 1000)
    with office.db.connection() as conn:
        assert retention.tickets_due(conn, "forgotten_for", 730, 10) == [ticket_id]
    office.write("又出现了,怎么办?", ticket_id=ticket_id, contact="c@example.com")
    assert not service._forget(office.db, office.settings, ticket_id)
    assert rows(office, ticket_id)[0] > 1


def test_a_full_run_asks_for_the_next_one(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        resolved(office, 1, f"c{number}@example.com")
    days_pass(office, 100)
    monkeypatch.setattr(service, "TICKETS_PER_RUN", 2)
    assert (retain(office), office.wakeups.retains) == ({"reduced": 2}, ["again"])
    assert (retain(office), office.wakeups.retains) == ({"reduced": 1}, ["again"])


def test_nothing_to_do_is_nothing(office: Office) -> None:
    assert service.retain(office.db, office.settings, office.ports) == NOTHING
    resolved(office)
    assert service.retain(office.db, office.settings, office.ports) == NOTHING


def test_a_decided_refund_is_paid_although_the_ticket_was_reduced_before(db: Database) -> None:
    office = Office(db, ScriptedLLM())
    give_paid_invoice(office, "c@example.com")
    ticket_id = resolved(office)
    days_pass(office, 100)
    retain(office)
    office.write("请退 INV-1 的退款", ticket_id=ticket_id, contact="c@example.com")
    assert office.work(ticket_id).startswith("waits for approval")
    days_pass(office, 1000)
    assert retain(office) == {}
    service.prune(office.db, office.settings, ticket_id)
    asked = approval.list_approvals(office.db, "pending")[0]
    approval.decide(office.db, office.ports, asked.id, Verdict(approved=True, by="li"))
    assert office.work(ticket_id) == "resolved"
    assert office.one("SELECT amount FROM biz.refunds") == {"amount": Decimal("300.00")}


# the rest -------------------------------------------------------------------------------------------

def test_replays_go_with_their_threads_and_what_they_cost_stays_on_the_board(office: Office) -> None:
    ticket_id = resolved(office)
    def again() -> dict[str, Any]:
        start = history.history(office.db, office.deps, ticket_id)[1]["checkpoint_id"]
        return history.replay(office.db, office.deps, ticket_id, start)
    old = again()["fork"]
    with office.db.transaction() as conn:
        record_call(conn, LLMCall("m", 1, 1, 0, Decimal("0.5"), 1, ticket_id=old))
    days_pass(office, 91)
    new = again()["fork"]
    assert retain(office)["replays"] == 1
    assert rows(office, old) == [0, 0, 0]
    assert rows(office, new)[0] > 0
    assert [r["thread_id"] for r in office.rows("SELECT thread_id FROM desk.forks")] == [new]
    assert office.one("SELECT sum(cost_cny) AS n FROM desk.llm_calls WHERE ticket_id = %s", old)["n"] == Decimal("0.5")


def test_replays_and_summaries_go_with_their_ticket_s_conversation(office: Office) -> None:
    ticket_id = resolved(office)
    office.execute("INSERT INTO desk.summaries (ticket_id, upto, source_hash, summary, made_by, version) VALUES (%s, 2, 'h', 's', 'rule', 1)", ticket_id)
    office.execute("INSERT INTO desk.summary_notes (ticket_id, source_hash, note) VALUES (%s, 'h', 'n')", ticket_id)
    start = history.history(office.db, office.deps, ticket_id)[1]["checkpoint_id"]
    fork = history.replay(office.db, office.deps, ticket_id, start)["fork"]
    office.execute("UPDATE biz.tickets SET resolved_at = now() - interval '1000 days', last_written_at = now() - interval '1000 days'")
    retain(office)
    assert (rows(office, fork), rows(office, ticket_id)) == ([0, 0, 0], [0, 0, 0])
    assert office.rows("SELECT 1 FROM desk.summaries UNION ALL SELECT 1 FROM desk.summary_notes UNION ALL SELECT 1 FROM desk.forks") == []


def test_settled_quarantine_goes_after_the_period_and_held_one_after_the_second(office: Office) -> None:
    with office.db.transaction() as conn:
        held, settled = (quarantine.keep(conn, "generic", "x", b"raw", "why", name) for name in ("held", "settled"))
        quarantine.accept(conn, settled, "M1")
        mail_id = mails.store(conn, RawMail("pipe", b"From: c@example.com"))
        mails.finish(conn, mail_id, End("quarantined", "why", quarantine_id=held))
    days_pass(office, 100)
    assert retain(office) == {"quarantine": 1}
    assert [r["id"] for r in office.rows("SELECT id FROM desk.quarantine")] == [held]
    days_pass(office, 700)
    assert [r["id"] for r in office.rows("SELECT id FROM desk.mails")] == [mail_id]
    assert retain(office) == {"quarantine": 1}
    assert office.rows("SELECT id FROM desk.mails") == [], "what was read of it as a mail goes with it"


def test_a_mail_s_bytes_go_after_the_period_its_words_after_the_second_and_machines_mails_at_once(office: Office) -> None:
    ticket_id = resolved(office, 1)
    with office.db.transaction() as conn:
        kept, machine = (mails.store(conn, RawMail("pipe", f"From: c@example.com\n\n{n}".encode())) for n in "12")
        mails.finish(conn, kept, End("filed", ticket_id=ticket_id))
        mails.finish(conn, machine, End("ignored", "automatic"))
        mailboxes.put_files(conn, kept, ticket_id, [Attachment("a.txt", "text/plain", 1, "h", False, b"x")])
    office.execute("UPDATE desk.mails SET full_text = 'words'")
    assert "mails" not in retain(office, retention_days=90)
    days_pass(office, 91)
    assert retain(office, retention_days=90)["mails"] == 2
    assert office.rows("SELECT id, raw, full_text FROM desk.mails") == [{"id": kept, "raw": None, "full_text": "words"}]
    assert office.rows("SELECT data FROM desk.attachments") == [{"data": b"x"}]
    days_pass(office, 640)
    retain(office, retention_days=90, retention_forget_days=730)
    assert office.rows("SELECT full_text FROM desk.mails") == [{"full_text": ""}]
    assert office.rows("SELECT data FROM desk.attachments") == []


def test_records_of_model_calls_stay_unless_a_period_is_set_and_those_of_open_tickets_always(office: Office) -> None:
    closed, still_open = resolved(office), office.write("?", contact="b@example.com").ticket_id
    with office.db.transaction() as conn:
        for ticket_id in (closed, still_open, None):
            record_call(conn, LLMCall("m", 1, 1, 0, Decimal("0.5"), 1, ticket_id=ticket_id))
    days_pass(office, 400)
    assert "calls" not in retain(office)
    assert retain(office, retention_llm_calls_days=365)["calls"] == 2
    assert [r["ticket_id"] for r in office.rows("SELECT ticket_id FROM desk.llm_calls")] == [still_open]


def test_closed_notifications_go_after_the_period_but_not_those_of_an_approval_that_waits(db: Database) -> None:
    office = Office(db, refund_llm(), approval_expires_hours=10_000)
    give_paid_invoice(office)
    office.work(office.write("账单 INV-1 重复扣款,请退款").ticket_id)
    with db.transaction() as conn:
        for cause, state in (("sent", "sent"), ("dropped", "dropped"), ("queued", "")):
            notifications.put_handoff(conn, "T000001", cause)
            if state:
                conn.execute("UPDATE desk.notifications SET state = %s, closed_at = clock_timestamp() WHERE key LIKE %s", (state, f"%{cause}"))
        conn.execute("UPDATE desk.notifications SET state = 'sent', closed_at = clock_timestamp() WHERE kind = 'approval'")
    days_pass(office, 89)
    assert retain(office) == {}
    days_pass(office, 2)
    assert retain(office, retention_days=0, retention_forget_days=0) == {}
    assert retain(office) == {"notifications": 2}
    assert [(r["kind"], r["state"]) for r in office.rows("SELECT kind, state FROM desk.notifications ORDER BY position")] == [
        ("approval", "sent"), ("handoff", "queued")]
    office.execute("UPDATE desk.approvals SET status = 'rejected'")
    assert retain(office) == {"notifications": 1}


# the command ----------------------------------------------------------------------------------------

@pytest.fixture
def shell(office: Office, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Run a command on the office's database; return exit code, stdout, stderr."""
    monkeypatch.setenv("DATABASE_URL", office.db.url)
    get_settings.cache_clear()

    def command(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["checkpoints", "prune", *arguments])
        return (code, *capsys.readouterr())
    return command


def test_the_command_says_what_it_would_delete_and_what_it_deleted(office: Office, shell: Callable[..., tuple[int, str, str]]) -> None:
    first, second = resolved(office, 2, "a@example.com"), resolved(office, 1, "b@example.com")
    for wish in (["--ticket", first, "--dry-run"], ["--all", "--dry-run"]):
        code, out, _ = shell(*wish)
        assert (code, out.splitlines()[0].split(", ")[0]) == (0, f"{first}: would delete 8 of 18 snapshots")
    assert rows(office, first)[0] == 18
    code, out, _ = shell()
    assert code == 0
    assert out.splitlines()[0].startswith(f"{first}: deleted 8 of 18 snapshots, ")
    assert out.splitlines()[1].startswith("deleted 8 snapshots of 1 tickets, ")
    assert (rows(office, first)[0], rows(office, second)[0]) == (10, 9)
    assert shell("--all")[:2] == (0, "nothing to prune\n")
    code, out, _ = shell("--ticket", first, "--json")
    assert json.loads(out) == [{"ticket_id": first, "kept": 10, "deleted": 0, "bytes": 0, "dry_run": False}]
    with office.db.transaction() as conn:
        truncate_checkpoints(conn)
    assert shell("--json")[:2] == (0, "[]\n")


def test_the_command_refuses_what_it_does_not_know(shell: Callable[..., tuple[int, str, str]]) -> None:
    assert shell("--ticket", "T999999") == (3, "", "no ticket T999999; see `supportpilot ticket list`\n")
    code, out, error = shell("--ticket", "T999999", "--all")
    assert (code, out, error.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(("count", "shown"), [(0, "0 bytes"), (999, "999 bytes"), (1_500, "1.5 kB"), (31_284_835, "31 MB"), (2.5e15, "2500 TB")])
def test_bytes_are_shown_for_people(count: float, shown: str) -> None:
    assert size(count) == shown
