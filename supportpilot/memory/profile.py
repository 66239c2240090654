"""The third memory: one short note per customer that outlives every ticket.

Built from typed rows only, so what a customer writes in a message has no way in; built again only when one of
those rows changed, so reading it is free.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from typing import Any

from supportpilot.db import profiles
from supportpilot.db.pool import Connection
from supportpilot.db.profiles import Profile
from supportpilot.memory.ports import ChatModel
from supportpilot.memory.profile_rule import PROFILE_CHARS, language, problems, template
from supportpilot.prompts.loader import fence, prompt

__all__ = ["Sources", "fingerprint", "get_or_build_profile", "sources", "template", "worded"]

log = logging.getLogger(__name__)

PAST_TICKETS = 10
ATTEMPTS = 2
REPAIR = "[repair] This profile cannot be stored: {reasons}. Write it again from what facts holds."


@dataclass(frozen=True)
class Sources:
    """The rows that a profile is made from, their mark, and the profile that is stored."""

    customer_id: str
    facts: dict[str, Any]
    ticket_count: int
    fingerprint: str
    stored: Profile | None

    @property
    def fresh(self) -> bool:
        """Whether the stored profile was made from these very rows."""
        return self.stored is not None and self.mark == (
            self.stored.source_ticket_count, self.stored.source_fingerprint)

    @property
    def mark(self) -> tuple[int, str]:
        """What a profile is stored with: the count alone would miss an upgrade or a VIP flag."""
        return self.ticket_count, self.fingerprint

    def profile(self, summary: str) -> Profile:
        """Return the profile to store."""
        return Profile(self.customer_id, summary, self.ticket_count, self.fingerprint)


def sources(conn: Connection, customer_id: str) -> Sources:
    """Read what a customer's profile is made from.

    Raises:
        NotFound: there is no such customer.
    """
    facts = profiles.facts(conn, customer_id, PAST_TICKETS)
    return Sources(customer_id, facts, profiles.resolved_count(conn, customer_id), fingerprint(facts),
                   profiles.get(conn, customer_id))


def get_or_build_profile(conn: Connection, llm: ChatModel, customer_id: str) -> str:
    """Return the stored profile, or build and store a new one if the rows it stands on have changed.

    One call of the model if its first answer passes the check. Turns do not wait for it: they read the stored
    profile, or the template's (`agent/deps.py`), and `service/memory.py` rebuilds in the background.

    Raises:
        NotFound: there is no such customer.
        Transient: the model or the database is away.
    """
    read = sources(conn, customer_id)
    if read.stored and read.fresh:
        return read.stored.summary
    summary = worded(llm, read.facts)
    profiles.put(conn, read.profile(summary))
    return summary


def fingerprint(facts: dict[str, Any]) -> str:
    """Return a hash that changes when any fact does."""
    return hashlib.sha256(_json(facts, sort_keys=True).encode()).hexdigest()


def worded(llm: ChatModel, facts: dict[str, Any]) -> str:
    """Return a profile in the model's words, checked against the facts; refused twice, the template's.

    Raises:
        Transient: the model is away.
    """
    lang = language(facts)
    shown = {**facts, "customer": {k: v for k, v in facts["customer"].items() if k != "locale"}}
    messages = [
        {"role": "system", "content": prompt("profile", lang, limit=str(PROFILE_CHARS[lang]))},
        {"role": "user", "content": fence("facts", _json(shown, sort_keys=False))},
    ]
    for _ in range(ATTEMPTS):
        answer = " ".join(llm.chat(messages, temperature=0).content.split())
        found = problems(answer, facts)
        if not found:
            return answer
        log.warning("refused a profile of the model: %s", "; ".join(found))
        messages = [*messages, {"role": "assistant", "content": answer or "-"},
                    {"role": "user", "content": REPAIR.format(reasons="; ".join(found))}]
    return template(facts)


def _json(facts: dict[str, Any], *, sort_keys: bool) -> str:
    return json.dumps(facts, ensure_ascii=False, sort_keys=sort_keys, default=str)
