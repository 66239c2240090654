"""Words of the pages of tickets and customers."""

from __future__ import annotations

WORDS: dict[str, tuple[str, str]] = {
}
