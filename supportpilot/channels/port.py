"""What a helpdesk's event means to us, and the way of its replies.

A channel module turns bytes into one of these records and knows nothing of tickets; `service/channels.py` decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from supportpilot.types import InboundMessage

MARKER = "supportpilot"     # the field under which our idempotency key travels, where a helpdesk keeps fields of ours

OWN = "our own message"


@dataclass(frozen=True)
class Ignored:
    """An event that is no message for us; `reason` is counted, so it holds nothing of the customer's."""

    reason: str


@dataclass(frozen=True)
class Heard:
    """A message, and who of the helpdesk's people has the conversation at that moment ("" if nobody)."""

    message: InboundMessage
    held_by: str = ""


@dataclass(frozen=True)
class Moved:
    """The conversation changed hands, or was closed, at the helpdesk.

    `opened`: put among the people's without one of them taking it, which our own handoff does too.
    """

    channel: str
    conversation_id: str
    kind: Literal["taken over", "opened", "given back", "resolved"]
    by: str


Event: TypeAlias = Heard | Moved | Ignored
