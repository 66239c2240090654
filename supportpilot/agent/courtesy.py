"""A message that only says thanks: answering it would start a ping-pong of politeness. Pure."""

from __future__ import annotations

import re

MAX_CHARS = 40
FULL_WIDTH_QUESTION = "\uff1f"
_THANKS = re.compile(
    r"(?:非常|十分|多|太)?(?:谢谢|感谢|多谢|谢了|谢啦)(?:你|您|你们|您们|啦|了|哦|哈)*|thank\s*(?:you|u)|thanks|thx|ty\b",
    re.IGNORECASE)
_AROUND = re.compile(
    r"好的|好|嗯+|收到|明白了?|知道了|了解了?|已?解决了|搞定了|可以了|辛苦了?|你们?|您"
    r"|\b(?:ok|okay|great|perfect|got it|that (?:works|helped)|it works|so much|very much|a lot|again|many|all good)\b"
    r"|[\W_]",
    re.IGNORECASE)


def is_bare_thanks(text: str) -> bool:
    """Tell whether a text is thanks and nothing else; a doubt means no."""
    if len(text) > MAX_CHARS or _asks(text):
        return False
    rest, count = _THANKS.subn(" ", text)
    return count > 0 and not _AROUND.sub("", rest)


def ends_with_question(text: str) -> bool:
    """Tell whether a text asks something at its end, so that even "好的,谢谢" answers it."""
    return _asks(text.strip()[-60:])


def _asks(text: str) -> bool:
    return "?" in text or FULL_WIDTH_QUESTION in text
