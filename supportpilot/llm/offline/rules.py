"""The offline rule model: one answer from the prompt alone, always the same for the same prompt.

It is not an LLM. It reads the task's marker in the system message and the fenced sections of the user message, and
treats both customer text and tool results as data: nothing in them can change which rules run. Pure, no IO.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from supportpilot.llm.offline import act, digest, draft, portrait, review, triage
from supportpilot.llm.offline.text import language, language_of, read_sections

MARKER = re.compile(r"^\s*\[task:([a-z_]+)\]")
REPAIR = "[repair]"


@dataclass(frozen=True)
class Answer:
    """A text, or tools to call: (name, arguments)."""

    content: str
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


def task_of(messages: Sequence[dict[str, Any]]) -> str | None:
    """Return the task named in the first line of the system message; customer text cannot name one."""
    for message in messages:
        if message.get("role") in ("system", "developer"):
            found = MARKER.match(str(message.get("content") or ""))
            return found.group(1) if found else None
    return None


def answer(
    messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]] | None = None,
    response_format: dict[str, Any] | None = None,
) -> Answer:
    """Answer a prompt."""
    task = task_of(messages)
    sections = _sections(messages)
    if task == "act":
        return _act(messages, sections, tools or [])
    system = next((str(m.get("content") or "") for m in messages if m.get("role") == "system"), "")
    writers: dict[str, Callable[[], str]] = {
        "triage": lambda: _json(triage.triage(sections)),
        "check": lambda: _json(review.review(sections)),
        "draft": lambda: draft.draft(sections),
        "summary": lambda: digest.summary(sections, system),
        "profile": lambda: portrait.profile(sections, system),
    }
    if task in writers:
        return Answer(writers[task]())
    return Answer(_unknown(messages, response_format))


def _act(messages: Sequence[dict[str, Any]], sections: dict[str, str], tools: Sequence[dict[str, Any]]) -> Answer:
    done = _tool_results(messages)
    offered = {str(tool.get("function", {}).get("name")) for tool in tools}
    calls = act.choose_calls(sections, offered, done) if offered else []
    if calls:
        return Answer("", calls)
    return Answer(act.findings(done, language(sections)))


def _tool_results(messages: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    names: dict[str, str] = {}
    done: list[tuple[str, str]] = []
    for message in messages:
        for call in message.get("tool_calls") or []:
            names[str(call.get("id"))] = str(call.get("function", {}).get("name"))
        if message.get("role") == "tool":
            name = names.get(str(message.get("tool_call_id")), "tool")
            content = str(message.get("content") or "")
            done.append((name, read_sections(content).get("result", content)))
    return done


def _sections(messages: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the sections of the user message; a repair request has none and changes none."""
    for message in messages:
        content = str(message.get("content") or "")
        if message.get("role") == "user" and not content.startswith(REPAIR):
            return read_sections(content)
    return {}


def _unknown(messages: Sequence[dict[str, Any]], response_format: dict[str, Any] | None) -> str:
    kind = (response_format or {}).get("type")
    if kind == "json_schema":
        schema = (response_format or {}).get("json_schema", {}).get("schema", {})
        return _json(_filled(schema, schema))
    if kind == "json_object":
        return "{}"
    asked = str(messages[-1].get("content") or "") if messages else ""
    if language_of(asked) == "zh":
        return "这里是离线规则模型,不是大语言模型:只能按规则回答客服台的固定任务。"
    return "This is an offline rule model, not an LLM: it answers the help desk's fixed tasks by rules."


def _filled(schema: Any, root: Any) -> Any:  # noqa: ANN401 -- JSON in, JSON out
    """Return the emptiest value that fits a JSON schema."""
    if not isinstance(schema, dict):
        return None
    if "$ref" in schema:
        return _filled(root.get("$defs", {}).get(str(schema["$ref"]).rsplit("/", 1)[-1], {}), root)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return _filled(options[0], root)
    if schema.get("type") == "object":
        wanted = schema.get("required", [])
        return {name: _filled(part, root) for name, part in schema.get("properties", {}).items() if name in wanted}
    empty: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": []}
    return empty.get(str(schema.get("type")))


def _json(value: Any) -> str:  # noqa: ANN401 -- any JSON
    return json.dumps(value, ensure_ascii=False)
