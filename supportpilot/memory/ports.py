"""What memory asks of a model: one chat without tools. The real client and the tests' fake both fit."""

from __future__ import annotations

from typing import Any, Protocol


class Answer(Protocol):
    """What a model said."""

    @property
    def content(self) -> str: ...


class ChatModel(Protocol):
    """A model that answers a list of messages."""

    def chat(self, messages: list[dict[str, Any]], *, temperature: float = ...) -> Answer: ...
