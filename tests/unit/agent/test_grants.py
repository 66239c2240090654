"""Money in a draft: what nobody has decided is found, what only describes, asks or repeats is left alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes import FakeLLM, FakeTools, make_deps

from supportpilot.agent.grants import granted_money, promised_money
from supportpilot.agent.nodes.check import check

ARTICLE = "多扣的一笔会全额退还。审核后我们会退款给您。"


@pytest.mark.parametrize("text", [
    "我们会在今天内全额退款 3600 元。", "好的,我们会为您退款。", "我们承诺明天中午前为您退款 1314 元。", "同意赔偿您 500 元。", "We will refund 930 CNY today.",
    "I'll also fully refund it.", "We are going to compensate you.", "我们会减免您一个月的费用。", "我们会直接赔付您。",
    "没有问题，我们会退款给您。", "不会让您吃亏，我们会全额退款。", "这不是您的错，三天内会给您退款。", "我们将退还 300 元。", "会补偿您 50 元。", "No problem, not at all: we will pay you 300 CNY.",
    "We will credit your account with 20 CNY.", "重复扣的会全额退回。",
    # What comes after the promise, or only sounds like a condition, takes nothing back.
    "我们将退款给您，到账后会通知您。", "我们会为您全额退款，3-5 个工作日到账后您会收到通知。", "如您所愿，我们会全额退款。", "您符合条件，我们会全额退款 3600 元。",
    "我们确认然后会全额退款给您。", "已确认今后会为您退款 300 元。", "We will refund you 900 CNY after all.",
])
def test_a_promise_of_money_is_found(text):
    assert promised_money(text, [])


@pytest.mark.parametrize("text", [
    "已为您全额退款 8800 元。", "退款 3000 元已到账。", "退款已通过。", "已批准退款 1500 元。", "您的退款申请已经审核通过。", "Refund approved: 888 CNY",
    "Your refund has been approved.", "It has been refunded.", "您的账单已退款。", "退款已经退回到您的招商银行卡。", "Approved: 300 CNY", "Approved.", "已为您退款 8800 元，请查收，到账后麻烦告诉我们。", "全额退款已批准，到账后通知您。", "您的退款已完成，后续我们会通知您。",
])
def test_money_that_is_said_to_be_granted_is_found(text):
    assert granted_money(text, [])


@pytest.mark.parametrize("text", [
    "您的退款申请已提交,由同事审核,结果会在这里回复您。", "多扣的一笔可以全额退款,由同事审核。", "如果审核通过,会全额退款。", "您提到已退款 300 元。",
    "这张账单还没有退款。", "我们会在审核后把退款结果告诉您。", "退款审核通过后会原路退回。", "您之前的原话是“我们会全额退款”。", "退款规则如下。",
    "Once it is approved we will refund it.", "The refund was not approved.", "Refunds take three days.", "We have filed your request; a colleague will check it.",
    "抱歉,无法为您退款。", "您的账单已重复扣款,申请已提交。",
    # How the product, a bank or the rules work, and what has refund in its name.
    "将退款金额填入“退款”栏。", "请将退款单上传。", "将退款记录导出为 CSV。", "在“报销”页面，财务同意后会打款给员工。", "员工垫付的费用，公司会打款到工资卡。",
    "剩余金额会退还到账户余额。", "取消订阅后，系统会退还剩余天数的费用。", "如您在 7 天内取消，我们将全额退款。", "满足条件的账单，我们会全额退款。", "同步失败会补偿性重试。",
    "我们会退款到您的原支付账户吗？需要先审核。", "账户余额会退还吗？可以在“设置”里查看。", "可以将退款凭证发给我们。", "我们会核实，确认重复扣款后会退还。", "报销单已经审批通过，打款完成。",
    "We will pay attention to this.", "We will credit the unused days to the new plan.", "Approved expense claims are exported nightly.", "Approved: the invoice title is changed.",
    "The refund is completed within 5 days of approval.", "Your refund request was issued a reference number.", "Within 7 days of purchase we will refund the full amount.",
    "客户退款已完成后，在“应收”页面点“核销”。", "我们核实重复扣款后会退回多扣的一笔。", "同事同意后会为您退款。",
])
def test_what_describes_asks_or_repeats_is_left_alone(text):
    assert promised_money(text, []) + granted_money(text, []) == []


def test_an_article_may_be_quoted_unless_it_speaks_to_the_customer():
    assert promised_money("多扣的一笔会全额退还。", [ARTICLE]) == []
    assert promised_money("多扣的一笔会全额退还。", [])
    assert promised_money("审核后,我们会退款给您。我们会退款给您。", ["我们会退款给您。"]) == ["我们会退款给您"]


def checked(draft: str, invoices: list[dict[str, Any]]) -> dict[str, Any]:
    state = {"ticket": {"id": "T000001", "customer_email": "a@example.com", "subject": "", "body": "退款"}, "turn_id": "t1", "turns": [
        {"id": "M1", "role": "customer", "content": "退款到了吗"}], "turn_messages": ["M1"], "context": "", "hits": [], "findings": "", "draft": draft}
    tools = FakeTools(customer={"id": "C0001"}, results={"list_invoices": json.loads(json.dumps(invoices))})
    return check(state, make_deps(FakeLLM({}), tools))["review"]


@pytest.mark.parametrize(("invoices", "passed"), [
    ([{"status": "paid", "refunded": "0.00"}], False), ([], False), ([{"status": "refunded", "refunded": "0.00"}], True), ([{"status": "paid", "refunded": "10.00"}], True),
])
def test_a_refund_may_be_spoken_of_once_the_database_has_one(invoices, passed):
    assert checked("您的退款已到账。", invoices)["passed"] is passed


@pytest.mark.parametrize(("draft", "passed"), [
    ("账单 INV-202609-0001 已退款。", True), ("账单 INV-202611-0002 已退款。", False), ("您的退款已到账。", True),
    ("账单 INV-202609-0001 已退款。账单 INV-202611-0002 也已退款。", False),
])
def test_a_refund_of_one_bill_backs_no_word_about_another(draft, passed):
    invoices = [{"number": "INV-202609-0001", "status": "refunded"}, {"number": "INV-202611-0002", "status": "paid", "refunded": "0.00"}]
    assert checked(draft, invoices)["passed"] is passed


def test_a_promise_goes_back_to_the_writer_whatever_the_reviewer_says():
    review = checked("我们会全额退款。", [{"status": "refunded", "refunded": "9.00"}])
    assert review == {"passed": False, "problems": ["nobody has decided that: 我们会全额退款"], **{k: v for k, v in review.items() if k == "commitments"}}
