"""`python -m chaos --seed 1 --duration 600`: exit 0 only if nothing was lost, doubled, out of order or stuck."""

from __future__ import annotations

import argparse
import base64
import logging
import secrets
import sys
import threading
import time
import traceback
from dataclasses import dataclass

from chaos import snapshot as snapshots
from chaos.approver import Humans
from chaos.checker import Findings, check
from chaos.faults import Injector
from chaos.load import Load, customers_of, store_customers
from chaos.report import Figures, recoveries, table
from chaos.sink import Sink
from chaos.snapshot import Snapshot, Witness
from chaos.world import MAIN_WORKERS, SETTINGS, World
from supportpilot.db.pool import Database
from supportpilot.errors import SupportPilotError
from worker.publish import Publisher

QUIET_SECONDS = 240.0
BUSY = """
SELECT (SELECT count(*) FROM desk.inbox WHERE state <> 'done')
     + (SELECT count(*) FROM desk.turns WHERE status IN ('running', 'waiting'))
     + (SELECT count(*) FROM desk.approvals WHERE status = 'pending')
     + (SELECT count(*) FROM desk.leases WHERE token IS NOT NULL)
     + (SELECT count(*) FROM desk.outbox WHERE status IN ('queued', 'sending', 'unknown')) AS n
"""


@dataclass
class Storm:
    """One run: what it is made of, and how long its parts took."""

    seed: int
    duration: float
    world: World
    sink: Sink
    wall: dict[str, float]

    def run(self, db: Database) -> tuple[Snapshot, Figures]:
        """Blow for `duration`, mend, wait until it is quiet, read."""
        customers = customers_of(self.duration)
        with db.transaction() as conn:
            store_customers(conn, customers)
        load = Load(self.world.url, self.world.webhook_secret, self.seed, self.duration, customers)
        humans = Humans(db, Publisher(self.world.settings).ports(), self.seed)
        injector = Injector(self.world, load, self.seed)
        load.start()
        humans.start()
        began = time.monotonic()
        injector.run(self.duration)
        self.wall["storm"] = time.monotonic() - began
        self.sink.bad = False
        self.world.mend()
        self._wait_until_quiet(db, load)
        humans.stop()
        seen = Witness(tuple(load.accepted), tuple(load.unaccepted), tuple(load.differing), tuple(self.sink.receipts),
                       tuple(humans.told))
        figures = Figures(
            seed=self.seed, duration=self.duration, injected=injector.done, died=injector.died, load=load.met, humans=humans.met,
            sink=self.sink.misbehaved | {"signature refused": self.sink.refused}, settings=SETTINGS,
            recoveries=recoveries(map(self.world.log_of, MAIN_WORKERS)), offsets=self.world.offsets, wall=self.wall)
        return snapshots.read(db, seen), figures

    def _wait_until_quiet(self, db: Database, load: Load) -> None:
        """Wait until nothing is due, twice in a row; give up after a while, the checker says what is left."""
        began, calm = time.monotonic(), 0
        while calm < 2 and time.monotonic() < began + QUIET_SECONDS:
            time.sleep(1)
            self.world.mend()
            calm = calm + 1 if load.finished() and _busy(db) == 0 else 0
        self.wall["until quiet"] = time.monotonic() - began


def _busy(db: Database) -> int:
    try:
        with db.connection() as conn:
            row = conn.execute(BUSY).fetchone()
    except SupportPilotError:
        return -1
    return int(row["n"]) if row else -1


def storm(seed: int, duration: float, *, keep: bool = False) -> Findings:
    """Run one storm and print its table."""
    began, secret = time.monotonic(), "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()
    sink, findings = Sink(secret, seed), None
    world = World(seed, sink.url, secret)
    logging.basicConfig(filename=world.folder / "suite.log", level="INFO", format="%(asctime)s %(threadName)s %(message)s")
    logging.getLogger("httpx").setLevel("WARNING")
    print(f"chaos: logs in {world.folder}", flush=True)
    try:
        with world, Database(world.database_url, max_size=12) as db:
            wall = {"start": time.monotonic() - began}
            snapshot, figures = Storm(seed, duration, world, sink, wall).run(db)
            findings = check(snapshot)
        wall["all"] = time.monotonic() - began
        print(table(figures, snapshot, findings), flush=True)
    finally:
        sink.close()
        if findings is not None and not findings and not keep:
            world.remove()
        else:
            print(f"chaos: the logs are kept in {world.folder}", flush=True)
    return findings


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--duration", type=float, default=600, help="seconds of storm")
    parser.add_argument("--keep", action="store_true", help="keep the logs and the database of a clean run, too")
    given = parser.parse_args()
    broken: list[str] = []
    threading.excepthook = lambda args: broken.append("".join(traceback.format_exception(args.exc_value)))
    failed = bool(storm(given.seed, given.duration, keep=given.keep))
    for text in broken:
        print(f"chaos: a thread of the suite itself broke:\n{text}", flush=True)
    return 2 if broken else int(failed)


if __name__ == "__main__":
    sys.exit(main())
