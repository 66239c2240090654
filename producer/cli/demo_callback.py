"""The helpdesk's side of the demo: a small server that takes the signed replies and believes only good signatures."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import override

from producer.signatures import Unsigned, verify

HOST = "127.0.0.1"
MAX_BYTES = 1_000_000


class Callback:
    """Collects replies; use it as a context manager."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._changed = threading.Condition()
        self._received: dict[str, dict[str, Any]] = {}
        self.refused = 0
        self._server = ThreadingHTTPServer((HOST, 0), _handler(self._take))
        self._thread = threading.Thread(target=self._server.serve_forever, name="demo-callback", daemon=True)

    @property
    def url(self) -> str:
        """Where replies are to be posted."""
        return f"http://{HOST}:{self._server.server_address[1]}/replies"

    def __enter__(self) -> Callback:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def _take(self, headers: dict[str, str], body: bytes) -> int:
        """Keep a reply under its `webhook-id`: the same id again is the same reply."""
        now = datetime.now(UTC)  # noqa: TID251 -- a receiver judges a signature by its own clock
        try:
            key = verify(headers, body, [self._secret], now)
        except Unsigned:
            self.refused += 1
            return 401
        with self._changed:
            self._received.setdefault(key, json.loads(body))
            self._changed.notify_all()
        return 204

    def received(self, ticket_id: str, *kinds: str) -> list[dict[str, Any]]:
        """Return what came for a ticket, in order; `kinds` narrow it down."""
        with self._changed:
            return [r for r in self._received.values() if r["ticket_id"] == ticket_id and (not kinds or r["kind"] in kinds)]

    def wait(self, ticket_id: str, kind: str, count: int, timeout: float) -> dict[str, Any] | None:
        """Return the `count`-th reply of that kind for a ticket, None if it does not come in time."""
        deadline = time.monotonic() + timeout
        while True:
            found = self.received(ticket_id, kind)
            if len(found) >= count:
                return found[count - 1]
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            with self._changed:
                self._changed.wait(min(left, 0.2))


def _handler(take: Callable[[dict[str, str], bytes], int]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = min(int(self.headers.get("content-length") or 0), MAX_BYTES)
            status = take({k.lower(): v for k, v in self.headers.items()}, self.rfile.read(length))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        @override
        def log_message(self, *_: object) -> None:
            """Stay silent; the demo tells what came."""
    return Handler
