"""`chat` in a real terminal, against a running `up`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from producer.cli.stack import Stack
from supportpilot.db.pool import connect

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240), pytest.mark.xdist_group("chat")]

FAST = {"PORT": "0", "FLOWER_PORT": "0", "TURN_DEBOUNCE_SECONDS": "0.3"}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    # Not under pytest's tmp_path: as root Postgres is another user.
    folder = Path(tempfile.mkdtemp(prefix="supportpilot-chat-"))
    base = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    try:
        with Stack(folder / "data", base | FAST, demo_data=True) as started:
            started.wait_ready()
            yield started
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def chat(stack: Stack, *args: str) -> pexpect.spawn:
    environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(stack.data_dir), "TERM": "xterm", "LANG": "C.UTF-8",
                   "PYTHONIOENCODING": "utf-8", **FAST}
    child = pexpect.spawn(sys.executable, ["-m", "producer.cli.main", "chat", *args], env=environment,
                          encoding="utf-8", timeout=60, dimensions=(60, 200))
    child.delaybeforesend = 0.1
    return child


def leave(child: pexpect.spawn) -> tuple[int | None, str]:
    # A Ctrl-C between readline's prompt and its select() is seen at the next key only: pressed again, as one would.
    for _ in range(6):
        child.sendintr()
        if child.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=10) == 0:
            break
    else:
        pytest.fail("Ctrl-C does not end the chat")
    child.close()
    return child.exitstatus, child.before


def test_tokens_come_before_the_turn_ends_and_a_later_chat_knows_the_first_part(stack: Stack) -> None:
    first = chat(stack, "wugang@example.com", "银行流水又同步失败了,提示E3001")
    first.expect(r"ticket (T\d{6})")
    ticket_id = first.match.group(1)
    first.expect("you> ")
    shown = first.before
    order = [shown.index(mark) for mark in ("· draft", "[KB-bank-001]", "· check", "--- resolved ---", "[memory] 2 entries")]
    assert order == sorted(order)
    assert "> list_bank_connections({})" in shown
    assert re.search(r"profile: .*E3001", shown)
    status, last = leave(first)
    assert (status, f"chat --ticket {ticket_id}" in last) == (0, True)
    later = chat(stack, "--ticket", ticket_id)
    later.expect("you> ")
    later.sendline("还在吗?刚才说到哪了")
    later.expect(r"\[memory\] 4 entries")
    assert "E3001" in later.before.split("--- resolved ---")[1]
    leave(later)


def test_a_refund_is_approved_inline(stack: Stack) -> None:
    child = chat(stack, "linyue@example.com", "11月的账单 INV-202611-0044 重复扣款了,请退款", "--by", "chen")
    child.expect(r"ticket (T\d{6})")
    ticket_id = child.match.group(1)
    child.expect(r"approval A\d+\] refund ¥299.00 of INV-202611-0044")
    child.expect("y/N")
    child.sendline("y")
    child.expect("--- resolved ---")
    child.expect("299.00")
    child.expect("you> ")
    leave(child)
    with connect(str(stack.settings().database_url)) as conn:
        paid = conn.execute("SELECT amount::text, decided_by FROM biz.refunds WHERE ticket_id = %s", (ticket_id,)).fetchall()
        sent = conn.execute("SELECT body FROM desk.outbox WHERE ticket_id = %s AND kind = 'reply'", (ticket_id,)).fetchall()
    assert paid == [{"amount": "299.00", "decided_by": "chen"}]
    assert ["299.00" in row["body"] for row in sent] == [True]


def test_two_terminals_on_one_ticket_see_the_same(stack: Stack) -> None:
    one = chat(stack, "zhaolei@example.com", "怎么导出报表?")
    one.expect(r"ticket (T\d{6})")
    ticket_id = one.match.group(1)
    one.expect("you> ")
    two = chat(stack, "--ticket", ticket_id)
    two.expect("you> ")
    one.sendline("谢谢,那怎么修改密码?")
    one.expect(r"\[memory\] \d+ entries")
    two.expect(r"\[memory\] \d+ entries")

    def steps(text: str) -> list[str]:
        return re.findall(r"· (\w+)", text)

    assert steps(one.before) == steps(two.before) != []
    leave(one)
    leave(two)


def test_an_unknown_ticket_is_one_line_and_exit_3(stack: Stack) -> None:
    child = chat(stack, "--ticket", "T424242")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 3
    assert len(child.before.strip().splitlines()) == 1
    assert "T424242" in child.before


def test_without_a_message_the_usage_is_one_line_and_exit_2(stack: Stack) -> None:
    child = chat(stack, "wugang@example.com")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2


def test_when_no_worker_answers_the_person_is_told_and_the_message_kept(stack: Stack) -> None:
    worker = stack.pid("worker")
    assert worker is not None
    os.kill(worker, signal.SIGSTOP)
    try:
        child = chat(stack, "qianjun@example.com", "你好,请问怎么升级套餐?")
        child.expect("no worker has picked the message up yet", timeout=30)
    finally:
        os.kill(worker, signal.SIGCONT)
    child.expect(r"\[memory\] 2 entries", timeout=60)
    leave(child)
