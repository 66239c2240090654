"""The facts that a decision rests on, as short texts, and their fingerprint: what has changed since somebody looked.

Assignment, a first approval of two, and time left are no facts of this sort: they do not make a decision wrong.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal

from supportpilot.db import evidence, inbox, tickets
from supportpilot.db.approvals import Approval
from supportpilot.db.pool import Connection

Facts = Mapping[str, str]


def facts(conn: Connection, approval: Approval) -> dict[str, str]:
    """Return what the decision rests on right now."""
    request = approval.request.get("request") or {}
    invoice_id = str(request.get("invoice_id") or "")
    invoice = evidence.invoice(conn, invoice_id)
    ticket = tickets.get(conn, approval.ticket_id)
    found = {
        "request": f"{request.get('invoice_number', '')} {request.get('amount', '')} {request.get('currency', '')}".strip(),
        "ticket": ticket.status if ticket else "",
        "messages": str(max(approval.version, inbox.highest_customer_seq(conn, approval.ticket_id))),
        "unverified": "yes" if evidence.unverified(conn, approval.ticket_id) else "no",
    }
    if invoice is not None:
        left = invoice["amount"] - invoice["refunded"] if invoice["status"] == "paid" else Decimal("0.00")
        found |= {"invoice": str(invoice["status"]), "paid": str(invoice["amount"]), "refunded": str(invoice["refunded"]),
                  "refundable": str(left)}
        refunds = evidence.refunds_of_customer(conn, invoice["customer_id"])
        found["refunds"] = ", ".join(f"{row['invoice_number']} {row['amount']}" for row in refunds)
        others = evidence.other_requests(conn, approval.id, invoice_id)
        found["others"] = ", ".join(f"{row['id']} {row['status']} {row['amount'] or ''}".strip() for row in others)
    return found


def fingerprint(found: Facts) -> str:
    """Return a short mark of the facts: equal for equal facts."""
    text = json.dumps(dict(sorted(found.items())), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def changes(before: Facts, now: Facts) -> dict[str, tuple[str, str]]:
    """Return what is not the same any more: fact -> (before, now)."""
    names = dict.fromkeys([*before, *now])
    return {name: (before.get(name, ""), now.get(name, "")) for name in names if before.get(name, "") != now.get(name, "")}
