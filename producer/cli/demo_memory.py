"""The demo's second half: a long ticket in short, a profile made anew, a turn replayed, and what all of it cost."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from itertools import takewhile
from typing import Any

from producer.cli.demo_view import View
from producer.cli.demo_world import WU, ZHAO, ZHAO_EMAIL, Ran, World, require
from supportpilot.memory.compress import render_turns

# Below the default of 1200, so that six questions are too many; three are not.
BUDGET_TOKENS, KEPT_ENTRIES = 1000, 4
INVOICE = "INV-202611-0046"
QUESTIONS = (
    f"账单 {INVOICE} 的 2990.00 元已经付了，请问发票在哪里申请？",
    "发票抬头写错了，还能改吗？",
    "开专用发票需要提供哪些资料？",
    "农业银行同步报 E3002，是什么原因？",
    "怎么邀请同事一起使用，权限怎么分？",
    "怎么开启两步验证？",
)
BACK_TO_THE_FIRST = "还在吗？我之前说的账单号是多少？"
FOUR_TIMES = re.compile(r"E3001[^。]*?(?:4|四)\s*次")
FORK = re.compile(r"fork:[0-9a-f-]{36}")


def long_ticket_folded(world: World, view: View) -> None:
    """Six questions on one ticket: the background task puts the early ones in short, nobody waits for it."""
    view.tell(f"CONTEXT_BUDGET_TOKENS={BUDGET_TOKENS} in this demo, so that a fold is seen soon. {ZHAO} writes:")
    for number, question in enumerate(QUESTIONS, start=1):
        world.write(ZHAO, ZHAO_EMAIL, question, subject="发票和账户")
        reply = world.hear(ZHAO, "reply", number)
        world.settled(ZHAO, "answered")
        view.tell(f"  {number}. {question}\n     answered from {', '.join(c['id'] for c in reply['citations']) or 'no article'}")
    entries = len(world.show(ZHAO)["turns"])
    require(entries == 2 * len(QUESTIONS), f"the conversation has {entries} entries, not {2 * len(QUESTIONS)}")
    stored = world.wait_for(
        lambda: found if (found := world.summary(ZHAO)) and found.upto == entries - KEPT_ENTRIES else None,
        f"memory.compress stored no summary of the first {entries - KEPT_ENTRIES} of {entries} entries")
    view.note(f"summary: folded up to entry {stored.upto} of {entries}", stored.summary)
    require(stored.made_by == "model", "the model's summary did not pass the check; the rule's was stored")
    require(INVOICE in stored.summary, f"the summary has lost {INVOICE}")
    view.proved("written by the background task memory.compress and checked: no figure that the entries lack")


def folded_and_still_right(world: World, view: View) -> None:
    """The next turn reads the summary and the last entries, and answers from what was said first."""
    folded, before = world.summary(ZHAO), world.show(ZHAO)["turns"]
    view.customer(ZHAO, BACK_TO_THE_FIRST)
    world.write(ZHAO, ZHAO_EMAIL, BACK_TO_THE_FIRST)
    reply = world.hear(ZHAO, "reply", len(QUESTIONS) + 1)
    shown = world.settled(ZHAO, "answered")
    view.memory(shown["context"])
    view.reply("reply", reply["body"])
    require(folded and (shown["summary"], shown["summarized_upto"]) == (folded.summary, folded.upto),
            "the turn did not read the stored summary")
    last = render_turns(before[-KEPT_ENTRIES:])
    require(last in shown["context"], f"the last {KEPT_ENTRIES} entries do not stand word for word in the view")
    require(before[-KEPT_ENTRIES - 1]["content"] not in shown["context"], "an entry that is folded and of no use here still stands in the view")
    view.proved(f"`ticket show`: folded up to entry {shown['summarized_upto']}; the last {KEPT_ENTRIES} stand word for word")
    require(INVOICE not in last and INVOICE in reply["body"], f"the reply does not know {INVOICE}, which only the ledger holds")
    claim: dict[str, Any] = next((fact for fact in shown["ledger"] if fact["value"] == INVOICE), {})
    require(claim.get("folded") and claim.get("speaker") == "customer", f"the ledger does not have {INVOICE} as the customer's")
    view.proved(f"the reply knows {INVOICE} from the ledger, which loses no figure; entry {claim['turn'] + 1} said it")


def profile_rebuilt(world: World, view: View) -> None:
    """A resolved ticket is part of the history: the profile is made anew in the background."""
    before = world.wait_for(lambda: world.profile(WU), "no profile was ever stored")
    view.note(f"profile before ({before.source_ticket_count} resolved tickets)", before.summary)
    resolved = world.command("ticket", "resolve", world.ticket[WU])
    view.ran(f"ticket resolve {world.ticket[WU]}", resolved)
    require(resolved.code == 0, f"`ticket resolve` ended with exit {resolved.code}")
    after = world.wait_for(
        lambda: found if (found := world.profile(WU)) and found.source_ticket_count > before.source_ticket_count else None,
        "memory.rebuild_profile stored no new profile")
    view.note(f"profile after ({after.source_ticket_count} resolved tickets)", after.summary)
    require(not FOUR_TIMES.search(before.summary), "the old profile counted the ticket before it was resolved")
    require(FOUR_TIMES.search(after.summary), f"the new profile does not count E3001 four times: {after.summary}")
    view.proved("rebuilt by memory.rebuild_profile: E3001 now four times; his next ticket begins with it")


def turn_replayed(world: World, view: View) -> None:
    """Time travel: a turn runs once more from one of its snapshots, in a fork that changes nothing."""
    ticket_id = world.ticket[WU]
    listed = world.command("ticket", "history", ticket_id)
    view.ran(f"ticket history {ticket_id}", Ran(listed.code, newest_turn(listed.out), listed.error))
    snapshots = _snapshots(world, ticket_id)
    start = next((s["checkpoint_id"] for s in snapshots if s["next"] == ["classify"]), None)
    require(start, "the history has no snapshot from before `classify`")
    before = _footprint(world)
    replayed = world.command("ticket", "replay", ticket_id, "--checkpoint", str(start))
    view.ran(f"ticket replay {ticket_id} --checkpoint {start}", replayed)
    require(replayed.code == 0, f"the replay ended with exit {replayed.code}")
    require("the same as then" in replayed.out, "the replay came to something else than the turn did")
    require(_footprint(world) == before, "the replay sent or stored something on the ticket")
    require(_snapshots(world, ticket_id)[0] == snapshots[0], "the ticket's head has moved")
    fork = FORK.search(replayed.out)
    paid = sum(row["cost_cny"] for row in world.costs("ticket") if fork and row["key"] == fork[0])
    require(paid > 0, "the replay has no cost of its own")
    view.proved(f"nothing was sent, the head stands at {snapshots[0]['checkpoint_id'][:13]}…; the fork paid its own ¥{paid:.4f}")


def newest_turn(history: str) -> str:
    """Return what `ticket history` prints of the newest turn, and how many lines were left out."""
    lines = history.rstrip().splitlines()
    rest = list(takewhile(lambda text: not text.startswith("turn "), lines[1:]))
    more = len(lines) - 1 - len(rest)
    return "\n".join([*lines[:1], *rest, *([f"... {more} more lines, of the earlier turns"] if more else [])])


def _snapshots(world: World, ticket_id: str) -> list[dict[str, Any]]:
    listed = world.command("ticket", "history", ticket_id, "--json")
    require(listed.code == 0, f"`ticket history` ended with exit {listed.code}: {listed.error}")
    found: list[dict[str, Any]] = json.loads(listed.out)
    return found


def _footprint(world: World) -> tuple[Any, ...]:
    """What an effect of a replay would change: replies, conversation, messages, refunds, and what has arrived."""
    shown = world.show(WU)
    return (shown["status"], [r["id"] for r in shown["outbox"]], shown["turns"], shown["approvals"], world.messages(),
            world.refunds(WU), world.callback.received(world.ticket[WU]))


def what_it_cost(world: World, view: View) -> None:
    """Every model call is charged to its ticket and node."""
    for by in ("ticket", "node"):
        _board(world, view, by)
    charged = {row["key"] for row in world.costs("ticket") if row["cost_cny"] > 0}
    require(set(world.ticket.values()) <= charged, f"a ticket has no cost: {charged}")
    missing = {"classify", "draft", "check", "memory.compress", "memory.rebuild_profile"} - {r["key"] for r in world.costs("node")}
    require(not missing, f"no cost of {', '.join(sorted(missing))}")
    view.proved(f"¥{world.spent():.4f} in all, by the price list of the offline model")


def what_memory_cost(world: World, view: View) -> None:
    """The tokens of each call, split by what they came from: memory has a price, and this is it."""
    _board(world, view, "part")
    rows = world.parts()
    memory = {row["key"]: Decimal(row["cost_cny"]) for row in rows if row["memory"]}
    missing = {"profile", "ledger", "summary", "recall", "recent", "transcript", "facts"} - {part for part, cost in memory.items() if cost > 0}
    require(not missing, f"no cost of {', '.join(sorted(missing))}")
    total = sum((Decimal(row["cost_cny"]) for row in rows), Decimal(0))
    require(total == world.spent(), f"the parts sum up to ¥{total}, the calls to ¥{world.spent()}")
    share = sum(memory.values()) / total
    view.proved(f"{share:.0%} of all is the price of remembering; the parts sum up to what the calls have cost")


def _board(world: World, view: View, by: str) -> None:
    shown = world.command("costs", "--by", by)
    view.ran(f"costs --by {by}", shown)
    require(shown.code == 0, f"`costs --by {by}` ended with exit {shown.code}")
