"""From a model's text to a validated record: JSON found, checked by pydantic, one repair asked for.

Without it a cut-off or talkative answer would travel on as data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

T = TypeVar("T", bound=BaseModel)
FENCED = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)
SHOWN_PROBLEMS = 5


def schema_format(schema: type[BaseModel]) -> dict[str, Any]:
    """Return the `response_format` that asks for this schema."""
    return {
        "type": "json_schema",
        "json_schema": {"name": schema.__name__, "schema": schema.model_json_schema()},
    }


JSON_FORMAT: dict[str, Any] = {"type": "json_object"}


def with_schema_text(messages: Sequence[dict[str, Any]], schema: type[BaseModel]) -> list[dict[str, Any]]:
    """Return the messages with the schema written out, for a provider that only knows JSON mode."""
    wanted = json.dumps(schema.model_json_schema(), ensure_ascii=False)
    note = f"\n\nAnswer with one JSON object that fits this JSON schema, and nothing else:\n{wanted}"
    done = [dict(m) for m in messages]
    for message in done:
        if message.get("role") == "system":
            message["content"] = f"{message['content']}{note}"
            return done
    return [{"role": "system", "content": note.strip()}, *done]


def parse(text: str, schema: type[T]) -> T:
    """Read a model's answer.

    Raises:
        ValueError: there is no JSON object in it or it does not fit; the text names the first problems.
    """
    try:
        return schema.model_validate_json(_json_in(text))
    except ValidationError as error:
        problems = [_problem(found) for found in error.errors()[:SHOWN_PROBLEMS]]
        raise ValueError("; ".join(problems)) from None


def repair_messages(messages: Sequence[dict[str, Any]], bad: str, problem: str) -> list[dict[str, Any]]:
    """Return the prompt that asks once more, with the bad answer and what is wrong with it."""
    ask = f"[repair] Your last answer is not usable: {problem}\nSend only the corrected JSON object."
    return [*messages, {"role": "assistant", "content": bad or "(empty)"}, {"role": "user", "content": ask}]


def _json_in(text: str) -> str:
    fenced = FENCED.search(text)
    inner = fenced.group(1) if fenced else text
    start, end = inner.find("{"), inner.rfind("}")
    if start < 0 or end < start:
        return inner.strip()
    return inner[start : end + 1]


def _problem(found: Any) -> str:  # noqa: ANN401 -- pydantic's ErrorDetails
    where = ".".join(str(step) for step in found["loc"])
    return f"{where}: {found['msg']}" if where else str(found["msg"])
