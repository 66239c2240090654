"""The offline rule model over HTTP: the OpenAI protocol, answered by rules. It is not an LLM and says so.

    python -m supportpilot.llm.offline.server --port 8100

Side doors for tests: `POST /_control` orders faults for the next requests, `GET /_requests` shows what was asked.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from typing_extensions import override

from supportpilot.llm.offline import rules, wire
from supportpilot.llm.offline.faults import ADVERSARIAL_TEXT, Control, Fault

LONGEST_BODY_BYTES = 8_000_000
HOLD_SECONDS = 300.0
DONE = b"data: [DONE]\n\n"


class OfflineServer(ThreadingHTTPServer):
    """Threads per connection; knows its open connections, so that `stop` leaves none behind."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int = 0, host: str = "127.0.0.1") -> None:
        super().__init__((host, port), Handler)
        self.control = Control()
        self.stopping = threading.Event()
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()

    @property
    def url(self) -> str:
        """The base URL for `OPENAI_BASE_URL`."""
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}/v1"

    def stop(self) -> None:
        """Stop serving and cut what is still open."""
        self.stopping.set()
        self.control.order({"reset": True})
        self.shutdown()
        with self._open_lock:
            for connection in self._open:
                _cut(connection)
        self.server_close()

    @override
    def process_request_thread(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(request)
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._open_lock:
                self._open.discard(request)

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # a client that hangs up is no news
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: OfflineServer

    def do_GET(self) -> None:
        """Serve the lists."""
        path = urlsplit(self.path).path
        if path == "/v1/models":
            self._send(200, wire.models())
        elif path == "/_requests":
            self._send(200, {"requests": self.server.control.requests()})
        elif path == "/":
            self._send(200, {"name": wire.LABEL})
        else:
            self._not_found(path)

    def do_POST(self) -> None:
        """Serve the questions."""
        routes: dict[str, Callable[[Any], None]] = {
            "/v1/chat/completions": self._chat,
            "/v1/embeddings": self._embed,
            "/_control": lambda body: self._send(200, self.server.control.order(body)),
        }
        path = urlsplit(self.path).path
        try:
            body = self._body()
            if path in routes:
                routes[path](body)
            else:
                self._not_found(path)
        except wire.BadRequest as error:
            self._send(400, wire.error_body(str(error), param=error.param))
        except (ValueError, TypeError, AttributeError) as error:
            self._send(400, wire.error_body(f"the request is malformed: {error}"))

    def _chat(self, body: Any) -> None:  # noqa: ANN401 -- checked first thing
        request = wire.check_chat(body)
        messages = wire.plain_messages(request["messages"])
        task = rules.task_of(messages)
        self.server.control.record(task, request)
        fault = self.server.control.take(task)
        if fault.latency_ms:
            self.server.control.pause(fault.latency_ms / 1000)
        if fault.error == "no_json_schema" and (request.get("response_format") or {}).get("type") == "json_schema":
            raise wire.BadRequest("this response_format type is not available (ordered)", "response_format")
        if not self._failed(fault):
            answer = _spoiled(rules.answer(messages, request.get("tools"), request.get("response_format")), fault)
            self._answer(request, messages, answer, fault)

    def _embed(self, body: Any) -> None:  # noqa: ANN401 -- checked first thing
        answer = wire.embeddings(body)
        self.server.control.record("embed", body)
        fault = self.server.control.take("embed")
        if fault.latency_ms:
            self.server.control.pause(fault.latency_ms / 1000)
        if not self._failed(fault):
            self._send(200, answer)

    def _failed(self, fault: Fault) -> bool:
        if fault.error == "429":
            body = wire.error_body("rate limit reached (ordered)", "rate_limit_error", code="rate_limit_exceeded")
            self._send(429, body, {"Retry-After": "0"})
        elif fault.error == "500":
            self._send(500, wire.error_body("internal error (ordered)", "server_error"))
        elif fault.error == "timeout":
            self.server.stopping.wait(HOLD_SECONDS)
            self.close_connection = True
        else:
            return False
        return True

    def _answer(self, request: dict[str, Any], messages: list[dict[str, Any]], answer: rules.Answer, fault: Fault) -> None:
        usage = wire.usage_of(messages, answer, fault.usage_multiplier)
        if request.get("stream"):
            self._stream(list(wire.chunks(request, answer, usage)), fault)
        else:
            self._send(200, wire.completion(request, answer, usage), cut=fault.error == "cut")

    def _stream(self, chunks: list[dict[str, Any]], fault: Fault) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        keep = len(chunks) // 2 if fault.error == "cut" else len(chunks)
        for chunk in chunks[:keep]:
            self._write_chunk(b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n")
            if fault.token_ms:
                time.sleep(fault.token_ms / 1000)
        if fault.error == "cut":
            self._hang_up()
            return
        self._write_chunk(DONE)
        self.wfile.write(b"0\r\n\r\n")

    def _write_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _body(self) -> Any:  # noqa: ANN401 -- any JSON
        try:
            length = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            raise wire.BadRequest("Content-Length is no number") from None
        if length > LONGEST_BODY_BYTES:
            self.close_connection = True
            raise wire.BadRequest("the body is too large")
        return json.loads(self.rfile.read(length) or b"null")

    def _send(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None, *, cut: bool = False) -> None:
        data = json.dumps(body, ensure_ascii=False).encode("utf-8", "backslashreplace")
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if cut else data)
        if cut:
            self._hang_up()

    def _hang_up(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        _cut(self.connection)

    def _not_found(self, path: str) -> None:
        self._send(404, wire.error_body(f"unknown path {path}", code="not_found"))

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent: the supervisor's log is for people."""


def serve_in_thread(port: int = 0) -> tuple[str, Callable[[], None]]:
    """Serve from a thread of this process; return the base URL and what stops it."""
    server = OfflineServer(port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="offline-model", daemon=True)
    thread.start()

    def stop() -> None:
        server.stop()
        thread.join(timeout=5)

    return server.url, stop


def main(argv: list[str] | None = None) -> int:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m supportpilot.llm.offline.server", description=wire.LABEL)
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0: any free one")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    given = parser.parse_args(argv)
    server = OfflineServer(given.port, given.host)
    sys.stdout.write(f"listening on {server.url}\n")
    sys.stdout.flush()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    finally:
        server.server_close()
    return 0


def _spoiled(answer: rules.Answer, fault: Fault) -> rules.Answer:
    if fault.error == "malformed_json":
        return rules.Answer('{"category": "techni')
    if fault.error == "adversarial_summary":
        return rules.Answer(ADVERSARIAL_TEXT)
    return answer


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was closed already


if __name__ == "__main__":
    raise SystemExit(main())
