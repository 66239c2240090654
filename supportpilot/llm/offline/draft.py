"""The reply by rules: account facts from the findings, advice word for word from one article, its citation. Pure."""

from __future__ import annotations

import re

from supportpilot.llm.offline import choose, facts, recall
from supportpilot.llm.offline.lexicon import concepts_in
from supportpilot.llm.offline.text import Article, bare, basics, language, language_of, normal, terms
from supportpilot.llm.offline.triage import customer_words, is_follow_up, is_unsolved, wants_refund

THANKS = re.compile(r"谢|感谢|辛苦|好的|收到|明白|知道了|解决了|可以了|好了|thank|thx|cheers|great|perfect|solved|works now|got it", re.IGNORECASE)
WRITE_TO_US = re.compile(r"发给我们|联系我们|发来|send us|contact us|转人工|human please")
MONEY = frozenset({"refund", "double_charge", "charge", "bill", "invoice", "pay_failed", "invoice_when", "refund_time"})
PLANS = frozenset({"plan", "upgrade", "downgrade", "cancel", "cycle", "seats", "renewal", "trial", "price", "member"})


def draft(sections: dict[str, str]) -> str:
    """Return the reply in the language of `basics`."""
    lang = language(sections)
    if small_talk := _small_talk(sections, lang):
        return small_talk
    newest = normal(sections.get("newest", ""))
    article = choose.best_article(sections)
    recapped = recall.asks_for_recap(newest)
    parts = [_opening(sections, lang)]
    if recapped:
        parts.append(recall.recap(sections, lang))
    parts += [recall.repeats(sections, _matter(sections, article), lang), _account(sections, article, lang)]
    if article is not None and (not recapped or concepts_in(newest) - {"reminder", "auth_reminder"}):
        parts.append(_advice(article, sections, lang))
    elif not recapped and not any(parts[1:]):
        parts.append(_nothing(lang))
    if is_unsolved(sections) and not WRITE_TO_US.search(parts[-1]):
        parts.append(_closing(lang))
    return ("" if lang == "zh" else " ").join(p for p in parts if p).strip()


def _opening(sections: dict[str, str], lang: str) -> str:
    if is_unsolved(sections):
        return "您好,很抱歉上次的办法没有解决问题。" if lang == "zh" else "Hello. I am sorry that the last answer did not solve it."
    return "您好," if lang == "zh" else "Hello."


def _small_talk(sections: dict[str, str], lang: str) -> str:
    newest = sections.get("newest", "")
    rest = bare(newest)
    if not terms(rest) or (len(rest) <= 12 and THANKS.search(newest) and not concepts_in(normal(rest))):
        if THANKS.search(newest):
            return "不客气,后续有问题随时回复这条消息。" if lang == "zh" else "You are welcome. Just reply here if anything else comes up."
        if not is_follow_up(sections) and not concepts_in(normal(basics(sections).get("subject", ""))):
            return "您好,请问有什么可以帮您?请告诉我遇到的具体情况或报错代码。" if lang == "zh" else (
                "Hello, how can I help? Please tell me what happened or which error code you see.")
    return ""


def _matter(sections: dict[str, str], article: Article | None) -> str:
    """Return the text that says what this is about, for comparing with the profile."""
    subject = basics(sections).get("subject", "")
    title = article.title if article else ""
    return f"{subject}\n{customer_words(sections) if is_follow_up(sections) else ''}\n{title}"


def _account(sections: dict[str, str], article: Article | None, lang: str) -> str:
    """Say what the findings hold that belongs to the question."""
    findings = sections.get("findings", "")
    if not findings:
        return ""
    newest = normal(sections.get("newest", ""))
    concepts = concepts_in(newest) | (concepts_in(normal(customer_words(sections))) if is_follow_up(sections) else set())
    if refund := facts.refund_in(findings):
        return facts.say_refund(refund, lang)
    if facts.refund_refused(findings):
        return ("这张账单目前不能提交退款申请,请您核对账单编号和金额。" if lang == "zh"
                else "This invoice cannot be put forward for a refund; please check its number and amount.")
    if banks := facts.say_banks(findings, f"{sections.get('newest', '')}{article.title if article else ''}", lang):
        return banks
    if concepts & MONEY and (invoices := facts.say_invoices(findings, lang)):
        return _which_invoice(sections, invoices, lang)
    return facts.say_plans(findings, lang) if concepts & PLANS else ""


def _which_invoice(sections: dict[str, str], invoices: str, lang: str) -> str:
    if wants_refund(normal(f"{sections.get('newest', '')}")):
        return (f"您账户下的账单有:{invoices}。请告诉我需要退的是哪一张。" if lang == "zh"
                else f"The invoices of your account: {invoices}. Which one is your request about?")
    return f"您账户下的账单有:{invoices}。" if lang == "zh" else f"The invoices of your account: {invoices}."


def _advice(article: Article, sections: dict[str, str], lang: str) -> str:
    cited = f"[{article.id}]"
    text = choose.advice(article, sections)
    if language_of(text) == lang:
        lead = "处理办法如下:\n" if lang == "zh" else "Here is what to do:\n"
        return f"{lead}{text} {cited}\n"
    if lang == "zh":
        return f"帮助中心有一篇英文说明与此有关,请参考 {cited}。"
    return f"Our help centre covers this in an article that exists in Chinese only, please see {cited}."


def _nothing(lang: str) -> str:
    if lang == "zh":
        return "帮助中心里没有找到与您这个问题对应的说明,我还不能确定答案,不想随便猜。请您补充具体的页面、操作步骤或报错代码;如果需要,可以回复“转人工”由同事跟进。"
    return ("I could not find anything in our help centre that covers this, and I do not want to guess. Please tell me the page, the steps"
            " or the error code you see; reply \"human please\" if you would like a colleague to take over.")


def _closing(lang: str) -> str:
    if lang == "zh":
        return "如果仍然不行,请把提示的报错代码和操作时间发给我们,会有同事接着处理。"
    return "If it still fails, please send us the error code and the time, and a colleague will take it on."
