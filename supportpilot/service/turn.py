"""Run a ticket's turns: one procedure for new messages, resumes and recovery (durability.md section 3).

What the thread needs is judged from `get_state` alone, read again after every invoke; what invoke returned is
not believed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Interrupt, StateSnapshot

from supportpilot.agent.context import ends_in_silence
from supportpilot.agent.deps import Deps
from supportpilot.agent.plain import plain
from supportpilot.agent.state import SupportState, Turn
from supportpilot.config import Settings
from supportpilot.db import approvals, inbox, outbox
from supportpilot.db.approvals import Approval
from supportpilot.db.pool import Database, translated
from supportpilot.desk import turns as desk
from supportpilot.desk.lease import Heartbeat
from supportpilot.desk.turns import Failure, Work
from supportpilot.errors import (
    Busy,
    HandedBack,
    LeaseLost,
    NotFound,
    Overtaken,
    Permanent,
    SupportPilotError,
    TornThread,
    Unavailable,
    shown_error,
)
from supportpilot.llm.retrying import ProviderTrouble
from supportpilot.service.draining import Draining
from supportpilot.service.given import given_to
from supportpilot.service.live import LiveBoard, LiveTurn
from supportpilot.service.memory import ask_for_compression
from supportpilot.service.texts import approval_notice, handoff_notice
from supportpilot.types import Ports

log = logging.getLogger(__name__)

BUSY_WAIT_SECONDS = 5.0


@dataclass(frozen=True)
class Runtime:
    """What a worker process has to run turns with; `holder` names the process for people."""

    db: Database
    graph: CompiledStateGraph[Any, Any, Any, Any]
    deps: Deps
    settings: Settings
    ports: Ports
    keeper: Heartbeat
    holder: str
    live: LiveBoard | None = None
    draining: Draining = field(default_factory=Draining)


@dataclass(frozen=True)
class Parked:
    """The graph stands at an interrupt that was read back from the database."""

    interrupt: Interrupt


@dataclass(frozen=True)
class Finished:
    """The graph has nothing left to do for this turn."""

    values: dict[str, Any]


def handle_message(rt: Runtime, ticket_id: str, message_id: str) -> str:
    """Run whatever is due on the ticket; return what happened, in a few words for the log.

    A wake-up that comes too early for its message is sent again for the rest, also when somebody has the ticket.

    Raises:
        Unavailable: the database is away; the sweeper brings the work back.
    """
    with rt.db.connection() as conn:
        wait = inbox.seconds_until_due(conn, message_id)
    if wait > 0:
        rt.ports.schedule_turn(ticket_id, message_id, wait + 0.05)
    return drain(rt, ticket_id, message_id)


def resume(rt: Runtime, ticket_id: str, approval_id: str) -> str:
    """Go on after a decision. If the lease is held this just ends: the holder's release looks for it."""
    with rt.db.connection() as conn:
        approval = approvals.get(conn, approval_id)
    if approval is None or approval.ticket_id != ticket_id:
        return f"no approval {approval_id} on {ticket_id}"
    if approval.applied_at is not None:
        return f"{approval_id} was applied before"
    return drain(rt, ticket_id, "")


def drain(rt: Runtime, ticket_id: str, message_id: str) -> str:
    """Take the ticket and run its turns until none is due; a process that is about to stop passes the wake-up on."""
    if rt.draining.requested:
        rt.ports.schedule_turn(ticket_id, message_id, 0.0)
        return "this worker is about to stop; passed on"
    try:
        with rt.db.transaction() as conn:
            work = desk.take(conn, rt.settings, ticket_id, rt.holder, handoff_notice)
    except NotFound as error:
        return str(error)
    except Busy:
        rt.ports.schedule_turn(ticket_id, message_id, BUSY_WAIT_SECONDS)
        return "lease row locked; again in 5 s"
    if work is None:
        _schedule_replies(rt, ticket_id)
        return "nothing due, or somebody has it"
    token, done = work.token, []
    try:
        while work is not None:
            rt.keeper.add(token)
            rt.draining.hold(work)
            said, work = _run(rt, work)
            done.append(said)
    finally:
        rt.keeper.remove(token)
        rt.draining.let_go(token)
    _wake_later(rt, ticket_id)
    return "; ".join(done)


def _run(rt: Runtime, work: Work) -> tuple[str, Work | None]:
    """Run one turn to its end, park it or note its failure; return what happened and the next turn."""
    live = rt.live.turn(work.ticket_id, work.turn.turn_id) if rt.live else None
    said, following = _run_watched(rt, work, live)
    if live is not None:
        live.end(said)
    return said, following


def _run_watched(rt: Runtime, work: Work, live: LiveTurn | None) -> tuple[str, Work | None]:
    try:
        if live is not None:
            live.begin(len(work.turn.message_ids))
        return _run_to_its_end(rt, work, live)
    except LeaseLost as error:
        log.warning("turn left ticket=%s turn=%s: %s", work.ticket_id, work.turn.turn_id, error)
        return "lease lost", None
    except Exception as error:  # noqa: BLE001 -- the shell of a turn: every failure is written down, none kills the worker
        return _fail(rt, work, error), None


def _run_to_its_end(rt: Runtime, work: Work, live: LiveTurn | None) -> tuple[str, Work | None]:
    try:
        reached = _close(rt, work) if work.turn.closing else advance(rt, work, live)
        if isinstance(reached, Parked):
            return _park(rt, work, reached.interrupt), None
    except Overtaken as error:
        return _replace(rt, work, error)
    return _release(rt, work, reached.values)


def _replace(rt: Runtime, work: Work, why: Overtaken) -> tuple[str, Work | None]:
    with rt.db.transaction() as conn:
        following = desk.replace(conn, work, rt.settings)
    if following is work:
        return "goes on", work
    log.info("turn replaced ticket=%s turn=%s: %s", work.ticket_id, work.turn.turn_id, why)
    return "replaced", following


def config_of(work: Work, live: LiveTurn | None = None) -> RunnableConfig:
    """Return the graph's config; keys that start with two underscores are not stored with the checkpoint."""
    return {"configurable": {"thread_id": work.ticket_id, "turn_id": work.turn.turn_id, "__lease_token": work.token,
                             "__live": live}}


def advance(rt: Runtime, work: Work, live: LiveTurn | None = None) -> Parked | Finished:
    """Move the thread on until it is parked or finished; `live` is told its steps.

    Raises:
        Permanent: the thread does not move, or its approval was withdrawn.
        Transient: something outside failed.
        TornThread: what was written does not show in the thread.
        LeaseLost: another worker has the ticket.
    """
    config, resumed, last, begun = config_of(work, live), set[str](), None, False
    while True:
        with translated():
            state = rt.graph.get_state(config)
        if state.values.get("turn_id") != work.turn.turn_id:
            if begun:       # an older head hides what was written: asking again would pay for the model each time
                raise TornThread("what this turn has written does not show in its thread; reading again")
            begun = True
            _invoke(rt, _input(rt, work, state.values), config)
        elif state.interrupts:
            interrupt = state.interrupts[0]
            decision = _decision(rt, interrupt.id)
            if decision is None:
                return Parked(interrupt)
            if interrupt.id in resumed:
                raise Permanent("the resume did nothing: the waiting node is not there any more")
            resumed.add(interrupt.id)
            _invoke(rt, Command(resume={interrupt.id: decision}), config)
        elif state.tasks:
            mark = _mark(state)
            if mark == last:
                raise Permanent("the thread does not move")
            last = mark
            _invoke(rt, None, config)
        else:
            return _landed(rt, work, state.values)


def _landed(rt: Runtime, work: Work, values: dict[str, Any]) -> Finished:
    """Return the state of a thread with nothing left to do, if it really came to its end.

    A node that was renamed or removed takes its tasks and its interrupt with it: the thread looks finished, an
    approved refund unpaid and the customer without an answer.

    Raises:
        Permanent: it ended before its last step, without an answer, or without the decision.
    """
    with rt.db.connection() as conn:
        decided = approvals.unapplied_of_turn(conn, work.turn.turn_id)
        answered = outbox.body_of(conn, desk.reply_key(work.turn.turn_id)) is not None
    if decided is not None and (values.get("approval") or {}).get("approval_id") != decided.id:
        raise Permanent(f"the decision on {decided.id} ({decided.status}) did not reach the conversation: carry it out by hand")
    if not values.get("outcome") or not (answered or ends_in_silence(values)):
        raise Permanent("the conversation ended before there was an answer: a step of it is not there any more")
    return Finished(values)


def _invoke(rt: Runtime, what: SupportState | Command[Any] | None, config: RunnableConfig) -> None:
    control = rt.draining.control(config["configurable"]["__lease_token"])
    try:
        with translated():
            rt.graph.invoke(what, config, durability="sync", control=control)
    except GraphDrained:
        raise HandedBack("this worker is about to stop") from None


def _mark(state: StateSnapshot) -> tuple[str, tuple[str, ...]]:
    """Both ids: a worker killed before the INTERRUPT write recovers at the same checkpoint, the interrupt new."""
    return str(state.config["configurable"].get("checkpoint_id")), tuple(i.id for i in state.interrupts)


def _decision(rt: Runtime, interrupt_id: str) -> dict[str, Any] | None:
    """Return the decision to resume with, None while a human has not decided.

    Raises:
        Permanent: the approval was withdrawn.
    """
    with rt.db.connection() as conn:
        approval = approvals.by_interrupt(conn, interrupt_id)
    if approval is None or approval.status == "pending":
        return None
    if approval.status == "withdrawn":
        raise Permanent("the approval was withdrawn")
    return as_decision(approval)


def as_decision(approval: Approval) -> dict[str, Any]:
    """Return a decided approval in the form the graph's `approval` node reads; plain types only."""
    return {
        "approved": approval.status == "approved", "expired": approval.status == "expired",
        "approver": " + ".join(name for name in (approval.first_by, approval.decided_by) if name),
        "reason": approval.reason or "", "customer_reason": approval.customer_reason, "approval_id": approval.id,
        "amount": None if approval.amount is None else str(approval.amount),
    }


def _input(rt: Runtime, work: Work, values: dict[str, Any] | None = None) -> SupportState:
    with rt.db.connection() as conn:
        return given_to(conn, work, values or {})


def _close(rt: Runtime, work: Work) -> Finished:
    """The customer has this turn's answer; put the stored text into the thread and be done."""
    key = desk.reply_key(work.turn.turn_id)
    with rt.db.connection() as conn:
        body = outbox.body_of(conn, key) or ""
    given = _input(rt, work)
    answer: Turn = {"id": key, "role": "agent", "content": body, "at": rt.deps.clock().isoformat()}
    update = {"ticket": given["ticket"], "turn_id": work.turn.turn_id, "turns": [*given["turns"], answer],
              "reply": body, "outcome": "resolved"}
    with translated():
        rt.graph.update_state(config_of(work), update, as_node="finalize")
        return Finished(rt.graph.get_state(config_of(work)).values)


def _park(rt: Runtime, work: Work, interrupt: Interrupt) -> str:
    payload = dict(interrupt.value)
    with rt.db.transaction() as conn:
        notice = approval_notice(conn, work.ticket_id, payload["request"]) if rt.settings.approval_notice else None
        approval_id = desk.park(conn, work, rt.settings, interrupt.id, payload, notice)
    _schedule_replies(rt, work.ticket_id)
    return f"waits for approval {approval_id}"


def _release(rt: Runtime, work: Work, values: dict[str, Any]) -> tuple[str, Work | None]:
    outcome = str(values.get("outcome") or "resolved")
    entry_ids = {str(t.get("id")) for t in values.get("turns", [])}
    with rt.db.transaction() as conn:
        following = desk.release(conn, work, rt.settings, outcome, entry_ids)
    _schedule_replies(rt, work.ticket_id)
    _schedule_memory(rt, work, values)
    return outcome, following


def _fail(rt: Runtime, work: Work, error: Exception) -> str:
    failure, shown = classify(error), shown_error(error)
    level = logging.WARNING if isinstance(error, SupportPilotError) else logging.ERROR
    log.log(logging.INFO if failure.handed_back else level, "turn %s ticket=%s turn=%s: %s",
            "handed back" if failure.handed_back else "failed", work.ticket_id, work.turn.turn_id, shown)
    try:
        with rt.db.transaction() as conn:
            said = desk.fail(conn, work, rt.settings, failure, handoff_notice)
    except LeaseLost:
        return "lease lost"
    except Unavailable as away:
        log.warning("failure not written ticket=%s: %s; the lease expires and the sweeper brings it back",
                    work.ticket_id, away)
        return "database away"
    if failure.handed_back:
        rt.ports.schedule_turn(work.ticket_id, next(iter(work.turn.message_ids), ""), 0.0)
        return "handed back"
    _schedule_replies(rt, work.ticket_id)
    return f"failed: {shown}; {said}"


def stop(rt: Runtime, seconds: float) -> int:
    """Before the process ends: every turn ends at its next node and its lease is freed; return how many did not.

    What has not got there after `seconds` is handed back over its head: its late writes are refused.
    """
    rt.draining.request()
    late = rt.draining.wait(seconds)
    for work in late:
        _fail(rt, work, HandedBack(f"this worker is about to stop, and the turn did not end within {seconds:g} s"))
        rt.keeper.remove(work.token)
    return len(late)


def classify(error: Exception) -> Failure:
    """Say how a failure is written down: what is away costs no attempt, what cannot succeed is final.

    The text becomes storable: one that Postgres refuses would keep the failure itself from being written.
    """
    if isinstance(error, SupportPilotError):
        away, torn = isinstance(error, Unavailable), isinstance(error, TornThread)
        return Failure(plain(str(error)), counts=not (away or torn), final=isinstance(error, Permanent), crash=torn,
                       model=error.model if isinstance(error, ProviderTrouble) else "",
                       handed_back=isinstance(error, HandedBack))
    return Failure(plain(f"{type(error).__name__}: {error}"))


def _schedule_replies(rt: Runtime, ticket_id: str) -> None:
    with rt.db.connection() as conn:
        reply_id = outbox.next_unsent(conn, ticket_id)
    if reply_id is not None:
        rt.ports.schedule_delivery(reply_id)


def _schedule_memory(rt: Runtime, work: Work, values: dict[str, Any]) -> None:
    ask_for_compression(rt.db, rt.settings, rt.ports, work.ticket_id, values.get("turns") or [],
                        rt.deps.commitments_for)
    rt.ports.schedule_prune(work.ticket_id)
    customer_id = (values.get("customer") or {}).get("id")
    if work.turn.silent and customer_id:    # the ticket is resolved now, and part of the customer's history
        rt.ports.schedule_profile(str(customer_id))


def _wake_later(rt: Runtime, ticket_id: str) -> None:
    """Wake the ticket again for the earliest message that still waits in its quiet window."""
    with rt.db.connection() as conn:
        following = inbox.next_due(conn, ticket_id)
    if following is not None and following[1] > 0:
        rt.ports.schedule_turn(ticket_id, following[0], following[1] + 0.05)
