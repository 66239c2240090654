"""Queue names and the route of every task name: the only place.

A task without a route would land in a queue that nobody reads, and wait there for ever.
"""

from __future__ import annotations

from typing import Final

APPROVALS: Final = "approvals"     # main worker, served first
TICKETS: Final = "tickets"         # main worker
DELIVERY: Final = "delivery"       # main worker
BACKGROUND: Final = "background"   # a process of its own, few slots
DESK: Final = "desk"               # a process of its own with one slot, so that the sweeper waits behind nothing

QUEUES: Final = (APPROVALS, TICKETS, DELIVERY, BACKGROUND, DESK)

ROUTES: Final[dict[str, str]] = {
    "ticket.resume": APPROVALS,
    "ticket.handle_message": TICKETS,
    "reply.deliver": DELIVERY,
    "mail.file": TICKETS,
    "mail.poll": BACKGROUND,
    "kb.embed": BACKGROUND,
    "channel.reconcile": BACKGROUND,
    "memory.compress": BACKGROUND,
    "memory.rebuild_profile": BACKGROUND,
    "memory.prune": BACKGROUND,
    "memory.retain": BACKGROUND,
    "memory.sweep_profiles": BACKGROUND,
    "privacy.erase_customer": BACKGROUND,
    "approval.notify": BACKGROUND,      # a chat service that hangs must not cost a customer a slot
    "ticket.notify": BACKGROUND,
    "desk.sweep": DESK,
    "desk.expire_approvals": DESK,
    "desk.settle": DESK,
    "desk.overdue": DESK,
}
