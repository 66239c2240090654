"""What is thanks and nothing else, what may be, and which answer still waits for a word."""

from __future__ import annotations

import pytest

from supportpilot.agent.courtesy import ends_with_question, is_bare_thanks, might_be_thanks

CERTAIN = [
    "谢谢", "谢谢!", "谢谢你们", "多谢", "好的", "好的,谢谢", "好的好的", "好滴", "好", "嗯", "嗯嗯", "哦", "收到", "收到,谢谢!", "明白了",
    "知道了", "了解了", "懂了", "行", "可以了", "没问题了", "解决了,谢谢", "已经解决了", "搞定了!", "没事了", "辛苦了", "麻烦您了",
    "ok", "OK", "Ok.", "\uff2f\uff2b", "okay", "ok谢谢", "Thanks!", "thank you so much", "thx", "Got it, thanks", "Great!", "That works, thank you",
    "thanks for your help", "It works now. Thanks a lot!", "cheers", "👍", "👍🏽", "🙏🙏", "❤️", "好的👌", "谢谢😊", "[抱拳]", "非常感谢您!", "好的~", "好的……",
]
DOUBTFUL = [
    "太好了,已经恢复正常了,谢谢你们的耐心", "谢谢,我回头试试", "Thanks, works like a charm", "好的,我按这个做", "谢谢你小李", "收到,我转给会计",
]
NEITHER = [
    "", " ", "...", "谢谢,不过还是不行", "谢谢\uff0c不过还是不行", "好的,那发票呢", "谢谢,还有发票怎么开", "谢谢?", "谢谢\uff1f", "好吗", "好不好", "不好", "不行", "不用谢谢",
    "没解决", "还没好", "谢谢,E3001 又来了", "OK but it still fails", "thanks, and how do I export it", "ok, please refund me", "it doesn't work", "not ok",
    "你好", "您好,谢谢", "早上好", "hello", "😡", "👎", "😭", "谢谢😡", "???", "666", "退款", "我要退款,谢谢", "请帮我看一下,谢谢", "谢谢,麻烦再查一下",
    "谢" * 200, "好的" * 50, "好的,取消订阅", "行,我确认", "Sure, cancel it", "ok go ahead", "好的,账号 wang", "好的,同意", "OK, close my account",
    "好的,停用吧", "好,开通", "行,删除", "好的,提交吧", "好的,办理吧", "好的,继续", "ok do it", "ok, delete my data", "OK, downgrade", "ok continue",
]


@pytest.mark.parametrize("text", CERTAIN)
def test_an_acknowledgement_is_known_by_rule(text):
    assert is_bare_thanks(text)


@pytest.mark.parametrize("text", DOUBTFUL)
def test_thanks_with_words_that_no_rule_knows_are_a_doubt(text):
    assert not is_bare_thanks(text)
    assert might_be_thanks(text)


@pytest.mark.parametrize("text", NEITHER)
def test_what_asks_denies_greets_or_goes_on_is_no_thanks_not_even_perhaps(text):
    assert not is_bare_thanks(text)
    assert not might_be_thanks(text)


@pytest.mark.parametrize(("text", "asks"), [
    ("需要我为您申请退款吗?", True), ("要为您申请退款吗\uff1f", True), ("请问是哪个账户", False), ("请提供账单号。", True), ("请您告知授权的银行", True),
    ("您用的是哪家银行呢", True), ("Which account is it?", True), ("Please confirm the invoice number.", True),
    ("如果您同意\uff0c我们现在就为您退款 199 元\uff0c可以吗\uff1f", True), ("如您确认要注销账号,需要我现在提交吗?", True),
    ("请问后续是否需要关闭自动续费?", True), ("Would you like me to check if the refund has arrived?", True),
    ("Should you confirm, may I cancel the subscription?", True), ("若确认退款,请回复\"好的\"。", True),
    ("If you agree, please reply with yes.", True), ("还有一张发票需要为您开吗?", True), ("还有别的需要帮忙的吗?", False),
    ("Any other questions?", False), ("如有其他问题,请回复本邮件。", False),
    ("请重新授权。", False), ("请重新授权。还有其他问题吗?", False), ("还有什么可以帮您的吗\uff1f", False), ("如仍不行,请提供截图。", False),
    ("Is there anything else I can do?", False), ("If it fails again, please send us the code.", False), ("有问题随时回复这条消息。", False),
    ("详见[说明](http://x/kb?id=KB-1)", False), ("see https://example.com/a?b=c", False), ("要退吗?\n[说明](http://x/kb?id=1)", True), ("", False),
    ("如无其他问题\uff0c我就为您提交退款\uff0c可以吗\uff1f", True), ("如没有别的需要,我现在关闭自动续费,可以吗?", True), ("还有其他账号需要注销吗?", True),
    ("If you don't have any other questions, shall I cancel the subscription?", True), ("Is there anything else, or shall I refund it now?", True),
    ("Before anything else, do you confirm the refund?", True), ("如无其他问题,请确认退款。", True), ("如还要退款,请回复\"好的\"。", True),
    ("如需继续,请回复 1。", True), ("If you want the refund, please reply \"ok\".", True), ("回复\u201c好的\u201d即可为您退款。", True), ("Reply YES and we refund it.", True),
    ("如需退款,请告知。", True), ("If you'd like a refund, please let us know.", True), ("是否需要我现在为您退款", True), ("Shall I cancel it", True),
    ("可以为您退款,您看行不行", True), ("请提供截图,后续由同事处理。", True),
    ("Would you like me to cancel it? If you have any other questions, feel free to reach out to us at any time.", True),
    ("要为您退款吗?如果您还有其他问题,欢迎随时联系我们,我们的工作时间是周一至周五九点到十八点,节假日除外,紧急情况请拨打我们的热线。", True),
    ("请问您还有其他需要帮助的地方吗\uff1f", False), ("还有什么需要我为您处理的吗?", False), ("Is there anything else I can help you with today?", False),
    ("Can I help you with anything else?", False), ("Do you have any other questions?", False), ("Feel free to ask if you have any other questions.", False),
    ("如需进一步帮助,请告知。", False), ("如有任何疑问,请回复我们。", False), ("If you need further help, please let us know.", False),
    ("Should you have any questions, please reply to this email.", False),
    ("是 A 还是 B?" + "这里是很长的说明。" * 10, False),
])
def test_an_open_question_is_told_from_an_offer_and_a_link(text, asks):
    assert ends_with_question(text) is asks


@pytest.mark.parametrize("words", ["帮到", "那么", "没有", "anything else "])
def test_a_text_of_nothing_but_closing_words_is_judged_at_once(words):
    assert ends_with_question(f"其他{words * (380 // len(words))}退?")
