"""Memory in the background: customers never wait for it, nothing unchecked is kept, a lost run is made up for."""

from __future__ import annotations

import re
import threading

import pytest
from fakes import FakeLLM
from fixtures.llm import OfflineLLM
from fixtures.office import CONTACT, DRAFT, TRIAGE, Office, give_paid_invoice, refund_llm
from fixtures.worker import Workers, wait_for

from supportpilot.db import summaries
from supportpilot.db.llm_calls import record_call
from supportpilot.db.pool import Database
from supportpilot.errors import NotFound, Transient
from supportpilot.kb.retriever import HybridRetriever
from supportpilot.llm.client import LLMClient
from supportpilot.memory.checkpoint import truncate_checkpoints
from supportpilot.memory.compress import estimate_tokens, render_turns
from supportpilot.memory.verify import SUMMARY_CHARS, problems
from supportpilot.service import costs, intake, memory, profile, ticket, upkeep
from supportpilot.types import InboundMessage
from worker.publish import Publisher, send_now

pytestmark = pytest.mark.integration

WU_GANG = "wugang@example.com"
LINES = ("银行流水同步失败,提示 E3001,应该怎么办?", "已经重新授权了,还是提示 E3001", "另外账单 INV-202603-0006 的发票怎么开?",
         "发票抬头写错了能改吗?", "重新授权之后多久能恢复?", "能不能在到期之前提醒我?")


def real_office(db: Database, offline_llm: OfflineLLM, **settings) -> Office:
    """An office over the demo data whose model is the offline one and whose calls are recorded."""
    def report(call):
        with db.transaction() as conn:
            record_call(conn, call)
    made = Office(db, LLMClient(offline_llm.settings(), report=report), **settings)
    made.deps.retriever = HybridRetriever(db, made.settings)
    made.deps.profile_for = made.profile_for
    return made


@pytest.fixture
def tight(seeded_db, offline_llm):
    """The office of the demo data with a budget of 200 tokens."""
    made = real_office(seeded_db, offline_llm, context_budget_tokens=200)
    yield made
    made.llm.close()


def converse(office, lines, contact=CONTACT, *, compress=True):
    """Answer one line after the other; return the ticket's id."""
    ticket_id = office.write(lines[0], contact=contact).ticket_id
    office.work(ticket_id)
    for line in lines[1:]:
        background(office, ticket_id) if compress else None
        office.write(line, contact=contact, ticket_id=ticket_id)
        office.work(ticket_id)
    return ticket_id


def background(office, ticket_id):
    """Work off what was asked for, as the background process would."""
    asked, office.wakeups.compressions[:] = list(office.wakeups.compressions), []
    return [memory.compress(office.db, office.deps.small_llm, office.settings, t) for t in asked if t == ticket_id]


def stored(office):
    return office.rows("SELECT upto, summary, made_by FROM desk.summaries ORDER BY upto")


def section(view, name):
    found = re.search(rf'<section name="{name}">\n(.*?)\n</section>', view, re.DOTALL)
    return found[1] if found else ""


def test_a_long_ticket_is_folded_its_last_four_entries_stay_and_the_seventh_answer_is_right(tight, offline_llm):
    ticket_id = converse(tight, LINES, WU_GANG)
    assert background(tight, ticket_id) == ["folded 8 entries, by model"]
    before = tight.thread(ticket_id)["turns"]
    tight.write("所以 E3001 到底是什么意思?", contact=WU_GANG, ticket_id=ticket_id)
    tight.work(ticket_id)

    shown = ticket.show(tight.db, tight.settings, ticket_id)
    assert len(shown["turns"]) == 14
    assert shown["summarized_upto"] == 9
    assert shown["summary"].startswith(stored(tight)[-1]["summary"])
    assert "INV-202603-0006" in shown["summary"]
    assert all("\n  ".join(turn["content"].splitlines()) in shown["context"] for turn in before[-3:])
    assert "所以 E3001 到底是什么意思" in section(shown["context"], "newest")
    assert "授权" in shown["reply"]
    assert '"KB-bank-001"' in shown["reply"]


def test_what_was_said_first_is_still_known_on_the_seventh_turn(tight):
    ticket_id = converse(tight, LINES, WU_GANG)
    background(tight, ticket_id)
    tight.write("还在吗?我之前说的账单号是多少?", contact=WU_GANG, ticket_id=ticket_id)
    tight.work(ticket_id)
    assert "INV-202603-0006" in tight.thread(ticket_id)["reply"]


CHAT = ("账单 INV-202603-0006 的 2990.00 元已经付了,发票在哪里申请?", "我是负责报销的小周,抬头要写杭州云杉科技,别写错了",
        "开专用发票需要提供哪些资料?", "农业银行同步报 E3002,是什么原因?", "怎么邀请同事一起使用,权限怎么分?", "怎么开启两步验证?",
        "怎么导出上个月的流水?")


def ask(office, ticket_id, line):
    """Write one more message with the background worked off before; return the thread."""
    background(office, ticket_id)
    office.write(line, contact=WU_GANG, ticket_id=ticket_id)
    office.work(ticket_id)
    return office.thread(ticket_id)


def test_a_bill_number_of_the_first_turn_is_answered_from_the_ledger_on_the_eighth(tight):
    ticket_id = converse(tight, CHAT, WU_GANG)
    values = ask(tight, ticket_id, "我之前说的账单号是多少?")
    assert "INV-202603-0006" in values["reply"]
    assert "- 单号 INV-202603-0006:客户称" in section(values["context"], "ledger")
    shown = ticket.show(tight.db, tight.settings, ticket_id)
    (bill,) = [fact for fact in shown["ledger"] if fact["value"] == "INV-202603-0006" and fact["speaker"] == "customer"]
    assert (bill["kind"], bill["turn"], bill["folded"]) == ("id", 0, True)
    assert shown["summarized_upto"] == 11
    assert shown["view"]["budget"] == 200


def test_a_wording_of_the_second_turn_comes_back_word_for_word(tight):
    ticket_id = converse(tight, CHAT, WU_GANG)
    values = ask(tight, ticket_id, "我第二轮说的原话是什么?")
    assert f"客户(早前第3条):{CHAT[1]}" in section(values["context"], "recall")
    assert CHAT[1] in values["reply"]
    assert 2 in values["view"]["recalled"]


@pytest.mark.parametrize("line", ["我之前说的合同号是多少?", "我之前说的手机号是多少?", "我一开始给你们的订单号是多少来着?"])
def test_a_number_that_was_never_said_is_asked_for(tight, line):
    ticket_id = converse(tight, CHAT, WU_GANG)
    values = ask(tight, ticket_id, line)
    assert "请您再发一次" in values["reply"]
    assert not re.search(r"\d{5,}", values["reply"])


def test_the_ledger_takes_a_third_of_the_budget_at_most_and_what_it_has_no_room_for_is_in_the_ticket_s_list(tight):
    ticket_id = converse(tight, (*[f"账单 INV-20260{n}-0006 多扣了 {n}00.00 元,工单 T00010{n} 也没人回" for n in range(1, 9)],), WU_GANG)
    values = ask(tight, ticket_id, "在吗?")
    assert estimate_tokens(section(values["context"], "ledger")) <= 200 // 3
    known = {fact["value"] for fact in ticket.show(tight.db, tight.settings, ticket_id)["ledger"]}
    assert {f"INV-20260{n}-0006" for n in range(1, 9)} <= known


def test_what_memory_costs_is_seen_for_ledger_and_recall(tight):
    ticket_id = converse(tight, CHAT, WU_GANG)
    ask(tight, ticket_id, "我第二轮说的原话是什么?")
    parts = {row["key"]: row for row in costs.board(tight.db, tight.settings, "part")}
    assert all(parts[name]["memory"] and parts[name]["cost_cny"] > 0 for name in ("ledger", "recall", "summary", "recent"))


def test_versions_are_numbered_and_a_writer_that_has_read_an_old_one_stores_nothing(tight):
    ticket_id = converse(tight, CHAT, WU_GANG)
    background(tight, ticket_id)
    rows = tight.rows("SELECT version, upto FROM desk.summaries ORDER BY version")
    assert [row["version"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["upto"] for row in rows] == sorted({row["upto"] for row in rows})
    late = summaries.StoredSummary(ticket_id, 99, "x", "- 晚到的", "model")
    with tight.db.transaction() as conn:
        assert not summaries.put(conn, late, rows[-1]["version"] - 1)
        assert summaries.put(conn, late, rows[-1]["version"])


def test_why_answers_of_the_model_were_refused_is_stored(office):
    office.llm._texts["summary"] = "- 已退 88888 元"
    ticket_id = converse(office, LONG)
    background(office, ticket_id)
    assert office.one("SELECT made_by, refused FROM desk.summaries ORDER BY version DESC LIMIT 1") == {
        "made_by": "rule", "refused": ["invented_figure"]}


def test_a_very_long_ticket_is_read_in_chunks_whose_notes_are_kept(db):
    office = Office(db, context_budget_tokens=400)
    ticket_id = converse(office, ["账单对不上"], compress=False)
    say_a_lot(office, ticket_id, 60)
    notes = memory.compress(office.db, office.llm, office.settings, ticket_id)
    first = len(office.llm.asked("summary"))
    kept = office.one("SELECT count(*) AS n FROM desk.summary_notes")["n"]
    assert notes.startswith("folded 118 entries")
    assert first == kept + 1
    assert kept > 3
    say_a_lot(office, ticket_id, 3)
    assert memory.compress(office.db, office.llm, office.settings, ticket_id).startswith("folded 124 entries")
    assert len(office.llm.asked("summary")) - first <= 2


def say_a_lot(office, ticket_id, rounds):
    """Put long entries into the thread as finished turns would."""
    start = len(office.thread(ticket_id)["turns"])
    said = [{"role": role, "content": f"{role} {start + i}:" + "这张账单的金额和合同对不上,麻烦核对一下明细。" * 8}
            for i in range(rounds) for role in ("customer", "agent")]
    office.rt.graph.update_state({"configurable": {"thread_id": ticket_id}}, {"turns": said}, as_node="finalize")


def test_without_the_background_process_every_view_is_within_the_budget_or_irreducible(tight, offline_llm):
    ticket_id = tight.write(LINES[0], contact=WU_GANG).ticket_id
    for line in (*LINES[1:], ""):
        tight.work(ticket_id)
        values = tight.thread(ticket_id)
        seen = values["turns"][:-1]
        summary, upto = values["summary"], values["summarized_upto"]
        assert upto == max(0, len(seen) - 4) or estimate_tokens(summary + render_turns(seen[upto:])) <= 200
        assert len(summary) <= SUMMARY_CHARS
        assert problems(summary, render_turns(seen[:upto])) == [] or not upto
        if line:
            tight.write(line, contact=WU_GANG, ticket_id=ticket_id)
    assert values["summarized_upto"] == 7
    assert '"KB-' in values["reply"]
    assert offline_llm.requests("summary") == []
    assert stored(tight) == []

    assert background(tight, ticket_id)[-1] == ""      # each turn had asked; the first run does it for all
    assert [row["upto"] for row in stored(tight)] == [8]


def test_a_summary_is_paid_by_its_ticket_under_the_task_s_name(tight):
    ticket_id = converse(tight, LINES, WU_GANG)
    background(tight, ticket_id)
    paid = tight.rows("SELECT ticket_id, turn_id, cost_cny > 0 AS paid FROM desk.llm_calls WHERE node = 'memory.compress'")
    assert paid
    assert all(row == {"ticket_id": ticket_id, "turn_id": None, "paid": True} for row in paid)


def test_an_invented_summary_is_refused_once_and_the_second_answer_is_kept(tight, offline_llm):
    ticket_id = converse(tight, LINES, WU_GANG, compress=False)
    offline_llm.control(error="adversarial_summary", task="summary", times=1)
    background(tight, ticket_id)
    (row,) = stored(tight)
    assert row["made_by"] == "model"
    assert "88888" not in row["summary"]
    first, second = offline_llm.requests("summary")
    assert "[repair]" in second["messages"][-1]["content"]
    assert len(first["messages"]) == 2


def test_invented_twice_it_is_replaced_by_the_rule_s(tight, offline_llm):
    ticket_id = converse(tight, LINES, WU_GANG, compress=False)
    offline_llm.control(error="adversarial_summary", task="summary", times=None)
    background(tight, ticket_id)
    (row,) = stored(tight)
    assert row["made_by"] == "rule"
    assert "INV-202603-0006" in row["summary"]
    assert "88888" not in row["summary"]
    assert "忽略" not in row["summary"]
    assert len(offline_llm.requests("summary")) == 2


LONG = [f"第 {i} 次来问:账单 INV-{i} 的金额不对,麻烦核对一下明细再告诉我结果,谢谢" for i in range(6)]


@pytest.fixture
def office(db):
    return Office(db, FakeLLM(TRIAGE, [], DRAFT), context_budget_tokens=200)


def test_a_model_that_is_away_leaves_a_stored_summary_by_rule_and_the_model_s_replaces_it(office):
    ticket_id = converse(office, LONG, compress=False)
    office.llm.fail = {"summary": Transient("503")}
    background(office, ticket_id)
    assert [row["made_by"] for row in stored(office)] == ["rule"]
    office.llm.fail = {}
    office.execute("UPDATE desk.summaries SET upto = 1, source_hash = 'of another thread'")
    assert memory.compress(office.db, office.llm, office.settings, ticket_id) == "folded 8 entries, by model"


def test_a_run_with_nothing_to_fold_asks_nobody_and_writes_nothing(office):
    ticket_id = converse(office, LONG)
    background(office, ticket_id)
    calls, rows = office.llm.ledger.calls, stored(office)
    assert memory.compress(office.db, office.llm, office.settings, ticket_id) == ""
    assert memory.compress(office.db, office.llm, office.settings, "T999999") == ""
    assert (office.llm.ledger.calls, stored(office)) == (calls, rows)


def test_two_runs_at_once_store_one_version(office):
    ticket_id = converse(office, LONG, compress=False)
    meet = threading.Barrier(2, timeout=20)

    def cost(message):
        meet.wait()
        return "0.001"
    office.llm._cost = cost
    said = []
    runs = [threading.Thread(target=lambda: said.append(
        memory.compress(office.db, office.llm, office.settings, ticket_id))) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join(30)
    assert sorted(said) == ["", "folded 8 entries, by model"]
    assert len(stored(office)) == 1


def test_a_ticket_within_the_budget_is_not_asked_for(db):
    office = Office(db)
    converse(office, LONG[:3])
    assert office.wakeups.compressions == []


def test_a_summary_of_another_conversation_is_not_used(office):
    ticket_id = converse(office, LONG)
    background(office, ticket_id)
    office.execute("UPDATE desk.summaries SET summary = '- 别人的账单'")
    with office.db.transaction() as conn:
        truncate_checkpoints(conn)
    for line in LONG:
        office.write(f"新的事情:{line}", ticket_id=ticket_id)
        office.work(ticket_id)
    values = office.thread(ticket_id)
    assert values["summarized_upto"] > 0
    assert "别人的账单" not in values["context"]


def test_what_waits_for_its_answer_is_not_folded(office):
    ticket_id = converse(office, LONG[:4])
    for line in LONG:
        office.write(line + "!", ticket_id=ticket_id)
    office.llm.fail = {"draft": Transient("503")}
    office.work(ticket_id)
    memory.compress(office.db, office.llm, office.settings, ticket_id)
    turns = office.thread(ticket_id)["turns"]
    assert len(turns) == 14
    assert stored(office)[-1]["upto"] == 4      # all but the last four of the eight that were answered


def test_it_may_run_while_an_approval_waits_and_leaves_the_thread_alone(db):
    office = Office(db, refund_llm(), context_budget_tokens=60)
    office.llm._triages = [TRIAGE, TRIAGE, TRIAGE, *office.llm._triages]
    office.llm._drafts = [DRAFT, DRAFT, DRAFT, *office.llm._drafts]
    give_paid_invoice(office)
    ticket_id = converse(office, [*LONG[:3], "我要退款,账单 INV-1"], compress=False)
    assert office.status(ticket_id) == "waiting_approval"
    before = ticket.show(db, office.settings, ticket_id)["checkpoints"]
    assert memory.compress(db, office.llm, office.settings, ticket_id).startswith("folded 2 entries")
    assert ticket.show(db, office.settings, ticket_id)["checkpoints"] == before
    assert office.rt.graph.get_state({"configurable": {"thread_id": ticket_id}}).interrupts


def test_advice_that_fails_does_not_fail_the_turn(office, monkeypatch, caplog):
    def away(*_):
        raise Transient("database error")
    monkeypatch.setattr(memory, "newest_summary", away)
    ticket_id = converse(office, LONG, compress=False)
    assert office.status(ticket_id) == "answered"
    assert "its next turn will" in caplog.text


# the profile ----------------------------------------------------------------------------------------

TEMPLATE = "专业版年付 VIP 客户。E3001 已出现 3 次(2026年4月、7月、9月)。希望银行授权到期前能收到提醒。招商银行授权已于 2026-11-30 到期。"


@pytest.fixture
def shop(seeded_db):
    """An office over the demo data that reads real profiles."""
    made = Office(seeded_db, FakeLLM(TRIAGE, [], DRAFT, texts={"profile": "VIP,E3001 三次,要提醒"}))
    made.deps.profile_for = made.profile_for
    return made


def rebuild(shop, customer_id="C0010"):
    return profile.rebuild_profile(shop.db, shop.llm, shop.ports, customer_id)


def profile_row(shop, customer_id="C0010"):
    return shop.one("SELECT summary FROM biz.customer_profiles WHERE customer_id = %s", customer_id)["summary"]


def test_a_customer_without_a_profile_is_served_with_the_template_and_it_is_asked_for(shop):
    ticket_id = converse(shop, ["又是 E3001"], WU_GANG)
    assert section(shop.thread(ticket_id)["context"], "profile") == TEMPLATE
    assert shop.wakeups.profiles == ["C0010"]
    assert shop.llm.asked("profile") == []

    assert rebuild(shop) == "rebuilt"
    shop.write("还是不行", contact=WU_GANG, ticket_id=ticket_id)
    shop.work(ticket_id)
    assert shop.thread(ticket_id)["profile"] == "VIP,E3001 三次,要提醒"
    assert shop.wakeups.profiles == ["C0010"]


def test_an_upgrade_without_a_ticket_is_seen_on_the_next_turn(shop):
    ticket_id = converse(shop, ["又是 E3001"], WU_GANG)
    rebuild(shop)
    shop.execute("UPDATE biz.subscriptions SET plan = '企业版' WHERE customer_id = 'C0010'")
    shop.write("还是不行", contact=WU_GANG, ticket_id=ticket_id)
    shop.work(ticket_id)
    assert shop.thread(ticket_id)["profile"].startswith("企业版年付 VIP")
    assert shop.wakeups.profiles == ["C0010"] * 2
    assert rebuild(shop) == "rebuilt"


def test_rebuilding_again_asks_nobody(shop):
    rebuild(shop)
    assert rebuild(shop) == ""
    assert len(shop.llm.asked("profile")) == 1
    with pytest.raises(NotFound):
        rebuild(shop, "C9999")


def test_facts_that_change_while_the_model_writes_are_not_overwritten_with_old_news(shop):
    def cost(_message):
        shop.execute("UPDATE biz.customers SET is_vip = NOT is_vip WHERE id = 'C0010'")
        return "0.001"
    shop.llm._cost = cost
    assert rebuild(shop).startswith("the facts changed")
    assert shop.rows("SELECT 1 FROM biz.customer_profiles WHERE customer_id = 'C0010'") == []
    assert shop.wakeups.profiles == ["C0010"]


def test_an_invented_profile_is_replaced_by_the_template(shop, offline_llm):
    offline_llm.control(error="adversarial_summary", task="profile", times=None)
    llm = LLMClient(offline_llm.settings())
    assert profile.rebuild_profile(shop.db, llm, shop.ports, "C0010") == "rebuilt"
    assert profile_row(shop) == TEMPLATE
    llm.close()


def test_the_offline_model_s_profiles_pass_the_check(seeded_db, offline_llm):
    office = real_office(seeded_db, offline_llm)
    customers = [row["id"] for row in office.rows("SELECT id FROM biz.customers ORDER BY id")]
    for customer_id in customers:
        profile.rebuild_profile(office.db, office.llm, office.ports, customer_id)
    assert len(offline_llm.requests("profile")) == len(customers)     # none needed a second try
    assert office.one("SELECT count(*) AS n FROM desk.llm_calls WHERE node = 'memory.rebuild_profile' "
                      "AND ticket_id IS NULL")["n"] == len(customers)
    office.llm.close()


# settling -------------------------------------------------------------------------------------------

def settle(office):
    return upkeep.settle(office.db, office.ports, office.settings)


def a_day_passes(office):
    office.execute("UPDATE biz.tickets SET last_written_at = last_written_at - interval '25 hours', "
                   "created_at = created_at - interval '25 hours'")
    office.execute("UPDATE desk.outbox SET sent_at = sent_at - interval '25 hours', created_at = created_at - interval '25 hours'")


@pytest.fixture
def answered(db):
    """A customer's answered and delivered ticket of yesterday: (office, ticket id)."""
    office = Office(db)
    give_paid_invoice(office)
    office.execute("INSERT INTO kb.articles (id, title, body) VALUES ('KB-bank-001', '银行授权过期 E3001', '重新授权,见 E3002')")
    ticket_id = converse(office, ["又提示e3001了,之前是 E3002"])
    office.deliver()
    return office, ticket_id


def test_a_quiet_answered_ticket_is_resolved_and_becomes_history(answered):
    office, ticket_id = answered
    assert settle(office) == 0
    a_day_passes(office)
    assert settle(office) == 1
    assert office.status(ticket_id) == "resolved"
    row = office.one("SELECT error_code, category, resolved_at FROM biz.tickets WHERE id = %s", ticket_id)
    assert (row["error_code"], row["category"]) == ("E3001", "technical")
    assert row["resolved_at"]
    assert office.wakeups.profiles == ["C1"]
    assert "E3001 已出现 1 次" in office.profile_for("C1")
    assert settle(office) == 0


OPEN = {
    "a message that waits": "INSERT INTO desk.inbox (ticket_id, seq, channel, external_id, author, body, due_at) "
                            "SELECT id, 99, 'generic', 'late', 'customer', '?', clock_timestamp() FROM biz.tickets",
    "a pending approval": "INSERT INTO desk.approvals (ticket_id, turn_id, interrupt_id, request, version, expires_at) "
                          "SELECT ticket_id, turn_id, 'i', '{}', 1, clock_timestamp() FROM desk.turns",
    "a turn that runs": "UPDATE desk.turns SET status = 'running'",
    "a reply that is not sent": "UPDATE desk.outbox SET status = 'queued'",
    "a reply that could not be sent": "UPDATE desk.outbox SET status = 'failed'",
    "a reply of an hour ago": "UPDATE desk.outbox SET sent_at = clock_timestamp() - interval '1 hour'",
    "a message of an hour ago": "UPDATE biz.tickets SET last_written_at = clock_timestamp() - interval '1 hour'",
    "a human who has it": "UPDATE biz.tickets SET status = 'escalated'",
}


@pytest.mark.parametrize("change", OPEN.values(), ids=OPEN.keys())
def test_what_is_still_open_is_not_settled(answered, change):
    office, _ = answered
    a_day_passes(office)
    office.execute(change)
    assert settle(office) == 0


def test_a_ticket_that_somebody_writes_to_at_this_moment_is_left_alone(answered):
    office, ticket_id = answered
    a_day_passes(office)
    with office.db.transaction() as conn:
        conn.execute("SELECT 1 FROM biz.tickets WHERE id = %s FOR NO KEY UPDATE", (ticket_id,))
        assert settle(office) == 0
    assert settle(office) == 1


def test_a_message_after_settling_opens_the_ticket_again(answered):
    office, ticket_id = answered
    a_day_passes(office)
    settle(office)
    office.write("还是不行", ticket_id=ticket_id)
    office.work(ticket_id)
    assert office.status(ticket_id) == "answered"


def test_resolving_by_hand_asks_for_the_profile_too(answered):
    office, ticket_id = answered
    ticket.resolve(office.db, office.ports, ticket_id)
    assert office.wakeups.profiles == ["C1"]
    assert office.one("SELECT error_code FROM biz.tickets")["error_code"] == "E3001"


def test_a_human_s_ticket_that_is_resolved_with_messages_asks_for_the_profile_when_they_are_taken_in(answered):
    office, ticket_id = answered
    ticket.reply(office.db, office.ports, ticket_id, "我来处理", "lin")
    office.write("好的,谢谢", ticket_id=ticket_id)
    assert ticket.resolve(office.db, office.ports, ticket_id) == "resolving"
    assert office.wakeups.profiles == []
    office.work(ticket_id)
    assert office.status(ticket_id) == "resolved"
    assert office.wakeups.profiles == ["C1"]


# the real processes ---------------------------------------------------------------------------------

BACKGROUND = ("worker", "-P", "threads", "-E", "-c", "2", "-Q", "background")


def test_the_background_process_works_off_what_was_asked_while_it_was_away(workers: Workers, seeded_db, stack_settings):
    workers.environment["CONTEXT_BUDGET_TOKENS"] = "200"
    workers.start()
    ports = Publisher(stack_settings).ports()
    ticket_id = None
    for number, line in enumerate(LINES):
        message = InboundMessage(channel="terminal", external_id=f"line{number}", contact=WU_GANG, body=line,
                                 ticket_id=ticket_id)
        received = intake.receive(seeded_db, stack_settings, ports, message)
        ticket_id = received.ticket_id
        wait_for(lambda: _count(seeded_db, "desk.turns WHERE status = 'done'") > number, what=f"answer {number}")  # noqa: B023
    assert _count(seeded_db, "desk.summaries") == 0
    assert _count(seeded_db, "checkpoints") > 50

    workers.start("background", BACKGROUND)
    wait_for(lambda: _count(seeded_db, "desk.summaries WHERE upto = 8 AND made_by = 'model'"), what="the summary")
    wait_for(lambda: _count(seeded_db, "biz.customer_profiles WHERE customer_id = 'C0010'"), what="the profile")
    wait_for(lambda: _count(seeded_db, "checkpoints") <= 15, what="the pruning")
    assert "memory.compress" in workers.text("background")
    ticket.resolve(seeded_db, ports, ticket_id)
    wait_for(lambda: _count(seeded_db, "biz.customer_profiles WHERE summary LIKE '%%E3001%%4 次%%'"), what="the fourth time")


def test_the_desk_process_settles(workers: Workers, seeded_db, stack_settings):
    with seeded_db.transaction() as conn:
        for ticket_id, age in (("T000001", "2 days"), ("T000002", "1 hour")):
            conn.execute("UPDATE biz.tickets SET status = 'answered', resolved_at = NULL, last_written_at = now() - %s::interval "
                         "WHERE id = %s", (age, ticket_id))
    workers.start("desk", ("worker", "-P", "threads", "-E", "-c", "1", "-Q", "desk"))
    send_now(stack_settings, "desk.settle")
    wait_for(lambda: _count(seeded_db, "desk.audit WHERE action = 'ticket.settled'"), what="a ticket to be settled")
    with seeded_db.connection() as conn:
        found = conn.execute("SELECT id, status, resolved_at IS NOT NULL AS closed FROM biz.tickets WHERE id <= 'T000002' ORDER BY 1")
        assert [(row["id"], row["status"], row["closed"]) for row in found] == [
            ("T000001", "resolved", True), ("T000002", "answered", False)]
    assert _count(seeded_db, "desk.audit WHERE action = 'ticket.settled' AND ticket_id <> 'T000001'") == 0


def _count(db, what):
    with db.connection() as conn:
        return conn.execute(f"SELECT count(*) AS n FROM {what}").fetchone()["n"]
