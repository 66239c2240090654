"""Reading a prompt: its sections, its language, its words. Pure."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from supportpilot.llm import sealing

HEADER = re.compile(r"^\[(KB-[A-Za-z0-9-]+)\]\s*(.*?)\s*(?:\((\w{2})\))?\s*$")
SPEAKER = re.compile(r"^(客户|客服|Customer|Agent)(?:\s*[((]([^))]*)[))])?\s*[::]\s?(.*)$")
CJK = re.compile(r"[\u3400-\u9fff]+")
WORD = re.compile(r"[a-z0-9][a-z0-9_.-]*[a-z0-9]|[a-z0-9]")
SENTENCE = re.compile(r"[^。!?!?;;\n]+[。!?!?;;]?")
EN_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")

# What says nothing about the matter: taken out before words are compared.
STOP_ZH = re.compile(
    r"你们|我们|咱们|您好|你好|请问|麻烦|谢谢|感谢|一下|这个|那个|什么|怎么样|怎么办|怎么|如何|为什么|可以|能不能|是不是|有没有|可不可以"
    r"|现在|今天|昨天|刚才|刚刚|已经|一直|就是|但是|然后|因为|所以|如果|还是|或者|需要|想要|想问|问题|情况|帮我|帮忙|告诉|知道|一个|一些|这里|那里|里面"
    r"|的|了|吗|呢|吧|啊|呀|是|在|我|你|您|他|她|它|有|和|与|及|都|也|就|还|要|想|能|会|被|把|给|让|对|从|到|请|不|没"
)
STOP_EN = frozenset(re.findall(r"\S+",
    "a an the i we you he she it they my our your me us is are was were be been am do does did done have has had can could will would"
    " should may might must to of in on at for from with by and or but not no if so as this that these those there here what which who"
    " how when where why please hello hi dear thanks thank help need want get got just also still very much any some about into up out"
    " than then again its it's i'm i've don't doesn't can't anyone someone something tell know",
))
GREETING = re.compile(
    r"^(?:(?:您好|你好|哈喽|嗨|在吗|在么|亲|请问一下|请问|麻烦问一下|麻烦您|麻烦|打扰了|想问一下|想问下|问一下|(?:hello|hi|hey|dear (?:team|support|sir or madam)"
    r"|good (?:morning|afternoon|evening)|excuse me)\b)[\s,,。.!!~::??、]*)+",
    re.IGNORECASE,
)
FAREWELL = re.compile(r"[\s,,。.!!]{0,20}(?:谢谢(?:您|你|啦|了)?|多谢|感谢|拜托了?|thanks(?: a lot| in advance)?|thank you|regards|cheers)[\s,,。.!!~]*$", re.IGNORECASE)


KEYWORDS = "关键词: "


@dataclass(frozen=True)
class Article:
    """An article as the prompt shows it; `rank` is its place in the search result.

    `keywords` are what customers call the matter: they help to choose and are never said.
    """

    id: str
    title: str
    lang: str
    body: str
    rank: int
    keywords: str = ""


@dataclass(frozen=True)
class Line:
    """One entry of a rendered conversation."""

    customer: bool
    author: str
    text: str


def read_sections(text: str) -> dict[str, str]:
    """Return the sections of a user message by name; the first of a name counts."""
    found: dict[str, str] = {}
    for name, body in sealing.sections(text):
        found.setdefault(name, body.strip("\n"))
    return found


def basics(sections: dict[str, str]) -> dict[str, str]:
    """Return the `key: value` lines of the section `basics`."""
    pairs = (line.split(":", 1) for line in sections.get("basics", "").splitlines() if ":" in line)
    return {key.strip().lower(): value.strip() for key, value in pairs}


def language(sections: dict[str, str]) -> str:
    """Return the language the reply must have: what `basics` says, else that of the newest message."""
    named = basics(sections).get("language", "")
    return named if named in ("zh", "en") else language_of(sections.get("newest", ""))


def language_of(text: str) -> str:
    """Return zh or en by the letters of a text."""
    han = sum(len(run) for run in CJK.findall(text))
    latin = len(re.findall(r"[A-Za-z]{2,}", text))
    return "zh" if han * 2 >= latin else "en"


def normal(text: str) -> str:
    """Return a text in lower case and half width, as the patterns expect it."""
    return unicodedata.normalize("NFKC", text).lower()


def bare(text: str) -> str:
    """Return a message without greeting and thanks."""
    return FAREWELL.sub("", GREETING.sub("", text.strip())).strip()


def terms(text: str) -> set[str]:
    """Return what a text speaks of: bigrams of Chinese without its function words, English words cut to a stem."""
    plain = normal(text)
    found = {stem(word) for word in WORD.findall(plain) if word not in STOP_EN}
    for run in CJK.findall(STOP_ZH.sub(" ", plain)):
        found.update(run[i : i + 2] for i in range(len(run) - 1))
    return found


def characters(text: str) -> set[str]:
    """Return the single Chinese characters of a text that say something: customers write 票 for 发票."""
    return {character for run in CJK.findall(STOP_ZH.sub(" ", normal(text))) for character in run}


def stem(word: str) -> str:
    """Cut the commonest English endings."""
    if not word.isalpha() or len(word) < 5:
        return word
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "ed", "es", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def articles(text: str) -> list[Article]:
    """Return the articles of a section in order; pieces of one article are joined."""
    found: dict[str, Article] = {}
    for block in _blocks(text):
        head, _, body = block.strip("\n").partition("\n")
        match = HEADER.match(head)
        if match is None:
            continue
        ident, title, lang = match.groups()
        have = found.get(ident)
        body, keywords = _without_keywords(body)
        joined = f"{have.body}\n{body}" if have else body
        found[ident] = Article(ident, title, lang or language_of(title), joined.strip(),
                               have.rank if have else len(found), keywords)
    return list(found.values())


def _without_keywords(body: str) -> tuple[str, str]:
    lines = body.splitlines()
    words = [line.removeprefix(KEYWORDS) for line in lines if line.startswith(KEYWORDS)]
    return "\n".join(line for line in lines if not line.startswith(KEYWORDS)), " ".join(words)


def _blocks(text: str) -> list[str]:
    """Split at `---` lines that a header follows: an article may hold such a line itself."""
    return re.split(r"\n---\n(?=\[KB-)", f"{text}\n")


def conversation(text: str) -> list[Line]:
    """Return the entries of a rendered conversation; lines without a speaker belong to the entry above."""
    lines: list[Line] = []
    for raw in text.splitlines():
        match = SPEAKER.match(raw)
        if match:
            who, author, said = match.groups()
            lines.append(Line(who in ("客户", "Customer"), author or "", said))
        elif lines and raw.strip():
            lines[-1] = Line(lines[-1].customer, lines[-1].author, f"{lines[-1].text}\n{raw}")
    return lines


def sentences(text: str) -> list[str]:
    """Split a text into sentences, Chinese or English, without the empty ones."""
    found: list[str] = []
    for piece in EN_SENTENCE.split(text):
        found.extend(s.strip() for s in SENTENCE.findall(piece))
    return [s for s in found if len(s) > 1]


def clip(text: str, size: int) -> str:
    """Shorten a text to `size` characters, at a clause if there is one, never inside a number or word."""
    plain = " ".join(text.split())
    if len(plain) <= size:
        return plain
    cut = plain[:size]
    at = max(cut.rfind(mark) for mark in ",,。;;、.!?!?")
    if at >= size // 2:
        return cut[:at]
    if re.match(r"[A-Za-z0-9.-]", plain[size]):
        cut = re.sub(r"[A-Za-z0-9.-]+$", "", cut)
    return cut.rstrip()
