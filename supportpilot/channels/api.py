"""A helpdesk's API, called with care, and the one procedure by which every helpdesk's reply goes out.

No helpdesk here drops a repeated reply by a key. So whatever may have arrived is looked for before it is sent again,
and each answer is sorted by one question: can it have arrived? The host comes from the configuration alone, ids in
paths are digits, redirects are not followed, an answer is read up to a bound, all within one time-out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from supportpilot.channels.wording import essences_of_reply, same_words
from supportpilot.config import Settings
from supportpilot.db.outbox import OutboxRow
from supportpilot.desk.outbox import SendResult
from supportpilot.errors import Misconfigured, SupportPilotError, Transient, Unusable

MAX_ANSWER_BYTES = 4_194_304
LONGEST_ERROR = 300
# It was not taken, and the same request may be taken later: busy, a lock, a rate, a token that somebody will repair.
LATER = frozenset({401, 402, 403, 408, 409, 423, 425, 429})
GONE = frozenset({404, 410})


class NotSent(Transient):
    """The request did not leave: nothing can have arrived."""


class NoAnswer(Transient):
    """The request may have been taken; its answer is missing."""


class Answered(SupportPilotError):
    """The API answered with an error status."""

    def __init__(self, status: int, what: str) -> None:
        super().__init__(f"HTTP {status} from {what}")
        self.status = status


@dataclass(frozen=True)
class Sent:
    """A message that the helpdesk holds; `ours` says that it came from our own user, where it says so."""

    id: str
    markup: str
    marker: str = ""
    ours: bool = True


@dataclass(frozen=True)
class Api:
    """One helpdesk's API; `base` has no slash at its end."""

    channel: str
    base: str
    headers: Mapping[str, str]
    client: httpx.AsyncClient

    async def call(self, method: str, path: str, *, params: Mapping[str, str] | None = None,
                   body: object = None) -> Any:  # noqa: ANN401 -- whatever it answers
        """Call and return the answer's JSON, None if it is none.

        Raises:
            NotSent, NoAnswer, Answered: see there.
        """
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        headers = {"accept": "application/json", **self.headers, **({"content-type": "application/json"} if content else {})}
        try:
            async with self.client.stream(method, f"{self.base}{path}", params=params, content=content,
                                          headers=headers) as answer:
                if not answer.is_success:
                    raise Answered(answer.status_code, self.channel)
                return await _json(answer)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise NotSent(f"no connection to {self.channel}: {type(error).__name__}") from None
        except httpx.HTTPError as error:
            raise NoAnswer(f"no answer from {self.channel}: {type(error).__name__}") from None


async def _json(answer: httpx.Response) -> Any:  # noqa: ANN401 -- whatever it answers
    read = bytearray()
    async for chunk in answer.aiter_bytes():
        read += chunk
        if len(read) > MAX_ANSWER_BYTES:
            return None
    try:
        return json.loads(read)
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True)
class Desk:
    """How one helpdesk is spoken to.

    Args:
        headers: from its token.
        look: returns what the conversation holds of our side, or of everybody.
        post: sends the reply and returns the new message's id, "" if the answer does not say it.
    """

    channel: str
    headers: Callable[[str], dict[str, str]]
    look: Callable[[Api, Settings, OutboxRow], Awaitable[Iterable[Sent]]]
    post: Callable[[Api, Settings, OutboxRow], Awaitable[str]]


def send(desk: Desk, settings: Settings, row: OutboxRow) -> SendResult:
    """Send one reply within REPLY_TIMEOUT_SECONDS in all, after a look if it may have arrived before."""
    try:
        base, token = settings.helpdesk_api(desk.channel)
    except Misconfigured as error:
        return SendResult("retry", str(error))
    return asyncio.run(_send(desk, settings, row, base.rstrip("/"), desk.headers(token)))


async def _send(desk: Desk, settings: Settings, row: OutboxRow, base: str, headers: dict[str, str]) -> SendResult:
    seconds = settings.reply_timeout_seconds
    try:
        async with asyncio.timeout(seconds), httpx.AsyncClient(timeout=seconds, follow_redirects=False) as client:
            api = Api(desk.channel, base, headers, client)
            if may_be_there(row):
                found = await _find(desk, api, settings, row)
                if isinstance(found, SendResult):
                    return found
            return await _post(desk, api, settings, row)
    except TimeoutError:
        return SendResult("lose", f"no answer from {desk.channel} within {seconds:g} s")


def may_be_there(row: OutboxRow) -> bool:
    """Say whether an earlier attempt of a claimed row may have arrived: its answer is missing, or its deliverer died."""
    return row.unanswered > 0 or row.status in {"unknown", "sending"}


async def _find(desk: Desk, api: Api, settings: Settings, row: OutboxRow) -> SendResult | None:
    """Return how to close the row if it has arrived, or cannot be asked after; None if it has to be sent."""
    try:
        there = await desk.look(api, settings, row)
    except Answered as error:
        return SendResult("give_up" if error.status in GONE else "lose", f"before sending again: {error}")
    except (NotSent, NoAnswer) as error:
        return SendResult("lose", f"before sending again: {error}")
    found = arrived(row, there)
    return None if found is None else SendResult("accept", provider_id=found)


def arrived(row: OutboxRow, there: Iterable[Sent]) -> str | None:
    """Return the id under which the reply stands at the helpdesk, by our marker, else by its words.

    What another reply of this ticket is known to stand under is not taken for this one, however alike they are.
    """
    ours, likely = essences_of_reply(row.body), None
    for sent in there:
        if sent.marker == row.idempotency_key:
            return sent.id
        if sent.ours and not sent.marker and sent.id not in row.sent_ids and same_words(ours, sent.markup):
            likely = likely or sent.id
    return likely


async def _post(desk: Desk, api: Api, settings: Settings, row: OutboxRow) -> SendResult:
    try:
        found = await desk.post(api, settings, row)
    except Answered as error:
        return SendResult(_event_of(error.status), _advice(desk, error)[:LONGEST_ERROR])
    except NotSent as error:
        return SendResult("retry", str(error)[:LONGEST_ERROR])
    except NoAnswer as error:
        return SendResult("lose", str(error)[:LONGEST_ERROR])
    except Misconfigured as error:
        return SendResult("retry", str(error)[:LONGEST_ERROR])
    except Unusable as error:
        return SendResult("give_up", str(error)[:LONGEST_ERROR])
    return SendResult("accept", provider_id=found or None)


def _event_of(status: int) -> str:
    if status in LATER or 300 <= status < 400:
        return "retry"
    return "lose" if status >= 500 else "give_up"


def _advice(desk: Desk, error: Answered) -> str:
    name = desk.channel.upper()
    if 300 <= error.status < 400:
        return f"{error}: redirects are not followed; set {name}_URL to where it really is"
    if error.status in {401, 403}:
        return f"{error}: is {name}_TOKEN still right?"
    return str(error)


def target(row: OutboxRow, parts: int) -> list[str]:
    """Return the parts of a conversation's id, the last one being digits only: it goes into a path.

    Raises:
        Unusable: the ticket is bound to no conversation of the helpdesk's.
    """
    found = (row.conversation_id or "").split("/")
    if len(found) != parts or not (found[-1].isascii() and found[-1].isdigit()):
        raise Unusable(f"the ticket has no conversation at {row.channel} to reply in")
    return found
