"""A message that only says thanks or "fine": answering it would start a ping-pong of politeness. Pure.

What is certain is decided here. What might be no more than that is a doubt, in which triage has the word; anything that
asks, denies or goes on is neither.
"""

from __future__ import annotations

import re
import unicodedata

MAX_CHARS, MAX_DOUBT_CHARS = 40, 80
TAIL_CHARS, LAST_CHARS = 400, 60
FULL_WIDTH_QUESTION = "\uff1f"
_THANKS = (
    r"(?:非常|十分|多|太|万分)?(?:谢谢|多谢|感谢|感激|谢了|谢啦|谢过)|辛苦|麻烦(?:你|您|你们)?了"
    r"|(?<![a-z])(?:thank\s*(?:you|u)|thanks|thanx|thx|tks|ty|cheers|(?:much )?appreciated|appreciate it)(?![a-z])")
_FINE = (
    r"好[的滴哒嘞呀啊了]?|嗯+|哦+|噢|收到|明白|知道|了解|懂了|行|可以|没问题了|已?经?解决|搞定|没事了"
    r"|(?<![a-z])(?:ok(?:ay|ey)?|great|perfect|got it|understood|noted|cool|nice|fine|sure|alright|all (?:good|set)|will do"
    r"|(?:it|that|this)(?:'s| is)? (?:works|worked|helped|helps|fixed|solved)|works|solved|fixed)(?![a-z])")
_GLAD = "👍👌🙏😊😀😃😄😁🙂☺❤💕🎉✅💯🌹👏🤝😘🥰😍✌💪🆗🤗🫡"
_SIGN = re.compile(rf"{_THANKS}|{_FINE}|[{_GLAD}]|\[(?:抱拳|强|ok|握手|玫瑰|爱心|赞|呲牙)\]")
_FILLER = re.compile(
    r"你们|您们|[你您啦了哦哈呢咯哟的都就那亲客服]|大家"
    r"|(?<![a-z])(?:so much|very much|very|a lot|again|many|a million|for (?:your|the|all your) (?:help|reply|answer)|now|you|all|it|that|i|and)(?![a-z])")
_GREETING = re.compile(r"[你您早午上安晚家]好|(?<![a-z])(?:hello|hi|hey)(?![a-z])")
_GOES_ON = re.compile(
    r"\d|@|取消|确认|同意|关闭|开通|停用|注销|删除|升级|降级|续费|执行|提交|办理|继续|马上|账号|帐号|账户|邮箱|但|不过|可是|然而|只是|还|另外|再|没|不|别|请|帮|想|要|怎|什么|哪|几|多少|如何|能否|可否|是否|为何|[吗么]|呢|退|投诉|报错|失败|错"
    r"|(?<![a-z])(?:cancel\w*|confirm\w*|agree\w*|go ahead|go for it|do (?:it|so|that)|proceed|continue|submit|yes|account|upgrade|downgrade|renew|close|delete|remove|stop|but|however|although|still|not|no|never|also|another|please|can|could|would|how|what|why|when|where|which|who"
    r"|help me|need|want|refund|error|fail\w*|wrong|\w+n't)(?![a-z])")
_LINK = re.compile(r"\]\([^()\s]{0,300}|https?://\S+")
_SENTENCE = re.compile(r"[^。.!?;\n]+[。.!?;]*")
_ASKS_FOR = re.compile(
    r"(?:请问|请您?|麻烦您?|需要您)(?:先|再|尽快|直接)?(?:提供|告知|告诉|确认|补充|回复|选择|说明|发)"
    r"|(?<![a-z])(?:please|could you|can you) (?:provide|tell|confirm|reply|send|share|let us know)")
_QUESTION = re.compile(
    r"\?|[吗呢]\W*$|^\W*(?:请问)?[您你]?(?:是否|要不要|需不需要)|(?:好不好|行不行|可不可以|能不能|要不要)\W*$"
    r"|^\W*(?:(?:shall|may) (?:i|we)|would you like|do you want)(?![a-z])")
# "Is there anything else?" waits for nothing if it is all that is asked: no word may be in it that something could be done with.
_ELSE = re.compile(r"还有|其[他它]|别的|(?<![a-z])(?:(?:any|some)thing else|any (?:other|further|more|additional) questions?)(?![a-z])")
_SAYS_NO_MORE = re.compile(
    r"(?:问题|疑问|需要|需求|可以|能够?|帮[助忙到上]?|协助|为|给|到|我们?|[您你亲]|的|地方|方面|事情?|什么|哪[些里]|其[他它]|别的|任何|了解|咨询|解决|处理|做|要|想"
    r"|是否|请问|另外|此外|除此之外|现在|目前|这边|那么?|还|没?有|[吗呢么]"
    r"|(?<![a-z])(?:is|are|there|do|have|you|need|i|we|can|could|may|help|assist|with|that|for|today|about|this|anything|something|else|any|other|further|more"
    r"|additional|questions?|know|want|to|ask|so)(?![a-z])|[^\w])++")
# What begins with an "if" is an offer too ("如仍不行,请提供截图。"), unless a yes would answer it.
_CONDITIONAL = re.compile(r"(?<![例比])如(?![下上图此同何])|若|要是|的话|随时|(?<![a-z])(?:if|feel free|whenever|should you)(?![a-z])")
_CONSENT = re.compile(
    r"确认|同意|愿意|想|需(?!.{0,8}(?:帮|协助|支持))|要.{0,8}的话"
    r"|(?<![a-z])(?:confirm|agree|consent|accept|want|wish|would like|\W?d like|need(?! (?:any )?(?:more |further |other )?(?:help|assistance|support)))(?![a-z])")
_REPLY = re.compile(r"回复|(?<![a-z])reply(?![a-z])")
_ANY_QUESTIONS = re.compile(
    r"(?<!没)有(?:任何|其[他它]|别的|什么|更多)?(?:的)?(?:问题|疑问)|(?<![a-z])(?<!not )(?<!n.t )have (?:any )?(?:other |further |more |additional )?(?:questions?|problems?)(?![a-z])")
_SAY_YES = re.compile(
    r"(?:回复|回答|(?<![a-z])(?:reply|answer|respond)(?: with| by)?)\W{0,3}(?:(?:好|是|行|可以|确认|同意|退|\d)|(?:yes|ok|okay|sure|confirm|y)(?![a-z]))")


def is_bare_thanks(text: str) -> bool:
    """Tell whether a text is thanks, a "fine" or a glad sign and nothing else; a doubt means no."""
    if len(text) > MAX_CHARS or _asks(text):
        return False
    plain = _plain(text)
    if _GREETING.search(plain):
        return False
    rest, count = _SIGN.subn(" ", plain)
    return count > 0 and not any(_says_something(sign) for sign in _FILLER.sub(" ", rest))


def might_be_thanks(text: str) -> bool:
    """Tell whether a short text has a word of thanks and none that asks, denies or goes on: triage decides."""
    if len(text) > MAX_DOUBT_CHARS or _asks(text):
        return False
    plain = _plain(text)
    if _GOES_ON.search(plain) or _GREETING.search(plain) or any(
            unicodedata.category(sign) == "So" and sign not in _GLAD for sign in plain):
        return False
    return bool(_SIGN.search(plain))


def ends_with_question(text: str) -> bool:
    """Tell whether a text asks something at its end, so that even "好的,谢谢" answers it.

    An offer ("还有其他问题吗?", "如仍不行,请提供截图。") waits for no answer and hides no question before it; the question
    mark of a link asks nothing. What asks for a yes is no offer, whatever stands before it; a doubt means that it asks.
    """
    tail, after = _LINK.sub("", _plain(text.strip()[-TAIL_CHARS:])), 0
    for sentence in reversed(_SENTENCE.findall(tail)):
        if after >= LAST_CHARS:
            return False
        if _waits(sentence):
            return True
        if not (_CONDITIONAL.search(sentence) or _closes(sentence)):
            after += len(sentence)
    return False


def _waits(sentence: str) -> bool:
    if _SAY_YES.search(sentence):
        return True
    if _QUESTION.search(sentence):
        return not _closes(sentence)
    if not _ASKS_FOR.search(sentence):
        return False
    if not _CONDITIONAL.search(sentence) or _CONSENT.search(sentence):
        return True
    return bool(_REPLY.search(sentence)) and not _ANY_QUESTIONS.search(sentence)


def _closes(sentence: str) -> bool:
    return bool(_ELSE.search(sentence) and _SAYS_NO_MORE.fullmatch(sentence))


def _asks(text: str) -> bool:
    return "?" in text or FULL_WIDTH_QUESTION in text


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _says_something(sign: str) -> bool:
    """Punctuation, spaces, joiners and skin tones say nothing; a sign that is not among the glad ones may."""
    return unicodedata.category(sign)[0] not in "PZCM" and unicodedata.category(sign) != "Sk" and sign not in "~^=+|"
