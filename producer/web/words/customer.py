"""Words of the customer's own page."""

from __future__ import annotations

WORDS: dict[str, tuple[str, str]] = {
}
