"""Summaries and profiles by rules: pieces copied from the source, counted, never reworded figures. Pure."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

from supportpilot.llm.offline.lexicon import AMOUNT, INVOICE_NUMBER, concepts_in, error_codes
from supportpilot.llm.offline.recall import PROMISE, plain
from supportpilot.llm.offline.text import bare, clip, conversation, language_of, normal, sentences
from supportpilot.llm.offline.triage import UNSOLVED

SUMMARY_CHARS = 150
PROFILE_CHARS = 100
LIMIT = re.compile(r"(\d{2,4})\s?(?:字|个字|characters|chars)")
BULLET = re.compile(r"^- (诉求|单号金额|答复承诺|未解决|Asks|Figures|Answers|Open):\s?(.*)$")
LABELS = {"zh": ("诉求", "单号金额", "答复承诺", "未解决"), "en": ("Asks", "Figures", "Answers", "Open")}
# Shares of the room after the figures, which are never cut.
# What a part leaves over goes to the next.
SHARES = (0.38, 0.0, 0.36, 0.26)
WISHES = {"reminder_before_expiry": "授权到期前能收到提醒"}
CYCLES = {"monthly": "月付", "yearly": "年付"}
STATES = {"trial": "试用中", "past_due": "已逾期", "cancelled": "已取消"}
TOPICS = {"billing": "费用", "refund": "退款", "invoice": "发票", "account": "账号", "technical": "功能", "plan_change": "套餐", "api": "接口", "other": "其他"}


def summary(sections: dict[str, str], system: str) -> str:
    """Return bullets of what a transcript holds: asks, figures, answers and promises, what is open."""
    transcript, before = sections.get("transcript", ""), sections.get("previous_summary", "")
    limit = min(_limit(system, SUMMARY_CHARS), SUMMARY_CHARS)
    lang = language_of(transcript or before)
    old = {m.group(1): m.group(2) for line in before.splitlines() if (m := BULLET.match(line.strip()))}
    lines = conversation(transcript)
    asked = [s for line in lines if line.customer for s in sentences(bare(line.text))]
    answered = [bare(plain(s)) for line in lines if not line.customer for s in sentences(line.text)]
    parts = (_asks(asked), _figures(f"{before}\n{transcript}", limit), _answers(answered), _open(asked))
    kept = [part or old.get(label, "") for part, label in zip(parts, LABELS[lang], strict=True)]
    if not old and before and not kept[0]:
        kept[0] = before.splitlines()[0].removeprefix("- ")
    return _bullets(kept, LABELS[lang], limit)


def profile(sections: dict[str, str], system: str) -> str:
    """Return a Chinese note on the customer: plan, VIP, what came back how often, promises, wishes."""
    facts = _object(sections.get("facts", ""))
    past = [t for t in facts.get("past_tickets") or [] if isinstance(t, dict)]
    said = [_who(facts), *_repeated(past), *_wishes(past), *_topics(past)]
    limit, text = min(_limit(system, PROFILE_CHARS), PROFILE_CHARS), ""
    for sentence in said:
        if len(text) + len(sentence) <= limit:
            text += sentence
    return text


def _limit(system: str, default: int) -> int:
    found = LIMIT.findall(system)
    return int(found[-1]) if found else default


def _asks(asked: list[str]) -> str:
    """Return the first sentence with a matter in it, and the last other one with another matter."""
    telling = [s for s in asked if concepts_in(normal(s)) or error_codes(s)] or asked
    if not telling:
        return ""
    first = telling[0]
    other = [s for s in telling[1:] if concepts_in(normal(s)) - concepts_in(normal(first))]
    return ";".join([clip(first, 34), *[clip(s, 26) for s in other[-1:]]])


def _figures(text: str, limit: int) -> str:
    found = [*INVOICE_NUMBER.findall(text), *AMOUNT.findall(text), *error_codes(text)]
    kept: list[str] = []
    for figure in dict.fromkeys(f.strip() for f in found):
        if len("、".join([*kept, figure])) <= limit * 2 // 5:
            kept.append(figure)
    return "、".join(kept)


def _answers(answered: list[str]) -> str:
    promised = [s for s in answered if PROMISE.search(s)]
    return (promised or answered or [""])[-1]


def _open(asked: list[str]) -> str:
    stuck = [s for s in asked if UNSOLVED.search(normal(s)) or s.endswith(("?", "?")) or re.search(r"吗|呢|怎么|什么时候", s)]
    return (stuck or asked or [""])[-1]


def _bullets(parts: list[str], labels: tuple[str, ...], limit: int) -> str:
    used = sum(len(label) + 4 for label, part in zip(labels, parts, strict=True) if part) + len(parts[1])
    room = max(0, limit - used)
    bullets, owed = [], 0
    for label, part, share in zip(labels, parts, SHARES, strict=True):
        mine = int(room * share) + owed
        shown = clip(part, mine) if share else part
        owed = max(0, mine - len(shown)) if share else owed
        if shown:
            bullets.append(f"- {label}:{shown}")
    return "\n".join(bullets)[:limit] or "- (empty)"


def _who(facts: dict[str, Any]) -> str:
    customer = facts.get("customer") or {}
    vip = " VIP" if customer.get("is_vip") else ""
    subscriptions = [s for s in facts.get("subscriptions") or [] if isinstance(s, dict) and s.get("plan")]
    current = [s for s in subscriptions if s.get("status") != "cancelled"] or subscriptions
    if not current:
        return f"没有订阅的{vip.strip()}客户。"
    said = "、".join(dict.fromkeys(
        f"{s['plan']}{CYCLES.get(str(s.get('billing_cycle')), '')}{STATES.get(str(s.get('status')), '')}" for s in current[:2]))
    return f"{said}{vip}{' ' if vip else ''}客户。"


def _repeated(past: list[dict[str, Any]]) -> list[str]:
    """Count error codes; say how often, in which months, and how it ended if it ended alike."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for ticket in past:
        if code := str(ticket.get("error_code") or ""):
            groups[code].append(ticket)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [_repeat(code, sorted(tickets, key=lambda t: str(t.get("created_at")))) for code, tickets in ordered]


def _repeat(code: str, tickets: list[dict[str, Any]]) -> str:
    when = _months(tickets)
    cure = _common_cure(tickets)
    return f"{code} 已出现 {len(tickets)} 次{f'({when})' if when else ''}{f',{cure}' if cure else ''}。"


def _months(tickets: list[dict[str, Any]]) -> str:
    found = [m.groups() for t in tickets if (m := re.match(r"(\d{4})-(\d{2})", str(t.get("created_at") or "")))]
    said, year = [], ""
    for this_year, month in dict.fromkeys(found):
        said.append(f"{this_year + '年' if this_year != year else ''}{int(month)}月")
        year = this_year
    return "、".join(said)


CURES = (("重新授权", "均通过重新授权恢复"), ("重新导入", "均通过重新导入解决"), ("解锁", "均已解锁"), ("补开|重开", "均已重开发票"), ("退款|退回", "均已退款"))


def _common_cure(tickets: list[dict[str, Any]]) -> str:
    for pattern, said in CURES:
        if all(re.search(pattern, str(t.get("resolution") or "")) for t in tickets):
            return said if len(tickets) > 1 else said.removeprefix("均")
    return ""


def _wishes(past: list[dict[str, Any]]) -> list[str]:
    promised = [str(t["promise"]) for t in past if t.get("promise")]
    wished = [WISHES.get(str(t["wish"]), str(t["wish"])) for t in past if t.get("wish")]
    said = [f"已答应:{clip(p, 30).rstrip('。')}。" for p in dict.fromkeys(promised)]
    return said + [f"希望{clip(w, 24).removeprefix('希望').rstrip('。')}。" for w in dict.fromkeys(wished)]


def _topics(past: list[dict[str, Any]]) -> list[str]:
    counts: dict[str, int] = defaultdict(int)
    for ticket in past:
        if not ticket.get("error_code"):
            counts[TOPICS.get(str(ticket.get("category")), "其他")] += 1
    said = "、".join(f"{name}{n}次" for name, n in sorted(counts.items(), key=lambda item: -item[1]))
    return [f"其他咨询:{said}。"] if said else []


def _object(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
