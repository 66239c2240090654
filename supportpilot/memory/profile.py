"""The third memory: one short note per customer that outlives every ticket.

Built from typed rows only, so what a customer writes in a message has no way in; built again only when one of
those rows changed, so reading it is free.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from supportpilot.db import profiles
from supportpilot.db.pool import Connection
from supportpilot.memory.ports import ChatModel
from supportpilot.prompts.loader import fence, prompt

PROFILE_CHARS = {"zh": 100, "en": 300}
PROFILE_CHARS_STORED = 300
PAST_TICKETS = 10


def get_or_build_profile(conn: Connection, llm: ChatModel, customer_id: str) -> str:
    """Return the stored profile, or build and store a new one if the rows it stands on have changed.

    The count of resolved tickets alone would miss an upgrade or a VIP flag, so a fingerprint of all inputs is
    compared too. A model that says nothing leaves what was there.

    Raises:
        NotFound: there is no such customer.
        Transient: the model or the database is away.
    """
    facts = profiles.facts(conn, customer_id, PAST_TICKETS)
    count = profiles.resolved_count(conn, customer_id)
    mark = fingerprint(facts)
    stored = profiles.get(conn, customer_id)
    if stored and (stored.source_ticket_count, stored.source_fingerprint) == (count, mark):
        return stored.summary
    summary = _worded(llm, facts)
    if not summary:
        return stored.summary if stored else ""
    profiles.put(conn, profiles.Profile(customer_id, summary, count, mark))
    return summary


def fingerprint(facts: dict[str, Any]) -> str:
    """Return a hash that changes when any fact does."""
    return hashlib.sha256(_json(facts, sort_keys=True).encode()).hexdigest()


def _worded(llm: ChatModel, facts: dict[str, Any]) -> str:
    lang = "en" if facts["customer"].get("locale") == "en" else "zh"
    shown = {**facts, "customer": {k: v for k, v in facts["customer"].items() if k != "locale"}}
    answer = llm.chat([
        {"role": "system", "content": prompt("profile", lang, limit=str(PROFILE_CHARS[lang]))},
        {"role": "user", "content": fence("facts", _json(shown, sort_keys=False))},
    ], temperature=0)
    return " ".join(answer.content.split())[:PROFILE_CHARS_STORED]


def _json(facts: dict[str, Any], *, sort_keys: bool) -> str:
    return json.dumps(facts, ensure_ascii=False, sort_keys=sort_keys, default=str)
