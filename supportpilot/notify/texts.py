"""What a colleague is told: number, amount and age, nothing that a customer wrote. Chat services are third parties."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from supportpilot.notify.targets import Message

Language = Literal["zh", "en"]

_TEXTS: dict[str, dict[str, str]] = {
    "zh": {
        "approval.title": "退款待审批 {id}", "reminder.title": "退款仍待审批 {id}", "handoff.title": "工单待人工处理 {id}",
        "approval.body": "工单 {ticket}，{amount}，{age}前提出，{left}后过期。", "reminder.body": "工单 {ticket}，{amount}，{age}前提出，{left}后过期。",
        "handoff.body": "工单 {ticket}，{age}前转给人工。", "test.title": "SupportPilot 测试", "test.body": "这是一条测试通知，无需处理。",
        "now": "不到 1 分钟", "minutes": "{n} 分钟", "hours": "{n} 小时", "days": "{n} 天", "no amount": "金额见页面",
    },
    "en": {
        "approval.title": "Refund to approve {id}", "reminder.title": "Refund still to approve {id}", "handoff.title": "Ticket for a human {id}",
        "approval.body": "Ticket {ticket}, {amount}, asked {age} ago, expires in {left}.",
        "reminder.body": "Ticket {ticket}, {amount}, asked {age} ago, expires in {left}.",
        "handoff.body": "Ticket {ticket}, handed over {age} ago.", "test.title": "SupportPilot test", "test.body": "This is a test; nothing to do.",
        "now": "less than 1 minute", "minutes": "{n} min", "hours": "{n} h", "days": "{n} days", "no amount": "amount on the page",
    },
}
_HOURS_SHOWN = 72       # above, days say it better


def message(language: Language, kind: str, subject_id: str, values: dict[str, str], link: str) -> Message:
    """Return the text of a notification of a kind; the link stands on a line of its own."""
    texts = _TEXTS[language]
    return Message(texts[f"{kind}.title"].format(id=subject_id), f"{texts[f'{kind}.body'].format(**values)}\n{link}")


def sample(language: Language) -> Message:
    """Return what `notify test` sends."""
    return Message(_TEXTS[language]["test.title"], _TEXTS[language]["test.body"])


def span(language: Language, start: datetime, end: datetime) -> str:
    """Return a time as people say it, rounded down."""
    passed = max(end - start, timedelta())
    minutes = int(passed.total_seconds() // 60)
    unit, n = ("now", 0) if minutes < 1 else ("minutes", minutes) if minutes < 120 else ("hours", minutes // 60)
    if n >= _HOURS_SHOWN and unit == "hours":
        unit, n = "days", n // 24
    return _TEXTS[language][unit].format(n=n)


def amount(language: Language, request: dict[str, Any]) -> str:
    """Return the amount that an approval asks for; what is no number or no currency's code is not passed on."""
    asked = request.get("request")
    found = asked if isinstance(asked, dict) else {}
    try:
        number = Decimal(str(found.get("amount")))
        currency = str(found.get("currency", ""))
        if number.is_finite() and re.fullmatch(r"[A-Z]{3}", currency):
            return f"{number:.2f} {currency}"
    except (InvalidOperation, ValueError):
        pass
    return _TEXTS[language]["no amount"]
