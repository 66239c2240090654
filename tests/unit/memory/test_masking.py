"""Secrets are masked, what only looks like one is not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supportpilot.memory.masking import is_id_card, luhn, masked, narrow

SECRETS = [
    ("卡号6222021234567894", "卡号****7894"), ("6222 0212 3456 7894", "****7894"), ("6222-0212-3456-7894。", "****7894。"),
    ("\uff16\uff12\uff12\uff12\uff10\uff12\uff11\uff12\uff13\uff14\uff15\uff16\uff17\uff18\uff19\uff14", "****7894"), ("6222\u200b0212\u200b3456\u200b7894", "****7894"), ("密码\uff1aabc12345\uff0cE3001", "密码\uff1a******2345\uff0cE3001"), ("visa 4111111111111111!", "visa ****1111!"),
    ("amex 3782 822463 10005", "amex ****0005"), ("卡号 6222021234567890(抄错一位)", "卡号 ****7890(抄错一位)"),
    ("身份证110101199003077758", "身份证****7758"), ("11010119900307002x", "****002X"), ("110101 19900307 7758", "****7758"),
    ("身份证号是 110101199003077751", "身份证号是 ****7751"),
    ("密码是 Qx7!92bcd", "密码是 ******2bcd"), ("密码:1234", "密码:******"), ("密码:hunter", "密码:******"), ("登录密码 qwe123456,登不上", "登录密码 ******3456,登不上"),
    ("验证码482913", "验证码******"), ("my password is hunter2024.", "my password is ******2024."), ("PASSWORD=a1b2c3d4&x=1", "PASSWORD=******c3d4&x=1"),
    ("api_key: abcd-efgh-ijkl-9876", "api_key: ******9876"), ("Authorization: Bearer abcdefghijkl3456", "Authorization: Bearer ******3456"),
    ("sk-abcdefghijklmnop1234", "******1234"), ("access token: “zz99yy88xx77”", "access token: “******xx77”"),
    ("password=a1b2c3d4&token=e5f6g7h8", "password=******c3d4&token=******g7h8"), ("密码 token 12345678", "密码 token ******5678"), ("密码00000PIN 0000", "密码******0PIN ******"), ("密码000A密码0000", "密码******密码******"),
    ("pin code 4821", "pin code ******"), ("client_secret=abc123def456ghi", "client_secret=******6ghi"),
]
PLAIN = [
    "密码忘了", "密码错误 3 次", "忘记密码,报错 E1002", "重置密码 E1002", "密码:忘记了", "password is wrong", "the token is expired", "password reset 3 times",
    "账单 INV-202603-0006", "订单号 20260901123456", "4111111111111112", "电话 13800138000", "尾号 8821", "流水 1234567890123456789012", "token 过期了", "T000153 工单",
    "密码在 2026-09-01 改过", "secret 2026-09-01", "spinning 1234", "110101199013077758", "税号 91310115MA1K35XQ2B", "验证码收不到", "pin 3-5 次",
]


@pytest.mark.parametrize(("text", "expected"), SECRETS)
def test_a_secret_is_masked_and_its_tail_kept_where_enough_stays_hidden(text, expected):
    assert masked(text) == expected


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays_word_for_word(text):
    assert masked(text) == text


def test_check_digits():
    assert luhn("6222021234567894")
    assert not luhn("6222021234567895")
    assert is_id_card("11010119900307002x")
    assert not is_id_card("110101199003070029")


PIECES = st.one_of(st.text(max_size=30), st.sampled_from([text for text, _ in SECRETS]), st.sampled_from(PLAIN), st.sampled_from(["*", " ", ",", "密码", "=", "token"]))


@given(st.lists(PIECES, max_size=6).map("".join))
@settings(max_examples=400, deadline=None)
def test_masking_twice_changes_nothing_more(text):
    assert masked(masked(text)) == masked(text)


@given(st.text(max_size=200))
@settings(deadline=None)
def test_narrow_moves_no_character(text):
    assert len(narrow(text)) == len(text)
