"""A request's body, never more of it than was allowed."""

from __future__ import annotations

from fastapi import Request

# What is too large is still read up to here, unkept: a sender that cannot finish writing never sees the 413.
DRAINED_BYTES = 4_194_304


async def read_body(request: Request, limit: int) -> bytes | None:
    """Return the body, or None if it is larger than `limit`; never holds more than that and one chunk."""
    kept, seen = bytearray(), 0
    async for chunk in request.stream():
        seen += len(chunk)
        if seen <= limit:
            kept += chunk
        elif seen > limit + DRAINED_BYTES:
            break
    return bytes(kept) if seen <= limit else None
