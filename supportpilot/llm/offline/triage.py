"""Triage by rules: which matter, is account data needed, does a human have to take it. Pure."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from supportpilot.llm.offline.lexicon import CONCEPTS, concepts_in, error_codes
from supportpilot.llm.offline.text import STOP_ZH, bare, basics, clip, conversation, language, normal, sentences, terms

CONTEXT_SHARE = 0.3
SHORT_TERMS = 9
SUMMARY_CHARS = 40
QUERY_CHARS = 380
FOREIGN_WORDS = 2

WANTS_HUMAN = re.compile(
    r"转人工|人工客服|找人工|真人|活人|(?:要|接|换|叫|找|联系|请).{0,3}人工(?!审|处理费)|^人工[!!。]?$|(?:换|找|叫|让)(?:个|一个|位|一位)?(?:人|领导|经理|主管|负责人)(?:来|跟|和|给|回|处理|联系|对接|解决)?"
    r"|不(?:要|想)(?:跟|和|再跟)?.{0,4}机器人|(?:speak|talk|chat|connect me|transfer me|put me through|escalate).{0,20}(?:human|person|agent|representative|manager|supervisor|someone|staff|operator)"
    r"|(?:real|actual|live|human) (?:person|human|agent|being|support|representative)|human (?:please|now)|not (?:a )?(?:bot|robot)",
)
NO_HUMAN = re.compile(r"(?:不用|不必|不需要|无需|别).{0,4}(?:转人工|人工|真人)|(?:no need|don't need|do not need).{0,20}(?:human|person|agent)")
COMPLAINT = re.compile(
    r"投诉|12315|12345|消协|消费者协会|工商局|市场监管|监管局|律师|起诉|法院|仲裁|告你们|打官司|曝光|举报|媒体|诈骗|欺诈|报警|索赔|赔偿"
    r"|lawyers?|attorney|legal action|\bsue\b|suing|lawsuit|court|consumer protection|regulator|file a complaint|formal complaint|chargeback|fraud\w*|police",
)
INCIDENT = re.compile(
    r"被盗|盗号|盗用|盗刷|泄露|泄漏|外泄|被黑|黑客|入侵|被人登|被别人登|陌生人.{0,6}登|不是(?:我|我们).{0,6}(?:操作|登录|登的|改的)|勒索|钓鱼"
    r"|hacked|hijack\w*|breach\w*|compromised|stolen|leak\w*|phish\w*|unauthori[sz]ed (?:access|login|sign|transaction|charge|use)|someone (?:else )?(?:logged|signed|got|accessed|is using|has accessed)",
)
ONLY_ASKS = re.compile(
    r"(?:会不会|是否会|会|怎么防|如何防|防止|避免|担心|怕|预防|保证不).{0,10}(?:泄露|泄漏|被盗|外泄|被黑|入侵)|(?:泄露|泄漏|被盗|外泄|被黑).{0,4}(?:风险|吗)"
    r"|(?:prevent|protect|avoid|worried about|risk of|could|will|would|can).{0,25}(?:leak|breach|hacked|stolen|compromised)",
)
UNSOLVED = re.compile(
    r"还是(?:不行|没|不能|不可以|失败|报错|一样|老样子|有问题|出错|同样|提示|显示|打不开|不好|登不|收不到)|仍(?:然|旧)?.{0,4}(?:不|没|失败|报错)|依[旧然].{0,4}(?:不|没|失败|报错)|没(?:有)?(?:用|效果|解决|好|变化|反应|恢复)|不管用|不起作用|还不行|不行啊|又(?:不行|失败|报错)了|(?:试|弄|操作)(?:过|了).{0,12}(?:不行|没用|不对|失败|报错)|解决不了"
    r"|still (?:not|isn't|doesn't|does not|don't|can't|cannot|won't|fail\w*|broken|the same|getting|see\w*|unable|having|no|stuck|wrong|happen\w*)|(?:didn't|did not|doesn't|does not|not) (?:help|work|fix|solve)\w*|same (?:error|problem|issue|result|thing)|no (?:luck|change|effect)|not (?:working|solved|fixed|resolved)|hasn't (?:helped|worked)|no use",
)
URGENT = re.compile(r"紧急|急[!!用需,,。]|很急|着急|加急|尽快|马上|立刻|立即|赶紧|今天(?:必须|之内|就要)|快点|截止|asap|urgent\w*|immediately|right now|right away|critical|deadline|as soon as possible")
RELAXED = re.compile(r"不急|不着急|有空|随便问|顺便问|了解一下|no rush|no hurry|whenever|just curious|just wondering")
MINE = re.compile(r"我(?:的|司|家)|我们(?:的|公司|家|单位|这边)|本公司|我这|咱们?(?:公司|家)|(?<![a-z])(?:my|our|mine|ours)(?![a-z])|(?<![a-z])(?:i|we)(?:'ve| have|'m| am| are|'re| was| were| got| can't| cannot)(?![a-z])")
POLICY = re.compile(r"政策|规则|条件|规定|流程|标准|一般|通常|支持哪些|区别|policy|policies|rules?|conditions|terms|in general|generally|difference|how does|how do (?:refunds|you)")
REFUND_ASK = re.compile(
    r"申请退|(?:我|我们)?(?:要|想|要求|希望|需要|请|麻烦|帮(?:我|忙)?|给我|得).{0,12}退|退给|退回来|退还|把.{0,16}退|退\s?(?:一|两|这|那|掉|inv)|退一下|退了吧|退我|能(?:不能)?.{0,6}退|可以.{0,4}退|钱.{0,4}退|退款[!!。]?$"
    r"|(?:want|like|need|request\w*|get|give|have|asking for|please|expect|demand|can i|can we|could).{0,25}(?:refund|money back)|refund (?:me|us|my|our|this|that|the|it|invoice)|money back",
)
STATUS_ASK = re.compile(r"到账|进度|到哪|处理得|批了|多久|几天|什么时候|status|how long|when (?:will|do|does)|arriv\w*|processed")
OWN_STATE = re.compile(
    r"什么(?:套餐|版本)|哪个(?:套餐|版本)|(?:什么时候|何时|哪天|几号|多久).{0,8}(?:到期|过期|续费|扣|续)|到期(?:时间|日)|还剩|剩余|(?:套餐|订阅|授权|服务).{0,6}(?:状态|到期了)"
    r"|what plan|which plan|current plan|when .{0,30}(?:expire|renew|end|due|charged)|how many seats|status of",
)
HAPPENED = re.compile(r"了|失败|报错|错误|异常|断|没有?|不(?:了|行|到|上|动|出|更新|同步)|fail\w*|error|stopped|not |n't|broken|stuck|missing")


GLAD = re.compile(r"谢|感谢|辛苦|收到|明白|知道了|解决了|可以了|好了|恢复|正常了|thank|thx|cheers|solved|works now|got it|that helped")
ASKS_MORE = re.compile(r"[??]|但|不过|可是|还是|还有|还想|另外|再|没|不|请|帮|怎|什么|吗|呢|\b(?:but|still|not|how|what|when|please|can|could|also|need|want)\b|n't")


def triage(sections: dict[str, str]) -> dict[str, Any]:
    """Return the fields of `Triage` for the newest message."""
    newest = normal(sections.get("newest", ""))
    category = category_of(sections)
    unsolved = is_unsolved(sections)
    human = needs_human(newest)
    return {
        "category": category,
        "needs_account_data": needs_account(sections, category, unsolved=unsolved),
        "needs_human": human,
        "urgency": _urgency(newest, urgent=human),
        "summary": _summary(sections.get("newest", "")),
        "search_query": search_query(sections),
        "still_unsolved": unsolved, "wish": wish_of(newest), "only_thanks": only_thanks(newest),
    }


def only_thanks(newest: str) -> bool:
    """Say whether a normalised message thanks, or says that it works now, and nothing else."""
    return bool(GLAD.search(newest)) and not (ASKS_MORE.search(newest) or error_codes(newest) or concepts_in(newest) - {"failure"})


def wish_of(newest: str) -> str:
    """Return what a normalised message wishes for the future, "" if nothing of the list."""
    for sentence in sentences(newest):
        for name, pattern in WISHES.items():
            if pattern.search(sentence) and not NO_WISH.search(sentence):
                return name
    return ""


def needs_human(newest: str) -> bool:
    """Say whether a message asks for a human, threatens, or reports a security incident."""
    if COMPLAINT.search(newest):
        return True
    if INCIDENT.search(newest) and not ONLY_ASKS.search(newest):
        return True
    return bool(WANTS_HUMAN.search(newest)) and not NO_HUMAN.search(newest)


def is_unsolved(sections: dict[str, str]) -> bool:
    """Say whether the customer says that our last answer did not help; without an answer there is none to blame."""
    answered = "summary" in sections or any(not line.customer for line in conversation(sections.get("recent", "")))
    return answered and bool(UNSOLVED.search(normal(sections.get("newest", ""))))


def category_of(sections: dict[str, str]) -> str:
    """Return the category with the most votes; the subject and what was said before count less."""
    newest = normal(sections.get("newest", ""))
    votes = _votes(newest, 1.0)
    if wants_refund(newest):
        votes["refund"] += 2
    strongest = max(votes.values(), default=0.0)
    share = 1.0 if strongest == 0 else CONTEXT_SHARE
    votes.update(_votes(normal(basics(sections).get("subject", "")), share))
    if strongest < 1.5:
        votes.update(_votes(normal(customer_words(sections)), share * 0.8))
    best = max(votes.items(), key=lambda item: item[1], default=("other", 0.0))
    return best[0] if best[1] >= 0.5 else "other"


def customer_words(sections: dict[str, str]) -> str:
    """Return what the customer said in the recent entries, last first and most."""
    said = [line.text for line in conversation(sections.get("recent", "")) if line.customer]
    return "\n".join(reversed(said[-3:]))


def is_follow_up(sections: dict[str, str]) -> bool:
    """Say whether the newest message is too short to stand alone."""
    newest = sections.get("newest", "")
    known = "recent" in sections or "summary" in sections
    return known and ((len(terms(newest)) < SHORT_TERMS and not error_codes(newest)) or bool(UNSOLVED.search(normal(newest))))


def search_query(sections: dict[str, str]) -> str:
    """Return the newest message without greetings, with codes from before if it is a follow-up, and usual words."""
    newest = bare(sections.get("newest", "")) or basics(sections).get("subject", "")
    concepts = concepts_in(normal(newest))
    extra: list[str] = []
    if is_follow_up(sections):
        before = f"{basics(sections).get('subject', '')}\n{customer_words(sections)}"
        extra += _codes_before(sections) + [clip(part, 40) for part in before.splitlines() if part.strip()][:2]
        concepts |= concepts_in(normal(before)) if len(concepts) < 2 else set()
    elif not error_codes(newest) and "bank_sync" in concepts:
        extra += error_codes(sections.get("profile", ""))[:1]
    extra += [CONCEPTS[name].words for name in sorted(concepts, key=lambda n: -CONCEPTS[n].weight)[:5]]
    return clip(_joined(newest, extra, english=language(sections) == "en"), QUERY_CHARS) or "help"


def _joined(newest: str, extra: list[str], *, english: bool) -> str:
    """Join the customer's words and the usual ones; where those tell enough, function words would only dilute them."""
    own = clip(newest, 240)
    if english:
        # Chinese words turn the search to Chinese articles: a few, for matters that have no English one.
        foreign = [words[0] for part in extra if (words := [w for w in part.split() if not w.isascii()])][:FOREIGN_WORDS]
        extra = [word for part in extra for word in part.split() if word.isascii()] + foreign
    else:
        own = clip(" ".join(STOP_ZH.sub(" ", newest).split()), 80 if extra else 240) or own
        extra = [word for part in extra for word in part.split() if not LOWER_LATIN.fullmatch(word)]
    words = [word for part in extra for word in part.split() if word.lower() not in own.lower()]
    return " ".join([own, *dict.fromkeys(words)])


def needs_account(sections: dict[str, str], category: str, *, unsolved: bool) -> bool:
    """Say whether this customer's own data helps with the answer."""
    newest = normal(sections.get("newest", ""))
    concepts = concepts_in(newest)
    before = concepts_in(normal(customer_words(sections) + basics(sections).get("subject", "")))
    if category == "refund":
        return wants_refund(newest) or bool(STATUS_ASK.search(newest) and MINE.search(newest)) or bool(INVOICED.search(newest))
    if concepts & {"bank_sync", "bank_auth"} or (unsolved and before & {"bank_sync", "bank_auth"}):
        return unsolved or bool(error_codes(newest)) or (bool(HAPPENED.search(newest)) and "bank_supported" not in concepts)
    if "double_charge" in concepts or OWN_STATE.search(newest) or INVOICED.search(newest):
        return True
    return category in ("billing", "invoice", "plan_change") and bool(MINE.search(newest)) and not POLICY.search(newest)


# The house numbers its error codes by subject.
CODE_FAMILIES = {"E1": "account", "E2": "billing", "E3": "technical", "E4": "api", "E5": "technical"}
LOWER_LATIN = re.compile(r"[a-z-]+")
WISHES = {
    "reminder_before_expiry": re.compile(r"(?:到期|过期|失效).{0,16}(?:提醒|通知|告诉)|(?:提醒|通知|告诉).{0,16}(?:到期|过期|失效)|(?:remind|notif|let (?:me|us) know|warn)\w*.{0,40}expir|expir\w*.{0,40}(?:remind|notif|warn)"),
    "notice_before_charge": re.compile(r"(?:扣款|扣费|续费)之?前.{0,16}(?:提醒|通知|告诉)|(?:提醒|通知|告诉).{0,16}(?:扣款|扣费|续费)之?前|(?:remind|notif|let (?:me|us) know|warn)\w*.{0,40}before.{0,24}(?:charg|renew)"),
    "phone_call": re.compile(r"给(?:我|我们)(?:打|来|回)个?电话|(?:用|打)电话联系|请?回电|(?:call|phone) (?:me|us)\b|by phone"),
    "monthly_invoice": re.compile(r"每个?月.{0,8}(?:自动|都).{0,8}(?:开票|开发票|发票)|自动开(?:票|发票)|invoice.{0,20}every month|monthly invoice"),
}
NO_WISH = re.compile(r"(?:不用|不要|不必|无需|别|不需要)(?!忘).{0,8}(?:提醒|通知|告诉|电话|开票|发票)|(?:don't|do not|no need to) (?:remind|notify|call|phone|send)")
INVOICED = re.compile(r"(?<![a-z0-9-])[a-z]{2,6}-?\d[\d-]{3,}\d")


def wants_refund(newest: str) -> bool:
    """Say whether a normalised message asks for money back, not just how refunds go."""
    if POLICY.search(newest) and not MINE.search(newest):
        return False
    concepts = concepts_in(newest)
    if STATUS_ASK.search(newest) and "double_charge" not in concepts and not re.search(r"申请退|request", newest):
        return False
    return "refund" in concepts and (bool(REFUND_ASK.search(newest)) or "double_charge" in concepts)


def _votes(text: str, share: float) -> Counter[str]:
    votes: Counter[str] = Counter()
    for name in concepts_in(text):
        votes[CONCEPTS[name].category] += CONCEPTS[name].weight * share  # type: ignore[assignment] # votes are weighted
    for code in error_codes(text):
        votes[CODE_FAMILIES.get(code[:2], "technical")] += 2.5 * share  # type: ignore[assignment]
    return votes


def _codes_before(sections: dict[str, str]) -> list[str]:
    places = (basics(sections).get("subject", ""), sections.get("recent", ""), sections.get("summary", ""), sections.get("profile", ""))
    for place in places:
        if found := error_codes(place):
            return found[-2:]
    return []


def _urgency(newest: str, *, urgent: bool) -> str:
    if RELAXED.search(newest):
        return "low"
    return "high" if urgent or URGENT.search(newest) else "normal"


def _summary(newest: str) -> str:
    parts = sentences(bare(newest)) or [newest]
    return clip(parts[0], SUMMARY_CHARS) or "(empty)"
