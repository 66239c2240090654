"""From rows to the facts of a profile: counted, with time rules computed and human corrections applied last. Pure.

Every fact keeps the rows that it came from. No message text is among the rows, so nothing that a customer writes has
a way in.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from supportpilot.memory.noted import WISHES, wish_text

Row = Mapping[str, Any]

EXPIRES_SOON_DAYS = 14
RESOLUTIONS, TEXT_CHARS, PROMISES = 3, 60, 3
CYCLES = ("monthly", "yearly")
SETTABLE = ("is_vip", "plan", "billing_cycle", "wish")      # and the count of an error code
HIDEABLE = (*SETTABLE, "promise", "bank", "topics")         # and an error code, or one row by its id
PLAN_CHARS, MOST_TIMES = 20, 999
_CODE = re.compile(r"E\d{3,5}", re.ASCII)


@dataclass(frozen=True)
class Given:
    """The rows of one customer, as `db.profiles.Rows` has them."""

    customer: Row
    subscriptions: Sequence[Row] = ()
    tickets: Sequence[Row] = ()
    bank_connections: Sequence[Row] = ()
    commitments: Sequence[Row] = ()
    overrides: Sequence[Row] = ()


def is_code(target: str) -> bool:
    """Tell whether a correction's target is an error code."""
    return _CODE.fullmatch(target) is not None


def is_row_id(target: str) -> bool:
    """Tell whether a correction's target is the id of a row."""
    return target not in HIDEABLE and not is_code(target)


def assemble(given: Given, today: date) -> dict[str, Any]:
    """Return the facts that a profile is made from, corrections applied; JSON, the same for the same rows."""
    valid = [row for row in given.overrides if not row["expired"]]
    hidden = {row["target"] for row in valid if row["kind"] == "suppress"}
    facts = _from_rows(given, today, hidden)
    for row in valid:
        if row["kind"] == "set":
            _set(facts, row)
        elif row["kind"] == "suppress":
            _hide(facts, row["target"])
    facts["notes"] = [{"id": row["id"], "text": row["value"], "author": row["author"]}
                      for row in reversed(valid) if row["kind"] == "note"]
    facts["corrections"] = [{"id": row["id"], "kind": row["kind"], "target": row["target"], "value": row["value"]}
                            for row in valid if row["kind"] != "note"]
    return facts


def underlying(given: Given, target: str, today: date) -> object:
    """Return what the rows themselves say about a correction's target, JSON; a correction keeps it as `seen`."""
    facts = _from_rows(given, today, frozenset())
    if is_row_id(target):
        return next((_plain(row) for row in _all_rows(given) if row["id"] == target), None)
    if is_code(target):
        return next((p["times"] for p in facts["problems"] if p["error_code"] == target), 0)
    plan = _current(facts)
    return {
        "is_vip": facts["customer"]["is_vip"], "plan": plan.get("plan"), "billing_cycle": plan.get("billing_cycle"),
        "wish": [w["wish"] for w in facts["wishes"]], "promise": [p["text"] for p in facts["promises"]],
        "bank": [[b["bank"], b["state"], b["on"]] for b in facts["bank_connections"]],
        "topics": [[t["category"], t["times"]] for t in facts["topics"]],
    }.get(target)


def conflict(row: Row, given: Given, today: date) -> dict[str, object] | None:
    """Return what a correction's target was when it was written and is now, None if it is the same."""
    if row["kind"] == "note":
        return None
    now = underlying(given, row["target"], today)
    return None if now == row["seen"] else {"seen": row["seen"], "now": now}


def problem_of_value(target: str, value: str) -> str | None:
    """Say why a target cannot be set to this value, None if it can."""
    checks: dict[str, tuple[Callable[[str], bool], str]] = {
        "is_vip": (lambda v: v in ("true", "false"), "true or false"),
        "billing_cycle": (lambda v: v in CYCLES, "monthly or yearly"),
        "wish": (lambda v: v in WISHES, f"one of {', '.join(WISHES)}"),
        "plan": (lambda v: 0 < len(v) <= PLAN_CHARS and v.isprintable() and not re.search("[<>\u3002;,\uff1b\uff0c]", v),
                 f"a plan's name of at most {PLAN_CHARS} characters"),
    }
    if is_code(target):
        ok, wanted = value.isascii() and value.isdigit() and int(value) <= MOST_TIMES, f"a count from 0 to {MOST_TIMES}"
    elif target in checks:
        ok, wanted = checks[target][0](value), checks[target][1]
    else:
        return f"{target!r} cannot be set; there are {', '.join(SETTABLE)} and error codes"
    return None if ok else f"{target} must be {wanted}"


def row_ids(given: Given) -> set[str]:
    """Return the ids of the rows that a correction may hide."""
    return {str(row["id"]) for row in _all_rows(given)}


# from the rows ----------------------------------------------------------------------------------------

def _from_rows(given: Given, today: date, hidden: Iterable[str]) -> dict[str, Any]:
    gone = set(hidden)

    def shown(rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if row["id"] not in gone]
    tickets = shown(given.tickets)
    lang = "en" if given.customer.get("locale") == "en" else "zh"
    return {
        "customer": {"id": given.customer["id"], "is_vip": bool(given.customer["is_vip"]), "locale": lang},
        "subscriptions": [{name: row[name] for name in ("id", "plan", "billing_cycle", "status")}
                          for row in shown(given.subscriptions)],
        "problems": _problems(tickets), "topics": _topics(tickets),
        "promises": _promises(shown(given.commitments), tickets), "wishes": _wishes(tickets, lang),
        "bank_connections": [fact for row in shown(given.bank_connections) if (fact := _bank(row, today))],
    }


def _all_rows(given: Given) -> list[Row]:
    return [*given.subscriptions, *given.tickets, *given.bank_connections, *given.commitments]


def _plain(row: Row) -> dict[str, object]:
    # A day that comes nearer, or a promise that becomes overdue, is no change of the row.
    return {name: value if value is None or isinstance(value, bool | int | str) else str(value)
            for name, value in row.items() if name != "overdue"}


def _grouped(tickets: Iterable[Row], key: Callable[[Row], str]) -> list[tuple[str, list[Row]]]:
    """Return groups, the largest first; of equal ones that with the newest ticket."""
    groups: dict[str, list[Row]] = {}
    for ticket in tickets:
        groups.setdefault(key(ticket), []).append(ticket)
    return sorted(groups.items(), key=lambda item: -len(item[1]))


def _problems(tickets: Iterable[Row]) -> list[dict[str, Any]]:
    coded = [ticket for ticket in tickets if ticket.get("error_code")]
    return [{
        "error_code": code, "times": len(found), "months": sorted({t["month"] for t in found if t.get("month")}),
        "resolutions": list(dict.fromkeys(_short(t["resolution"]) for t in found if t.get("resolution")))[:RESOLUTIONS],
        "open_ended": sum(not t.get("resolution") for t in found),
        "articles": sorted({t["resolution_kb"] for t in found if t.get("resolution_kb")}),
        "tickets": sorted(t["id"] for t in found),
    } for code, found in _grouped(coded, lambda t: " ".join(str(t["error_code"]).upper().split()))]


def _topics(tickets: Iterable[Row]) -> list[dict[str, Any]]:
    plain = [ticket for ticket in tickets if not ticket.get("error_code")]
    return [{"category": category, "times": len(found), "tickets": sorted(t["id"] for t in found)}
            for category, found in _grouped(plain, lambda t: str(t.get("category") or "other"))]


def _promises(commitments: Iterable[Row], tickets: Iterable[Row]) -> list[dict[str, Any]]:
    """Return what is promised and not kept yet, then what resolved tickets noted, the newest first, each once."""
    found: dict[str, dict[str, Any]] = {}
    for row in commitments:
        due = row.get("due_at")
        found.setdefault(_short(row["text"]), {"text": _short(row["text"]), "open": True, "overdue": bool(row.get("overdue")),
                                               "due": due.date().isoformat() if due else None,
                                               "rows": [f"desk.commitments {row['id']}"]})
    for ticket in tickets:
        if ticket.get("promise"):
            text = _short(ticket["promise"])
            found.setdefault(text, {"text": text, "open": False, "overdue": False, "due": None, "rows": []})
            found[text]["rows"].append(f"biz.tickets {ticket['id']}")
    return list(found.values())[:PROMISES]


def _wishes(tickets: Iterable[Row], lang: str) -> list[dict[str, Any]]:
    wished: dict[str, list[str]] = {}
    for ticket in tickets:
        if ticket.get("wish"):
            wished.setdefault(_short(ticket["wish"]), []).append(f"biz.tickets {ticket['id']}")
    return [{"wish": wish, "text": wish_text(wish, lang), "rows": rows} for wish, rows in wished.items()]


def _bank(row: Row, today: date) -> dict[str, Any] | None:
    """Return a connection whose authorisation has ended or ends soon.

    The day, not how many are left: so the text stays true, and a countdown does not cost a call a day.
    """
    ends: date = row["expires_at"]
    if row["status"] == "expired" or ends < today:
        state = "expired"
    elif ends <= today + timedelta(days=EXPIRES_SOON_DAYS):
        state = "expires"
    else:
        return None
    return {"id": row["id"], "bank": row["bank"], "state": state, "on": ends.isoformat()}


def _short(text: object) -> str:
    """Return a noted text on one line; what is too long for a profile is left out as a whole by whoever words it."""
    return " ".join(str(text).split()).rstrip("。.")


# corrections ------------------------------------------------------------------------------------------

def _current(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the newest subscription that is not cancelled, {} without one."""
    return next((s for s in facts["subscriptions"] if s["status"] != "cancelled"), {})


def _set(facts: dict[str, Any], row: Row) -> None:
    target, value, source = row["target"], row["value"], f"biz.profile_overrides {row['id']}"
    if target == "is_vip":
        facts["customer"] |= {"is_vip": value == "true", "rows": [source]}
    elif target in ("plan", "billing_cycle"):
        current = _current(facts)
        if not current and target == "plan":
            current = {"id": None, "plan": value, "billing_cycle": "", "status": "active"}
            facts["subscriptions"].insert(0, current)
        if current:
            current |= {target: value, "rows": [*current.get("rows", []), source]}
    elif target == "wish":
        known = [wish for wish in facts["wishes"] if wish["wish"] != value]
        facts["wishes"] = [{"wish": value, "text": wish_text(value, facts["customer"]["locale"]), "rows": [source]}, *known]
    else:
        _set_times(facts, target, int(value), source)


def _set_times(facts: dict[str, Any], code: str, times: int, source: str) -> None:
    """Say how often a problem came; in which months is not known any more."""
    before = next((p for p in facts["problems"] if p["error_code"] == code), None)
    problem = {"resolutions": [], "open_ended": 0, "articles": [], "tickets": [], **copy.deepcopy(before or {}),
               "error_code": code, "times": times, "rows": [source]}
    if before is None or before["times"] != times:
        problem["months"] = []
    others = [p for p in facts["problems"] if p["error_code"] != code]
    facts["problems"] = sorted([*([problem] if times else []), *others], key=lambda p: -p["times"])


def _hide(facts: dict[str, Any], target: str) -> None:
    lists = {"wish": "wishes", "promise": "promises", "bank": "bank_connections", "topics": "topics"}
    if target == "is_vip":
        facts["customer"]["is_vip"] = None
    elif target in ("plan", "billing_cycle"):
        for subscription in facts["subscriptions"]:
            subscription[target] = None
    elif target in lists:
        facts[lists[target]] = []
    elif is_code(target):
        facts["problems"] = [p for p in facts["problems"] if p["error_code"] != target]
