"""A run of a few messages through the protocol without processes: for tests of the checker, and of what it must find."""

from __future__ import annotations

from typing import Any

from fixtures.office import CONTACT, Office

from chaos import snapshot as snapshots
from chaos.snapshot import Accepted, Receipt, Snapshot, Told, Witness
from supportpilot.desk.outbox import SendResult
from supportpilot.service import approval, delivery
from supportpilot.service.approval import Verdict
from supportpilot.service.delivery import callback_body


class SmallRun:
    """One office and what the storm's witnesses would have seen of it."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.receipts: list[Receipt] = []
        self.accepted: list[Accepted] = []
        self.told: list[Told] = []

    def write(self, number: int, body: str, ticket_id: str | None = None) -> str:
        got = self.office.write(body, ticket_id=ticket_id)
        self.accepted.append(Accepted("a", number, CONTACT, got.message_id, got.ticket_id))
        return got.ticket_id

    def deliver(self) -> None:
        def send(_settings: Any, row: Any, _now: int) -> SendResult:
            body = callback_body(self.office.settings, row)
            self.receipts.append(Receipt(row.idempotency_key, body["ticket_id"], body["body"]))
            return SendResult("accept")
        while self.office.wakeups.replies:
            delivery.deliver(self.office.db, self.office.settings, self.office.ports,
                             self.office.wakeups.replies.pop(0), send)

    def decide(self) -> None:
        asked = approval.list_approvals(self.office.db, "pending")[0]
        approval.decide(self.office.db, self.office.ports, asked.id, Verdict(approved=True, by="li"))
        self.told = [Told(asked.id, "li", True, "ok"), Told(asked.id, "wang", False, "refused")]

    def snapshot(self) -> Snapshot:
        return snapshots.read(self.office.db, Witness(tuple(self.accepted), (), (), tuple(self.receipts), tuple(self.told)))
