"""Which conversation a mail belongs to, and what its sender may do there: the rules alone, without the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Standing = Literal["append", "participant", "refuse"]


@dataclass(frozen=True)
class Keys:
    """What a mail says about the mail before it, strongest first.

    Args:
        token_ticket: ticket of a signed reply address; checked, so its bearer has a mail of ours.
        references: ids from In-Reply-To, then References newest first.
        body_ticket: ticket of the signed marker in a body of ours that is quoted.
        subject_ticket: ticket named in the subject; a hint.
    """

    token_ticket: str | None = None
    references: tuple[str, ...] = ()
    body_ticket: str | None = None
    subject_ticket: str | None = None


@dataclass(frozen=True)
class Claim:
    """A mail that threads to a ticket, and what is known about its sender.

    Args:
        verified: our own mail server vouches for the sender's address.
        is_contact: the sender is the address the ticket belongs to.
        is_listed: the ticket's verified customer named the sender in To or Cc.
        ticket_verified: the ticket belongs to a customer; else nothing in it depends on who writes.
        has_token: the mail carries the ticket's signed token.
    """

    verified: bool
    is_contact: bool
    is_listed: bool
    ticket_verified: bool
    has_token: bool


def standing(claim: Claim) -> Standing:
    """Return what the sender may do: go on with the ticket, be shown as unverified, or nothing.

    A ticket without a customer behind it holds no history and no account, so its own address may go on unverified.
    """
    known = claim.is_contact or claim.is_listed
    if claim.verified and known:
        return "append"
    if claim.is_contact and not claim.ticket_verified:
        return "append"
    return "participant" if claim.has_token else "refuse"
