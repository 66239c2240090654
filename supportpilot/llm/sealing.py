"""The last thing before a request leaves: each section's tags get an id that its content does not have. Pure.

The fence (`prompts/fencing.py`) breaks what looks like a tag. Should a model still take some of a customer's text for
one, it lacks the id that the section began with. The id follows from the message, so the same message is the same
request again (providers keep what they have read), and it is chosen so that the message does not contain it: to know
it in advance helps nobody.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

SECTION = re.compile(r'<section name="([\w-]+)"(?: id="([0-9a-f]{6})")?>\n?(.*?)\n?</section(?(2) id="\2")>', re.DOTALL)
ID_CHARS = 6


def sealed(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with an id in the tags of their sections; those of the system prompt are only spoken of."""
    return [{**message, "content": _sealed(message["content"])} if message.get("role") in ("user", "tool") and isinstance(
        message.get("content"), str) else dict(message) for message in messages]


def sections(text: str) -> list[tuple[str, str]]:
    """Return (name, content) of each section of a message, sealed or not."""
    return [(name, content) for name, _, content in SECTION.findall(text)]


def _sealed(text: str) -> str:
    if "<section name=" not in text:
        return text
    mark = _absent(text)
    return SECTION.sub(lambda found: f'<section name="{found[1]}" id="{mark}">\n{found[3]}\n</section id="{mark}">', text)


def _absent(text: str) -> str:
    lowered = text.lower()
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    while digest[:ID_CHARS] in lowered:
        digest = hashlib.sha256(digest.encode("ascii")).hexdigest()
    return digest[:ID_CHARS]
