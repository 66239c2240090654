"""Money that a draft grants or promises on its own: nobody has decided on it, and no article says so. Pure.

A refund is paid by the node `approval` alone; a reply that announces one without it is a promise that the desk has to
keep, whoever talked the model into it. The reviewer is told the same, but the reviewer is a model too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SENTENCE = re.compile(r"[^。!?！？;；\n.]+(?:\.(?!\s|$)[^。!?！？;；\n.]*)*")
_QUOTED = re.compile(r"“[^“”]{0,400}”|「[^「」]{0,400}」|\"[^\"\n]{0,400}\"")
_HOW = r"(?:全额|全部|立即|马上|尽快|直接|足额|双倍|优先|先|一并)*"
_MONEY = r"(?:退款|退还|退回|返还|返现|打款|赔偿|补偿|赔付|减免|免单)"
_TO_YOU = r"(?:为|给|向|帮|替)?[您你]?"
_PROMISED = re.compile(
    rf"(?:会|将|承诺|保证|同意|答应|负责)(?:在?[^,，。会将]{{0,12}}?(?:之?内|前|今天|明天|当天))?{_TO_YOU}{_HOW}{_MONEY}(?!申请|审核|结果|进度|规则|政策|说明)"
    r"|\b(?:we|i)(?:['’]ll| will| shall| promise to| agree to| are going to)(?: \w+ly| also)?(?: \w+ly)? (?:refund|compensate|reimburse|pay|credit)\b",
    re.IGNORECASE)
_GRANTED = re.compile(
    rf"(?:已经?|成功){_TO_YOU}(?:批准|同意|通过|按[^,，。]{{0,8}})?{_TO_YOU}{_HOW}{_MONEY}(?!申请|审核|记录)"
    rf"|{_MONEY}(?:申请|审批|审核)?[^,，。]{{0,16}}?已经?(?:审核)?(?:通过|批准|完成|到账|成功|退[还回给])"
    r"|\b(?:refund|compensation|reimbursement)s?\b[^,;.]{0,30}?\b(?:(?:has|have) been|was|were|is) (?:\w+ly )?(?:approved|granted|paid|completed|issued|processed)"
    r"|\b(?:refund|compensation) approved\b|^approved\b|\b(?:have|has been|was|been) (?:\w+ly )?(?:refunded|compensated|reimbursed)\b",
    re.IGNORECASE)
_SPOKEN = re.compile(r"[我您你]|\b(?:we|i|you|our)\b", re.IGNORECASE)
_OPEN = re.compile(
    r"如果|如需|若|是否|通过后|审核后|批准后|核实后|之后|您(?:之前|刚才)?(?:说|提到|表示|称)|无法|不能|不会|尚未|还没|未能|没有"
    r"|\b(?:if|once|after|whether|unless|cannot|can['’]?t|not|you (?:said|mentioned|wrote|told))\b", re.IGNORECASE)


def promised_money(draft: str, articles: Iterable[str]) -> list[str]:
    """Return the sentences that promise money, but for those that only quote how an article says things go.

    What speaks to this customer (`we will refund you`) is a promise also where an article puts the words in our mouth.
    """
    return [sentence for sentence in _found(_PROMISED, draft, ()) if _SPOKEN.search(sentence) or _found(_PROMISED, sentence, articles)]


def granted_money(draft: str, articles: Iterable[str]) -> list[str]:
    """Return the sentences that say money was granted or paid, but for those that quote an article."""
    return _found(_GRANTED, draft, articles)


def _found(pattern: re.Pattern[str], draft: str, sources: Iterable[str]) -> list[str]:
    told = [_squeezed(source) for source in sources]
    sentences = (found.group().strip() for found in _SENTENCE.finditer(_QUOTED.sub("", draft)))
    return [sentence for sentence in sentences if pattern.search(sentence) and not _OPEN.search(sentence)
            and not any(_squeezed(sentence) in source for source in told)]


def _squeezed(text: str) -> str:
    return "".join(ch for ch in text.lower() if ch.isalnum())
