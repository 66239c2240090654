"""The fence around untrusted text: a section that its content can neither close nor imitate. Pure.

Without it a customer could close the section that holds their message and write instructions below it. Two things
keep it shut. What a reader may take for a section's tag is broken here, also when it is written with full-width,
Cyrillic or mathematical letters, or with signs in it that nobody sees. And `llm/sealing.py`, the last thing before
the model, gives the tags an id that the content does not have.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_TAG = "section"
_OPENERS = "<\u02c2\u2039\u27e8\u2329\u3008\ufe64\uff1c\u276e\u2770"
_BROKEN = "‹"
_SLASHES = frozenset("/\\\u2044\u2215\u29f8\uff0f\uff3c")
_OPENER = re.compile(f"[{_OPENERS}]")

# Letters of other scripts that look like these seven; what NFKC folds (full-width, mathematical) is not listed.
_LOOKALIKES = str.maketrans({
    "\u0455": "s", "\ua731": "s", "\u01bd": "s", "\u0435": "e", "\u0451": "e", "\u0454": "e", "\u03b5": "e", "\u2107": "e", "\u212e": "e",
    "\u0441": "c", "\u03f2": "c", "\u1d04": "c", "\u2ca5": "c", "\u0442": "t", "\u03c4": "t", "\u1d1b": "t",
    "\u0456": "i", "\u03b9": "i", "\u0131": "i", "\u04cf": "i", "\u026a": "i", "l": "i", "1": "i", "|": "i",
    "\u043e": "o", "\u03bf": "o", "\u0585": "o", "\u1d0f": "o", "0": "o", "\u043f": "n", "\u03b7": "n", "\u0578": "n", "\u0274": "n",
})

# Signs that nobody sees and a model reads: they hide orders from the people who read the same ticket. The joiners
# of emoji and of Indian and Persian words stay, and so does the sign that makes a character an emoji.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]")


def fence(name: str, text: str) -> str:
    """Put `text` into a section that its content can neither close nor imitate."""
    seen = visible(text)
    return f'<section name="{name}">\n{_OPENER.sub(_broken, seen).strip()}\n</section>'


def visible(text: str) -> str:
    """Return the text without signs that a model reads and nobody sees."""
    return _UNSEEN.sub("", text)


def _broken(found: re.Match[str]) -> str:
    return _BROKEN if _reads_as_tag(found.string, found.end()) else found[0]


def _reads_as_tag(text: str, start: int) -> bool:
    """Tell whether the text goes on, signs that nobody reads apart, as a section's tag would."""
    wanted = iter(_TAG)
    expected = next(wanted)
    for place in range(start, len(text)):
        folded = _folded(text[place])
        for letter in folded:
            if letter != expected:
                return False
            following = next(wanted, None)
            if following is None:
                return True
            expected = following
    return False


@lru_cache(maxsize=4096)
def _folded(sign: str) -> str:
    """Return what a sign reads as in a tag; "" for slashes, blanks, and marks on or between letters."""
    if sign in _SLASHES:
        return ""
    plain = unicodedata.normalize("NFKD", sign).casefold().translate(_LOOKALIKES)
    return "".join(ch for ch in plain if not (ch.isspace() or ch in _SLASHES or unicodedata.category(ch) in ("Mn", "Me", "Cf", "Cc")))
