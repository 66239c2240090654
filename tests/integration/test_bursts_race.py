"""Many customers who write in bursts, real worker processes, some of them killed: judged by what Postgres holds."""

from __future__ import annotations

import itertools
import random
import threading
import time
from dataclasses import replace

import pytest
from chaos import snapshot as snapshots
from chaos.checker import check
from chaos.snapshot import Accepted, Receipt, Snapshot, Witness
from fixtures.llm import OfflineLLM
from fixtures.worker import MAIN, Workers, wait_for

from supportpilot.config import Settings
from supportpilot.db.pool import Database
from supportpilot.service import intake
from supportpilot.types import InboundMessage
from worker.publish import Publisher

pytestmark = pytest.mark.integration

TICKETS, SEED = 18, 7
LINES = ("招商银行流水同步失败,提示 E3001", "昨天还是好的", "续费时又提示 E2001", "电子发票在哪里下载", "两步验证在哪里打开")
BUSY = ("SELECT (SELECT count(*) FROM desk.inbox WHERE state <> 'done') + (SELECT count(*) FROM desk.turns WHERE status IN "
        "('running', 'waiting')) + (SELECT count(*) FROM desk.outbox WHERE status <> 'accepted') AS n")


def write_in_bursts(db: Database, settings: Settings, publisher: Publisher) -> list[Accepted]:
    """Let every customer write three to five lines with random gaps, all at once; return what was stored, in order."""
    accepted, guard = list[Accepted](), threading.Lock()

    def customer(number: int) -> None:
        rng = random.Random(f"{SEED}/{number}")  # noqa: S311 -- the same bursts each time
        ticket_id = None
        time.sleep(rng.uniform(0, 4))
        for line in range(rng.randint(3, 5)):
            contact = f"burst{number}@example.com"
            got = intake.receive(db, settings, publisher.ports(), InboundMessage(
                channel="terminal", external_id=f"b{number}-{line}", contact=contact, body=f"({line}) {LINES[line]}",
                ticket_id=ticket_id))
            ticket_id = got.ticket_id
            with guard:
                accepted.append(Accepted(contact, line, contact, got.message_id, got.ticket_id))
            time.sleep(rng.choice((rng.uniform(0, 0.3), rng.uniform(0.3, 2.0))))

    threads = [threading.Thread(target=customer, args=(n,)) for n in range(TICKETS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return accepted


def read(db: Database, accepted: list[Accepted]) -> Snapshot:
    """Read everything; the terminal channel has no receiver, so what counts as accepted is what it got."""
    s = snapshots.read(db, Witness(tuple(accepted), (), (), (), ()))
    receipts = tuple(Receipt(r.key, r.ticket_id, r.body) for r in s.replies if r.status == "accepted")
    return replace(s, seen=replace(s.seen, receipts=receipts))


@pytest.mark.timeout(240)
def test_bursts_meet_workers_that_are_killed_and_every_line_is_answered_once_and_in_order(
        seeded_db: Database, stack_settings: Settings, workers: Workers, offline_llm: OfflineLLM) -> None:
    settings = stack_settings.model_copy(update={"turn_debounce_seconds": 0.3, "turn_debounce_max_seconds": 1.0})
    offline_llm.control(latency_ms=250)
    names = ("one", "two")
    for name in names:
        workers.start(name, MAIN)
    workers.start_desk()
    stopped, kills = threading.Event(), itertools.count()
    accepted: list[Accepted] = []

    def write() -> None:
        accepted.extend(write_in_bursts(seeded_db, settings, Publisher(settings)))
        stopped.set()

    writing = threading.Thread(target=write)
    writing.start()
    for name in itertools.cycle(names):      # processes are started by the main thread: they die with it
        if stopped.wait(2.5):
            break
        workers.kill(name)
        next(kills)
        workers.start(name, MAIN, wait=False)
    writing.join()

    def quiet() -> bool:
        with seeded_db.connection() as conn:
            row = conn.execute(BUSY).fetchone()
        return row is not None and row["n"] == 0

    wait_for(quiet, 120, "all bursts to be answered")
    s = read(seeded_db, accepted)
    replaced = sum(t.status == "replaced" for t in s.turns)
    done = sum(t.status == "done" for t in s.turns)
    print(f"{len(accepted)} messages, {done} turns done, {replaced} replaced, {next(kills)} kills, "
          f"{sum(t.crashes for t in s.turns)} turns continued after one")
    assert check(s).found == ()
    assert len({a.ticket_id for a in accepted}) == TICKETS
    assert replaced > 0, "no line met a running turn: the test has proved nothing"
    assert done < len(accepted)
