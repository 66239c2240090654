"""Judge a storm's remains: pure, so that planted losses and doubles can prove that it sees them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from chaos.snapshot import Approval, Snapshot, Turn, by_ticket

LOST, DOUBLED, ORDER, STUCK = "lost", "doubled", "out of order", "stuck"
LEASES, ORPHANS, REFUNDS = "leases left", "orphans", "wrong refunds"
REPLIES, ANSWERS, LEAKS = "wrong replies", "wrong answers to senders and deciders", "leaks"
KINDS = (LOST, DOUBLED, ORDER, STUCK, LEASES, ORPHANS, REFUNDS, REPLIES, ANSWERS, LEAKS)

MOST_REPLACED = 2
_EMAIL = re.compile(r"[A-Za-z0-9._+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_BILL = re.compile(r"[A-Z]{2,6}-[0-9][0-9-]*[0-9]")


@dataclass(frozen=True)
class Finding:
    """One thing that must not be."""

    kind: str
    what: str


@dataclass(frozen=True)
class Findings:
    """All of them."""

    found: tuple[Finding, ...]

    def count(self, kind: str) -> int:
        return sum(f.kind == kind for f in self.found)

    def named(self, kind: str) -> list[str]:
        return [f.what for f in self.found if f.kind == kind]

    def __bool__(self) -> bool:
        return bool(self.found)


def check(snapshot: Snapshot) -> Findings:
    """Return everything that is wrong; pure."""
    parts = (_intake, _messages, _turns, _replaced, _threads, _order, _outbox, _sink, _waiting, _decisions, _open_turns, _leases, _orphans, _refunds, _sums, _told, _leaks)
    return Findings(tuple(dict.fromkeys(finding for part in parts for finding in part(snapshot))))


def reply_key(turn_id: str) -> str:
    """Return the key of a turn's one answer, as docs/effects.md writes it."""
    return f"turn:{turn_id}:reply"


def _intake(s: Snapshot) -> Iterator[Finding]:
    for what in s.seen.unaccepted:
        yield Finding(STUCK, f"message {what} was never accepted")
    for what in s.seen.differing:
        yield Finding(ANSWERS, f"a retry was answered otherwise than the first time: {what}")
    stored = {m.id: m for m in s.messages}
    accepted = Counter(a.message_id for a in s.seen.accepted)
    for a in s.seen.accepted:
        if a.message_id not in stored:
            yield Finding(LOST, f"message {a.conversation}/{a.number} ({a.message_id}) was accepted and is not stored")
        if accepted[a.message_id] > 1:
            yield Finding(LOST, f"two messages of {a.conversation} were taken for one ({a.message_id})")
    for message in s.messages:
        if message.author == "customer" and message.id not in accepted:
            yield Finding(DOUBLED, f"message {message.id} of {message.ticket_id} is stored and nobody sent it")
    for conversation, tickets in _tickets_of_conversations(s).items():
        if len(tickets) > 1:
            yield Finding(ORDER, f"conversation {conversation} is spread over tickets {', '.join(sorted(tickets))}")


def _tickets_of_conversations(s: Snapshot) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for a in s.seen.accepted:
        found.setdefault(a.conversation, set()).add(a.ticket_id)
    return found


def _done(s: Snapshot) -> list[Turn]:
    return [t for t in s.turns if t.status == "done"]


def _messages(s: Snapshot) -> Iterator[Finding]:
    turns = Counter(message_id for turn in _done(s) for message_id in turn.message_ids)
    for m in s.messages:
        where = f"message {m.id} (seq {m.seq} of {m.ticket_id})"
        if turns[m.id] == 0:
            yield Finding(LOST, f"{where} is in no finished turn")
        if turns[m.id] > 1:
            yield Finding(DOUBLED, f"{where} is in {turns[m.id]} finished turns")
        if m.state == "dead":
            yield Finding(LOST, f"{where} is a dead letter")


def _turns(s: Snapshot) -> Iterator[Finding]:
    keys = {r.key for r in s.replies}
    answers = Counter(r.turn_id for r in s.replies if r.kind in {"reply", "handoff"})
    customers = {m.id for m in s.messages if m.author == "customer"}
    for turn in s.turns:
        if turn.status == "done" and not turn.silent and customers & set(turn.message_ids) \
                and reply_key(turn.id) not in keys:
            yield Finding(LOST, f"turn {turn.id} of {turn.ticket_id} is done and has no reply")
        if answers[turn.id] > 1:
            yield Finding(DOUBLED, f"turn {turn.id} of {turn.ticket_id} has {answers[turn.id]} replies in the outbox")


def _replaced(s: Snapshot) -> Iterator[Finding]:
    """A replaced turn has said and asked nothing, and kept no message waiting more than twice."""
    said = {r.turn_id for r in s.replies} | {a.turn_id for a in s.approvals}
    put_off = Counter[str]()
    for turn in (t for t in s.turns if t.status == "replaced"):
        put_off.update(turn.message_ids)
        if turn.id in said:
            yield Finding(DOUBLED, f"turn {turn.id} of {turn.ticket_id} was replaced and had done something already")
    for message_id, times in put_off.items():
        if times > MOST_REPLACED:
            yield Finding(STUCK, f"the answer to message {message_id} was put off {times} times")


def _threads(s: Snapshot) -> Iterator[Finding]:
    for m in s.messages:
        times = sum(e.id == m.id for e in s.threads.get(m.ticket_id, ()))
        if times != 1:
            yield Finding(DOUBLED if times else LOST, f"message {m.id} of {m.ticket_id} is {times} times in the thread")
    bodies = {r.key: r.body for r in s.replies}
    for turn in _done(s):
        key = reply_key(turn.id)
        said = [e.content for e in s.threads.get(turn.ticket_id, ()) if e.id == key]
        if key in bodies and len(said) != 1:
            yield Finding(DOUBLED if said else LOST, f"the reply of turn {turn.id} is {len(said)} times in the thread of {turn.ticket_id}")
        elif said and said[0] != bodies.get(key):
            yield Finding(REPLIES, f"the thread of {turn.ticket_id} and the outbox differ in the reply of turn {turn.id}")
    known = {m.id for m in s.messages} | {reply_key(t.id) for t in s.turns}
    for thread_id, entries in s.threads.items():
        for entry in entries:
            if entry.id not in known:
                yield Finding(ORPHANS, f"the thread of {thread_id} has an entry {entry.id} that nobody wrote")


def _order(s: Snapshot) -> Iterator[Finding]:
    seqs = {m.id: m.seq for m in s.messages}
    numbers: dict[str, list[tuple[int, str]]] = {}
    for a in s.seen.accepted:
        numbers.setdefault(a.ticket_id, []).append((a.number, a.message_id))
    for ticket_id, sent in numbers.items():
        wanted = [message_id for _, message_id in sorted(sent)]
        stored = [m for m in wanted if m in seqs]
        if stored != sorted(stored, key=lambda m: seqs[m]):
            yield Finding(ORDER, f"the inbox of {ticket_id} is not in the order of sending")
        entries = [e.id for e in s.threads.get(ticket_id, ()) if e.id in seqs]
        if entries != [m for m in wanted if m in entries]:
            yield Finding(ORDER, f"the thread of {ticket_id} is not in the order of sending: {' '.join(entries)}")
    yield from _order_of_turns(s, seqs)


def _order_of_turns(s: Snapshot, seqs: dict[str, int]) -> Iterator[Finding]:
    for ticket_id, turns in by_ticket(_done(s)).items():
        flat = [seqs.get(m, 0) for turn in turns for m in turn.message_ids]
        if flat != sorted(flat):
            yield Finding(ORDER, f"the turns of {ticket_id} took the messages as {flat}")
        places = {e.id: n for n, e in enumerate(s.threads.get(ticket_id, ()))}
        answers = [places[reply_key(t.id)] for t in turns if reply_key(t.id) in places]
        if answers != sorted(answers):
            yield Finding(ORDER, f"the replies in the thread of {ticket_id} are not in the order of the turns")
        for turn in turns:
            place = places.get(reply_key(turn.id))
            if place is not None and any(places.get(m, -1) > place for m in turn.message_ids):
                yield Finding(ORDER, f"a message of turn {turn.id} stands behind its reply in the thread of {ticket_id}")


def _outbox(s: Snapshot) -> Iterator[Finding]:
    arrived = {r.key for r in s.seen.receipts}
    for reply in s.replies:
        where = f"{reply.kind} {reply.key} of {reply.ticket_id}"
        if reply.status in {"failed", "withheld"}:
            yield Finding(LOST, f"{where} is {reply.status}")
        elif reply.status == "accepted" and reply.key not in arrived:
            yield Finding(LOST, f"{where} counts as accepted and never reached the sink")
        elif reply.status != "accepted":
            yield Finding(STUCK, f"{where} is still {reply.status}")


def _sink(s: Snapshot) -> Iterator[Finding]:
    sent, first = {r.key: r for r in s.replies}, dict[str, list[int]]()
    turns_at_sink, met = Counter[str](), set[str]()
    for receipt in s.seen.receipts:
        own = sent.get(receipt.key)
        if own is None:
            yield Finding(REPLIES, f"the sink has a reply {receipt.key} that the outbox does not know")
            continue
        if (receipt.body, receipt.ticket_id) != (own.body, own.ticket_id):
            yield Finding(REPLIES, f"the sink's text of {receipt.key} is not the outbox's")
        if receipt.key not in met:
            met.add(receipt.key)
            first.setdefault(own.ticket_id, []).append(own.position)
            if own.kind in {"reply", "handoff"} and own.turn_id:
                turns_at_sink[own.turn_id] += 1
    for turn_id, times in turns_at_sink.items():
        if times > 1:
            yield Finding(DOUBLED, f"the sink has {times} different replies to turn {turn_id}")
    for ticket_id, positions in first.items():
        if positions != sorted(positions):
            yield Finding(ORDER, f"the replies of {ticket_id} reached the sink as {positions}")


def _waiting(s: Snapshot) -> Iterator[Finding]:
    for m in s.messages:
        if m.state == "pending":
            yield Finding(STUCK, f"message {m.id} of {m.ticket_id} still waits")


def _open_turns(s: Snapshot) -> Iterator[Finding]:
    waiting = {a.turn_id for a in s.approvals if a.status == "pending"}
    for turn in s.turns:
        if turn.status == "waiting" and turn.id not in waiting:
            yield Finding(ORPHANS, f"turn {turn.id} of {turn.ticket_id} waits for an approval that is not pending")
        if turn.status == "running":
            yield Finding(ORPHANS, f"turn {turn.id} of {turn.ticket_id} still runs")


def _decisions(s: Snapshot) -> Iterator[Finding]:
    for a in s.approvals:
        if a.status == "pending":
            yield Finding(STUCK, f"approval {a.id} of {a.ticket_id} is undecided")
        elif a.status != "withdrawn" and not a.applied:
            yield Finding(STUCK, f"the decision of {a.id} ({a.status}) was never carried out")


def _leases(s: Snapshot) -> Iterator[Finding]:
    for ticket in s.tickets:
        if ticket.lease:
            yield Finding(LEASES, f"the lease of {ticket.id} is still held by {ticket.lease}")


def _orphans(s: Snapshot) -> Iterator[Finding]:
    tickets = {t.id for t in s.tickets}
    for ticket in s.tickets:
        if ticket.lease is None:
            yield Finding(ORPHANS, f"ticket {ticket.id} has no lease row: nobody can ever take it")
    for thread_id in s.threads:
        if thread_id not in tickets:
            yield Finding(ORPHANS, f"thread {thread_id} has checkpoints and no ticket")


def _refunds(s: Snapshot) -> Iterator[Finding]:
    approvals = {a.id: a for a in s.approvals}
    for approval_id, times in Counter(r.approval_id for r in s.refunds).items():
        found = approvals.get(approval_id)
        if times > 1:
            yield Finding(REFUNDS, f"approval {approval_id} paid {times} refunds")
        if found is None or found.status != "approved":
            yield Finding(REFUNDS, f"a refund was paid for {approval_id}, which is {found.status if found else 'unknown'}")
    for a in s.approvals:
        if a.status == "approved" and a.applied and not _is_paid(s, a):
            yield Finding(REFUNDS, f"approval {a.id} of {a.ticket_id} was approved and carried out, and nothing was paid")


def _is_paid(s: Snapshot, approval: Approval) -> bool:
    """An earlier refund of the same bill for the same messages counts: a turn that was begun again asks again."""
    turn = next((t for t in s.turns if t.id == approval.turn_id), None)
    messages = set(turn.message_ids) if turn else set()
    return any(r.approval_id == approval.id
               or (r.invoice_id == approval.invoice_id and r.ticket_id == approval.ticket_id and messages & set(r.message_ids))
               for r in s.refunds)


def _sums(s: Snapshot) -> Iterator[Finding]:
    paid: dict[str, Decimal] = {}
    for r in s.refunds:
        paid[r.invoice_id] = paid.get(r.invoice_id, Decimal(0)) + r.amount
    for invoice in s.invoices:
        if paid.get(invoice.id, Decimal(0)) > invoice.amount:
            yield Finding(REFUNDS, f"{paid[invoice.id]} of {invoice.amount} were paid back of bill {invoice.number}")
    for n, r in enumerate(s.refunds):
        for other in s.refunds[n + 1:]:
            if r.invoice_id == other.invoice_id and set(r.message_ids) & set(other.message_ids):
                yield Finding(REFUNDS, f"refunds {r.id} and {other.id} were paid for the same message")


def _told(s: Snapshot) -> Iterator[Finding]:
    approvals = {a.id: a for a in s.approvals}
    for told in s.seen.told:
        stands = approvals.get(told.approval_id)
        wanted = "approved" if told.approved else "rejected"
        if told.answer == "ok" and (stands is None or (stands.status, stands.decided_by) != (wanted, told.by)):
            yield Finding(ANSWERS, f"{told.by} was told that {told.approval_id} is {wanted}, and it is "
                                   f"{stands.status if stands else 'gone'} by {stands.decided_by if stands else '?'}")


def _leaks(s: Snapshot) -> Iterator[Finding]:
    contacts = {t.id: t.contact for t in s.tickets}
    people = set(contacts.values()) | {i.email for i in s.invoices}
    bills = {i.number: i.email for i in s.invoices}
    for reply in s.replies:
        own = contacts.get(reply.ticket_id)
        for email in _EMAIL.findall(reply.body):
            if email.lower() in people and email.lower() != own:
                yield Finding(LEAKS, f"{reply.key} tells {own} the address {email}")
        for number in _BILL.findall(reply.body):
            if bills.get(number, own) != own:
                yield Finding(LEAKS, f"{reply.key} tells {own} the bill {number}")
