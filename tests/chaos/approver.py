"""The humans: two deciders at once for every request, and an operator who gives escalated tickets back."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from chaos.snapshot import Told
from supportpilot.db import inbox
from supportpilot.db.approvals import Approval
from supportpilot.db.pool import Database
from supportpilot.errors import AlreadyDecided, Refused, Stale, SupportPilotError, Unavailable
from supportpilot.service import approval, ticket
from supportpilot.service.approval import Verdict
from supportpilot.types import Ports

TRIES = 60
REJECTED, DISPUTED = 0.15, 0.25     # shares: both reject, and one approves while the other rejects


class Humans:
    """One thread that looks for work until `stop`; `told` is what the deciders heard."""

    def __init__(self, db: Database, ports: Ports, seed: int) -> None:
        self._db, self._ports = db, ports
        self._rng = random.Random(f"humans/{seed}")
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(8)
        self._taken: dict[str, float] = {}
        self.told: list[Told] = []
        self.met: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            try:
                for asked in approval.list_approvals(self._db, "pending"):
                    self._consider(asked)
                for row in ticket.list_tickets(self._db, "escalated", 500):
                    self._give_back(str(row["ticket_id"]))
            except SupportPilotError as error:
                self.met[f"database away for humans ({type(error).__name__})"] += 1

    def _consider(self, asked: Approval) -> None:
        """Let some wait for a moment, so that customers write meanwhile and versions get stale."""
        due = self._taken.setdefault(asked.id, time.monotonic() + self._rng.choice((0.0, 0.0, 2.0, 5.0)))
        if time.monotonic() < due:
            return
        self._taken[asked.id] = float("inf")
        draw = self._rng.random()
        verdicts = (False, False) if draw < REJECTED else (True, draw >= REJECTED + DISPUTED)
        for by, approved in zip(("li", "wang"), verdicts, strict=True):
            self._pool.submit(self._decide, asked, by, approved)

    def _decide(self, asked: Approval, by: str, approved: bool) -> None:
        """Decide with the version that was seen; read again when it is stale, and when the database was away."""
        seen, answer = asked.version, "unknown"
        for _ in range(TRIES):
            try:
                approval.decide(self._db, self._ports, asked.id, Verdict(approved, by, "chaos", seen_version=seen))
                answer = "ok"
                break
            except Stale:
                self.met["decision refused as stale"] += 1
                seen = self._look_again(asked, seen)
            except AlreadyDecided:
                self.met["decision refused, another was first"] += 1
                answer = "refused"
                break
            except Unavailable:
                self.met["answer to a decision lost"] += 1
                time.sleep(1)
            except Exception as error:
                self.met[f"decider met {type(error).__name__}: {error}"] += 1
                time.sleep(1)
        self.told.append(Told(asked.id, by, approved, answer))

    def _look_again(self, asked: Approval, seen: int) -> int:
        try:
            with self._db.connection() as conn:
                return max(seen, inbox.highest_customer_seq(conn, asked.ticket_id))
        except SupportPilotError:
            time.sleep(1)
            return seen

    def _give_back(self, ticket_id: str) -> None:
        try:
            ticket.release(self._db, self._ports, ticket_id)
            self.met["escalated ticket given back"] += 1
        except Refused:
            self.met["giving back refused"] += 1
