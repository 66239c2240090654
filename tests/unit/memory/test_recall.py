"""Which folded entries the newest messages speak of."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supportpilot.memory.recall import MOST, recall
from supportpilot.memory.tokens import estimate_tokens

AT = "2026-09-02T03:00:00+00:00"
SECONDS = 0.6
TALK = [{"role": role, "content": text, "at": AT} for role, text in [
    ("customer", "你好,我们的针式打印机打发票的时候总是卡纸,换了纸也不行"),
    ("agent", "您好,请把打印模板的纸张改为 241×140 毫米,再试一次 [KB-invoice-003]。"),
    ("customer", "账单 INV-202603-0006 多扣了 389 元,卡尾号 8821"),
    ("agent", "已查到 INV-202603-0006,多收的 389 元会在 3 个工作日内退回原卡。"),
    ("customer", "还有,银行同步一直报 E3001"),
    ("agent", "E3001 是授权过期,请在 设置 > 银行 重新授权。"),
    ("customer", "另外想给新来的会计开个只读权限,工号 77120"),
    ("agent", "在 成员 里邀请她,角色选“只读”就可以。"),
    ("customer", "9月1日那天导出的报表少了一半数据"),
    ("agent", "请重新导出一次,如果还少请告诉我们导出的时间范围。"),
    ("customer", "好的谢谢"),
    ("agent", "不客气,有问题随时找我们。"),
]]


def best(newest: str, room: int = 400, turns=TALK) -> list[int]:
    return recall(turns, len(turns), [newest], room)


@pytest.mark.parametrize(("newest", "wanted"), [
    ("我第二轮说的那个账单号是多少?", 2), ("第2条消息里的账单号你再查下", 2), ("我之前说的那个账单号退了吗", 2), ("INV-202603-0006 到账了吗", 2), ("inv-202603-0006怎么样了", 2),
    ("0006 那张退了没有", 2), ("389块那笔呢", 2), ("尾号8821的卡收到了吗", 2), ("三百八十九块的那个", 2),
    ("我一开始说的问题还没解决", 0), ("打印机还是卡纸", 0), ("最开始那个卡纸的事", 0), ("针式打印机的模板改了也没用", 0),
    ("E3001 又出现了", 4), ("e3001重新授权了还是不行", 5), ("之前说的报错码是哪个来着", 4), ("第三轮说的报错", 4),
    ("你们答应多久退款来着?", 3), ("你们之前说几个工作日?", 3), ("会计的只读权限还是没有", 6), ("工号77120登不上", 6), ("9月1日的报表又少数据了", 8), ("报表导出还是少一半", 8),
    ("What was the invoice number I mentioned earlier?", 2), ("you promised a refund within 3 working days", 3), ("my second message had the bill number", 2)])
def test_the_entry_that_is_meant_is_recalled(newest, wanted):
    assert wanted in best(newest)


@pytest.mark.parametrize("newest", ["", "  ", "好的", "谢谢", "在吗", "你好", "ok thanks", "😭", "发票抬头写错了怎么改", "3 次", "请问你们几点下班"])
def test_a_message_that_speaks_of_nothing_earlier_recalls_nothing(newest):
    assert best(newest) == []


def test_a_wording_is_found_again_among_a_hundred_entries():
    filler = [{"role": ("customer", "agent")[i % 2], "content": f"关于席位和套餐的第{i}个小问题,请再看看后台的设置页面", "at": AT} for i in range(100)]
    turns = [*filler[:30], {"role": "customer", "content": "我们老板姓欧阳,印章是椭圆形的那枚", "at": AT}, *filler[30:]]
    assert best("印章是椭圆形的那个,我之前说过", turns=turns)[:1] == [30]


def test_a_number_that_was_never_said_recalls_nothing():
    assert best("INV-209901-9999 呢?") == []
    assert best("INV-209901-9999 呢?", turns=TALK[4:6]) == []


def test_only_folded_entries_are_recalled_in_their_order_and_only_a_few():
    turns = TALK * 5
    found = recall(turns, 20, ["INV-202603-0006 和 E3001 还有打印机卡纸,之前说的"], 10_000)
    assert found == sorted(found)
    assert len(found) <= MOST
    assert all(index < 20 for index in found)


def test_what_does_not_fit_the_room_is_left_out_and_a_smaller_one_may_take_its_place():
    long = {"role": "customer", "content": "INV-202603-0006 " + "这是很长的一段日志 " * 300, "at": AT}
    assert recall([long, *TALK], 13, ["INV-202603-0006"], 120) == [3, 4]
    assert recall(TALK, 12, ["INV-202603-0006"], 5) == []


def test_the_caller_says_what_an_entry_costs():
    assert recall(TALK, 12, ["INV-202603-0006"], 20, lambda _: 1) == [2, 3]


def test_a_secret_is_not_found_by_itself():
    turns = [{"role": "customer", "content": "卡号 6222021234567894", "at": AT}]
    assert recall(turns, 1, ["6222021234567894 呢"], 100) == recall(turns, 1, ["尾号 7894 呢"], 100) == [0]


WORDS = st.lists(st.one_of(st.text(max_size=20), st.sampled_from([turn["content"] for turn in TALK]), st.sampled_from(["第二轮", "之前", "那个账单号", "0006", "\ud800"])), max_size=4).map("".join)
TURNS = st.lists(st.fixed_dictionaries({"role": st.sampled_from(["customer", "agent"]), "content": WORDS, "at": st.sampled_from([AT, None])}), max_size=10)


@given(TURNS, st.integers(-2, 12), st.lists(WORDS, max_size=3), st.integers(-10, 500))
@settings(max_examples=300, deadline=None)
def test_any_text_recalls_entries_that_are_folded_and_fit(turns, upto, newest, room):
    found = recall(turns, upto, newest, room)
    assert found == sorted(set(found)) == recall(turns, upto, newest, room)
    assert len(found) <= MOST
    assert all(0 <= index < max(0, upto) for index in found)
    assert sum(estimate_tokens(turns[index]["content"]) for index in found) <= max(room, 0)


@pytest.mark.parametrize("sign", ["9", "一", "账单号", "第1轮", "你们", "我们", "1 ", "之前", "the "])
def test_long_messages_take_no_time(sign):
    text = (sign * 20_000)[:20_000]
    begin = time.process_time()
    recall([{"role": "customer", "content": text, "at": AT}], 1, [text], 500)
    assert time.process_time() - begin < SECONDS
