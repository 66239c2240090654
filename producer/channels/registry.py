"""Every door for messages that `POST /webhooks/{channel}` knows."""

from __future__ import annotations

from typing import Final

from producer.channels import chatwoot, email, freshdesk, generic, intercom, zammad, zendesk
from producer.channels.port import Channel, RawChannel
from producer.signatures import verify

CHANNELS: Final[dict[str, Channel | RawChannel]] = {
    generic.CHANNEL: Channel(verify, generic.parse, generic.sender_of, standard=True),
    "chatwoot": Channel(chatwoot.verify, chatwoot.parse, chatwoot.sender_of),
    "zendesk": Channel(zendesk.verify, zendesk.parse, zendesk.sender_of),
    "freshdesk": Channel(freshdesk.verify, freshdesk.parse, freshdesk.sender_of),
    "intercom": Channel(intercom.verify, intercom.parse, intercom.sender_of),
    "zammad": Channel(zammad.verify, zammad.parse, zammad.sender_of),
    email.CHANNEL: RawChannel(verify, email.receive, lambda settings: settings.mail_max_bytes),
}
STANDARD: Final = tuple(name for name, channel in CHANNELS.items() if channel.standard)
