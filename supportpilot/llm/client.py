"""The one way to a model: any OpenAI-compatible provider, bounded, counted, its errors translated here.

Each paid call is charged to the turn that caused it (`current_scope`): a difference of ledgers would charge a
ticket for its neighbour's calls as soon as two turns run side by side.
"""

from __future__ import annotations

import json
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import openai
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionMessage, ChatCompletionMessageParam
from pydantic import BaseModel

from supportpilot.config import Settings
from supportpilot.errors import Misconfigured, ModelOutputUnusable, Permanent, Transient
from supportpilot.llm import structured as shape
from supportpilot.llm.breaker import Breaker
from supportpilot.llm.retrying import ProviderTrouble, persistently, translated
from supportpilot.llm.sealing import sealed
from supportpilot.llm.usage import Ledger, Tokens, apportion, cost_of, estimate, parts_of
from supportpilot.types import LLMCall, current_scope

Message = dict[str, Any]
T = TypeVar("T", bound=BaseModel)

PUBLIC_PROVIDER = "https://api.openai.com/v1"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True)
class ToolCall:
    """A tool that the model wants to call."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class ChatResult:
    """One answer and what it has cost."""

    content: str
    tool_calls: list[ToolCall] = field(default_factory=list)
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    cost_cny: Decimal = Decimal(0)


class LLMClient:
    """Talks to one model of the configured provider; safe with threads, and cheap until its first call.

    Args:
        settings: provider, prices, time-outs.
        model: a model other than `settings.llm_model`.
        report: gets every paid call, answers that were no use included.
        on_token: gets the pieces of an answer as they come; set, `chat` without tools streams.
    """

    def __init__(
        self, settings: Settings, model: str | None = None, *,
        report: Callable[[LLMCall], None] | None = None, on_token: Callable[[str], None] | None = None,
    ) -> None:
        self.model = model or settings.llm_model
        self.ledger = Ledger()
        self.on_token = on_token
        self._settings, self._report = settings, report
        self._lock = threading.Lock()
        self._openai: openai.OpenAI | None = None
        self._knows_schemas = True
        self._breaker = Breaker(self.model)

    def chat(
        self, messages: list[Message], *, temperature: float = 0.2, tools: list[dict[str, Any]] | None = None
    ) -> ChatResult:
        """Ask for one answer, with tools on offer if given.

        Raises:
            Misconfigured: no provider is configured.
            Unavailable: the provider cannot be reached, or has failed so often that it is left alone for a while.
            Transient: time-out, 429, 5xx or a cut answer, also after the configured repeats.
            ModelOutputUnusable: a tool call's arguments were no JSON object, twice.
            Permanent: the provider rejects the request.
        """
        scope = current_scope()
        say = self.on_token or (scope.on_token if scope else None)
        if say is not None and not tools:
            return self._chat_aloud(messages, temperature, say)
        options: dict[str, Any] = {"temperature": temperature, **({"tools": tools} if tools else {})}
        problem = ""
        for _ in range(2):
            answer, result = self._call(messages, options)
            try:
                return replace(result, tool_calls=_tool_calls(answer))
            except ValueError as error:
                problem = str(error)
        raise ModelOutputUnusable(f"the model's tool call is no use: {problem}")

    def stream(self, messages: list[Message], *, temperature: float = 0.2) -> Iterator[str]:
        """Yield the answer piece by piece.

        A stream that was cut is asked for again; if the new one starts with what was already given out, it goes on
        from there, else it is given up.

        Raises: as `chat`.
        """
        yield from self._stream(messages, temperature, [])

    def structured(self, messages: list[Message], schema: type[T]) -> T:
        """Ask for an answer that fits `schema`; asks once more if it does not.

        Raises:
            ModelOutputUnusable: it did not fit after the repair either.
            Transient, Permanent, Misconfigured: as `chat`.
        """
        text = self._json(messages, schema)
        try:
            return shape.parse(text, schema)
        except ValueError as error:
            problem = str(error)
        text = self._json(shape.repair_messages(messages, text, problem), schema)
        try:
            return shape.parse(text, schema)
        except ValueError as error:
            raise ModelOutputUnusable(f"the model's {schema.__name__} is not usable after a repair: {error}") from None

    def close(self) -> None:
        """Close the connections to the provider; the next call opens new ones."""
        with self._lock:
            if self._openai is not None:
                self._openai.close()
            self._openai = None

    def _chat_aloud(self, messages: list[Message], temperature: float, say: Callable[[str], None]) -> ChatResult:
        results: list[ChatResult] = []
        for piece in self._stream(messages, temperature, results):
            say(piece)
        return results[-1]

    def _stream(self, messages: list[Message], temperature: float, results: list[ChatResult]) -> Iterator[str]:
        given = ""
        for attempt in persistently(self._settings):
            with attempt:
                text = ""
                for piece in self._pieces(messages, temperature, results):
                    text += piece
                    new = _beyond(text, given)
                    given += new
                    if new:
                        yield new

    def _pieces(self, messages: list[Message], temperature: float, results: list[ChatResult]) -> Iterator[str]:
        """Yield one attempt's pieces; whatever its end, what came is counted."""
        started, text, usage, finished = time.monotonic(), "", None, False
        try:
            with self._breaker.watching(), translated(self.model):
                chunks = self._provider().chat.completions.create(
                    model=self.model, messages=_typed(sealed(messages)), temperature=temperature,
                    stream=True, stream_options={"include_usage": True},
                )
                with chunks:
                    for chunk in chunks:
                        usage = chunk.usage or usage
                        for choice in chunk.choices[:1]:
                            finished = finished or choice.finish_reason is not None
                            if choice.delta.content:
                                text += choice.delta.content
                                yield choice.delta.content
                        self._check_patience(started)
                if not finished:
                    raise ProviderTrouble("the model provider's answer was cut before its end")
        finally:
            if text or usage:
                results.append(self._count(parts_of(messages), text, usage, started))

    def _check_patience(self, started: float) -> None:
        """A provider that drips a byte a second never runs into the socket's time-out."""
        if time.monotonic() - started > self._settings.llm_timeout_seconds:
            raise ProviderTrouble("the model provider's answer took too long")

    def _json(self, messages: list[Message], schema: type[BaseModel]) -> str:
        if self._knows_schemas:
            try:
                return self._call(messages, {"temperature": 0, "response_format": shape.schema_format(schema)})[1].content
            except Permanent as error:
                if not isinstance(error.__cause__, openai.BadRequestError | openai.UnprocessableEntityError):
                    raise
        options = {"temperature": 0, "response_format": shape.JSON_FORMAT}
        text = self._call(shape.with_schema_text(messages, schema), options)[1].content
        self._knows_schemas = False  # only now is it sure that the schema was what the provider refused
        return text

    def _call(self, messages: list[Message], options: dict[str, Any]) -> tuple[ChatCompletionMessage, ChatResult]:
        reply, started = persistently(self._settings)(self._ask, messages, options)
        answer = reply.choices[0].message
        return answer, self._count(parts_of(messages, options), answer.content or "", reply.usage, started)

    def _ask(self, messages: list[Message], options: dict[str, Any]) -> tuple[ChatCompletion, float]:
        started = time.monotonic()
        with self._breaker.watching(), translated(self.model):
            reply: object = self._provider().chat.completions.create(
                model=self.model, messages=_typed(sealed(messages)), **options
            )
            if not isinstance(reply, ChatCompletion) or not reply.choices:
                raise ProviderTrouble("the model provider's answer has no choices; does OPENAI_BASE_URL end in /v1?")
        return reply, started

    def _count(self, parts: dict[str, int], text: str, usage: CompletionUsage | None, started: float) -> ChatResult:
        tokens = _tokens(usage) if usage else Tokens(sum(parts.values()), estimate(text))
        scope = current_scope()
        call = LLMCall(
            model=self.model, tokens_in=tokens.sent, tokens_out=tokens.received, tokens_cached=tokens.cached,
            cost_cny=cost_of(self._settings, self.model, tokens), ms=round((time.monotonic() - started) * 1000),
            ticket_id=(scope.ticket_id or None) if scope else None, turn_id=(scope.turn_id or None) if scope else None,
            node=(scope.node or None) if scope else None, parts=apportion(parts, tokens.sent),
        )
        self.ledger.add(call)
        if scope is not None:
            scope.spent.append(call.cost_cny)
        if self._report is not None:
            self._report(call)
        return ChatResult(text, [], tokens.sent, tokens.received, tokens.cached, call.cost_cny)

    def _provider(self) -> openai.OpenAI:
        with self._lock:
            if self._openai is None:
                self._openai = connect(self._settings)
            return self._openai


def connect(settings: Settings) -> openai.OpenAI:
    """Return a connection to the configured provider; repeats are left to the caller.

    Raises:
        Misconfigured: no provider is configured.
    """
    base_url = settings.openai_base_url or (PUBLIC_PROVIDER if settings.openai_api_key else None)
    if base_url is None:
        raise Misconfigured(
            "no model provider: set OPENAI_API_KEY (and OPENAI_BASE_URL), or start the offline rule model with `supportpilot up`"
        )
    # A proxy from the environment must not get between this process and a model on the same machine.
    near = urlsplit(base_url).hostname in LOOPBACK
    near_http = openai.DefaultHttpxClient(trust_env=False) if near else None
    client = openai.OpenAI(
        api_key=settings.openai_api_key or "offline", base_url=base_url, timeout=settings.llm_timeout_seconds,
        max_retries=0, http_client=near_http,
    )
    if near_http is not None:
        weakref.finalize(client, near_http.close)  # as the package does with the connections it opens itself
    return client


def _typed(messages: list[Message]) -> list[ChatCompletionMessageParam]:
    return cast("list[ChatCompletionMessageParam]", messages)


def _tokens(usage: CompletionUsage) -> Tokens:
    details = usage.prompt_tokens_details
    cached = (details.cached_tokens or 0) if details else 0
    return Tokens(usage.prompt_tokens, usage.completion_tokens, cached)


def _tool_calls(answer: ChatCompletionMessage) -> list[ToolCall]:
    calls = []
    for call in answer.tool_calls or []:
        if call.type != "function":
            raise ValueError(f"{call.type} calls are not supported")
        arguments = json.loads(call.function.arguments or "{}")
        if not isinstance(arguments, dict):
            raise ValueError(f"the arguments of {call.function.name} are no JSON object")  # noqa: TRY004 -- bad data
        calls.append(ToolCall(call.id, call.function.name, arguments))
    return calls


def _beyond(text: str, given: str) -> str:
    """Return what `text` has beyond what was given out already.

    Raises:
        Transient: the repeated answer goes another way, so the two cannot be joined.
    """
    if text.startswith(given):
        return text[len(given):]
    if given.startswith(text):
        return ""
    raise Transient("the model's answer was cut, and the repeated one differs")
