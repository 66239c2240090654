"""What a reply promises and by when: Chinese and English, on Wednesday 2 December 2026, 10:30 in Shanghai."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supportpilot.memory.commitments import MAX_CHARS, MAX_COMMITMENTS, Commitment, Said, calendar_of, line, promised
from supportpilot.memory.deadlines import CHINA, SHANGHAI, deadlines
from supportpilot.memory.tokens import is_han
from supportpilot.prompts.loader import prompt
from supportpilot.prompts.promises import fixed_promises

NOW = datetime(2026, 12, 2, 10, 30, tzinfo=SHANGHAI)

DUE = {
    # Chinese
    "我们会在 3 个工作日内回复您。": "12-07 23:59",
    "3 个工作日内回复": "12-07 23:59",
    "我们会在三个工作日之内给您答复": "12-07 23:59",
    "两个工作日内给您答复": "12-04 23:59",
    "退款会在 3-5 个工作日内到账。": "12-09 23:59",
    "预计 3 至 5 个工作日到账。": "12-09 23:59",
    "同事会在 24 小时内联系您,请保持电话畅通。": "12-03 10:30",
    "二十四小时内,工程师会给您回电。": "12-03 10:30",
    "我会在半小时内回复您。": "12-02 11:00",
    "一个半小时内给您结果": "12-02 12:00",
    "30分钟内回复您": "12-02 11:00",
    "我们将在 3 天内处理好": "12-05 23:59",
    "一周内给您退款": "12-09 23:59",
    "半个月内会修复": "12-17 23:59",
    "我们承诺 1 个月内完成": "01-02 23:59",
    "今天下班前给您结果": "12-02 18:00",
    "今天内会处理完": "12-02 23:59",
    "今天下午 3 点前回复您": "12-02 15:00",
    "今晚会给您消息": "12-02 23:59",
    "明天上午给您答复": "12-03 12:00",
    "我们明天联系您": "12-03 23:59",
    "我们会在明天上午给您答复": "12-03 12:00",
    "明天下午前给您答复": "12-03 18:00",
    "明天上午前先给您打电话": "12-03 12:00",
    "最迟明天下午给您结果": "12-03 18:00",
    "我保证明天上午 10 点前给您回复": "12-03 10:00",
    "后天会有同事联系您": "12-04 23:59",
    "明晚8点前回复您": "12-03 20:00",
    "我们将在本周五之前修复这个问题": "12-04 23:59",
    "周五前给您答复": "12-04 23:59",
    "我们不会晚于周五回复您": "12-04 23:59",
    "星期五下午五点前会通知您": "12-04 17:00",
    "下周三前处理": "12-09 23:59",
    "下周一上午会有专员跟进": "12-07 12:00",
    "本周内会给您答复": "12-04 23:59",
    "下周内会上线": "12-11 23:59",
    "月底前会修复": "12-31 23:59",
    "下月底前我们会提供": "01-31 23:59",
    "12月5日前退还给您": "12-05 23:59",
    "我们会在 12 月 10 号下午前寄出": "12-10 18:00",
    "2026-12-08 前退款": "12-08 23:59",
    "5 号前会开具": "12-05 23:59",
    "下班前给您回电": "12-02 18:00",
    "工程师正在排查,预计今天下班前恢复。": "12-02 18:00",
    "您将在 24 小时内收到我们的邮件。": "12-03 10:30",
    "您提到退款没有到账,我们会在明天前核实并回复您。": "12-03 23:59",
    "您提到的问题,我们会在 24 小时内回复。": "12-03 10:30",
    "我们会核实,3 个工作日内退款。": "12-07 23:59",
    "我们会在 24 小时内告知您是否可以退款。": "12-03 10:30",
    "希望能帮到您,我们会在明天前回复您。": "12-03 23:59",
    "我们没有查到记录,会在明天前核实并回复您。": "12-03 23:59",
    # English
    "We will get back to you within 24 hours.": "12-03 10:30",
    "We'll refund you within 3 business days.": "12-07 23:59",
    "Our team will reply in 2-3 working days.": "12-07 23:59",
    "A colleague will contact you by Friday.": "12-04 23:59",
    "We will fix it by next Friday.": "12-11 23:59",
    "We will send it by Friday afternoon.": "12-04 18:00",
    "Please rest assured, we will resolve this before Monday.": "12-07 23:59",
    "I will call you tomorrow morning.": "12-03 12:00",
    "I promise to reply by 5 pm tomorrow.": "12-03 17:00",
    "We will answer by 5pm.": "12-02 17:00",
    "Your refund will be processed by the end of next week.": "12-11 23:59",
    "We will update you by end of day.": "12-02 23:59",
    "We will let you know by close of business.": "12-02 18:00",
    "The invoice will be issued by the end of the month.": "12-31 23:59",
    "We will ship it by December 10.": "12-10 23:59",
    "We will ship it by 10 December 2026.": "12-10 23:59",
    "You will hear from us no later than Friday.": "12-04 23:59",
    "Expect a reply within 2 business days.": "12-04 23:59",
    "We are going to look into it within half an hour.": "12-02 11:00",
    "You will receive an answer within a week.": "12-09 23:59",
    # promised, but by no day that can be told
    "会在到期前提醒您。": None,
    "您好,收到,我们会在到期前提醒您,请放心。": None,
    "我们会尽快处理,稍后回复您。": None,
    "收到资料后,我们会在 1 个工作日内处理。": None,
    "如果审核通过,我们会在 3 个工作日内退款。": None,
    "请把截图发给我们,我们会在 24 小时内核实。": None,
    "We will remind you before the authorisation expires.": None,
    "Once we receive the file, we will reply within 24 hours.": None,
    "If the charge is a duplicate, we will refund it within 3 days.": None,
}
NO_PROMISE = [
    "您可以在 7 天内申请退款。", "请在 3 天内回复我们。", "请您在明天前补充资料。", "我们无法承诺退款时间。", "我们不会退款。",
    "通常 1 个工作日内完成。", "需要我们明天联系您吗?", "如果仍然不行,请把报错代码发给我们,会有同事接着处理。",
    "状态是「冻结」的,3 个工作日内自动释放。", "误删的凭证 30 天内可以从回收站恢复。", "系统会在第 1、3、7 天自动重试。",
    "停止付费后 180 天内仍可以导出。", "您希望到期前收到提醒的需求,我们已经记录。", "E3001 是银行授权过期,请重新授权 [KB-bank-001]。",
    "超过时间没有到账的,请把账单编号发给我们,我们会向支付渠道索取退款流水号。", "Please send us the number, and we will check it.",
    "We cannot promise a refund.", "We won't be able to reply before Monday.", "Please reply within 24 hours.",
    "You can apply for a refund within 7 days.", "Did we say we will call by Friday?",
]
NOT_OUR_WORDS = [
    "您说我们承诺 3 天内退款。", "您提到:我们会在 3 天内退款。", "您说的“3 天内退款”我们没有查到。", "刚才您说的是“你们会在 3 天内退款给我”。",
    "您好,您表示我们会在 3 天内退款,这一点查不到记录。", "> 你们会在 3 天内退款", "我们之前说过:3 个工作日内回复。",
    "我们之前答应过您:我们会在 3 个工作日内回复您(期限 2026-12-07 23:59)。",
    "You said we will refund you within 3 days.", "You mentioned that you were promised a refund within 3 days.",
    'You wrote: "we will refund you by Friday".', "The main points so far: we will reply within 3 days.",
    "What we promised you before: we will reply by Friday (due 2026-12-04 23:59).", "According to your message, we will refund you within 3 days.",
    "我们理解您希望我们在三天内退款500元。", "您希望我们会在三天内退款500元,对此我们无法确认。", "关于您所说的三天内退款500元,我们没有记录。",
    "我们并未答应 3 天内退款。", "您询问我们是否会在 3 天内退款,目前还不能确定。", "是否会在 3 天内退款,要看审核结果。", "没有我们会在 3 天内退款的记录。",
    "您要求我们在 3 天内退款,目前不能确认。", "We have no record that we will refund you within 3 days.",
    "You are asking whether we'll refund you by Friday.", "You want us to refund you within 3 days, which we cannot confirm.",
]


def found(reply: str, **more: object) -> tuple[Commitment, ...]:
    return promised(Said(reply, NOW, **more))


def local(at: datetime | None) -> str | None:
    return at and at.astimezone(SHANGHAI).strftime("%m-%d %H:%M")


@pytest.mark.parametrize(("reply", "due"), DUE.items(), ids=DUE)
def test_a_promise_is_found_in_its_own_words_with_its_day(reply, due):
    (commitment,) = found(reply)
    assert commitment.text in reply
    assert local(commitment.due_at) == due


@pytest.mark.parametrize("reply", [*NO_PROMISE, *NOT_OUR_WORDS])
def test_what_is_no_promise_of_ours_is_none(reply):
    assert found(reply) == ()


FULL_WIDTH = str.maketrans({half: chr(ord(half) + 0xFEE0) for half in ",!?:;()0123456789-"})
DIGITS = str.maketrans({digit: chr(ord(digit) + 0xFEE0) for digit in "0123456789"})
CHINESE = [reply for reply in (*DUE, *NO_PROMISE, *NOT_OUR_WORDS) if any(map(is_han, reply))]


@pytest.mark.parametrize("table", [FULL_WIDTH, DIGITS], ids=["all", "digits"])
@pytest.mark.parametrize("reply", [reply for reply in CHINESE if reply.translate(FULL_WIDTH) != reply])
def test_full_width_stops_and_digits_change_nothing(reply, table):
    wide = reply.translate(table) if "2026-" not in reply else reply
    said = found(reply)
    assert [(c.text, c.due_at) for c in found(wide)] == [(c.text.translate(table) if wide != reply else c.text, c.due_at) for c in said]


def test_greeting_and_full_stop_are_left_out_and_two_promises_are_two():
    texts = [(c.text, local(c.due_at)) for c in found("您好,我们会在 24 小时内核实,3 个工作日内退款到账。另外会在到期前提醒您!")]
    assert texts == [("我们会在 24 小时内核实", "12-03 10:30"), ("3 个工作日内退款到账", "12-07 23:59"), ("另外会在到期前提醒您", None)]


def test_a_condition_is_part_of_the_promise():
    assert [c.text for c in found("好的。收到资料后,我们会在 1 个工作日内处理。")] == ["收到资料后,我们会在 1 个工作日内处理"]


def test_what_a_customer_wrote_in_the_same_words_is_not_promised_by_repeating_it():
    words = "我们会在 3 天内退款给您"
    assert found(f"{words}。") != ()
    assert found(f"{words}。", customer=[f"你们客服说:{words},我等着!"]) == ()


def test_an_article_on_how_things_go_is_no_promise_but_what_we_do_for_the_customer_is():
    policy = "前 3 天会发邮件通知"
    assert found(policy) != ()
    assert found(policy, sources=[f"续费:{policy}。"]) == ()
    ours = "我们会在 1 个工作日内处理"
    assert found(ours, sources=[ours]) != ()


# what the reviewer lists ----------------------------------------------------------------------------

ODD = "退款这件事包在我身上,月初见分晓。"


def test_a_listed_promise_that_the_rules_miss_counts_with_the_reviewer_s_day():
    assert found(ODD) == ()
    (commitment,) = found(ODD, listed=[{"text": "退款这件事包在我身上", "due": "2026-12-05"}])
    assert commitment.text == "退款这件事包在我身上"
    assert local(commitment.due_at) == "12-05 23:59"
    assert commitment.due_at.tzinfo == UTC


@pytest.mark.parametrize("text", ["我们会赔偿您一万元", "", "退款", ODD * 20, "退款这件事包在他身上"])
def test_a_listed_promise_whose_words_are_not_in_the_reply_does_not_count(text):
    assert found(ODD, listed=[{"text": text, "due": "2026-12-05"}]) == ()


@pytest.mark.parametrize("due", ["", "soon", "2025-01-01", "2099-01-01", "2026-13-40", "12月5日", None, 5])
def test_a_listed_day_that_cannot_be_is_none(due):
    (commitment,) = found(ODD, listed=[{"text": ODD[:10], "due": due}])
    assert commitment.due_at is None


def test_the_words_decide_on_the_day_not_the_reviewer():
    (commitment,) = found("3 个工作日内回复", listed=[{"text": "3 个工作日内回复", "due": "2026-12-31"}])
    assert local(commitment.due_at) == "12-07 23:59"
    odd = "退款这件事明天前包在我身上"
    assert found(odd) == ()
    (commitment,) = found(odd, listed=[{"text": odd, "due": "2026-12-31"}])
    assert local(commitment.due_at) == "12-03 23:59"


@pytest.mark.parametrize("reply", NOT_OUR_WORDS)
def test_a_reviewer_that_lists_another_s_words_is_not_believed(reply):
    assert found(reply, listed=[{"text": reply.strip("> "), "due": "2026-12-05"}]) == ()


# days ----------------------------------------------------------------------------------------------

def test_working_days_leave_the_weekend_out_and_count_from_the_day_after():
    friday_night = datetime(2026, 12, 4, 23, 0, tzinfo=SHANGHAI)
    (commitment,) = promised(Said("1 个工作日内回复", friday_night))
    assert local(commitment.due_at) == "12-07 23:59"
    (commitment,) = promised(Said("本周内会回复您", datetime(2026, 12, 5, 9, 0, tzinfo=SHANGHAI)))
    assert local(commitment.due_at) == "12-06 23:59"


@pytest.mark.parametrize(("locale", "due"), [
    ("zh", "2026-12-03T15:59:59"), ("en", "2026-12-03T15:59:59"), ("", "2026-12-03T15:59:59"), ("xx-YY", "2026-12-03T15:59:59"),
    ("en-GB", "2026-12-03T23:59:59"), ("en_US", "2026-12-03T04:59:59"), ("ja-JP", "2026-12-03T14:59:59")])
def test_a_day_is_the_customer_s_where_the_locale_names_a_region(locale, due):
    (commitment,) = found("We will reply by tomorrow.", calendar=calendar_of(locale))
    assert commitment.due_at.replace(tzinfo=None).isoformat() == due


def test_a_week_s_work_ends_on_thursday_in_riyadh():
    (commitment,) = found("We will reply within 2 business days.", calendar=calendar_of("ar-SA"))
    assert commitment.due_at.isoformat() == "2026-12-06T20:59:59+00:00"


@pytest.mark.parametrize("words", ["2025-01-01 前退款", "9999 个工作日内退款", "2099-01-01 前退款", "2026-02-31 前退款", "13月40日前退款"])
def test_a_time_that_cannot_be_is_none(words):
    assert deadlines(words, NOW, CHINA) == []


def test_times_that_are_no_limit_are_left_alone():
    for words in ("7×24 小时服务", "您 11 月 28 日的付款", "今天的账单", "第 3 天", "90 天有效", "2026 年 12 月的发票"):
        assert deadlines(words, NOW, CHINA) == []


# for people and for the view ------------------------------------------------------------------------

def test_a_promise_on_one_line_has_its_day_in_its_language():
    due = datetime(2026, 12, 7, 15, 59, 59, tzinfo=UTC)
    assert line(Commitment("3 个工作日内\n回复", due), CHINA) == "3 个工作日内 回复(期限 2026-12-07 23:59)"
    assert line(Commitment("we will reply", due), CHINA, overdue=True) == "we will reply (due 2026-12-07 23:59, passed)"
    assert line(Commitment("会提醒您"), CHINA) == "会提醒您"


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_what_our_fixed_texts_promise_is_known(lang):
    notice = prompt("handoff", lang, ticket_id="T1")
    paid = prompt("followup_approved", lang, invoice_number="INV-1", amount="300.00", currency="CNY")
    refused = prompt("followup_rejected", lang, invoice_number="INV-1", amount="300.00", currency="CNY")
    assert [len(fixed_promises(text)) for text in (notice, paid, refused)] == [1, 1, 0]
    (money,) = found(paid, known=fixed_promises(paid))
    assert "300.00 CNY" in money.text
    assert money.due_at is None


# any text -------------------------------------------------------------------------------------------

PIECES = st.lists(st.sampled_from([
    "我们会", "在", "3 个工作日内", "回复您", "。", ",", "您说", "“", "”", "如果", "明天下午前", "We will ", "reply ", "by Friday", ". ", '"', "\n",
    "9999", "年", "12月31日", "下下周五", "半", "\x00", "if ", "within 9999 months", "🙂", "2026-12-05"]), max_size=40)


@given(st.one_of(st.text(max_size=300), PIECES.map("".join)))
def test_any_text_gives_short_promises_that_stand_in_it_with_days_to_come(text):
    commitments = found(text, listed=[{"text": text[:50], "due": text[:10]}])
    assert len(commitments) <= MAX_COMMITMENTS
    for commitment in commitments:
        assert commitment.text in text
        assert len(commitment.text) <= MAX_CHARS
        assert commitment.due_at is None or commitment.due_at > NOW


@pytest.mark.parametrize("piece", ["我们会", "您说", "3 个工作日内", "“", "会在明天", "we will ", "by Friday ", "如果", "收到", "1 ", "一", "you said ", "a", '"'])
def test_a_long_reply_is_read_in_a_moment(piece):
    started = time.monotonic()
    found((piece * 20_000)[:20_000])
    assert time.monotonic() - started < 2
