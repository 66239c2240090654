"""Who is told: the addresses of NOTIFY_URLS, reached by apprise in a process that cannot hang, log or outlive its time."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from supportpilot.errors import Misconfigured

START_SECONDS = 15.0    # for the process to come up on a busy machine
ROUNDS = 50_000         # an address may hold a weak password, and its hash stands in the database


@dataclass(frozen=True)
class Message:
    """What a target gets; nothing of the customer's but number, amount and age."""

    title: str
    body: str


@dataclass(frozen=True)
class Result:
    """What came of one target: its place in NOTIFY_URLS, from 1; `error` holds no part of its address."""

    number: int
    service: str
    ok: bool
    error: str | None = None
    known: bool = True


def send(urls: Sequence[tuple[int, str]], message: Message, seconds: float) -> Iterator[Result]:
    """Send to all (number, address) side by side; yield each result as it comes, all within `seconds` and a start."""
    yield from _ordered(urls, {"title": message.title, "body": message.body}, seconds)


def check(urls: Sequence[str]) -> list[Result]:
    """Ask apprise whether it knows the targets; sends nothing."""
    found = _ordered(list(enumerate(urls, 1)), {"title": None, "body": None}, START_SECONDS)
    return sorted(found, key=lambda result: result.number)


def require_known(urls: Sequence[str]) -> None:
    """Raise Misconfigured if apprise does not know one of the targets; the text shows no more of it than its scheme."""
    for result in check(urls) if urls else []:
        if not result.known:
            scheme = urls[result.number - 1].partition("://")[0]
            raise Misconfigured(f"NOTIFY_URLS: number {result.number} ({scheme}://) is {result.error}, or it lacks a part")


@lru_cache(maxsize=256)
def name_of(key: bytes, url: str) -> str:
    """Return the name under which a target's state is kept: it stays when the order changes, and gives nothing away."""
    return hashlib.pbkdf2_hmac("sha256", url.encode(), key, ROUNDS).hex()[:24]


def _ordered(urls: Sequence[tuple[int, str]], order: dict[str, str | None], seconds: float) -> Iterator[Result]:
    """Run the process. A target that it says nothing about was not reached in time."""
    missing = dict(urls)
    command = [sys.executable, "-P", "-m", "supportpilot.notify.child"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        guard = threading.Timer(seconds + START_SECONDS, child.kill)
        guard.daemon = True
        guard.start()
        try:
            assert child.stdin is not None  # noqa: S101 -- asked for above
            assert child.stdout is not None  # noqa: S101
            with child.stdin as told:       # not in the arguments or the environment: others can read those
                told.write(json.dumps({**order, "seconds": seconds, "urls": list(missing.items())}).encode())
            for line in child.stdout:
                result = Result(**json.loads(line))
                missing.pop(result.number, None)
                yield result
        except BrokenPipeError:
            pass    # it died before it had read: nobody was reached
        finally:
            guard.cancel()
            child.kill()
    for number, url in missing.items():
        yield Result(number, url.partition("://")[0], ok=False, error=f"no answer within {seconds:g} s")
