"""The third memory: one short note per customer that outlives every ticket.

Built from typed rows only, so what a customer writes in a message has no way in; built again only when one of
those rows changed, so reading it is free. Nothing is ever decided by it: what a customer may do is read from the rows.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from supportpilot.db import profiles
from supportpilot.db.pool import Connection
from supportpilot.db.profiles import Profile, Rows
from supportpilot.errors import NotFound
from supportpilot.memory.ports import ChatModel
from supportpilot.memory.profile_facts import Given, assemble
from supportpilot.memory.profile_rule import (
    PROFILE_CHARS,
    Sentence,
    by_rule,
    fitted,
    joined,
    language,
    notes_of,
    refused,
    template,
)
from supportpilot.prompts.loader import fence, prompt

__all__ = ["Sources", "Worded", "fingerprint", "get_or_build_profile", "given_of", "sources", "sources_of", "template", "worded"]

log = logging.getLogger(__name__)

ATTEMPTS = 2
REPAIR = "[repair] This profile cannot be stored: {reasons}. Write it again from what facts holds."
UNSEEN = frozenset({"id", "rows", "tickets", "notes", "corrections", "locale"})      # no use for wording


@dataclass(frozen=True)
class Sources:
    """The facts that a profile is made from, their mark, and the profile that is stored.

    given: the rows themselves, before corrections. plans: the names of all plans of the house.
    """

    customer_id: str
    facts: dict[str, Any]
    ticket_count: int
    fingerprint: str
    stored: Profile | None
    given: Given
    today: date
    plans: Sequence[str] = ()

    @property
    def fresh(self) -> bool:
        """Whether the stored profile was made from these very rows."""
        return self.stored is not None and self.mark == (
            self.stored.source_ticket_count, self.stored.source_fingerprint)

    @property
    def mark(self) -> tuple[int, str]:
        """What a profile is stored with: the count alone would miss an upgrade or a VIP flag."""
        return self.ticket_count, self.fingerprint

    def profile(self, worded: Worded) -> Profile:
        """Return the profile to store."""
        return Profile(self.customer_id, joined(worded.sentences, language(self.facts)), self.ticket_count, self.fingerprint,
                       [{"text": s.text, "rows": s.rows} for s in worded.sentences], worded.made_by, worded.refused)


@dataclass(frozen=True)
class Worded:
    """The sentences of a profile, who made them, and why a model's were refused."""

    sentences: list[Sentence]
    made_by: Literal["model", "rule"]
    refused: list[str]


def sources(conn: Connection, customer_id: str) -> Sources:
    """Read what a customer's profile is made from.

    Raises:
        NotFound: there is no such customer.
    """
    found = sources_of(conn, [customer_id])
    if not found:
        raise NotFound(f"no customer {customer_id}")
    return found[0]


def sources_of(conn: Connection, customer_ids: Sequence[str]) -> list[Sources]:
    """Read the same for many customers in a fixed number of statements; an unknown id is left out."""
    today, plans = profiles.today(conn), profiles.plans(conn)
    stored = profiles.get_all(conn, customer_ids)
    found = []
    for customer_id, rows in profiles.rows_of(conn, customer_ids).items():
        given = given_of(rows)
        facts = assemble(given, today)
        found.append(Sources(customer_id, facts, len(rows.tickets), fingerprint(facts), stored.get(customer_id), given,
                             today, plans))
    return found


def given_of(rows: Rows) -> Given:
    """Return the rows in the form that the pure rules take."""
    return Given(rows.customer, rows.subscriptions, rows.tickets, rows.bank_connections, rows.commitments, rows.overrides)


def get_or_build_profile(conn: Connection, llm: ChatModel, customer_id: str) -> str:
    """Return the stored profile, or build and store a new one if the rows it stands on have changed.

    One call of the model if its first answer passes the check. Turns do not wait for it: they read the stored
    profile, or the template's (`agent/deps.py`), and `service/profile.py` rebuilds in the background.

    Raises:
        NotFound: there is no such customer.
        Transient: the model or the database is away.
    """
    read = sources(conn, customer_id)
    if read.stored and read.fresh:
        return read.stored.summary
    profile = read.profile(worded(llm, read.facts, read.plans))
    profiles.put(conn, profile)
    return profile.summary


def fingerprint(facts: Mapping[str, Any]) -> str:
    """Return a hash that changes when any fact does."""
    return hashlib.sha256(_json(facts, sort_keys=True).encode()).hexdigest()


def worded(llm: ChatModel, facts: dict[str, Any], plans: Sequence[str] = ()) -> Worded:
    """Return a profile in the model's words, checked against the facts; refused twice, the template's. Notes come last.

    Raises:
        Transient: the model is away.
    """
    lang, notes = language(facts), notes_of(facts)
    room = PROFILE_CHARS[lang] - sum(len(note.text) + 2 for note in notes)
    messages = [
        {"role": "system", "content": prompt("profile", lang, limit=str(room))},
        {"role": "user", "content": fence("facts", _json(_seen(facts), sort_keys=False))},
    ]
    reasons: list[str] = []
    for _ in range(ATTEMPTS):
        answer = " ".join(llm.chat(messages, temperature=0).content.split())
        sentences = fitted(answer, facts)
        found = refused(sentences, facts, plans)
        if not found:
            return Worded([*sentences, *notes], "model", reasons)
        log.warning("refused a profile of the model for %d reasons; they are kept with the profile", len(found))
        reasons += found
        messages = [*messages, {"role": "assistant", "content": answer or "-"},
                    {"role": "user", "content": REPAIR.format(reasons="; ".join(found))}]
    return Worded(by_rule(facts), "rule", reasons)


def _seen(value: Any) -> Any:  # noqa: ANN401 -- JSON in, JSON out
    """Return what of the facts the model has a use for; what a human noted is not worded anew, so it is not shown."""
    if isinstance(value, Mapping):
        return {name: _seen(inner) for name, inner in value.items() if name not in UNSEEN}
    return [_seen(inner) for inner in value] if isinstance(value, list) else value


def _json(facts: Mapping[str, Any], *, sort_keys: bool) -> str:
    return json.dumps(facts, ensure_ascii=False, sort_keys=sort_keys, default=str)
