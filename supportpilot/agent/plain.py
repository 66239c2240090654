"""What may be stored: a NUL or a lone surrogate in a model's output would crash the checkpoint's write. Pure."""

from __future__ import annotations

from typing import Any


def plain(value: Any) -> Any:  # noqa: ANN401 -- any JSON-like value
    """Return a value with all its strings made storable; dicts and lists are copied."""
    if isinstance(value, str):
        return value.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value
