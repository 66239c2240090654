"""What the demo's story acts on: the running product, seen from outside, and its database."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Protocol, TypeVar

import httpx

from producer.cli.demo_callback import Callback
from producer.signatures import sign
from supportpilot.config import Settings
from supportpilot.db import business, inbox, llm_calls, profiles, summaries
from supportpilot.db.approvals import Approval
from supportpilot.db.business import Refund
from supportpilot.db.pool import Database
from supportpilot.db.profiles import Profile
from supportpilot.db.summaries import StoredSummary
from supportpilot.service import approval as approvals
from supportpilot.service import costs
from supportpilot.service import ticket as tickets

# The demo's people, from the demo data.
WU, WU_EMAIL = "吴刚", "wugang@example.com"
LIN, LIN_EMAIL = "林悦", "linyue@example.com"
ZHAO, ZHAO_EMAIL = "赵磊", "zhaolei@example.com"

ANSWER_SECONDS = 60.0
MANY = 10_000
T = TypeVar("T")


class StepFailed(Exception):
    """What a step promised did not happen."""


def require(condition: object, otherwise: str) -> None:
    """Raise StepFailed with `otherwise` unless the condition holds."""
    if not condition:
        raise StepFailed(otherwise)


class RunningStack(Protocol):
    """What the story needs of `up`'s stack."""

    def kill(self, name: str) -> int: ...

    def pid(self, name: str) -> int | None: ...


@dataclass(frozen=True)
class Ran:
    """What a `supportpilot` command answered."""

    code: int
    out: str
    error: str


@dataclass
class World:
    """The product under demonstration, and what the story remembers of it."""

    settings: Settings
    secret: str
    stack: RunningStack
    db: Database
    callback: Callback
    http: httpx.Client
    command: Callable[..., Ran]
    ticket: dict[str, str] = field(default_factory=dict)      # customer -> ticket id
    last: dict[str, Any] = field(default_factory=dict)        # customer -> last payload sent
    approval_id: str = ""

    def write(self, who: str, email: str, body: str, subject: str = "") -> str:
        """Post a customer's message as a signed webhook; return the ticket's id. Raises StepFailed unless 202."""
        payload: dict[str, Any] = {"message_id": uuid.uuid4().hex, "from": {"email": email, "name": who}, "body": body,
                                   "subject": subject}
        if who in self.ticket:
            payload["ticket_id"] = self.ticket[who]
        answer = self.post(payload)
        require(answer.status_code == httpx.codes.ACCEPTED, f"the webhook answered {answer.status_code}: {answer.text}")
        self.ticket[who], self.last[who] = answer.json()["ticket_id"], payload
        return self.ticket[who]

    def post(self, payload: dict[str, Any], *, signed: bool = True) -> httpx.Response:
        """Post to the generic channel, signed as Standard Webhooks asks."""
        body = json.dumps(payload, ensure_ascii=False).encode()
        headers = {"content-type": "application/json"}
        if signed:
            stamp = int(datetime.now(UTC).timestamp())  # noqa: TID251 -- a sender signs by its own clock
            delivery = f"msg_{uuid.uuid4().hex}"
            headers |= {"webhook-id": delivery, "webhook-timestamp": str(stamp),
                        "webhook-signature": sign(self.secret, delivery, stamp, body)}
        return self.http.post("/webhooks/generic", content=body, headers=headers)

    def hear(self, who: str, kind: str, count: int) -> dict[str, Any]:
        """Wait for the `count`-th text of a kind at the customer's helpdesk. Raises StepFailed if it does not come."""
        found = self.callback.wait(self.ticket[who], kind, count, ANSWER_SECONDS)
        if found is None:
            got = [r["kind"] for r in self.callback.received(self.ticket[who])]
            raise StepFailed(f"no {kind} (number {count}) of {self.ticket[who]} arrived within {ANSWER_SECONDS:.0f} s; "
                             f"arrived: {got}, signature refused: {self.callback.refused}")
        return found

    def show(self, who: str) -> dict[str, Any]:
        """Return what `ticket show --json` shows."""
        return tickets.show(self.db, self.settings, self.ticket[who])

    def settled(self, who: str, status: str) -> dict[str, Any]:
        """Wait until the ticket has a status (a reply may arrive a moment before its turn is closed)."""
        return self.wait_for(lambda: shown if (shown := self.show(who))["status"] == status else None,
                             f"ticket {self.ticket[who]} did not become {status}")

    def wait_for(self, look: Callable[[], T | None], otherwise: str, seconds: float = ANSWER_SECONDS) -> T:
        """Return what `look` finds. Raises StepFailed with `otherwise` if it finds nothing in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = look()
            if found is not None:
                return found
            time.sleep(0.1)
        raise StepFailed(otherwise)

    def approval(self) -> Approval:
        """Return the refund's approval as it stands."""
        return approvals.get_approval(self.db, self.approval_id)

    def newest_version(self, who: str) -> int:
        """Return the number of the customer's last message, which an approver gives after reading."""
        with self.db.connection() as conn:
            return inbox.highest_customer_seq(conn, self.ticket[who])

    def refunds(self, who: str) -> list[Refund]:
        """Return the refunds paid on the customer's ticket."""
        with self.db.connection() as conn:
            return business.refunds_of_ticket(conn, self.ticket[who])

    def messages(self) -> int:
        """Return how many messages are stored."""
        with self.db.connection() as conn:
            return len(inbox.rows(conn, limit=MANY))

    def summary(self, who: str) -> StoredSummary | None:
        """Return the stored summary that covers most of the ticket, None if there is none yet."""
        with self.db.connection() as conn:
            return next(iter(summaries.versions(conn, self.ticket[who], MANY)), None)

    def profile(self, who: str) -> Profile | None:
        """Return the customer's stored profile, None if there is none yet."""
        customer_id = self.show(who)["customer"]["id"]
        with self.db.connection() as conn:
            return profiles.get(conn, customer_id)

    def parts(self) -> list[dict[str, Any]]:
        """Return the cost board by what the tokens came from."""
        return costs.board(self.db, self.settings, "part")

    def costs(self, by: llm_calls.By) -> list[dict[str, Any]]:
        """Return a cost board."""
        with self.db.connection() as conn:
            return llm_calls.costs(conn, by)

    def spent(self) -> Decimal:
        """Return what everything has cost, in CNY."""
        return sum((Decimal(row["cost_cny"]) for row in self.costs("ticket")), Decimal(0))
