"""Which snapshots of a thread are kept: the newest turn whole, behind it ever fewer, so that a ticket may grow long.

Each snapshot holds the whole conversation again, so one a turn would still be quadratic. What is kept thins out with
age instead: about one turn more for each doubling of the ticket's length. A turn that is kept today was kept on every
day before, so it makes no difference how often somebody prunes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

LAST_TURNS = 4      # the newest turns of which the last snapshot is kept, whatever their number
FIRST_STEP = 8      # among the turns behind them every 8th, further back every 16th, 32nd, ...
# Steps of the newest turn that stay after it has ended: from one of them it can be replayed. With what the rule
# keeps of 200 turns these are at most 20 snapshots.
NEWEST_STEPS = 12


@dataclass(frozen=True)
class Snapshot:
    """A snapshot's id and the number of the turn that wrote it; ids grow with time."""

    id: str
    turn: int


def numbered(written: Iterable[tuple[str, str | None]], numbers: Mapping[str, int]) -> list[Snapshot]:
    """Return the snapshots of `(id, turn id)`, oldest first, with their turns' numbers.

    One whose turn is not known (driven by hand) belongs to the turn before it; 0 if there is none.
    """
    found: list[Snapshot] = []
    number = 0
    for snapshot_id, turn_id in sorted(written):
        number = numbers.get(turn_id or "", number)
        found.append(Snapshot(snapshot_id, number))
    return found


def kept(snapshots: Sequence[Snapshot], unfinished: Collection[int] = (), *, resolved: bool = False) -> set[str]:
    """Return the ids of the snapshots that stay.

    Of a ticket that is `resolved` long enough only the last. Else all of the turns that are `unfinished`, the newest
    steps of the newest turn, the last snapshot of each of the last turns, and of older ones as `milestone` says. The
    thread's last snapshot always stays: from it everything goes on.
    """
    if not snapshots:
        return set()
    last = {found.turn: found.id for found in sorted(snapshots, key=lambda s: s.id)}
    head = max(found.id for found in snapshots)
    if resolved:
        return {head}
    newest = max(last)
    stay = {head} | {last[turn] for turn in sorted(last)[-LAST_TURNS:]}
    stay |= {last[turn] for turn in last if milestone(turn, newest)}
    stay |= {found.id for found in snapshots if found.turn in unfinished}
    return stay | set(sorted(found.id for found in snapshots if found.turn == newest)[-NEWEST_STEPS:])


def milestone(turn: int, newest: int) -> bool:
    """Say whether an old turn's last snapshot stays: its number is a multiple of a step that doubles with its age."""
    age, step = newest - turn, FIRST_STEP
    while age >= 2 * step:
        step *= 2
    return turn % step == 0
