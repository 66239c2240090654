"""Requests checked and answers shaped as the OpenAI protocol has them; pure."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from supportpilot.llm.offline.rules import Answer
from supportpilot.llm.usage import estimate

LABEL = "offline rule model, not an LLM"
MODELS = ("offline-rules", "offline-rules-small")
CREATED = 1_780_000_000
DIMENSIONS = 256
PIECE_CHARS = 6
MESSAGE_TOKENS = 4
ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


class BadRequest(ValueError):
    """The request is not what the protocol allows; `param` names the field."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


def check_chat(request: Any) -> dict[str, Any]:  # noqa: ANN401 -- whatever JSON came
    """Return the request if it is a chat request.

    Raises:
        BadRequest: a field is missing or malformed.
    """
    if not isinstance(request, dict):
        raise BadRequest("the body must be a JSON object")
    if not isinstance(request.get("model"), str) or not request["model"]:
        raise BadRequest("you must provide a model parameter", "model")
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages must be a non-empty array", "messages")
    for position, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise BadRequest(f"messages[{position}] needs a known role", f"messages[{position}].role")
        if message.get("content") is not None and not isinstance(message["content"], str | list):
            raise BadRequest("content must be a string", f"messages[{position}].content")
    wanted = request.get("response_format")
    if wanted is not None and (not isinstance(wanted, dict) or wanted.get("type") not in ("text", "json_object", "json_schema")):
        raise BadRequest("response_format.type must be text, json_object or json_schema", "response_format")
    if request.get("tools") is not None and not isinstance(request["tools"], list):
        raise BadRequest("tools must be an array", "tools")
    return request


def plain_messages(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with content parts joined to plain text."""
    return [{**m, "content": _text(m.get("content"))} for m in messages]


def error_body(message: str, kind: str = "invalid_request_error", *, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Shape an error."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def usage_of(messages: Sequence[dict[str, Any]], answer: Answer, multiplier: float) -> dict[str, Any]:
    """Count tokens the same way each time; the system message counts as cached once it is long enough."""
    sent = sum(MESSAGE_TOKENS + estimate(_all_text(m)) for m in messages)
    received = 1 + estimate(answer.content) + sum(estimate(name + _json(args)) for name, args in answer.calls)
    system = sum(estimate(_all_text(m)) for m in messages if m.get("role") == "system")
    cached = system // 64 * 64 if system >= 128 else 0
    sent, received, cached = (round(n * multiplier) for n in (sent, received, cached))
    return {
        "prompt_tokens": sent, "completion_tokens": received, "total_tokens": sent + received,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
    }


def completion(request: dict[str, Any], answer: Answer, usage: dict[str, Any]) -> dict[str, Any]:
    """Shape a whole answer."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.content or None, "refusal": None}
    if answer.calls:
        message["tool_calls"] = tool_calls(request, answer)
    else:
        message["content"] = answer.content
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
    return {**_head(request, answer, "chat.completion"), "choices": [choice], "usage": usage}


def chunks(request: dict[str, Any], answer: Answer, usage: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Shape a streamed answer."""
    head = _head(request, answer, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for start in range(0, len(answer.content), PIECE_CHARS):
        yield chunk({"content": answer.content[start : start + PIECE_CHARS]})
    for index, call in enumerate(tool_calls(request, answer)):
        yield chunk({"tool_calls": [{"index": index, **call}]})
    yield chunk({}, _finish(answer))
    if (request.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": usage}


def tool_calls(request: dict[str, Any], answer: Answer) -> list[dict[str, Any]]:
    """Shape the answer's tool calls; their ids depend on the request alone."""
    seed = _digest(_json(request["messages"]))
    return [
        {"id": f"call_{seed[:16]}{index}", "type": "function", "function": {"name": name, "arguments": _json(args)}}
        for index, (name, args) in enumerate(answer.calls)
    ]


def models() -> dict[str, Any]:
    """List the models by their honest label."""
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "created": CREATED, "owned_by": LABEL} for name in MODELS],
    }


def embeddings(request: Any) -> dict[str, Any]:  # noqa: ANN401 -- whatever JSON came
    """Answer an embeddings request with hashed character bigrams.

    Raises:
        BadRequest: there is no text in it.
    """
    given = request.get("input") if isinstance(request, dict) else None
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) for t in texts):
        raise BadRequest("input must be a string or an array of strings", "input")
    tokens = sum(estimate(t) for t in texts)
    return {
        "object": "list", "model": request.get("model") or MODELS[0],
        "data": [{"object": "embedding", "index": i, "embedding": embed(t)} for i, t in enumerate(texts)],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def embed(text: str) -> list[float]:
    """Return a normalised vector in which texts that share bigrams are near each other."""
    plain = "".join(text.lower().split())
    vector = [0.0] * DIMENSIONS
    for start in range(max(1, len(plain) - 1)):
        bigram = plain[start : start + 2] or " "
        number = int(_digest(bigram)[:8], 16)
        vector[number % DIMENSIONS] += 1.0 if number & 0x10000000 else -1.0
    norm = math.sqrt(sum(v * v for v in vector))
    if norm == 0.0:
        return [1.0] + [0.0] * (DIMENSIONS - 1)
    return [v / norm for v in vector]


def _head(request: dict[str, Any], answer: Answer, kind: str) -> dict[str, Any]:
    ident = _digest(_json(request["messages"]) + answer.content)[:24]
    return {
        "id": f"chatcmpl-{ident}", "object": kind, "created": CREATED, "model": request["model"],
        "system_fingerprint": LABEL,
    }


def _finish(answer: Answer) -> str:
    return "tool_calls" if answer.calls else "stop"


def _all_text(message: dict[str, Any]) -> str:
    calls = message.get("tool_calls")
    return _text(message.get("content")) + (_json(calls) if calls else "")


def _text(content: Any) -> str:  # noqa: ANN401 -- string, parts or nothing
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content or ""


def _json(value: Any) -> str:  # noqa: ANN401 -- any JSON
    return json.dumps(value, ensure_ascii=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
