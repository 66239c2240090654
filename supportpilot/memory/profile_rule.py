"""The profile by rule, and what a profile in a model's words may say. Pure.

The template is free and never wrong, so a customer whose profile is missing or out of date is served with it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from supportpilot.memory import verify
from supportpilot.memory.rule_summary import clip
from supportpilot.memory.verify import PROFILE_CHARS_STORED, Figures, claimed, supported

PROFILE_CHARS = {"zh": 100, "en": 300}
ITEM_CHARS = 40
CYCLES = {"zh": {"monthly": "月付", "yearly": "年付"}, "en": {"monthly": " monthly", "yearly": " yearly"}}
STATES = {"zh": {"trial": "试用中", "past_due": "已逾期"}, "en": {"trial": " (trial)", "past_due": " (past due)"}}
WISHES = {"zh": {"reminder_before_expiry": "授权到期前能收到提醒"}, "en": {"reminder_before_expiry": "a reminder before expiry"}}
TOPICS = {"billing": "费用", "refund": "退款", "invoice": "发票", "account": "账号", "technical": "功能",
          "plan_change": "套餐", "api": "接口", "other": "其他"}

_PLAN = re.compile(r"[\u4e00-\u9fff]{2}版")
_VIP = re.compile(r"(?<!非)(?<!非\s)(?<!不是)(?<!不是\s)(?<!not a )(?<!not )VIP", re.IGNORECASE)
_COUNTED = re.compile(r"([A-Za-z]\d{3,5})[^。;；A-Za-z]{0,10}?([\d一二两三四五六七八九十]+)\s*次")
_MONTH = re.compile(r"(\d{4})-(\d{2})")


def language(facts: Mapping[str, Any]) -> str:
    """Return the language that the customer's profile is written in."""
    return "en" if facts["customer"].get("locale") == "en" else "zh"


def template(facts: Mapping[str, Any]) -> str:
    """Return plan, VIP, error codes with counts and months, promises and wishes.

    At most `PROFILE_CHARS`: whole sentences are left out, the last first, but the plan and the problem that came
    back most often are always said.
    """
    lang = language(facts)
    past = list(facts["past_tickets"])
    said = [s for s in (_who(facts, lang), *_repeated(past, lang), *_noted(past, lang), *_topics(past, lang))
            if not problems(s, facts)]
    must = 2 if any(ticket.get("error_code") for ticket in past) else 1
    text, joint = "", " " if lang == "en" else ""
    for i, sentence in enumerate(said):
        longer = f"{text}{joint if text else ''}{sentence}"
        if len(longer) <= (PROFILE_CHARS_STORED if i < must else PROFILE_CHARS[lang]):
            text = longer
    return text


def problems(text: str, facts: Mapping[str, Any]) -> list[str]:
    """Return what a profile says that the facts do not; [] if it may be stored."""
    found = verify.problems(text, _known(facts), PROFILE_CHARS_STORED)
    flat = _flat(facts)
    subscriptions = facts["subscriptions"]
    if _VIP.search(text) and not facts["customer"].get("is_vip"):
        found.append("the customer is not a VIP")
    found += [f"no plan {plan}" for plan in dict.fromkeys(_PLAN.findall(text)) if plan not in flat]
    found += [f"nothing is paid {name}" for cycle, name in CYCLES["zh"].items()
              if name in text and name not in flat and cycle not in {s.get("billing_cycle") for s in subscriptions}]
    counts = _counts(facts["past_tickets"])
    found += [f"{code} did not come {times} times" for code, times in _COUNTED.findall(text)
              if claimed(f"{times}次").numbers - {Decimal(counts[code.upper()])}]
    return found


def _known(facts: Mapping[str, Any]) -> Figures:
    """The figures of the facts, and what can be counted in them."""
    past = facts["past_tickets"]
    counted = [len(past), len(facts["subscriptions"]), *_counts(past).values(),
               *Counter(str(ticket.get("category")) for ticket in past if not ticket.get("error_code")).values(),
               *Counter(str(ticket.get("category")) for ticket in past).values()]
    figures = supported(_flat(facts))
    return replace(figures, numbers=figures.numbers | {Decimal(n).normalize() for n in counted if n})


def _counts(past: Sequence[Mapping[str, Any]]) -> Counter[str]:
    return Counter(str(ticket["error_code"]).upper() for ticket in past if ticket.get("error_code"))


def _flat(facts: Mapping[str, Any]) -> str:
    rows = [facts["customer"], *facts["subscriptions"], *facts["past_tickets"]]
    return "\n".join(" ".join(str(value).split()) for row in rows for value in row.values() if value is not None)


def _who(facts: Mapping[str, Any], lang: str) -> str:
    current = [s for s in facts["subscriptions"] if s.get("plan") and s.get("status") != "cancelled"]
    named = dict.fromkeys(f"{s['plan']}{CYCLES[lang].get(s.get('billing_cycle', ''), '')}"
                          f"{STATES[lang].get(s.get('status', ''), '')}" for s in current[:2])
    vip = bool(facts["customer"].get("is_vip"))
    if lang == "en":
        return f"{', '.join(named) or 'No subscription'}{', VIP' if vip else ''}."
    return f"{'、'.join(named) or '没有订阅的'}{' VIP ' if vip else ''}客户。"


def _repeated(past: list[Mapping[str, Any]], lang: str) -> Iterator[str]:
    months = defaultdict[str, list[str]](list)
    for ticket in reversed(past):       # oldest first
        if ticket.get("error_code"):
            months[" ".join(str(ticket["error_code"]).split())].append(str(ticket.get("created_at") or ""))
    for code, days in sorted(months.items(), key=lambda item: -len(item[1])):
        when = _months(days, lang)
        if lang == "en":
            yield f"{code} {len(days)} time{'s' if len(days) > 1 else ''}{f' ({when})' if when else ''}."
        else:
            yield f"{code} 已出现 {len(days)} 次{f'({when})' if when else ''}。"


def _months(days: list[str], lang: str) -> str:
    found = dict.fromkeys(m.groups() for day in days if (m := _MONTH.match(day)))
    if lang == "en":
        return ", ".join(f"{year}-{month}" for year, month in found)
    said, last = [], ""
    for year, month in found:
        said.append(f"{year + '年' if year != last else ''}{int(month)}月")
        last = year
    return "、".join(said)


def _noted(past: list[Mapping[str, Any]], lang: str) -> Iterator[str]:
    promised = dict.fromkeys(_item(ticket["promise"]) for ticket in past if ticket.get("promise"))
    wished = dict.fromkeys(_item(WISHES[lang].get(ticket["wish"], ticket["wish"])) for ticket in past if ticket.get("wish"))
    if lang == "en":
        yield from (f"Promised: {item}." for item in promised)
        yield from (f"Wishes: {item}." for item in wished)
    else:
        yield from (f"已答应:{item}。" for item in promised)
        yield from (f"希望{item.removeprefix('希望')}。" for item in wished)


def _item(text: object) -> str:
    return clip(" ".join(str(text).split()).rstrip("。."), ITEM_CHARS)


def _topics(past: list[Mapping[str, Any]], lang: str) -> Iterator[str]:
    counts = Counter(str(t.get("category") or "other") for t in past if not t.get("error_code"))
    if not counts:
        return
    if lang == "en":
        yield f"Also asked about: {', '.join(f'{name} {n}' for name, n in counts.most_common())}."
    else:
        yield f"其他咨询:{'、'.join(f'{TOPICS.get(name, name)} {n} 次' for name, n in counts.most_common())}。"
