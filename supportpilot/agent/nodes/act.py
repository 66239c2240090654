"""Let the model look things up with the account tools, within bounds, and keep a log of every call."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, TypedDict

from supportpilot.agent.context import Conversation, language_of, request
from supportpilot.agent.deps import Deps
from supportpilot.agent.plain import plain
from supportpilot.llm.client import ChatResult, ToolCall
from supportpilot.prompts.loader import fence

MAX_ROUNDS = 5
MAX_CALLS = 8
LOGGED_CHARS = 500


class ActIn(Conversation):
    context: str


class ActOut(TypedDict, total=False):
    findings: str
    tool_log: list[dict[str, Any]]
    refund_request: dict[str, Any] | None
    handoff_reason: str


@dataclass
class _Work:
    """What the tools have brought so far."""

    ticket_id: str
    turn_id: str
    messages: list[dict[str, Any]]
    log: list[dict[str, Any]] = field(default_factory=list)
    refund: dict[str, Any] | None = None
    handoff: str = ""


def act(state: ActIn, deps: Deps) -> ActOut:
    """Return the findings, the log, and what the tools asked a human for.

    Raises:
        ModelOutputUnusable: the model named a tool in a form that cannot be read.
        Transient: the model or the database is away.
    """
    work = _Work(state["ticket"]["id"], state.get("turn_id", ""),
                 request("act", language_of(state), state["context"]))
    findings = _look_up(work, deps)
    if work.refund:
        findings = f"{findings}\nrefund_request: {json.dumps(work.refund, ensure_ascii=False)}".strip()
    update: ActOut = {"findings": findings, "tool_log": work.log, "refund_request": work.refund}
    if work.handoff:
        update["handoff_reason"] = work.handoff
    return update


def _look_up(work: _Work, deps: Deps) -> str:
    for _ in range(MAX_ROUNDS):
        tools = deps.tool_schemas if len(work.log) < MAX_CALLS else None
        answer = deps.llm.chat(work.messages, tools=tools)
        if not answer.tool_calls:
            return answer.content.strip()
        work.messages = [*work.messages, _said(answer)]
        for call in answer.tool_calls:
            work.messages = [*work.messages, _result(work, call, deps)]
        if work.handoff:
            return ""
    return deps.llm.chat(work.messages, tools=None).content.strip()


def _said(answer: ChatResult) -> dict[str, Any]:
    calls = [{"id": call.id, "type": "function",
              "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}}
             for call in answer.tool_calls]
    return {"role": "assistant", "content": answer.content or "", "tool_calls": calls}


def _result(work: _Work, call: ToolCall, deps: Deps) -> dict[str, Any]:
    if len(work.log) >= MAX_CALLS:
        text, is_error = f"at most {MAX_CALLS} calls; write down what you have found", True
    elif call.name == "request_refund" and work.refund:
        text, is_error = "one refund waits for its approval at a time; ask for the other one after it", True
    else:
        text, is_error = deps.call_tool(call.name, plain(call.arguments), ticket_id=work.ticket_id)
        work.log.append({"name": call.name, "args": call.arguments, "is_error": is_error, "turn_id": work.turn_id,
                         "result": text[:LOGGED_CHARS]})
    if not is_error:
        _note(work, call.name, text)
    return {"role": "tool", "tool_call_id": call.id, "content": fence("result", f"error: {text}" if is_error else text)}


def _note(work: _Work, name: str, text: str) -> None:
    if name == "request_refund":
        found = json.loads(text)
        if found.get("status") == "pending":
            work.refund = found
    elif name == "escalate_to_human":
        work.handoff = f"asked for by the agent: {json.loads(text).get('reason', '')}"
