"""Profiles by rules: what the facts hold in a fixed order, figures copied, nothing guessed. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

PROFILE_CHARS = {"zh": 100, "en": 300}
EN_LIMIT = re.compile(r"\d characters")      # the instructions are in the customer's language
LIMIT = re.compile(r"(\d{2,4})\s?(?:字|个字|characters|chars)")
CYCLES = {"zh": {"monthly": "月付", "yearly": "年付"}, "en": {"monthly": " monthly", "yearly": " yearly"}}
STATES = {"zh": {"trial": "试用中", "past_due": "已逾期", "cancelled": "已取消"},
          "en": {"trial": " (trial)", "past_due": " (past due)", "cancelled": " (cancelled)"}}
TOPICS = {"billing": "费用", "refund": "退款", "invoice": "发票", "account": "账号", "technical": "功能", "plan_change": "套餐", "api": "接口", "other": "其他"}
# What solved it, said only where every ticket of the code says so; with one article behind all of them, a ticket
# without words of its own was solved alike.
CURES = (("重新授权|re-?authori[sz]", "均通过重新授权恢复", "solved by re-authorising each time"),
         ("重新导入", "均通过重新导入解决", "solved by importing again each time"),
         ("解锁", "均已解锁", "unlocked each time"), ("退款|退回|refund", "均已退款", "refunded each time"))
MONTHS_SHOWN = 4


def profile(sections: dict[str, str], system: str) -> str:
    """Return a note on the customer: plan, VIP, what came back how often and how it ended, promises, wishes, the rest."""
    facts = _object(sections.get("facts", ""))
    lang = "en" if EN_LIMIT.search(system) else "zh"
    limit, text = min(_limit(system, PROFILE_CHARS[lang]), PROFILE_CHARS[lang]), ""
    writers = _zh if lang == "zh" else _en
    for sentence in writers(facts):
        longer = f"{text}{' ' if lang == 'en' and text else ''}{sentence}"
        if len(longer) <= limit:
            text = longer
    return text


def _zh(facts: dict[str, Any]) -> Iterator[str]:
    vip = bool(_of(facts, "customer").get("is_vip"))
    plans = _plans(facts, "zh")
    if plans or not _many(facts, "subscriptions"):
        yield f"{'、'.join(plans) or '没有订阅的'}{' VIP ' if vip else ''}客户。"
    for p in _many(facts, "problems"):
        when, cure = _when(p, "zh"), _cure(p)
        yield f"{p['error_code']} 已出现 {p['times']} 次{f'({when})' if when else ''}{f',{cure[0]}' if cure else ''}。"
    for p in _many(facts, "promises"):
        yield f"已答应:{p['text']}" + (f"(期限 {p['due']})。" if p.get("due") else "。")
    for w in _many(facts, "wishes"):
        yield f"希望{str(w['text']).removeprefix('希望')}。"
    for b in _many(facts, "bank_connections"):
        yield f"{b['bank']}授权{'已' if b['state'] == 'expired' else '将'}于 {b['on']} 到期。"
    topics = [f"{TOPICS.get(t['category'], '其他')}{t['times']}次" for t in _many(facts, "topics")]
    if topics:
        yield f"其他咨询:{'、'.join(topics)}。"


def _en(facts: dict[str, Any]) -> Iterator[str]:
    vip = bool(_of(facts, "customer").get("is_vip"))
    plans = _plans(facts, "en")
    if plans or not _many(facts, "subscriptions"):
        yield f"{', '.join(plans) or 'No subscription'}{', VIP' if vip else ''}."
    for p in _many(facts, "problems"):
        when, cure = _when(p, "en"), _cure(p)
        yield f"{p['error_code']} {p['times']} time{'s' if p['times'] > 1 else ''}{f' ({when})' if when else ''}{f', {cure[1]}' if cure else ''}."
    for p in _many(facts, "promises"):
        yield f"Promised: {p['text']}" + (f" (due {p['due']})." if p.get("due") else ".")
    for w in _many(facts, "wishes"):
        yield f"Wishes: {w['text']}."
    for b in _many(facts, "bank_connections"):
        yield f"{b['bank']}: authorisation {'expired' if b['state'] == 'expired' else 'expires'} on {b['on']}."
    topics = [f"{t['category']} {t['times']}" for t in _many(facts, "topics")]
    if topics:
        yield f"Also asked about: {', '.join(topics)}."


def _plans(facts: dict[str, Any], lang: str) -> list[str]:
    subscriptions = [s for s in _many(facts, "subscriptions") if s.get("plan")]
    current = [s for s in subscriptions if s.get("status") != "cancelled"] or subscriptions
    return list(dict.fromkeys(
        f"{s['plan']}{CYCLES[lang].get(str(s.get('billing_cycle')), '')}{STATES[lang].get(str(s.get('status')), '')}" for s in current[:2]))


def _when(problem: dict[str, Any], lang: str) -> str:
    months = [str(month) for month in problem.get("months") or []]
    if len(months) > MONTHS_SHOWN:
        return f"最近是{_months(months[-1:])}" if lang == "zh" else f"last in {months[-1]}"
    return _months(months) if lang == "zh" else ", ".join(months)


def _months(months: list[str]) -> str:
    said, year = [], ""
    for month in months:
        this_year, _, number = month.partition("-")
        said.append(f"{this_year + '年' if this_year != year else ''}{int(number)}月")
        year = this_year
    return "、".join(said)


def _cure(problem: dict[str, Any]) -> tuple[str, str] | None:
    """Return what solved it in Chinese and English; None unless it ended alike each time."""
    said, many = [str(text) for text in problem.get("resolutions") or []], int(problem["times"]) > 1
    if not said or (problem.get("open_ended") and len(problem.get("articles") or []) != 1):
        return None
    for pattern, chinese, english in CURES:
        if all(re.search(pattern, text, re.IGNORECASE) for text in said):
            return (chinese, english) if many else (chinese.removeprefix("均"), english.removesuffix(" each time"))
    return None


def _limit(system: str, default: int) -> int:
    found = LIMIT.findall(system)
    return int(found[-1]) if found else default


def _of(facts: dict[str, Any], name: str) -> dict[str, Any]:
    found = facts.get(name)
    return found if isinstance(found, dict) else {}


def _many(facts: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [row for row in facts.get(name) or [] if isinstance(row, dict)]


def _object(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
