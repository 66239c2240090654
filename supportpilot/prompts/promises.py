"""What our own fixed texts promise. Pure.

The notice of a refund that waits promises a result as well, but that is the open approval itself, which has a list
and an end of its own; what an approved refund promises is paid in the same step.
"""

from __future__ import annotations

from supportpilot.types import Commitment

HANDED_OVER = ("请留意后续回复", "Please watch for their reply")


def handed_over(notice: str) -> tuple[Commitment, ...]:
    """Return what a handoff notice promises: that a colleague will answer, by no time."""
    return tuple(Commitment(words) for words in HANDED_OVER if words in notice)
