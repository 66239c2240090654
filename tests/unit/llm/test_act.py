"""Which tools are called, and what is written down."""

from __future__ import annotations

from typing import Any

from fixtures.prompts import PROFILE, TOOLS, looked_up, prompt, tool

from supportpilot.llm.offline import rules

BANKS = [{"id": "B1", "bank": "招商银行", "account_tail": "8821", "status": "expired", "authorised_at": "2026-09-01",
          "expires_at": "2026-11-30", "last_sync_at": None, "last_error": "E3001"}]


def invoice(number: str, amount: str = "299.00", issued: str = "2026-11-12", status: str = "paid") -> dict[str, Any]:
    return {"id": f"I-{number}", "number": number, "description": "专业版 月付", "amount": amount, "status": status,
            "issued_at": issued, "paid_at": f"{issued}T02:00:00+00:00", "refunded": "0.00"}


TWINS = [invoice("INV-202611-0044"), invoice("INV-202611-0045"), invoice("INV-202610-0031", issued="2026-10-12")]
PENDING = {"status": "pending", "invoice_id": "I", "invoice_number": "INV-202611-0045", "amount": "299.00", "currency": "CNY", "reason": ""}


def test_a_bank_question_looks_at_the_connections_and_copies_the_dates() -> None:
    calls, findings = looked_up("银行流水又同步失败了,提示E3001", {"list_bank_connections": BANKS}, profile=PROFILE)
    assert calls == [("list_bank_connections", {})]
    assert findings == "bank_connections: 招商银行 尾号8821 状态 expired 授权 2026-09-01 到期 2026-11-30 报错 E3001"


def test_a_refund_is_asked_for_the_invoice_that_the_customer_names() -> None:
    calls, _ = looked_up("请把 INV-202611-0044 退给我", {"list_invoices": TWINS, "request_refund": PENDING})
    assert [name for name, _ in calls] == ["list_invoices", "request_refund"]
    assert calls[1][1]["invoice_number"] == "INV-202611-0044"


def test_a_double_charge_is_asked_back_for_the_later_of_the_two() -> None:
    calls, findings = looked_up("这个月被扣了两次,退一笔", {"list_invoices": TWINS, "request_refund": PENDING})
    assert calls[1][1]["invoice_number"] == "INV-202611-0045"
    assert "request_refund:" in findings


def test_two_equal_bills_of_two_months_are_no_double_charge() -> None:
    months = [invoice("INV-202610-0031", issued="2026-10-12"), invoice("INV-202611-0044")]
    calls, _ = looked_up("重复扣款了,请退", {"list_invoices": months})
    assert [name for name, _ in calls] == ["list_invoices"]


def test_an_invoice_that_is_not_there_is_never_put_forward() -> None:
    calls, findings = looked_up("退 INV-209901-9999", {"list_invoices": TWINS})
    assert [name for name, _ in calls] == ["list_invoices"]
    assert "INV-209901-9999" not in findings


def test_the_number_may_have_been_named_before() -> None:
    calls, _ = looked_up("那就申请退款吧", {"list_invoices": TWINS, "request_refund": PENDING},
                         recent="客户:INV-202611-0044 这张是不是多扣了\n客服:您可以申请退款。")
    assert calls[1][1]["invoice_number"] == "INV-202611-0044"


def test_a_part_of_a_named_invoice_is_asked_for_with_its_amount() -> None:
    calls, _ = looked_up("INV-202611-0044 多收了 100 元,请退给我", {"list_invoices": TWINS, "request_refund": PENDING})
    assert calls[1][1]["amount"] == "100"


def test_a_question_for_the_refund_policy_asks_for_no_refund() -> None:
    calls, _ = looked_up("我的退款什么时候到账", {"list_invoices": TWINS})
    assert "request_refund" not in [name for name, _ in calls]


def test_several_tools_may_be_called_at_once() -> None:
    answer = rules.answer(prompt("act", newest="我的退款什么时候到账"), TOOLS)
    assert [name for name, _ in answer.calls] == ["list_invoices", "search_past_tickets"]


def test_a_plan_question_looks_at_the_subscription() -> None:
    plan = [{"id": "S1", "plan": "专业版", "billing_cycle": "yearly", "status": "active", "seats": 5, "period_start": "2026-01-15", "period_end": "2027-01-14"}]
    calls, findings = looked_up("我的套餐什么时候到期", {"list_subscriptions": plan})
    assert calls == [("list_subscriptions", {})]
    assert "2027-01-14" in findings


def test_only_offered_tools_are_called_and_without_any_there_are_findings() -> None:
    assert rules.answer(prompt("act", newest="银行流水同步失败"), [tool("get_customer")]).calls == []
    assert rules.answer(prompt("act", newest="银行流水同步失败")).calls == []


def test_a_tool_error_is_written_down_as_it_is() -> None:
    messages = prompt("act", newest="银行流水同步失败 E3001")
    messages += [{"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "list_bank_connections", "arguments": "{}"}}]},
                 {"role": "tool", "tool_call_id": "c", "content": "error: no account for this address"}]
    assert rules.answer(messages, TOOLS).content == "list_bank_connections: error: no account for this address"
