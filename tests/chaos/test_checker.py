"""The checker of the storm: a clean run gives nothing, and each planted fault is found and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from fixtures.office import Office, give_paid_invoice, refund_llm

from chaos.checker import (
    ANSWERS,
    DOUBLED,
    KINDS,
    LEAKS,
    LEASES,
    LOST,
    ORDER,
    ORPHANS,
    REFUNDS,
    REPLIES,
    STUCK,
    check,
)
from chaos.small import SmallRun
from chaos.snapshot import Receipt, Snapshot
from supportpilot.db.pool import Database

pytestmark = pytest.mark.integration


@pytest.fixture
def run(db: Database) -> SmallRun:
    """Three messages: a refund that is approved and paid, and two questions; everything delivered."""
    made = SmallRun(Office(db, refund_llm()))
    give_paid_invoice(made.office)
    give_paid_invoice(made.office, number="INV-2")
    made.office.execute("INSERT INTO biz.customers (id, email, name) VALUES ('C2', 'other@example.com', '别人')")
    made.office.execute("INSERT INTO biz.invoices (id, customer_id, number, amount, status, issued_at) "
            "VALUES ('I9', 'C2', 'INV-999', 5, 'open', '2026-11-01')")

    ticket_id = made.write(1, "账单 INV-1 重复扣款,请退款")
    made.office.work(ticket_id)
    made.decide()
    made.office.work(ticket_id)
    for number in (2, 3):
        made.write(number, f"第 {number} 条", ticket_id)
        made.office.work(ticket_id)
    made.deliver()
    return made


def test_a_clean_run_gives_no_finding(run: SmallRun) -> None:
    snapshot = run.snapshot()
    assert check(snapshot).found == ()
    assert (len(snapshot.turns), len(snapshot.replies), len(snapshot.refunds)) == (3, 4, 1)
    assert len(snapshot.threads[run.accepted[0].ticket_id]) == 6


def without(rows: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    place %= len(rows)
    return rows[:place] + rows[place + 1:]


def changed(rows: tuple[Any, ...], place: int, **values: Any) -> tuple[Any, ...]:
    place %= len(rows)
    return (*rows[:place], replace(rows[place], **values), *rows[place + 1:])


def thread(s: Snapshot, edit: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Snapshot:
    (ticket_id, entries), = s.threads.items()
    return replace(s, threads={ticket_id: edit(entries)})


def seen(s: Snapshot, **values: Any) -> Snapshot:
    return replace(s, seen=replace(s.seen, **values))


PLANTED: dict[str, tuple[str, str, Callable[[Snapshot], Snapshot]]] = {
    "accepted, never stored": (LOST, "accepted and is not stored", lambda s: replace(s, messages=without(s.messages, 1))),
    "in no turn": (LOST, "is in no finished turn", lambda s: replace(s, turns=without(s.turns, 1))),
    "in a turn that died": (LOST, "is in no finished turn", lambda s: replace(s, turns=changed(s.turns, 1, status="dead"))),
    "dead letter": (LOST, "is a dead letter", lambda s: replace(s, messages=changed(s.messages, 1, state="dead"))),
    "gone from the thread": (LOST, "is 0 times in the thread", lambda s: thread(s, lambda e: without(e, 2))),
    "the whole thread torn": (LOST, "is 0 times in the thread", lambda s: thread(s, lambda _e: ())),
    "reply gone from the thread": (LOST, "is 0 times in the thread", lambda s: thread(s, lambda e: without(e, -1))),
    "done without a reply": (LOST, "is done and has no reply", lambda s: replace(s, replies=without(s.replies, -1))),
    "never reached the sink": (LOST, "never reached the sink",
                               lambda s: seen(s, receipts=without(s.seen.receipts, -1))),
    "delivery failed": (LOST, "is failed", lambda s: replace(s, replies=changed(s.replies, -1, status="failed"))),
    "withheld": (LOST, "is withheld", lambda s: replace(s, replies=changed(s.replies, -1, status="withheld"))),
    "two messages for one": (LOST, "were taken for one", lambda s: seen(s, accepted=changed(
        s.seen.accepted, 1, message_id=s.seen.accepted[0].message_id))),
    "stored twice": (DOUBLED, "nobody sent it", lambda s: replace(s, messages=(
        *s.messages, replace(s.messages[-1], id="M9", seq=9)))),
    "in two turns": (DOUBLED, "is in 2 finished turns", lambda s: replace(s, turns=changed(
        s.turns, 1, message_ids=s.turns[2].message_ids))),
    "twice in the thread": (DOUBLED, "is 2 times in the thread", lambda s: thread(s, lambda e: (*e, e[0]))),
    "reply twice in the thread": (DOUBLED, "is 2 times in the thread", lambda s: thread(s, lambda e: (*e, e[-1]))),
    "two replies to a turn": (DOUBLED, "has 2 replies in the outbox", lambda s: replace(s, replies=(
        *s.replies, replace(s.replies[-1], key="turn:again:reply", position=99)))),
    "two replies at the sink": (DOUBLED, "the sink has 2 different replies", lambda s: seen(replace(s, replies=(
        *s.replies, replace(s.replies[-1], key="k2", position=99))), receipts=(
        *s.seen.receipts, replace(s.seen.receipts[-1], key="k2")))),
    "stored in another order": (ORDER, "the inbox of", lambda s: replace(
        s, messages=changed(changed(s.messages, 1, seq=3), 2, seq=2))),
    "another order in the thread": (ORDER, "not in the order of sending", lambda s: thread(
        s, lambda e: (*e[:2], *e[4:], *e[2:4]))),
    "a turn overtook another": (ORDER, "took the messages as", lambda s: replace(
        s, turns=(s.turns[0], s.turns[2], s.turns[1]))),
    "reply before its question": (ORDER, "stands behind its reply", lambda s: thread(
        s, lambda e: (*e[:4], e[5], e[4]))),
    "replies overtook each other on the way": (ORDER, "reached the sink as", lambda s: seen(
        s, receipts=tuple(reversed(s.seen.receipts)))),
    "one conversation, two tickets": (ORDER, "is spread over tickets", lambda s: seen(
        s, accepted=changed(s.seen.accepted, 1, ticket_id="T9"))),
    "still pending": (STUCK, "still waits", lambda s: replace(s, messages=changed(s.messages, -1, state="pending"))),
    "never accepted": (STUCK, "was never accepted", lambda s: seen(s, unaccepted=("a/4",))),
    "reply still queued": (STUCK, "is still queued", lambda s: replace(s, replies=changed(s.replies, -1, status="queued"))),
    "approval undecided": (STUCK, "is undecided", lambda s: replace(s, approvals=changed(s.approvals, 0, status="pending"))),
    "decision not carried out": (STUCK, "was never carried out",
                                 lambda s: replace(s, approvals=changed(s.approvals, 0, applied=False))),
    "lease left": (LEASES, "is still held by me", lambda s: replace(s, tickets=changed(s.tickets, 0, lease="me"))),
    "turn still running": (ORPHANS, "still runs", lambda s: replace(s, turns=changed(s.turns, -1, status="running"))),
    "turn waits for nothing": (ORPHANS, "waits for an approval that is not pending",
                               lambda s: replace(s, turns=changed(s.turns, 0, status="waiting"))),
    "replaced after its reply": (DOUBLED, "had done something already",
                                 lambda s: replace(s, turns=changed(s.turns, -1, status="replaced"))),
    "put off three times": (STUCK, "was put off 3 times", lambda s: replace(s, turns=(
        *(replace(s.turns[-1], id=f"U{n}", status="replaced") for n in range(3)), *s.turns))),
    "ticket without a lease row": (ORPHANS, "has no lease row",
                                   lambda s: replace(s, tickets=changed(s.tickets, 0, lease=None))),
    "thread without a ticket": (ORPHANS, "has checkpoints and no ticket", lambda s: replace(s, threads={**s.threads, "T9": ()})),
    "entry of nobody": (ORPHANS, "that nobody wrote", lambda s: thread(s, lambda e: (*e, replace(e[0], id="?")))),
    "second refund of an approval": (REFUNDS, "paid 2 refunds", lambda s: replace(s, refunds=(
        *s.refunds, replace(s.refunds[0], id="RF2")))),
    "second refund for a message": (REFUNDS, "for the same message", lambda s: replace(
        s, refunds=(*s.refunds, replace(s.refunds[0], id="RF2", approval_id="A2")))),
    "refund without approval": (REFUNDS, "which is unknown",
                                lambda s: replace(s, refunds=changed(s.refunds, 0, approval_id="A9"))),
    "refund of a rejected request": (REFUNDS, "which is rejected",
                                     lambda s: replace(s, approvals=changed(s.approvals, 0, status="rejected"))),
    "approved and not paid": (REFUNDS, "nothing was paid", lambda s: replace(s, refunds=())),
    "more than the bill": (REFUNDS, "were paid back of bill INV-1",
                           lambda s: replace(s, refunds=changed(s.refunds, 0, amount=Decimal("300.01")))),
    "foreign reply at the sink": (REPLIES, "that the outbox does not know", lambda s: seen(
        s, receipts=(*s.seen.receipts, Receipt("turn:x:reply", "T1", "?")))),
    "another text at the sink": (REPLIES, "is not the outbox's",
                                 lambda s: seen(s, receipts=changed(s.seen.receipts, 0, body="?"))),
    "another text in the thread": (REPLIES, "differ in the reply",
                                   lambda s: thread(s, lambda e: changed(e, -1, content="?"))),
    "retry answered otherwise": (ANSWERS, "otherwise than the first time", lambda s: seen(s, differing=("a/1",))),
    "told otherwise": (ANSWERS, "wang was told", lambda s: seen(s, told=changed(s.seen.told, 1, answer="ok"))),
    "a stranger's bill": (LEAKS, "the bill INV-999", lambda s: replace(
        s, replies=changed(s.replies, -1, body=f"{s.replies[-1].body} INV-999"))),
    "a stranger's address": (LEAKS, "the address other@example.com", lambda s: replace(
        s, replies=changed(s.replies, -1, body="other@example.com"))),
}


def test_every_planted_fault_is_found_and_named(run: SmallRun) -> None:
    clean = run.snapshot()
    missed = {}
    for name, (kind, words, plant) in PLANTED.items():
        named = check(plant(clean)).named(kind)
        if not any(words in what for what in named):
            missed[name] = check(plant(clean)).found
    assert missed == {}


def test_every_kind_of_finding_has_a_planted_fault() -> None:
    assert {kind for kind, _, _ in PLANTED.values()} == set(KINDS)


def test_what_is_broken_in_the_database_is_read_and_found(run: SmallRun) -> None:
    """The same once more from the tables, so that the reading is tested, too."""
    office, ticket_id = run.office, run.accepted[0].ticket_id
    office.execute("UPDATE desk.leases SET token = gen_random_uuid(), holder = 'zombie', "
                   "expires_at = clock_timestamp() WHERE ticket_id = %s", ticket_id)
    office.execute("UPDATE desk.inbox SET state = 'pending' WHERE seq = 3")
    office.execute("UPDATE desk.turns SET status = 'running' WHERE %s = ANY(message_ids)", run.accepted[1].message_id)
    office.execute("ALTER TABLE biz.refunds DROP CONSTRAINT refunds_approval_id_key")
    office.execute("INSERT INTO biz.refunds SELECT 'RF-second', ticket_id, approval_id, invoice_id, amount, status, "
                   "reason, decided_by, message_ids, turn_id, created_at FROM biz.refunds")
    office.execute("DELETE FROM checkpoints WHERE checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints)")
    found = check(run.snapshot())
    for kind, words in ((LEASES, "zombie"), (STUCK, "still waits"), (ORPHANS, "still runs"),
                        (REFUNDS, "paid 2 refunds"), (REFUNDS, "600.00 of 300.00"), (LOST, "0 times in the thread")):
        assert any(words in what for what in found.named(kind)), (kind, words, found.found)


def test_an_earlier_refund_for_the_same_message_satisfies_a_second_request(run: SmallRun) -> None:
    """A turn that was given up and begun again asks again, and finds what was paid."""
    s = run.snapshot()
    again = replace(s.approvals[0], id="A2")
    assert check(replace(s, approvals=(*s.approvals, again))).found == ()
