"""Sends one text to several targets, in a process of its own: `targets.py` starts it, and says what on standard input.

apprise waits for each read and not for the whole answer, takes some refusals for success, and logs addresses that hold
tokens. Here it is ended when its time is up, overheard, and nothing of what it says leaves unmasked.
"""

from __future__ import annotations

import json
import logging
import re
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import requests
from apprise import Apprise, AppriseAsset, NotifyBase, NotifyFormat, PersistentStoreMode
from typing_extensions import override

APP = "SupportPilot"
SHORTEST_SECRET = 4
LONGEST_ERROR = 160
_PIECES, _WORDS = re.compile(r"[/?&=#,;\s]+"), re.compile(r"[^\w.~+-]+")


class Overheard(logging.Handler):
    """Keeps the first complaint of each thread; a target has a thread of its own, known by name: numbers are used again."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: dict[str, str] = {}

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.said.setdefault(record.threadName or "", record.getMessage())


def main() -> None:
    """Carry out the order and print one JSON line for each target as soon as it is done."""
    order = json.load(sys.stdin)
    overheard = Overheard()
    logger = logging.getLogger("apprise")
    logger.handlers[:], logger.propagate = [overheard], False
    logger.setLevel(logging.WARNING)
    refused = _watch_answers()
    _load_plugins()
    signal.setitimer(signal.ITIMER_REAL, order["seconds"])      # its default ends the process, whatever hangs
    printing = threading.Lock()

    def work(number: int, url: str) -> None:
        result = _reach(order, url)
        name = threading.current_thread().name
        why = refused.get(name) or (None if result["ok"] else overheard.said.get(name))
        if why or not result["ok"]:
            result |= {"ok": False, "error": masked(result.get("error") or why or "apprise failed and did not say why", url)}
        with printing:
            print(json.dumps({"number": number, **result}, ensure_ascii=True), flush=True)  # noqa: T201 -- the answer

    threads = [threading.Thread(target=work, args=(number, url), name=f"target {number}", daemon=True) for number, url in order["urls"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _reach(order: dict[str, Any], url: str) -> dict[str, Any]:
    target = _target(url)
    if target is None:
        return {"service": "unknown", "ok": False, "known": False, "error": "no target that apprise knows"}
    found = {"service": str(target.service_name), "known": True}
    if order["body"] is None:
        return {**found, "ok": True}
    try:
        ok = _alone(target).notify(body=order["body"], title=order["title"], body_format=NotifyFormat.TEXT)
    except Exception as error:  # noqa: BLE001 -- one target's plugin must not end the others; its text may hold a token
        return {**found, "ok": False, "error": f"apprise broke off: {type(error).__name__}"}
    return {**found, "ok": bool(ok)}


def _target(url: str) -> NotifyBase | None:
    # Without a time-out of its own apprise stays in the calling thread, by which its words are told apart.
    asset = AppriseAsset(
        app_id=APP, app_desc=APP, app_url="", image_url_mask="", image_url_logo="", async_mode=False, service_timeout=0, http_redirects=False,
        storage_mode=PersistentStoreMode.MEMORY, pgp_autogen=False, pem_autogen=False)
    found = Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    return found if isinstance(found, NotifyBase) else None


def _alone(target: NotifyBase) -> Apprise:
    apprise = Apprise(asset=target.asset)
    apprise.add(target)
    return apprise


def _load_plugins() -> None:
    _target("json://127.0.0.1/")


def _watch_answers() -> dict[str, str]:
    """Look at every HTTP answer, by thread's name: DingTalk and WeCom refuse with 200 and an `errcode`, which apprise overlooks."""
    refused: dict[str, str] = {}
    stock = requests.Session.send

    def send(self: requests.Session, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # noqa: ANN401
        answer = stock(self, request, **options)
        why = refusal(answer)
        if why:
            refused[threading.current_thread().name] = why
        return answer

    requests.Session.send = send  # type: ignore[method-assign] # this process does nothing else
    return refused


def refusal(answer: requests.Response) -> str | None:
    """Return why a service refused in an answer that looks like success."""
    try:
        body = answer.json() if answer.ok else None
    except ValueError:
        return None
    if not isinstance(body, dict) or not body.get("errcode"):
        return None
    return f"refused: errcode {body['errcode']} {body.get('errmsg', '')}"


def masked(text: str, url: str) -> str:
    """Return the text on one line without any part of the target's address."""
    for part in sorted(set(_parts(url)), key=len, reverse=True):
        text = text.replace(part, "***")
    return " ".join(text.split())[:LONGEST_ERROR]


def _parts(url: str) -> Iterator[str]:
    _, _, rest = url.partition("://")
    for form in (rest, unquote(rest)):
        yield from (word for word in [form, *_PIECES.split(form), *_WORDS.split(form)] if len(word) >= SHORTEST_SECRET)
    try:
        password = unquote(urlsplit(url).password or "")
    except ValueError:
        password = ""
    if len(password) >= SHORTEST_SECRET:
        yield password


if __name__ == "__main__":
    main()
