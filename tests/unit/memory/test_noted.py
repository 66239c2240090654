"""What a turn may note on its ticket: only what stands in the words, only what is on a list."""

from __future__ import annotations

from typing import get_args

import pytest
from fakes import FakeLLM, FakeTools, make_deps
from hypothesis import given
from hypothesis import strategies as st

from supportpilot.agent.nodes.finalize import finalize
from supportpilot.agent.state import Triage, WishName
from supportpilot.llm.offline.triage import WISHES as OFFLINE_WISHES
from supportpilot.llm.offline.triage import wish_of as offline_wish
from supportpilot.memory.noted import WISHES, error_codes, only_code, wish_of
from supportpilot.types import Noted

REMINDER = "reminder_before_expiry"


def test_triage_the_offline_model_and_the_profile_know_the_same_wishes():
    assert set(get_args(WishName)) - {""} == set(WISHES) == set(OFFLINE_WISHES)


@pytest.mark.parametrize(("wish", "text"), [
    (REMINDER, "能不能在快到期的时候提前提醒一下?"), (REMINDER, "以后授权快过期了,麻烦提前通知我\uff01"), (REMINDER, "别忘了到期前提醒我"),
    (REMINDER, "Please remind me before the authorisation expires."), ("notice_before_charge", "下次扣款之前通知我一声"),
    ("notice_before_charge", "let me know before you charge my card"), ("phone_call", "有结果给我打个电话"), ("phone_call", "Please call me."),
    ("monthly_invoice", "以后每个月自动开发票给我")])
def test_a_wish_of_the_list_that_stands_in_one_sentence_is_noted(wish, text):
    assert wish_of(wish, ["你好", text]) == wish
    assert offline_wish(text.lower()) == wish or wish == REMINDER


@pytest.mark.parametrize(("wish", "text"), [
    (REMINDER, "授权到期了怎么办?"), (REMINDER, "授权到期了。请提醒财务查收"), (REMINDER, "不用提醒我到期"), (REMINDER, "到期前别再通知我了"),
    (REMINDER, "do not remind me before it expires"), ("phone_call", "不要打电话"), ("phone_call", "到期前提醒我"), ("vip", "记住我是 VIP"),
    ("", "到期前提醒我"), (None, "到期前提醒我"), (["x"], "到期前提醒我")])
def test_what_the_customer_did_not_wish_in_words_is_not(wish, text):
    assert wish_of(wish, [text]) is None


@pytest.mark.parametrize(("texts", "codes"), [
    (["又提示e3001了,之前是 E3002"], ["E3001", "E3002"]), (["报错\uff25\uff13\uff10\uff10\uff11"], ["E3001"]), (["型号 XE3001 或 E30012"], []), ([], [])])
def test_error_codes_are_read_in_order_and_in_one_form(texts, codes):
    assert error_codes(texts) == codes


def test_a_tool_result_with_two_codes_names_none():
    assert only_code('[{"last_error": "E3001"}, {"last_error": "E3001"}]') == ["E3001"]
    assert only_code('[{"last_error": "E3001"}, {"last_error": "E3002"}]') == []


@given(st.text(max_size=200), st.text(max_size=30))
def test_any_text_is_read(text, wish):
    error_codes([text])
    wish_of(wish, [text])
    assert wish_of(REMINDER, [text]) in (None, REMINDER)
    assert offline_wish(text) in {"", *WISHES}


@pytest.mark.parametrize("value", ["none", None, 3, ["phone_call"], "vip"])
def test_a_wish_that_triage_makes_up_is_none_and_costs_no_second_call(value):
    fields = {"category": "other", "needs_account_data": False, "needs_human": False, "summary": "x", "search_query": "x"}
    assert Triage(**fields, wish=value).wish == ""


def noted(body, tool_log=(), **triage):
    tools = FakeTools()
    state = {"ticket": {"id": "T1", "customer_email": "a@example.com", "subject": "", "body": body}, "turn_id": "t1", "turn_messages": ["m1"],
             "turns": [{"id": "m0", "role": "customer", "content": "到期前提醒我"}, {"id": "r0", "role": "agent", "content": "E1002"},
                       {"id": "m1", "role": "customer", "content": body}],
             "triage": {"category": "technical", **triage}, "draft": "您好。", "followup": "", "hits": [], "tool_log": list(tool_log)}
    finalize(state, make_deps(FakeLLM({}), tools))
    return tools.noted[-1], tools.finished[-1][1]


def call(name, result):
    return {"name": name, "args": {}, "is_error": False, "result": result}


BANKS = call("list_bank_connections", '[{"bank": "招商银行", "last_error": "E3001"}]')


@pytest.mark.parametrize(("body", "log", "triage", "codes"), [
    ("提示 E3002", [BANKS], {}, ("E3002",)), ("流水停了", [BANKS], {}, ("E3001",)), ("怎么开发票", [BANKS], {"category": "invoice"}, ()),
    ("流水停了", [call("search_past_tickets", '[{"error_code": "E3001"}]')], {}, ())])
def test_a_code_comes_from_the_customer_s_words_else_from_the_bank_tool_on_a_technical_matter(body, log, triage, codes):
    assert noted(body, log, **triage)[0] == Noted(codes)


def test_a_wish_is_looked_for_in_the_messages_of_this_turn_only():
    assert noted("还是不行", wish=REMINDER)[0] == Noted()
    assert noted("那到期前提醒我", wish=REMINDER)[0] == Noted((), REMINDER)


def test_a_category_that_is_none_is_noted_as_other():
    assert noted("你好", category="vip")[1] == "other"
