"""What did the customer write this time? `full` is everything, `visible` the new part, `quoted` what is left out.

In doubt the whole text stays: a quote that is shown again costs tokens, a sentence that is lost costs the customer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from supportpilot.mail import markers

_FOLDED = {ord("\u00a0"): " ", ord("\u3000"): " ", ord("："): ":", ord("｜"): "|", **dict.fromkeys(map(ord, "\u200b\u200c\u200d\ufeff\u2060"))}


@dataclass(frozen=True)
class Split:
    """A mail's text in three."""

    full: str
    visible: str
    quoted: str


class _Cut(NamedTuple):
    start: int      # first line of the quote
    inner: int      # first line after the marker


def split(text: str, *, forwarded: bool = False) -> Split:
    """Split plain text; of a forwarded mail nothing is taken away: what it carries is what the customer means."""
    full = text.strip()
    lines = full.splitlines()
    folded = [line.translate(_FOLDED).strip() for line in lines]
    cut = None if forwarded else _find(folded)
    if cut is None or (_is_marked(folded, cut) and _answers_between(folded, cut)):
        cut = _Cut(len(lines), len(lines))
    kept = _without_signature(folded, cut.start)
    visible = "\n".join(lines[:kept]).strip()
    if not visible:
        return Split(full, full, "")
    return Split(full, visible, "\n".join(lines[cut.start:]).strip())


def _find(lines: list[str]) -> _Cut | None:
    """Return the first place where a quote begins."""
    for i, line in enumerate(lines):
        if not line:
            continue
        if markers.FORWARDED.match(line):
            return None
        if markers.SEPARATOR.match(line):
            return _Cut(i, i + 1)
        end = _attribution(lines, i)
        if end:
            return _Cut(i, end)
        if _is_head(lines, i):
            return _Cut(_above(lines, i), i + 1)
    return _trailing(lines)


def _attribution(lines: list[str], start: int) -> int:
    """Return the line after `在 ... 写道:` if one begins here, else 0."""
    if not markers.ATTRIBUTION_START.match(lines[start].lstrip("> ")):
        return 0
    text = ""
    for end in range(start, min(start + markers.ATTRIBUTION_LINES, len(lines))):
        if not lines[end] or lines[end].startswith(">") != lines[start].startswith(">"):
            return 0
        text = f"{text} {lines[end]}"
        if len(text) > markers.ATTRIBUTION_CHARS:
            return 0
        if markers.ATTRIBUTION_END.search(text):
            proved = markers.ATTRIBUTION_PROOF.search(text) and _is_quote_ahead(lines, end + 1)
            return end + 1 if proved else 0
    return 0


def _is_quote_ahead(lines: list[str], start: int) -> bool:
    """Something has to follow: a letter may end in `客服昨天 10:30 写道:` and a paste of its own."""
    return any(lines[start:])


def _is_head(lines: list[str], start: int) -> bool:
    """Say whether an Outlook head begins on this line."""
    first = _key(lines[start])
    if first not in {"from", "sent"}:
        return False
    window = [line for line in lines[start:start + 2 * markers.HEAD_LINES] if line][:markers.HEAD_LINES]
    return len({key for line in window if (key := _key(line))}) >= markers.HEAD_KEYS


def _key(line: str) -> str | None:
    bare = line.lstrip("> ")
    return next((key for key, pattern in markers.HEAD.items() if pattern.match(bare)), None)


def _above(lines: list[str], start: int) -> int:
    """A rule of underscores or hyphens above the head belongs to it."""
    above = start - 1
    while above >= 0 and not lines[above]:
        above -= 1
    return above if above >= 0 and len(lines[above]) >= 3 and not lines[above].strip("_-—=*") else start


def _trailing(lines: list[str]) -> _Cut | None:
    """Return a block of `>` lines at the very end; one with words after it is answered between its lines."""
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    start = end
    while start and (lines[start - 1].startswith(">") or not lines[start - 1]):
        start -= 1
    inside = any(line.startswith(">") for line in lines[start:end])
    return _Cut(start, start) if inside and not any(line.startswith(">") for line in lines[:start]) else None


def _is_marked(lines: list[str], cut: _Cut) -> bool:
    return any(line.startswith(">") for line in lines[cut.inner:]) or any(line.startswith(">") for line in lines[:cut.start])


def _answers_between(lines: list[str], cut: _Cut) -> bool:
    """Say whether words of the customer stand between or below the `>` lines."""
    if any(line.startswith(">") for line in lines[:cut.start]):
        return True
    tail = lines[cut.inner:]
    first = next((i for i, line in enumerate(tail) if line.startswith(">")), len(tail))
    own = [line for line in tail[first:] if line and not line.startswith(">")]
    for i, line in enumerate(own):
        if markers.DELIMITER.match(line):
            own = own[:i]
            break
    return any(not _is_signature(line) for line in own)


def _without_signature(lines: list[str], end: int) -> int:
    """Return where the text ends once an added signature at its end is dropped."""
    for start in range(max(0, end - markers.DELIMITED_LINES), end):
        if markers.DELIMITER.match(lines[start]):
            end = start
            break
    while end and (not lines[end - 1] or _is_signature(lines[end - 1])):
        end -= 1
    return end


def _is_signature(line: str) -> bool:
    return bool(markers.SIGNATURE.match(line) and markers.SIGNATURE_MUST.search(line))
