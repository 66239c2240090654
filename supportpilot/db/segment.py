"""Text into search terms and articles into pieces; pure.

It stands below `kb/` because the seed fills the index too: terms that were cut in two ways would never meet.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

# Characters that hold Chinese sentences together and say nothing about the subject: no term crosses one.
GLUE = frozenset("的了吗呢吧啊呀么我你您他她它们是在和与及就都也还又很请把被给让从对为之其这那哪什怎")
# Characters that say little when they stand alone.
FAINT = GLUE | frozenset("一不没有个上下来去要能会好说想看用到出点里过时候多少天现再先后前才啥咋可以")
STOP_WORDS = frozenset(re.findall(
    "[a-z]+",
    "a an and are as at be but by can cannot could do does for from had has have he how i if in is it its me my no "
    "not of on or our please she so that the their them then there they this to us was we were what when where "
    "which who why will with would you your hello hi dear thanks thank "
    "about after again ago all already also always am another any anyone anything back because been before being "
    "between both came come day days did didn doesn doing don down during each else even ever every everything few "
    "first get getting give go going gone good got here into isn just keep know last later least let like ll look "
    "made make many me month more morning most much must need never new next nor now off often once one only other "
    "over own put quite really right said same saw say see seen set should since some someone something soon sort "
    "still such take tell than think though through today together too took tried try trying two under until up use "
    "used using ve very want wasn way week went while without year yes yesterday yet"))
ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ied", "ed", "es", "s", "e", "y")
STEM = 4                  # letters that stay when an ending is cut
CHUNK_CHARACTERS = 600

_PIECE = re.compile(r"[a-z0-9]+|[\u3400-\u4dbf\u4e00-\u9fff]+")
_SPLIT_CODE = re.compile(r"(?<![a-z0-9])(e)[\s_-]?(\d{4})(?!\d)")
_CODE = re.compile(r"[a-z]+(\d{3,})")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")


@dataclass(frozen=True)
class Section:
    """A stretch of an article; `heading` is the first one that stands in it."""

    heading: str
    text: str


def terms(text: str) -> list[str]:
    """Return every term of the text as often as it occurs: words, codes, pairs of Chinese characters, and these alone.

    Customers say 票 for 发票 and 号 for 账号: the single characters meet where the pairs do not.
    """
    plain = _SPLIT_CODE.sub(r"\1\2", unicodedata.normalize("NFKC", text).lower())
    found: list[str] = []
    for piece in _PIECE.findall(plain):
        found.extend(_words(piece) if piece.isascii() else _pairs(piece) + _characters(piece))
    return found


def language(text: str) -> str:
    """Return `en` for text in Latin words without a Chinese character, else `zh`, the house's language."""
    pieces = _PIECE.findall(unicodedata.normalize("NFKC", text).lower())
    if any(not piece.isascii() for piece in pieces):
        return "zh"
    return "en" if any(piece.isalpha() for piece in pieces) else "zh"


def sections(body: str) -> list[Section]:
    """Cut Markdown at its headings; small neighbours stay together up to `CHUNK_CHARACTERS`."""
    packed: list[Section] = []
    for part in _parts(body):
        last = packed[-1] if packed else None
        if last and len(last.text) + len(part.text) < CHUNK_CHARACTERS:
            packed[-1] = Section(last.heading or part.heading, f"{last.text}\n\n{part.text}")
        else:
            packed.append(part)
    return packed


def _words(piece: str) -> list[str]:
    if piece in STOP_WORDS:
        return []
    code = _CODE.fullmatch(piece)
    if code:
        return [piece, code[1]]  # people write "error 3001" as well as "E3001"
    if len(piece) > 3 and piece.endswith("s") and not piece.endswith("ss"):
        piece = piece[:-1]
    return [_stem(piece.replace("ization", "isation").replace("ize", "ise").replace("izi", "isi"))]


def _stem(word: str) -> str:
    """Cut the commonest endings: expired, expires and expire are one matter."""
    if word.isalpha():
        for ending in ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= STEM:
                return word[:-len(ending)]
    return word


def _pairs(run: str) -> list[str]:
    kept = "".join(" " if character in GLUE else character for character in run).split()
    return [word[i:i + 2] for word in kept for i in range(len(word) - 1)]


def _characters(run: str) -> list[str]:
    return [character for character in run if character not in FAINT]


def _parts(body: str) -> list[Section]:
    """Cut at every heading, and what is still too long at blank lines."""
    found: list[Section] = []
    heading, lines = "", list[str]()
    for line in [*body.splitlines(), "# "]:
        match = _HEADING.match(line)
        if match is None:
            lines.append(line)
            continue
        found.extend(Section(heading, text) for text in _paragraphs("\n".join(lines)))
        heading, lines = match[1], [line] if match[1] else []
    return found


def _paragraphs(text: str) -> list[str]:
    if len(text) <= CHUNK_CHARACTERS:
        return [text.strip()] if text.strip() else []
    return [piece.strip() for piece in re.split(r"\n\s*\n", text) if piece.strip()]
