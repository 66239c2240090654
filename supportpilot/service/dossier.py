"""All that an approver has to see before deciding, read live in one snapshot."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

from supportpilot.agent.citations import mentioned_ids
from supportpilot.config import Settings
from supportpilot.db import approvals, articles, erasures, evidence, llm_calls, tickets
from supportpilot.db.approvals import Approval
from supportpilot.db.articles import Article
from supportpilot.db.pool import Connection, Database, Row
from supportpilot.db.tickets import TicketRow
from supportpilot.desk import evidence as facts_of
from supportpilot.desk.approvals import needs_two, requested_amount
from supportpilot.errors import NotFound
from supportpilot.service import profile, ticket

POLICY = "KB-refund"        # articles that say what may be paid back
MAX_ARTICLES = 4


@dataclass(frozen=True)
class Dossier:
    """An approval with its evidence.

    `facts` is what the decision rests on, `fingerprint` its mark, `version` the highest customer's message that is shown;
    `flags` are names of warnings; `memory` is what the agent knew.
    """

    approval: Approval
    ticket: TicketRow
    facts: dict[str, str]
    fingerprint: str
    version: int
    asked: Decimal | None
    two_people: bool
    age_seconds: float
    left_seconds: float
    invoice: Row | None
    refunds: list[Row]
    others: list[Row]
    messages: list[Row]
    articles: list[Article]
    audit: list[Row]
    cost_cny: Decimal
    flags: list[str] = field(default_factory=list)
    memory: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return everything for the API, the articles by id."""
        found = asdict(self)
        return found | {"articles": [article.id for article in self.articles]}


def read(db: Database, settings: Settings, approval_id: str) -> Dossier:
    """Return an approval with its evidence.

    Raises:
        NotFound: no such approval, or its ticket is erased.
    """
    with db.snapshot() as conn:
        approval = approvals.get(conn, approval_id)
        if approval is None:
            raise NotFound(f"no approval {approval_id[:20]}")
        found = tickets.get(conn, approval.ticket_id)
        if found is None:
            raise erasures.absent(conn, approval.ticket_id)
        dossier = _read(conn, approval, found)
    with contextlib.suppress(NotFound):      # erased since: the page says so when it is asked again
        dossier.memory.update(_memory(db, settings, dossier))
    return dossier


def _read(conn: Connection, approval: Approval, found: TicketRow) -> Dossier:
    request = approval.request.get("request") or {}
    invoice_id = str(request.get("invoice_id") or "")
    invoice = evidence.invoice(conn, invoice_id)
    now = facts_of.facts(conn, approval)
    age, left = approvals.seconds(conn, approval.id)
    asked = requested_amount(approval)
    dossier = Dossier(
        approval=approval, ticket=found, facts=now, fingerprint=facts_of.fingerprint(now), version=int(now["messages"]),
        asked=asked, two_people=needs_two(approval, asked), age_seconds=age, left_seconds=left, invoice=invoice,
        refunds=evidence.refunds_of_customer(conn, invoice["customer_id"]) if invoice else [],
        others=evidence.other_requests(conn, approval.id, invoice_id) if invoice_id else [],
        messages=evidence.messages(conn, approval.ticket_id, approval.version), articles=_policy(conn, approval),
        audit=evidence.audit_of(conn, approval.ticket_id, approval.id),
        cost_cny=llm_calls.cost_of_ticket(conn, approval.ticket_id))
    dossier.flags.extend(_flags(dossier, unverified=now["unverified"] == "yes"))
    return dossier


def _policy(conn: Connection, approval: Approval) -> list[Article]:
    """Return the articles that draft and findings cite; without any, the house's refund policy."""
    said = f"{approval.request.get('draft') or ''} {approval.request.get('findings') or ''}"
    cited = [a for name in mentioned_ids(said)[:MAX_ARTICLES] if (a := articles.get_article(conn, name))]
    return cited or [a for a in articles.list_articles(conn) if a.id.startswith(POLICY) and a.lang == "zh"][:MAX_ARTICLES]


def _flags(dossier: Dossier, *, unverified: bool) -> list[str]:
    """Return the names of what an approver should be warned of."""
    approval, invoice = dossier.approval, dossier.invoice
    same_ticket = any(row["ticket_id"] != approval.ticket_id for row in dossier.others)
    found = {
        "unverified": unverified,
        "stranger": dossier.ticket.customer_id is None,
        "new_messages": any(row["new"] and row["author"] == "customer" for row in dossier.messages),
        "human_has_it": dossier.ticket.status == "escalated" and approval.status == "pending",
        "duplicate": any(row["status"] in ("pending", "approved") for row in dossier.others),
        "rejected_before": any(row["status"] == "rejected" for row in dossier.others),
        "other_ticket": same_ticket,
        "refunded_before": invoice is not None and invoice["refunded"] > 0 and approval.status == "pending",
        "too_much": approval.status == "pending" and dossier.asked is not None and invoice is not None
        and dossier.asked > Decimal(dossier.facts["refundable"]),
        "no_invoice": invoice is None,
    }
    return [name for name, holds in found.items() if holds]


def _memory(db: Database, settings: Settings, dossier: Dossier) -> dict[str, Any]:
    """Return what the agent knew: summary, figures, profile, each with where it comes from."""
    shown = ticket.show(db, settings, dossier.approval.ticket_id)
    known = {name: shown[name] for name in ("summary", "summarized_upto", "ledger", "commitments")}
    if dossier.ticket.customer_id is None:
        return known
    return known | {"profile": profile.show(db, dossier.ticket.customer_id)}
