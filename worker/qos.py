"""An acknowledgement that Redis did not take in time must not cost the worker a slot for ever.

kombu counts a message as being worked on until its acknowledgement went through. If that times out (Redis frozen for
longer than the socket's time-out) Celery writes "Couldn't ack" and goes on, and nobody takes the message off the
count: a worker with one slot never fetches again. Seen in the storm: the desk worker, so no sweep any more.
Here it is off the count either way; Redis delivers it once more after the visibility time-out, which does no harm.
"""

from __future__ import annotations

from celery.signals import worker_init
from kombu.transport import redis, virtual


class FreeingQoS(redis.QoS):  # type: ignore[misc] # kombu has no types
    """The stock count of unacknowledged messages, without those whose acknowledgement failed."""

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge; the slot is free even if Redis does not answer."""
        try:
            super().ack(delivery_tag)
        except Exception:
            virtual.QoS.ack(self, delivery_tag)
            raise


@worker_init.connect  # type: ignore[untyped-decorator] # celery has no types
def install(**_: object) -> None:
    """Let every channel to Redis that this process opens count so."""
    redis.Channel.QoS = FreeingQoS
