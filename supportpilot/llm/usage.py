"""Tokens and money of model calls. Without one place for it, two cost boards would show two truths."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from supportpilot.config import DEFAULT_PRICES, Settings
from supportpilot.llm.sealing import SECTION, sections
from supportpilot.types import LLMCall

MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class Tokens:
    """Tokens of one call as the provider counted them; `cached` is part of `sent`."""

    sent: int
    received: int
    cached: int = 0


def estimate(text: str) -> int:
    """Estimate a text's tokens: for shares of a prompt and calls without usage, never where the provider counted."""
    cjk = sum(1 for ch in text if "\u3400" <= ch <= "\u9fff")
    return int(cjk * 0.7 + (len(text) - cjk) / 4) + 1 if text else 0


def parts_of(messages: Sequence[dict[str, Any]], options: Mapping[str, Any] | None = None) -> dict[str, int]:
    """Return the estimated tokens of a request by what they came from.

    That is the names of the prompt's sections, `instructions` (system message, answer schema), `tools` (the tools on
    offer, calls and results) and `other`.
    """
    parts: dict[str, int] = defaultdict(int)
    for message in messages:
        content = str(message.get("content") or "")
        if message.get("role") == "user":
            for name, text in sections(content):
                parts[name] += estimate(text)
            parts["other"] += estimate(SECTION.sub("", content).strip())
        else:
            parts[_part_of(message)] += estimate(content + _as_text(message.get("tool_calls")))
    for option, name in (("tools", "tools"), ("response_format", "instructions")):
        parts[name] += estimate(_as_text((options or {}).get(option)))
    return {name: count for name, count in parts.items() if count}


def apportion(weights: Mapping[str, int | Decimal], total: int) -> dict[str, int]:
    """Share `total` out by the weights in whole units, so that nothing is lost: the shares sum to `total`."""
    whole = sum((Fraction(weight) for weight in weights.values()), Fraction(0))
    if not whole:
        return {"other": total} if total else {}
    exact = {name: Fraction(weight) * total / whole for name, weight in weights.items()}
    shares = {name: int(share) for name, share in exact.items()}
    by_rest = sorted(exact, key=lambda name: exact[name] - shares[name], reverse=True)
    for name in by_rest[:total - sum(shares.values())]:
        shares[name] += 1
    return shares


def cost_of(settings: Settings, model: str, tokens: Tokens) -> Decimal:
    """Return what a call costs in CNY by the configured prices; an unlisted model costs `default`."""
    prices = settings.llm_prices
    fallback = DEFAULT_PRICES["default"]
    sent, cached, received = prices.get(model) or prices.get("default") or tuple(Decimal(p) for p in fallback)
    fresh = max(0, tokens.sent - tokens.cached)
    return (fresh * sent + tokens.cached * cached + tokens.received * received) / MILLION


class Ledger:
    """What one client has spent in this process; safe with threads. For people: the truth is `desk.llm_calls`."""

    def __init__(self) -> None:
        self.calls = 0
        self._lock = threading.Lock()
        self._by_model: dict[str, Tokens] = {}

    def add(self, call: LLMCall) -> None:
        """Count one paid call."""
        with self._lock:
            self.calls += 1
            have = self._by_model.get(call.model, Tokens(0, 0, 0))
            self._by_model[call.model] = Tokens(
                have.sent + call.tokens_in, have.received + call.tokens_out, have.cached + call.tokens_cached
            )

    def cost_cny(self, settings: Settings) -> float:
        """Return the sum in CNY by the prices of `settings`."""
        with self._lock:
            return float(sum((cost_of(settings, model, t) for model, t in self._by_model.items()), Decimal(0)))


def _part_of(message: Mapping[str, Any]) -> str:
    if message.get("role") == "system":
        return "instructions"
    return "tools" if message.get("role") == "tool" or message.get("tool_calls") else "other"


def _as_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if value else ""
