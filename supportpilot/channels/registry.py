"""The way of each helpdesk's replies: the only place that knows them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from supportpilot.channels import chatwoot, freshdesk, intercom, zammad, zendesk
from supportpilot.config import Settings
from supportpilot.db.outbox import OutboxRow
from supportpilot.desk.outbox import SendResult

SENDERS: Final[dict[str, Callable[[Settings, OutboxRow, int], SendResult]]] = {
    chatwoot.CHANNEL: chatwoot.deliver,
    zendesk.CHANNEL: zendesk.deliver,
    freshdesk.CHANNEL: freshdesk.deliver,
    intercom.CHANNEL: intercom.deliver,
    zammad.CHANNEL: zammad.deliver,
}
