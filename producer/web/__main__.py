"""Serve the web application: `python -m producer.web`."""

from __future__ import annotations

import logging
import signal
import socket
import sys
from types import FrameType

import uvicorn
from typing_extensions import override

from producer.web.app import create_app
from producer.web.streams import Streams
from supportpilot.config import Settings, get_settings
from supportpilot.db.pool import Database
from supportpilot.errors import Misconfigured, SupportPilotError
from worker.publish import make_ports

POOL_SIZE = 8
POOL_WAIT_SECONDS = 2.0     # then 503: some senders give up after 3 s
DRAIN_SECONDS = 10
PORTS_TRIED = 50


def main() -> int:
    """Serve until SIGTERM or SIGINT, finish what is being answered, and return the exit code."""
    try:
        settings = get_settings()
        logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
        serve(settings)
    except Misconfigured as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except SupportPilotError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def serve(settings: Settings) -> None:
    """Open the pool, listen, and say where on standard output.

    Raises:
        Misconfigured: no database is configured, or no port is free.
    """
    if not settings.database_url:
        raise Misconfigured("no database: set DATABASE_URL or start one with `supportpilot up`")
    with Database(settings.database_url, max_size=POOL_SIZE, timeout=POOL_WAIT_SECONDS) as db, listen(settings) as door:
        app = create_app(settings, db, make_ports(settings))
        config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False,
                                timeout_graceful_shutdown=DRAIN_SECONDS, lifespan="off")
        _end_quietly()
        host, port = door.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        sys.stdout.write(f"web listening on http://{shown}:{port}\n")
        sys.stdout.flush()
        _Server(config, app.state.site.streams).run(sockets=[door])


class _Server(uvicorn.Server):
    """Ends the live pages as soon as it has to stop: it would wait for each of them."""

    def __init__(self, config: uvicorn.Config, streams: Streams) -> None:
        super().__init__(config)
        self._streams = streams

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._streams.stop()
        super().handle_exit(sig, frame)


def listen(settings: Settings) -> socket.socket:
    """Return a socket on the configured port, or on the next free one if that is taken.

    Raises:
        Misconfigured: none of the next ports is free, or the address is not this machine's.
    """
    tried = [0] if settings.port == 0 else range(settings.port, min(settings.port + PORTS_TRIED, 65_536))
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    problem = ""
    for port in tried:
        try:
            return socket.create_server((settings.host, port), family=family, backlog=512)
        except OSError as error:
            problem = error.strerror or str(error)
    raise Misconfigured(f"PORT: nothing is free from {settings.port} on {settings.host}: {problem}")


def _end_quietly() -> None:
    """After its graceful stop the server raises the signal again; by then it has been obeyed."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)


if __name__ == "__main__":
    sys.exit(main())
