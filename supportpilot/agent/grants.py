"""Money that a draft grants or promises on its own: nobody has decided on it, and no article says so. Pure.

A refund is paid by the node `approval` alone; a reply that announces one without it is a promise that the desk has to
keep, whoever talked the model into it. The reviewer is told the same, but the reviewer is a model too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SENTENCE = re.compile(r"[^。!?！？;；\n.]+(?:\.(?!\s|$)[^。!?！？;；\n.]*)*[?？]?")
_QUOTED = re.compile(r"“[^“”]{0,400}”|「[^「」]{0,400}」|\"[^\"\n]{0,400}\"")
_HOW = r"(?:全额|全部|立即|马上|尽快|直接|足额|双倍|优先|先|一并)*"
# What follows the word makes it a thing to read, fill in or wait for: 退款单, 退款金额, 退款结果.
_WORD = r"(?:退款|退还|退回|返还|返现|打款|赔偿|补偿|赔付|减免|免单)"
_MONEY = _WORD + r"(?![单性额]|金额|申请|记录|凭证|进度|结果|规则|政策|说明|信息|流程|事宜|方式|原因|编号|通知|页)"
_TO_YOU = r"(?:为|给|向|帮|替)?[您你]?"
_PROMISED = re.compile(
    rf"(?:会|将|承诺|保证|同意|答应|负责)(?:在?[^,，。会将]{{0,12}}?(?:之?内|前|今天|明天|当天))?{_TO_YOU}{_HOW}{_MONEY}(?!审核)"
    r"|\b(?:we|i)(?:['’]ll| will| shall| promise to| agree to| are going to)(?: \w+ly| also)?(?: \w+ly)? "
    r"(?:refund|compensate|reimburse|pay (?:you|back|out|the|your|for your|cny|[¥$\d])|credit (?:you|your (?:account|card)|cny|[¥$\d]))",
    re.IGNORECASE)
# Whose money: the customer's own, an amount, or all of it. Else the sentence tells how the product or a bank works.
_DEFINITE = re.compile(r"[我您你咱]|本公司|全额|双倍|\d\s*(?:元|块|CNY|RMB)|[¥￥$]\s*\d|\b(?:we|i|you|your)\b", re.IGNORECASE)
_GRANTED = re.compile(
    rf"(?:已经?|成功){_TO_YOU}(?:批准|同意|通过|按[^,，。]{{0,8}})?{_TO_YOU}{_HOW}{_MONEY}(?!审核)"
    rf"|{_WORD}(?!单)(?:申请|审批|审核)?[^,，。]{{0,16}}?已经?(?:审核)?(?:通过|批准|完成(?!登记|第)|到账|成功|退[还回给])(?!后(?!续))"
    r"|\b(?:refund|compensation|reimbursement)s?\b[^,;.]{0,30}?\b(?:(?:has|have) been|was|were|is) (?:\w+ly )?"
    r"(?:approved|granted|paid|completed|issued|processed)(?! (?:an?|within|in|by|after|to the original)\b)"
    r"|\b(?:refund|compensation) approved\b|^approved[:!,]?\s*(?:$|(?:(?:your|the|a) )?(?:full )?(?:refund|compensation)\b|(?:cny |[¥$])?\d)"
    r"|\b(?:have|has been|was|been) (?:\w+ly )?(?:refunded|compensated|reimbursed)\b",
    re.IGNORECASE)
_SPOKEN = re.compile(r"[我您你]|\b(?:we|i|you|our)\b", re.IGNORECASE)
# Anywhere in the sentence: a condition, a question, somebody's words.
_OPEN = re.compile(
    r"如果|如需|如[您你有](?![所愿])|若(?!干)|是否|核实[,，]|您(?:之前|刚才)?(?:说|提到|表示|称)|[吗?？]$|审核(?:通过)?[才再]"
    r"|\b(?:if|once(?! and for all)|after(?! all)|whether|unless|within \d+ days of (?:purchase|payment)|you (?:said|mentioned|wrote|told))\b", re.IGNORECASE)
# Only before the words: `我们会退款给您,到账后会通知您` waits for nothing.
_FIRST = re.compile(
    r"(?:满足|符合)[^,，。]{0,10}的|(?:通过|审核|批准|审批|同意|核实|确认|取消|完成|到账)[^,，。]{0,12}?(?<![然今最随])后(?!续|台)|天内取消|之后")
# Only beside the words themselves: `没有问题,我们会退款给您` denies nothing.
_DENIED = re.compile(r"无法|不能|不会|尚未|还没|未能|没有|\b(?:cannot|can['’]?t|not|won['’]t)\b", re.IGNORECASE)
_COMMA = re.compile(r"[,，:：]")


def promised_money(draft: str, articles: Iterable[str]) -> list[str]:
    """Return the sentences that promise money, but for those that only quote how an article says things go.

    What speaks to this customer (`we will refund you`) is a promise also where an article puts the words in our mouth.
    """
    return [sentence for sentence in _found(_PROMISED, draft, ()) if _DEFINITE.search(sentence)
            and (_SPOKEN.search(sentence) or _found(_PROMISED, sentence, articles))]


def granted_money(draft: str, articles: Iterable[str]) -> list[str]:
    """Return the sentences that say money was granted or paid, but for those that quote an article."""
    return _found(_GRANTED, draft, articles)


def _found(pattern: re.Pattern[str], draft: str, sources: Iterable[str]) -> list[str]:
    told = [_squeezed(source) for source in sources]
    sentences = (found.group().strip() for found in _SENTENCE.finditer(_QUOTED.sub("", draft)))
    return [sentence for sentence in sentences if _says(pattern, sentence) and not any(_squeezed(sentence) in source for source in told)]


def _says(pattern: re.Pattern[str], sentence: str) -> bool:
    if _OPEN.search(sentence):
        return False
    return any(not _FIRST.search(sentence[:found.start()]) and not _DENIED.search(_clause(sentence, found.start(), found.end()))
               for found in pattern.finditer(sentence))


def _clause(sentence: str, start: int, end: int) -> str:
    """Return what stands between the commas around a place."""
    before = [comma.end() for comma in _COMMA.finditer(sentence, 0, start)]
    after = _COMMA.search(sentence, end)
    return sentence[before[-1] if before else 0:after.start() if after else len(sentence)]


def _squeezed(text: str) -> str:
    return "".join(ch for ch in text.lower() if ch.isalnum())
