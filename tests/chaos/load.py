"""Customers who write numbered messages through the real web process, twice, late and in disorder."""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx

from chaos.snapshot import Accepted
from supportpilot.db.pool import Connection
from supportpilot.desk.signing import sign

TICKETS, MESSAGES = 30, 8
ROUND_SECONDS = 120.0
LOAD_SHARE = 0.9            # of the duration; the last messages meet faults, too
PATIENCE_SECONDS = 90.0     # after the storm, for messages that were not accepted yet
REFUND_NUMBERS = (3, 6)     # which messages of a refund's conversation ask for one
BURST_SHARE, BURST_GAP = 0.4, (0.1, 1.5)     # lines that follow the one before while its turn runs
QUESTIONS = (
    "招商银行的流水同步失败,提示 E3001,应该怎么办?", "重新授权之后多久可以看到流水?", "开好的电子发票在哪里下载?",
    "续费提示 E2001,怎么办?", "忘记密码了,怎么重设?", "怎么让新来的出纳登录系统?",
    "接口报 E4029,一分钟可以请求多少次?", "两步验证在哪里打开?",
)


@dataclass(frozen=True)
class Customer:
    """One conversation; every third one asks for refunds, of bills of its own."""

    index: int
    round: int

    @property
    def name(self) -> str:
        return f"r{self.round}-c{self.index}"

    @property
    def email(self) -> str:
        return f"chaos-{self.round}-{self.index}@example.com"

    @property
    def wants_refunds(self) -> bool:
        return self.index % 3 == 0

    def bill(self, number: int) -> str:
        return f"INV-20{20 + self.round:02d}{number:02d}-{9000 + self.index:04d}"

    def text(self, number: int) -> str:
        if self.wants_refunds and number in REFUND_NUMBERS:
            return f"({number}) 账单 {self.bill(number)} 被重复扣款了,请把这笔退款给我。"
        return f"({number}) {QUESTIONS[(self.index + number) % len(QUESTIONS)]}"


def customers_of(duration: float) -> list[Customer]:
    """Return everybody who writes: one round of 30 for every two minutes."""
    rounds = max(1, round(duration / ROUND_SECONDS))
    return [Customer(index, number) for number in range(rounds) for index in range(TICKETS)]


def in_bursts(rng: random.Random, times: list[float]) -> list[float]:
    """Return the times with some lines moved up behind the one before: now in a hurry, now after a while."""
    moved: list[float] = []
    for when in times:
        hurried = moved and rng.random() < BURST_SHARE
        moved.append(min(when, moved[-1] + rng.uniform(*BURST_GAP)) if hurried else when)
    return moved


def store_customers(conn: Connection, customers: list[Customer]) -> None:
    """Give the customers accounts, and two paid bills each to those who want refunds and to their neighbours."""
    for c in customers:
        key = f"X{c.round:02d}{c.index:02d}"
        conn.execute("INSERT INTO biz.customers (id, email, name) VALUES (%s, %s, %s)", (key, c.email, f"客户{c.name}"))
        for number in REFUND_NUMBERS:
            conn.execute(
                "INSERT INTO biz.invoices (id, customer_id, number, amount, status, issued_at, paid_at) "
                "VALUES (%s, %s, %s, %s, 'paid', %s, '2026-11-01T00:00:00Z')",
                (f"{key}-{number}", key, c.bill(number), f"{100 + c.index + number}.50", f"2026-{number + 4:02d}-01"))


@dataclass
class Load:
    """Runs a thread a conversation; what was accepted is in `accepted`."""

    url: str
    secret: str
    seed: int
    duration: float
    customers: list[Customer]
    accepted: list[Accepted] = field(default_factory=list)
    unaccepted: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._http = httpx.Client(timeout=10, trust_env=False, limits=httpx.Limits(max_connections=100, max_keepalive_connections=0))
        self._threads = [threading.Thread(target=self._converse, args=(c,), daemon=True) for c in self.customers]
        self._began = 0.0

    def start(self) -> None:
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()

    def finished(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def _converse(self, customer: Customer) -> None:
        rng = random.Random(f"load/{self.seed}/{customer.name}")
        rounds = max(c.round for c in self.customers) + 1
        length = self.duration * LOAD_SHARE / rounds
        begin = self._began + customer.round * length + rng.uniform(0, length * 0.1)
        sent: list[tuple[bytes, str, Accepted]] = []
        times = in_bursts(rng, sorted(rng.uniform(0, length * 0.85) for _ in range(MESSAGES)))
        for number, after in enumerate(times, start=1):
            self._sleep_until(begin + after)
            body, delivery = self._payload(customer, number), f"d-{customer.name}-{number}"
            got = self._until_accepted(rng, customer, number, body, delivery)
            if got is None:
                self.unaccepted.append(f"{customer.name}/{number}")
                return
            sent.append((body, delivery, got))
            for _ in range(rng.choices((0, 1, 3), (5, 3, 1))[0]):
                self._again(rng, *rng.choice(sent))
        for late in rng.sample(sent, len(sent)):
            if rng.random() < 0.5:
                self._again(rng, *late)

    def _sleep_until(self, when: float) -> None:
        time.sleep(max(0.0, when - time.monotonic()))

    def _payload(self, customer: Customer, number: int) -> bytes:
        return json.dumps({
            "message_id": f"m-{customer.name}-{number}", "conversation_id": f"conv-{customer.name}",
            "from": {"email": customer.email, "name": f"客户{customer.name}"}, "subject": "chaos",
            "body": customer.text(number)}, ensure_ascii=False).encode()

    def _until_accepted(self, rng: random.Random, customer: Customer, number: int, body: bytes, delivery: str,
                        ) -> Accepted | None:
        while time.monotonic() < self._began + self.duration + PATIENCE_SECONDS:
            answer = self._post(body, delivery)
            if answer is not None:
                got = Accepted(customer.name, number, customer.email, answer["message_id"], answer["ticket_id"])
                with self._lock:
                    self.accepted.append(got)
                return got
            time.sleep(rng.uniform(0.2, 1.2))
        return None

    def _again(self, rng: random.Random, body: bytes, delivery: str, first: Accepted) -> None:
        """Send a message again: as the same delivery, or the same message as a new delivery."""
        same = rng.random() < 0.5
        answer = self._post(body, delivery if same else f"x-{uuid.UUID(int=rng.getrandbits(128))}")
        if answer is None:
            return
        with self._lock:
            self.met["same delivery again" if same else "same message, new delivery"] += 1
            if (answer["message_id"], answer["ticket_id"], answer["duplicate"]) != (first.message_id, first.ticket_id, True):
                self.differing.append(f"{first.conversation}/{first.number}: {answer}")

    def _post(self, body: bytes, delivery: str) -> dict[str, Any] | None:
        """Post once; None if there was no good answer (the message may be stored all the same)."""
        stamp = int(time.time())
        headers = {"content-type": "application/json", "webhook-id": delivery, "webhook-timestamp": str(stamp),
                   "webhook-signature": sign(self.secret, delivery, stamp, body)}
        with self._lock:
            self.in_flight += 1
        try:
            answer = self._http.post(f"{self.url}/webhooks/generic", content=body, headers=headers)
        except httpx.ConnectError:
            self._meet("connection refused")
            return None
        except httpx.HTTPError:
            self._meet("request cut")
            return None
        finally:
            with self._lock:
                self.in_flight -= 1
        if answer.status_code not in {200, 202}:
            self._meet(f"answered {answer.status_code}")
            return None
        found = answer.json()
        if "message_id" not in found:
            self.differing.append(f"{delivery}: {found}")
            return None
        return dict(found)

    def _meet(self, what: str) -> None:
        with self._lock:
            self.met[what] += 1
