"""The receiver of the replies, as good and as bad as receivers are: it fails, hangs, hangs up, and loses its answers."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from chaos.snapshot import Receipt
from producer.signatures import Unsigned, verify

HANG_SECONDS = 3.0      # above the storm's REPLY_TIMEOUT_SECONDS
MISBEHAVIOUR = {"answered 500": 3, "hung beyond the time-out": 1, "hung up unread": 2, "took it, answer lost": 3,
                "took it, answered late": 1}
TAKES = frozenset({"", "took it, answer lost", "took it, answered late"})


class Sink:
    """Collects what arrives; misbehaves in `share` of the requests while `bad` is set."""

    def __init__(self, secret: str, seed: int, share: float = 0.15) -> None:
        self._secret, self._share = secret, share
        self._rng = random.Random(f"sink/{seed}")
        self._lock = threading.Lock()
        self.receipts: list[Receipt] = []
        self.misbehaved: Counter[str] = Counter()
        self.refused = 0
        self.bad = True
        self._server = Server(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/replies"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, headers: dict[str, str], body: bytes) -> str:
        """Record a well signed reply and return how to misbehave, "" for not at all.

        Raises:
            Unsigned: the signature does not fit.
        """
        key = verify(headers, body, [self._secret], datetime.now(UTC))
        given = json.loads(body)
        with self._lock:
            how = ""
            if self.bad and self._rng.random() < self._share:
                how = self._rng.choices(list(MISBEHAVIOUR), list(MISBEHAVIOUR.values()))[0]
                self.misbehaved[how] += 1
            if how in TAKES:
                self.receipts.append(Receipt(key, str(given["ticket_id"]), str(given["body"])))
        return how

    def refuse(self) -> None:
        with self._lock:
            self.refused += 1


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A sender that hangs up is part of the storm."""


def _handler(sink: Sink) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            try:
                how = sink.take({k.lower(): v for k, v in self.headers.items()}, body)
            except Unsigned:
                sink.refuse()
                self._answer(401)
                return
            if how in {"hung beyond the time-out", "took it, answered late"}:
                time.sleep(HANG_SECONDS)
            if how in {"hung up unread", "took it, answer lost", "hung beyond the time-out"}:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
            else:
                self._answer(500 if how == "answered 500" else 204)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Stay silent."""
    return Handler
