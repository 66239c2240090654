"""Account facts as a reply says them: read from the findings' lines, never from anywhere else. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

BANK = re.compile(r"^bank_connections: (\S+) 尾号(\S+) 状态 (\w+)(?: 授权 (\S+))?(?: 到期 (\S+))?(?: 报错 (.*))?$")
INVOICE = re.compile(r"^invoice: (\S+) 金额 (\S+) 状态 (\w+)(?: 开具 (\S+))?(?: 说明 (.*))?$")
PLAN = re.compile(r"^subscription: (\S+) 周期 (\w+) 状态 (\w+)(?: 席位 (\d+))?(?: 到期 (\S+))?$")
SHOWN = 3

ZH = {"monthly": "月付", "yearly": "年付", "paid": "已付款", "open": "未付款", "refunded": "已退款", "void": "已作废",
      "trial": "试用中", "active": "使用中", "past_due": "已逾期", "cancelled": "已取消"}


@dataclass(frozen=True)
class Refund:
    """A refund request as the graph noted it."""

    invoice: str
    amount: str
    currency: str
    status: str


def refund_in(findings: str) -> Refund | None:
    """Return the refund request of the findings, the graph's own line first."""
    for label in ("refund_request", "request_refund"):
        for line in findings.splitlines():
            if line.startswith(f"{label}: ") and (data := _object(line.removeprefix(f"{label}: "))):
                return Refund(str(data.get("invoice_number", "")), str(data.get("amount", "")),
                              str(data.get("currency") or "CNY"), str(data.get("status", "")))
    return None


def refund_refused(findings: str) -> bool:
    """Say whether a request was tried and not taken."""
    return any(line.startswith("request_refund: ") for line in findings.splitlines()) and refund_in(findings) is None


def say_refund(refund: Refund, lang: str) -> str:
    """Say that a colleague looks at it; promise nothing."""
    if refund.status != "pending":
        done = f"账单 {refund.invoice} 的退款此前已处理({refund.amount} {refund.currency})。"
        return done if lang == "zh" else f"The refund for invoice {refund.invoice} ({refund.amount} {refund.currency}) has been handled already."
    if lang == "zh":
        return f"账单 {refund.invoice} 的退款申请(金额 {refund.amount} {refund.currency})已提交给同事审核,结果会在这里回复您,目前还不能确定是否通过。"
    return (f"Your refund request for invoice {refund.invoice} ({refund.amount} {refund.currency}) has been handed to a colleague"
            " for review. We will tell you the result here; it is not decided yet.")


def say_banks(findings: str, said: str, lang: str) -> str:
    """Say how the bank connections stand: those the customer names, else those in trouble, else all."""
    rows = [m.groups() for line in findings.splitlines() if (m := BANK.match(line))]
    named = [r for r in rows if r[0] in said or r[0].removesuffix("银行") in said or (r[1] in said)]
    troubled = [r for r in rows if r[2] != "active"]
    return "".join(_bank(row, lang) for row in (named or troubled or rows)[:SHOWN])


def say_invoices(findings: str, lang: str) -> str:
    """List the invoices."""
    rows = [m.groups() for line in findings.splitlines() if (m := INVOICE.match(line))][:SHOWN + 2]
    if lang == "zh":
        return ";".join(f"{n}({a} 元,{ZH.get(s, s)}{f',{d} 开具' if d else ''})" for n, a, s, d, _ in rows)
    return "; ".join(f"{n} (CNY {a}, {s}{f', issued {d}' if d else ''})" for n, a, s, d, _ in rows)


def say_plans(findings: str, lang: str) -> str:
    """Say what the customer has subscribed to."""
    rows = [m.groups() for line in findings.splitlines() if (m := PLAN.match(line))][:SHOWN]
    if lang == "zh":
        return "".join(
            f"您当前的订阅是{plan}({ZH.get(cycle, cycle)},{ZH.get(status, status)}{f',{seats} 个席位' if seats else ''}){f',本期到 {end}' if end else ''}。"
            for plan, cycle, status, seats, end in rows)
    return " ".join(
        f"You are on {plan} ({cycle}, {status}{f', {seats} seats' if seats else ''}){f', current period until {end}' if end else ''}."
        for plan, cycle, status, seats, end in rows)


def _bank(row: tuple[str, ...], lang: str) -> str:
    bank, tail, status, _, end, error = row
    if lang == "zh":
        name = f"查到您的{bank}(尾号{tail})"
        said = {"expired": f"授权已于 {end} 到期" if end else "授权已到期", "active": f"授权有效,到 {end} 到期" if end else "授权有效"}
        return f"{name}{said.get(status, '同步状态异常')}{f',最近报错 {error}' if error and status != 'expired' else ''}。"
    name = f"Your bank account {bank} ending {tail}: "
    said = {"expired": f"the authorisation expired on {end}" if end else "the authorisation has expired",
            "active": f"the authorisation is valid until {end}" if end else "the authorisation is valid"}
    return f"{name}{said.get(status, 'the connection reports a problem')}{f' (last error: {error})' if error and status != 'expired' else ''}. "


def _object(text: str) -> dict[str, Any] | None:
    try:
        data = json.loads(text)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None
