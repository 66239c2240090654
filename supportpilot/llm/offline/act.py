"""Looking into the account by rules: which tools to call, and findings copied from what they returned. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from supportpilot.llm.offline.lexicon import AMOUNT, INVOICE_NUMBER, concepts_in
from supportpilot.llm.offline.text import basics, clip, normal
from supportpilot.llm.offline.triage import STATUS_ASK, customer_words, is_unsolved, needs_human, wants_refund

Call = tuple[str, dict[str, Any]]
Record = dict[str, Any]

MONTH_ZH = re.compile(r"(?<!\d)(1[0-2]|0?[1-9])\s?月")
REASON_CHARS = 120
SHOWN_ROWS = 6
SHOWN_PAST = 5
REFUNDABLE = frozenset({"paid"})


def choose_calls(sections: dict[str, str], offered: set[str], done: Sequence[tuple[str, str]]) -> list[Call]:
    """Return the next tool calls; `done` are (name, result) pairs of this turn. None: time to write findings."""
    names = [name for name, _ in done]
    if not names:
        return [(name, arguments) for name, arguments in _first(sections) if name in offered]
    if "list_invoices" in names and "request_refund" in offered and "request_refund" not in names and _refund(sections):
        invoice = pick_invoice(sections, _rows_of(done, "list_invoices"))
        if invoice is not None:
            return [("request_refund", _refund_arguments(sections, invoice))]
    return []


def findings(done: Sequence[tuple[str, str]], lang: str) -> str:
    """Return what the tools returned, a line each; nothing is added."""
    lines: list[str] = []
    for name, result in done:
        data = _json(result)
        if data is None:
            lines.append(f"{name}: {clip(result, 200)}")
        else:
            lines += [f"{_label(name)}: {_shown(name, row)}" for row in _rows(data)[:SHOWN_ROWS]] or [_empty(name, lang)]
    return "\n".join(lines) or ("没有可查的账户数据。" if lang == "zh" else "There is no account data to look into.")


def pick_invoice(sections: dict[str, str], invoices: list[Record]) -> Record | None:
    """Return the invoice that the customer means, or None if it is not clear; never one that does not exist."""
    newest, before = sections.get("newest", ""), customer_words(sections)
    for text in (newest, f"{before}\n{sections.get('summary', '')}\n{basics(sections).get('subject', '')}"):
        named = [i for i in invoices if _names(text, str(i.get("number", "")))]
        if named:
            return named[0]
    if INVOICE_NUMBER.search(newest):
        return None  # a number that is not among this customer's invoices
    paid = [i for i in invoices if i.get("status") in REFUNDABLE]
    said = normal(f"{newest}\n{before}\n{basics(sections).get('subject', '')}")
    if "double_charge" in concepts_in(said) and (twins := _twins(paid)):
        return twins[0]
    for narrow in (_by_amount, _by_month):
        found = narrow(paid, said)
        if len(found) == 1:
            return found[0]
    return paid[0] if len(paid) == 1 else None


def _first(sections: dict[str, str]) -> list[Call]:
    newest = normal(sections.get("newest", ""))
    concepts = concepts_in(newest)
    before = concepts_in(normal(f"{customer_words(sections)}\n{basics(sections).get('subject', '')}"))
    if needs_human(newest):
        return [("escalate_to_human", {"reason": clip(sections.get("newest", ""), REASON_CHARS)})]
    if not concepts - {"failure", "reminder"} or is_unsolved(sections):
        concepts |= before
    if "refund" in concepts and STATUS_ASK.search(newest) and not _refund(sections):
        return [("list_invoices", {}), ("search_past_tickets", {})]
    if concepts & {"refund", "double_charge", "charge", "bill", "invoice", "pay_failed", "invoice_when"}:
        return [("list_invoices", {})]
    if concepts & {"bank_sync", "bank_auth", "bank_missing", "bank_duplicate"}:
        return [("list_bank_connections", {})]
    if concepts & {"plan", "upgrade", "downgrade", "cancel", "cycle", "seats", "renewal", "trial", "member", "price"}:
        return [("list_subscriptions", {})]
    return [("search_past_tickets", {})]


def _refund(sections: dict[str, str]) -> bool:
    newest = normal(sections.get("newest", ""))
    if wants_refund(newest):
        return True
    # "INV-... 那张" as an answer to our question which one
    before = normal(customer_words(sections))
    return bool(INVOICE_NUMBER.search(sections.get("newest", ""))) and wants_refund(before) and "invoice_red" not in concepts_in(newest)


def _refund_arguments(sections: dict[str, str], invoice: Record) -> Record:
    arguments: Record = {
        "invoice_number": str(invoice.get("number", "")), "reason": clip(sections.get("newest", ""), REASON_CHARS),
    }
    if _names(sections.get("newest", ""), arguments["invoice_number"]):
        total = _decimal(invoice.get("amount"))
        asked = [a for a in _amounts(sections.get("newest", "")) if total is not None and a < total]
        if len(asked) == 1:
            arguments["amount"] = str(asked[0])
    return arguments


def _names(text: str, number: str) -> bool:
    """Say whether a text names an invoice: whole, or by its last four digits or more."""
    if not number:
        return False
    if number.lower() in text.lower():
        return True
    digits = re.sub(r"\D", "", number)
    bare_runs = [run for run in re.findall(r"(?<![\d.])\d{4,}(?![\d.]|\s?(?:元|块|年))", text) if not run.startswith("20")]
    return any(digits.endswith(run) for run in bare_runs)


def _twins(paid: list[Record]) -> list[Record]:
    """Return the invoices that repeat an earlier one, latest first."""
    ordered = sorted(paid, key=lambda i: (str(i.get("paid_at") or i.get("issued_at") or ""), str(i.get("number"))))
    keys = [(str(i.get("amount")), str(i.get("description", ""))) for i in ordered]
    loose = [str(i.get("amount")) for i in ordered]
    for marks in (keys, loose):
        counts: Counter[Any] = Counter(marks)
        twins = [i for n, (i, mark) in enumerate(zip(ordered, marks, strict=True)) if counts[mark] > 1 and mark in marks[:n]]
        near = [i for i in twins if _has_near_twin(i, ordered)]
        if near:
            return near[::-1]
    return []


def _has_near_twin(invoice: Record, others: list[Record]) -> bool:
    """Two equal bills of one month are a mistake; of two months they are the rhythm of a subscription."""
    month = str(invoice.get("issued_at") or invoice.get("paid_at") or "")[:7]
    same = [i for i in others if i is not invoice and str(i.get("amount")) == str(invoice.get("amount"))]
    return any(str(i.get("issued_at") or i.get("paid_at") or "")[:7] == month for i in same)


def _by_amount(paid: list[Record], said: str) -> list[Record]:
    asked = _amounts(said)
    return [i for i in paid if _decimal(i.get("amount")) in asked] if asked else []


def _by_month(paid: list[Record], said: str) -> list[Record]:
    months = {int(m) for m in MONTH_ZH.findall(said)}
    return [i for i in paid if str(i.get("issued_at", ""))[5:7].isdigit() and int(str(i["issued_at"])[5:7]) in months]


def _amounts(text: str) -> list[Decimal]:
    found = [_decimal(re.sub(r"[^\d.]", "", amount)) for amount in AMOUNT.findall(text)]
    return [a for a in found if a is not None]


def _decimal(value: Any) -> Decimal | None:  # noqa: ANN401 -- any JSON scalar
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def _json(text: str) -> Any:  # noqa: ANN401 -- any JSON
    try:
        return json.loads(text)
    except ValueError:
        return None


def _rows_of(done: Sequence[tuple[str, str]], name: str) -> list[Record]:
    return [row for have, result in done if have == name for row in _rows(_json(result))]


def _rows(data: Any) -> list[Record]:  # noqa: ANN401 -- any JSON
    """Return the records of a tool's answer: a list, one object, or an object around one list."""
    if isinstance(data, dict):
        lists = [v for v in data.values() if isinstance(v, list) and all(isinstance(x, dict) for x in v)]
        if len(data) == 1 and lists:
            return list(lists[0])
        return [data] if data else []
    if isinstance(data, list):
        return [row for row in data if isinstance(row, dict)]
    return []


def _label(name: str) -> str:
    return {
        "list_bank_connections": "bank_connections", "list_invoices": "invoice", "list_subscriptions": "subscription",
        "search_past_tickets": "past_ticket", "get_customer": "customer",
    }.get(name, name)


LAYOUT: dict[str, tuple[tuple[str, str], ...]] = {
    "list_bank_connections": (("", "bank"), ("尾号", "account_tail"), ("状态 ", "status"), ("授权 ", "authorised_at"), ("到期 ", "expires_at"), ("报错 ", "last_error")),
    "list_invoices": (("", "number"), ("金额 ", "amount"), ("状态 ", "status"), ("开具 ", "issued_at"), ("说明 ", "description")),
    "list_subscriptions": (("", "plan"), ("周期 ", "billing_cycle"), ("状态 ", "status"), ("席位 ", "seats"), ("到期 ", "period_end")),
    "search_past_tickets": (("", "id"), ("", "subject"), ("代码 ", "error_code"), ("解决 ", "resolution"), ("", "created_at")),
}


def _shown(name: str, row: Record) -> str:
    layout = LAYOUT.get(name)
    if layout is None or not any(row.get(key) for _, key in layout):
        return json.dumps(row, ensure_ascii=False)
    return " ".join(f"{word}{clip(str(row[key]), 60)}" for word, key in layout if row.get(key) not in (None, ""))


def _empty(name: str, lang: str) -> str:
    return f"{_label(name)}: " + ("没有记录" if lang == "zh" else "no records")
