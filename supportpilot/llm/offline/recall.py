"""What a reply may say about earlier: this conversation, its summary, and the customer's profile. Pure."""

from __future__ import annotations

import re

from supportpilot.llm.offline import details
from supportpilot.llm.offline.lexicon import CITATION, concepts_in, error_codes
from supportpilot.llm.offline.text import bare, clip, conversation, normal, sentences

NUMBERS = {"一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9, "十": 10,
           "once": 1, "twice": 2, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9}
COUNT = re.compile(r"(\d{1,3}|[一二两三四五六七八九十])\s?次|(\d{1,3}|two|three|four|five|six|seven|eight|nine) times|(?<![a-z])(once|twice)", re.IGNORECASE)
LINK = re.compile(r"\[([^\[\]]{0,300})\]\([^()]{0,600}\)")
MOST_PROMISES = 3
OPEN_PROMISE = re.compile(r"^- (?:待兑现:|promised, open: )")
ASKS_PROMISE = re.compile(r"答应|承诺|说会|说好|promise|you said|you told")
ASKS_DAY = re.compile(r"哪天|几号|日期|which (?:date|day)")
REMIND = re.compile(r"提醒|remind", re.IGNORECASE)

ASKS_WHERE = re.compile(
    r"(?:说|聊|讲|谈|进行|处理)到(?:哪|什么)|(?:刚才|之前|前面|上次|上面|上一次|第.轮|昨天|前天|先前|一开始|最开始|最初|早些时候).{0,6}(?:说|聊|讲|答应|答复|承诺|提(?:过|到|的|了)|问(?:过|的|了)|(?:给|发|写|报)(?:过|的|了|你|您|给)|告诉)|原话|怎么说的|答应(?:过|了)|承诺(?:过|了)?|说好|说会|回顾|总结一下|还记得|到哪一步|进展"
    r"|where (?:were|are|did) we|what (?:did|have) (?:we|you|i) (?:say|said|tell|told|promise\w*|discuss\w*|mention\w*|talk\w*)|you (?:said|promised|told|mentioned)|as (?:i|we) (?:said|mentioned)|i (?:said|mentioned|told you) (?:earlier|before)|recap|remind me (?:what|where)|earlier you|summar\w+",
)
ASKS_WORDS = re.compile(r"原话|怎么说的|说(?:了|过|的是)(?:什么|啥)|第.{1,2}(?:轮|条|次).{0,6}(?:说|写|问)|what (?:did|have) (?:i|you|we) (?:say|said|write|wrote|ask)|word for word|exact words")
QUOTED_CHARS = 300
PROMISE = re.compile(r"(?:会|将|可以|答应|承诺|保证).{0,16}(?:回复|联系|处理|提醒|通知|跟进|退|反馈|答复|解决|安排|到账)|(?:\d{1,6}|[一两二三四五六七八九十]{1,6})\s?(?:个)?(?:工作日|小时|天|日|分钟)(?:之?内|后)|promise|we(?:'ll| will)|within \d+|i(?:'ll| will)", re.IGNORECASE)


def asks_for_recap(newest: str) -> bool:
    """Say whether a normalised message refers to what was said before."""
    return bool(ASKS_WHERE.search(newest))


def recap(sections: dict[str, str], lang: str) -> str:
    """Return what was said, from the recent entries and the summary; honest if there is nothing."""
    newest = normal(sections.get("newest", ""))
    if answer := _quoted(sections, newest, lang) or _due(sections, newest, lang) or details.answer(sections, newest, lang):
        return answer
    parts = [_summary(sections.get("summary", ""), lang), _last_words(sections.get("recent", ""), lang)]
    if ASKS_PROMISE.search(newest):
        parts.insert(0, _promises(sections, lang))
    said = " ".join(p for p in parts if p) if lang == "en" else "".join(p for p in parts if p)
    if said:
        return said
    return ("我这里没有看到之前的对话内容,请您再说一下具体情况。" if lang == "zh"
            else "I cannot see anything earlier in this conversation; could you please tell me again?")


def repeats(sections: dict[str, str], about: str, lang: str) -> str:
    """Return what the profile says about the same matter coming back, or nothing; `about` is the matter's text.

    Said once: what stands in an earlier reply is not said again.
    """
    said = "\n".join(line.text for line in conversation(sections.get("recent", "")) if not line.customer)
    profile = sections.get("profile", "")
    matter = normal(f"{sections.get('newest', '')}\n{about}")
    parts = []
    for sentence in sentences(profile):
        count = _count(sentence)
        # Only a code says that it is the same matter; "three refunds" does not make this one the fourth.
        same = [code for code in error_codes(sentence) if code in error_codes(matter)]
        if count and same:
            parts.append(_again(f" {same[0]} " if lang == "zh" else same[0], count, lang))
            break
    if REMIND.search(profile) and {"bank_sync", "bank_auth", "reminder"} & concepts_in(matter):
        parts.append("您希望到期前收到提醒的需求,我们已经记录。" if lang == "zh"
                     else "Your wish for a reminder before the expiry is noted.")
    return ("" if lang == "zh" else " ").join(part for part in parts if part not in said)


def plain(text: str) -> str:
    """Return an earlier reply without links and citations."""
    return CITATION.sub("", LINK.sub(r"\1", text)).strip()


def _again(what: str, count: int, lang: str) -> str:
    if lang == "zh":
        return f"记录显示{what}此前已出现过 {count} 次,这是第 {count + 1} 次,就不从头排查了。"
    times = {1: "once", 2: "twice"}.get(count, f"{count} times")
    return f"Our records show that you have had {what} {times} before (so this is number {count + 1}); no need to start from scratch."


def _count(sentence: str) -> int:
    found = COUNT.search(sentence)
    if found is None:
        return 0
    word = next(g for g in found.groups() if g).lower()
    return int(word) if word.isdigit() else NUMBERS.get(word, 0)


def _quoted(sections: dict[str, str], newest: str, lang: str) -> str:
    """Return the recalled entries word for word: the customer's own, or ours if we are asked what we said."""
    if not ASKS_WORDS.search(newest):
        return ""
    ours = bool(re.search(r"你们?.{0,8}(?:说|答|写|承诺)|客服|you (?:say|said|write|wrote|tell|told|promise)", newest))
    lines = [line for line in conversation(sections.get("recall", "")) if line.customer is not ours]
    said = [clip(plain(" ".join(line.text.split())), QUOTED_CHARS) for line in lines]
    if not said:
        return ""
    if lang == "zh":
        return f"{'我们之前的答复是' if ours else '您之前的原话是'}{'、'.join(f'“{text}”' for text in said)}。"
    return f"{'What we wrote earlier' if ours else 'What you wrote earlier'}: {', '.join(chr(34) + text + chr(34) for text in said)}."


def _summary(summary: str, lang: str) -> str:
    lines = [plain(line.strip().removeprefix("- ").strip()) for line in summary.splitlines() if line.strip()]
    if not lines:
        return ""
    joined = clip(";".join(lines), 140)
    return f"之前的要点:{joined}。" if lang == "zh" else f"The main points so far: {joined}."


def _last_words(recent: str, lang: str) -> str:
    lines = conversation(recent)
    asked = next((line.text for line in reversed(lines) if line.customer), "")
    answered = next((line.text for line in reversed(lines) if not line.customer), "")
    parts = []
    if asked:
        parts.append(f"刚才您说的是“{clip(asked, 60)}”" if lang == "zh" else f'You last wrote: "{clip(asked, 90)}"')
    if answered:
        shown = clip(bare(plain(answered)), 110 if lang == "zh" else 160)
        parts.append(f"我们的答复是“{shown}”" if lang == "zh" else f'and we answered: "{shown}"')
    if not parts:
        return ""
    return ",".join(parts) + "。" if lang == "zh" else " ".join(parts) + "."


def _due(sections: dict[str, str], newest: str, lang: str) -> str:
    """Return the open promises if we are asked for their day: the dates of the ledger are other things' dates."""
    asked = ASKS_PROMISE.search(newest) and ASKS_DAY.search(newest)
    return _promises(sections, lang) if asked and _open_promises(sections) else ""


def _promises(sections: dict[str, str], lang: str) -> str:
    if still_open := _open_promises(sections):
        shown = ";".join(still_open[:MOST_PROMISES])
        return f"我们之前答应过您:{shown}。" if lang == "zh" else f"What we promised you before: {shown}."
    said = [line.text for line in conversation(sections.get("recent", "")) if not line.customer]
    places = [sections.get("ledger", ""), sections.get("recall", ""), sections.get("summary", ""), *said]
    found = [plain(s) for place in places for s in sentences(place) if PROMISE.search(s)]
    if not found:
        return ""
    shown = clip(";".join(s.removeprefix("- ").strip().rstrip("。.;") for s in found[-2:]), 120)
    return f"我们之前说过:{shown}。" if lang == "zh" else f"What we said before: {shown}."


def _open_promises(sections: dict[str, str]) -> list[str]:
    """Return the promises that are still to be kept: the ledger's first lines, the earliest due first."""
    return [plain(OPEN_PROMISE.sub("", line)) for line in sections.get("ledger", "").splitlines() if OPEN_PROMISE.match(line)]
