"""The demo's story: each step does something and then proves, from the database or the callback, that it happened."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx

from producer.cli.demo_memory import (
    folded_and_still_right,
    long_ticket_folded,
    profile_rebuilt,
    turn_replayed,
    what_it_cost,
    what_memory_cost,
)
from producer.cli.demo_view import View
from producer.cli.demo_world import LIN, LIN_EMAIL, WU, WU_EMAIL, StepFailed, World, require
from supportpilot.errors import SupportPilotError

APPROVER = "Chen"

FIRST = "招商银行的流水又同步不了了，报错 E3001，请问怎么处理？"
SECOND = "重新授权之后，断开那几天的流水会自动补上吗？"
THIRD = "明白了。那招商银行这次授权以后大概多久会再过期？"
DUPLICATE = "你好，我 11 月的账单被重复扣了一次款，重复的那笔是 INV-202611-0044，请帮我退款。"
MEANWHILE = "补充一下：另外想问问，开好的电子发票在哪里下载？"
LONGER_THAN_A_TURN = 2.0
# The failures a step may meet; anything else is a bug and ends the demo as one.
TROUBLE = (StepFailed, SupportPilotError, httpx.HTTPError, OSError, LookupError, ValueError)


@dataclass(frozen=True)
class Step:
    """One step of the story."""

    title: str
    act: Callable[[World, View], None]


def tell_story(world: World, view: View, steps: Sequence[Step]) -> int:
    """Go through the steps; return 0, or 1 after naming the step that did not happen."""
    begin, done = time.monotonic(), list[tuple[str, float]]()
    for number, step in enumerate(steps, start=1):
        view.step(number, len(steps), step.title)
        started = time.monotonic()
        try:
            step.act(world, view)
        except TROUBLE as error:
            view.failed(number, step.title, f"{error}" if isinstance(error, StepFailed) else f"{type(error).__name__}: {error}")
            return 1
        done.append((step.title, time.monotonic() - started))
    view.summary(done, time.monotonic() - begin)
    return 0


def all_is_there(world: World, view: View) -> None:
    """Every part answers before the story begins."""
    ran = world.wait_for(lambda: found if (found := world.command("doctor")).code == 0 else None,
                         "doctor finds something missing; run `supportpilot doctor` on a stack of your own to see what")
    view.ran("doctor", ran)


def fourth_time(world: World, view: View) -> None:
    """A known customer has the known fault once more; the memory of three old tickets is in front of the model."""
    view.customer(WU, FIRST)
    ticket_id = world.write(WU, WU_EMAIL, FIRST, subject="E3001 招商银行")
    view.tell(f"202: stored in Postgres as a message of {ticket_id}; a Celery worker was woken up")
    reply = world.hear(WU, "reply", 1)
    view.reply("reply", reply["body"])
    require(reply["citations"], "the reply cites no article of the knowledge base")
    shown = world.settled(WU, "answered")
    view.memory(shown["context"])
    check_profile(shown["context"], shown["profile"])
    view.proved("the model saw the profile: E3001 three times, in the earlier tickets of this customer")
    view.proved("the reply came signed, and cites " + ", ".join(c["id"] for c in reply["citations"]))


def check_profile(context: str, profile: str) -> None:
    """Require that the view holds the profile, and the profile that it is the fourth time."""
    require(profile and profile in context, "the memory view does not hold the customer's profile")
    require("E3001" in profile, f"the profile does not name E3001: {profile}")
    require(re.search(r"(3|三)\s*次|three times|3 times", profile), f"the profile does not count three times: {profile}")


def follow_up(world: World, view: View) -> None:
    """A follow-up that only makes sense with what was said before."""
    view.customer(WU, SECOND)
    world.write(WU, WU_EMAIL, SECOND)
    view.reply("reply", world.hear(WU, "reply", 2)["body"])
    shown = world.settled(WU, "answered")
    require(len(shown["turns"]) == 4, f"the conversation has {len(shown['turns'])} entries, not 4")
    require(FIRST in shown["context"], "the view of the follow-up does not hold the first message")
    view.proved("the second turn saw the first one: same ticket, same thread, 4 entries")


def worker_dies(world: World, view: View) -> None:
    """The worker is killed with the message in its hands; a new one answers it, once, in context."""
    view.customer(WU, THIRD)
    world.write(WU, WU_EMAIL, THIRD)
    old = world.stack.kill("worker")
    view.tell(f"kill -9 of the worker (pid {old}), with that message just accepted")
    new = world.wait_for(lambda: pid if (pid := world.stack.pid("worker")) != old else None,
                         "the worker was not started again")
    view.tell(f"its keeper started another (pid {new}); Postgres knows what is still due")
    view.reply("reply", world.hear(WU, "reply", 3)["body"])
    shown = world.settled(WU, "answered")
    require([t["role"] for t in shown["turns"]] == ["customer", "agent"] * 3, "the conversation is not 3 questions and 3 answers")
    require(FIRST in shown["context"] and SECOND in shown["context"], "the new worker did not see the earlier conversation")
    require(len(world.callback.received(world.ticket[WU], "reply")) == 3, "more than one reply arrived")
    view.proved("nothing lost, nothing doubled: 6 entries, 3 replies, the earlier conversation in the new worker's view")


def refund_waits(world: World, view: View) -> None:
    """A refund stops at the interrupt until a human decides; the customer gets a notice."""
    view.customer(LIN, DUPLICATE)
    world.write(LIN, LIN_EMAIL, DUPLICATE, subject="重复扣款")
    view.reply("notice", world.hear(LIN, "notice", 1)["body"])
    shown = world.settled(LIN, "waiting_approval")
    pending = [a for a in shown["approvals"] if a["status"] == "pending"]
    require(len(pending) == 1, f"{len(pending)} approvals are pending, not 1")
    world.approval_id = pending[0]["id"]
    request = world.approval().request["request"]
    require(not world.refunds(LIN), "the refund was paid before anybody approved it")
    view.proved(f"{world.approval_id} waits: refund {request['amount']} {request['currency']} of {request['invoice_number']}; "
                "nothing is paid yet, the graph stands in Postgres")


def message_is_held(world: World, view: View) -> None:
    """What the customer writes meanwhile is kept, not answered, and does not disturb the interrupt."""
    view.customer(LIN, MEANWHILE)
    world.write(LIN, LIN_EMAIL, MEANWHILE)
    view.reply("ack", world.hear(LIN, "ack", 1)["body"])
    shown = world.show(LIN)
    require([m["body"] for m in shown["pending_messages"]] == [MEANWHILE], "the message is not held in the inbox")
    require(shown["status"] == "waiting_approval" and world.approval().status == "pending", "the approval is gone")
    view.proved("held in the inbox; the approval still stands")


def stale_approval(world: World, view: View) -> None:
    """Whoever approves without having read the new message is refused."""
    ran = world.command("approvals", "approve", world.approval_id, "--by", APPROVER)
    view.ran(f"approvals approve {world.approval_id} --by {APPROVER}", ran)
    require(ran.code == 3, f"the stale approval ended with exit {ran.code}, not 3")
    require(f"--version {world.newest_version(LIN)}" in ran.error, "the refusal does not name the version to give")
    require(world.approval().status == "pending" and not world.refunds(LIN), "the stale approval had an effect")
    view.proved("refused as stale, exit 3; nothing was decided, nothing paid")


def approval_after_reading(world: World, view: View) -> None:
    """After reading, the approval goes through, and the money moves exactly once."""
    version = str(world.newest_version(LIN))
    ran = world.command("approvals", "approve", world.approval_id, "--by", APPROVER, "--version", version)
    view.ran(f"approvals approve {world.approval_id} --by {APPROVER} --version {version}", ran)
    require(ran.code == 0, f"the approval ended with exit {ran.code}")
    view.reply("reply", world.hear(LIN, "reply", 1)["body"])
    refunds = world.refunds(LIN)
    require(len(refunds) == 1, f"{len(refunds)} refunds are in the database, not 1")
    require(refunds[0].approval_id == world.approval_id, "the refund is not that of the approval")
    view.proved(f"one refund row: {refunds[0].id}, {refunds[0].amount} of {refunds[0].invoice_number}")


def held_message_answered(world: World, view: View) -> None:
    """The held message is the next turn."""
    view.reply("reply", world.hear(LIN, "reply", 2)["body"])
    shown = world.settled(LIN, "answered")
    require(not shown["pending_messages"], "a message is still waiting")
    require(shown["turns"][-2]["content"] == MEANWHILE, "the last turn did not answer the held message")
    require(len(world.refunds(LIN)) == 1, "the refund was paid again")
    view.proved("answered after the decision, in order; still one refund")


def bad_webhooks(world: World, view: View) -> None:
    """The same webhook again changes nothing; one without a signature is not even read."""
    before, sent = world.messages(), world.show(WU)["outbox"]
    again = world.post(world.last[WU])
    require(again.status_code == httpx.codes.OK, f"the duplicate got {again.status_code}")
    require(again.json()["duplicate"] is True, "the duplicate was not recognised")
    view.proved(f"the same message once more: 200 {again.text}")
    unsigned = world.post({**world.last[WU], "message_id": "forged"}, signed=False)
    require(unsigned.status_code == httpx.codes.UNAUTHORIZED, f"the unsigned request got {unsigned.status_code}")
    require(world.messages() == before, "a refused message was stored")
    time.sleep(LONGER_THAN_A_TURN)
    require([r["id"] for r in world.show(WU)["outbox"]] == [r["id"] for r in sent], "the duplicate was answered again")
    view.proved("without a signature: 401; nothing was stored, nobody was answered twice")


STORY = [
    Step("database, broker, workers, model: all there", all_is_there),
    Step("吴刚 reports E3001 for the fourth time (signed webhook)", fourth_time),
    Step("a follow-up, answered in context", follow_up),
    Step("kill -9 of the worker; the third message is answered", worker_dies),
    Step("林悦 was charged twice: the refund waits for a human", refund_waits),
    Step("a message that arrives meanwhile is held", message_is_held),
    Step("an approval that has not read it is refused", stale_approval),
    Step("the approval after reading: one refund, one reply", approval_after_reading),
    Step("the held message is answered", held_message_answered),
    Step("a duplicate webhook, and one without a signature", bad_webhooks),
    Step("six questions on one ticket: its early part is put in short", long_ticket_folded),
    Step("the seventh is answered from the summary", folded_and_still_right),
    Step("吴刚's ticket is resolved: his profile is made anew", profile_rebuilt),
    Step("time travel: his last turn once more, in a fork", turn_replayed),
    Step("what it all cost", what_it_cost),
    Step("what remembering cost", what_memory_cost),
]
