"""One scenario's desk: the real services on a database of its own, the background work done after each turn."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from supportpilot.agent.deps import Deps
from supportpilot.agent.graph import build_graph
from supportpilot.config import Settings
from supportpilot.db import business, profiles
from supportpilot.db.pool import Database
from supportpilot.desk.lease import Heartbeat
from supportpilot.llm.sealing import sections
from supportpilot.memory.checkpoint import checkpointer_over
from supportpilot.service import commitments, delivery, intake, memory, profile, ticket, turn
from supportpilot.service.turn import Runtime
from supportpilot.types import InboundMessage, Ports

COLLEAGUE = "小林"
LINK = re.compile(r"\[([^\[\]]{0,300})\]\([^()]{0,600}\)")


@dataclass
class Bench:
    """The desk of one customer's one ticket; what would wake a worker is kept in lists and worked off at once."""

    runtime: Runtime
    contact: str
    compressions: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)
    ticket_id: str = ""

    def do(self, step: Mapping[str, Any]) -> None:
        """Carry out one step of a scenario: its only key names it.

        Raises:
            ValueError: there is no such step.
        """
        steps: dict[str, Callable[[Any], None]] = {
            "say": self._say, "colleague": self._colleague, "resolve": lambda _: self._resolve(),
            "correct": self._correct}
        ((name, value),) = step.items()
        if name not in steps:
            raise ValueError(f"no step {name!r}; there are: {', '.join(steps)}")
        steps[name](value)
        self._background()

    def places(self) -> dict[str, str]:
        """Return by name what a gold fact may be looked for in, as the last turn left it."""
        db = self.runtime.db
        shown = ticket.show(db, self.runtime.settings, self.ticket_id)
        seen = dict(sections(shown["context"]))
        with db.connection() as conn:
            stored = profiles.get(conn, (shown["customer"] or {}).get("id") or "")
            refunds = business.refunds_of_ticket(conn, self.ticket_id)
        promises = commitments.list_commitments(db, ticket_id=self.ticket_id)
        said = [entry for entry in shown["turns"] if entry["role"] == "agent"]
        return {
            **{name: seen.get(name, "") for name in ("profile", "ledger", "summary", "recall", "recent", "newest")},
            "view": shown["context"], "reply": LINK.sub(r"\1", shown["reply"]), "cited": shown["reply"],
            "first_reply": LINK.sub(r"\1", said[0]["content"]) if said else "",
            "stored_profile": stored.summary if stored else "", "folded": str(shown["summarized_upto"]),
            "tools": "\n".join(f"{call['name']} {call['args']} {call['result']}" for call in shown["tool_log"]),
            "approvals": "\n".join(f"{a['status']} {a['amount']}" for a in shown["approvals"]),
            "promises": "\n".join(f"{row['text']} {row['due_at']:%Y-%m-%d}" if row["due_at"] else row["text"] for row in promises),
            "paid": "\n".join(str(refund.amount) for refund in refunds),
        }

    def _say(self, text: str) -> None:
        message = InboundMessage(
            channel="terminal", external_id=f"eval:{uuid.uuid4().hex}", contact=self.contact, body=text,
            ticket_id=self.ticket_id or None)
        self.ticket_id = intake.receive(self.runtime.db, self.runtime.settings, self.runtime.ports, message).ticket_id
        turn.drain(self.runtime, self.ticket_id, "")

    def _colleague(self, text: str) -> None:
        ticket.reply(self.runtime.db, self.runtime.ports, self.ticket_id, text, COLLEAGUE)
        ticket.release(self.runtime.db, self.runtime.ports, self.ticket_id, COLLEAGUE)
        turn.drain(self.runtime, self.ticket_id, "")

    def _resolve(self) -> None:
        ticket.resolve(self.runtime.db, self.runtime.ports, self.ticket_id, COLLEAGUE)
        self.ticket_id = ""

    def _correct(self, said: Mapping[str, Any]) -> None:
        correction = profile.Correction(said["kind"], said.get("target", ""), said.get("value", ""), COLLEAGUE, said.get("reason", ""))
        profile.correct(self.runtime.db, self.runtime.ports, self.contact, correction)

    def _background(self) -> None:
        db, settings, ports, deps = self.runtime.db, self.runtime.settings, self.runtime.ports, self.runtime.deps
        while self.replies:
            delivery.deliver(db, settings, ports, self.replies.pop(0))
        for ticket_id in _taken(self.compressions):
            memory.compress(db, deps.small_llm, settings, ticket_id, deps.commitments_for(ticket_id))
        for customer_id in _taken(self.stale):
            profile.rebuild_profile(db, deps.small_llm, ports, customer_id)


def _taken(asked: list[str]) -> list[str]:
    """Empty the list and return what was in it, each once."""
    taken = list(dict.fromkeys(asked))
    asked.clear()
    return taken


@contextmanager
def opened(settings: Settings, contact: str) -> Iterator[Bench]:
    """Open the desk of a customer over the database of `settings`."""
    compressions, stale, replies = list[str](), list[str](), list[str]()
    ports = Ports(schedule_compress=compressions.append, schedule_profile=stale.append, schedule_delivery=replies.append)
    url = str(settings.database_url)
    with Database(url) as db:
        keeper = Heartbeat(url, settings)
        keeper.start()
        deps = replace(Deps.over(db, settings, ports), check_lease=keeper.check)
        runtime = Runtime(db, build_graph(deps, checkpointer_over(db)), deps, settings, ports, keeper, holder="eval")
        try:
            yield Bench(runtime, contact, compressions, stale, replies)
        finally:
            keeper.stop()
            deps.close()
