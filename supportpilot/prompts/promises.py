"""What our own fixed texts promise. Pure.

The notice that a refund is being checked promises a result as well, but that is the open approval itself, which has a
list and an end of its own.
"""

from __future__ import annotations

import re

from supportpilot.types import Commitment

_FIXED = re.compile(
    r"请留意后续回复|Please watch for their reply"                                          # handoff
    r"|金额 [\d.,]+ [A-Z]{3}\uff0c将原路退回|[\d.,]+ [A-Z]{3} goes back the way it was paid"     # an approved refund
)


def fixed_promises(text: str) -> tuple[Commitment, ...]:
    """Return what a handoff notice or the follow-up of a refund promises: a colleague's answer, the money; by no time."""
    return tuple(Commitment(found.group()) for found in _FIXED.finditer(text))
