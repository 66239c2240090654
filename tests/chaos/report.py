"""The storm in one table for people and for a closing note."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from chaos.checker import KINDS, Findings
from chaos.snapshot import Snapshot

SHOWN = 30


@dataclass
class Figures:
    """What the storm was and what it met, besides the findings."""

    seed: int
    duration: float
    injected: Mapping[str, int]
    died: Mapping[str, int]
    sink: Mapping[str, int]
    load: Mapping[str, int]
    humans: Mapping[str, int]
    recoveries: Mapping[str, int]
    settings: Mapping[str, str]
    offsets: Iterable[float]
    wall: Mapping[str, float] = field(default_factory=dict)


def table(figures: Figures, snapshot: Snapshot, findings: Findings) -> str:
    """Return the report."""
    offsets = [abs(o) for o in figures.offsets]
    turns = {status: sum(t.status == status for t in snapshot.turns) for status in ("done", "dead", "replaced")}
    keys = {r.key for r in snapshot.seen.receipts}
    blocks = [
        ("faults injected", dict(sorted(figures.injected.items()))),
        ("ended by themselves, started again", dict(figures.died)),
        ("receiver of the replies", dict(sorted(figures.sink.items()))),
        ("senders met", dict(sorted(figures.load.items()))),
        ("deciders and operator", dict(sorted(figures.humans.items()))),
        ("recoveries", dict(figures.recoveries) | {
            "turns continued after a hard kill or a freeze": sum(t.crashes for t in snapshot.turns),
            "attempts counted against turns": sum(t.attempts for t in snapshot.turns),
            "worker starts with another clock": len(offsets),
            "clocks apart from Postgres': least and most": f"{min(offsets, default=0):.1f} s, {max(offsets, default=0):.1f} s"}),
        ("went through", {
            "messages accepted": len(snapshot.seen.accepted), "tickets": len({a.ticket_id for a in snapshot.seen.accepted}),
            "turns done": turns["done"], "turns given up, their messages answered by a later one": turns["dead"],
            "turns replaced": turns["replaced"], "rows for customers": len(snapshot.replies),
            "received by the sink (distinct)": len(keys), "received again, dropped by webhook-id": len(snapshot.seen.receipts) - len(keys),
            "refunds asked": len(snapshot.approvals), "refunds paid": len(snapshot.refunds)}),
        ("time", {what: f"{seconds:.0f} s" for what, seconds in figures.wall.items()}),
        ("set otherwise than by default", dict(figures.settings)),
        ("FOUND", {kind: findings.count(kind) for kind in KINDS}),
    ]
    lines = [f"chaos seed={figures.seed} duration={figures.duration:g}"]
    for title, rows in blocks:
        lines.append(f"\n{title}")
        lines += [f"  {name:<58} {value:>10}" for name, value in rows.items()] or ["  nothing"]
    lines += [f"  ! {f.kind}: {f.what}" for f in findings.found[:SHOWN]]
    if len(findings.found) > SHOWN:
        lines.append(f"  ! and {len(findings.found) - SHOWN} more")
    return "\n".join(lines)


RECOVERIES = {
    "turns left because the lease was lost": re.compile(r"turn left ticket="),
    "turn attempts that failed and came back": re.compile(r"turn failed ticket="),
    "writes refused on a lost tail": re.compile(r"is not in the database any more; reading again"),
    "writes refused for a slow clock": re.compile(r"clock is behind the last checkpoint"),
    "failures not written, database away": re.compile(r"failure not written ticket="),
}


def recoveries(logs: Iterable[str]) -> dict[str, int]:
    """Count in the workers' logs what was met and survived."""
    texts = list(logs)
    return {name: sum(len(pattern.findall(text)) for text in texts) for name, pattern in RECOVERIES.items()}
