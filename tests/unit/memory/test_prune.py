"""Which snapshots stay: the newest turn whole, behind it ever fewer, and never one that was thrown away before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supportpilot.memory.prune import LAST_TURNS, NEWEST_STEPS, Snapshot, kept, milestone, numbered

STEPS = 9       # snapshots of a plain turn


def turn(number: int, steps: int = STEPS) -> list[Snapshot]:
    return [Snapshot(f"{number:06}-{step:02}", number) for step in range(steps)]


def thread(turns: int, steps: int = STEPS) -> list[Snapshot]:
    return [snapshot for number in range(1, turns + 1) for snapshot in turn(number, steps)]


def ends(ids: set[str]) -> list[int]:
    """Return the turns of which something is kept."""
    return sorted({int(found[:6]) for found in ids})


def pruned(snapshots: list[Snapshot], *args, **kwargs) -> list[Snapshot]:
    stay = kept(snapshots, *args, **kwargs)
    return [snapshot for snapshot in snapshots if snapshot.id in stay]


def simulated(turns: int, steps: int = STEPS) -> tuple[list[Snapshot], int]:
    """Prune after each turn; return what is left, and the most that ever was."""
    left: list[Snapshot] = []
    most = 0
    for number in range(1, turns + 1):
        left = pruned(left + turn(number, steps))
        most = max(most, len(left))
    return left, most


def test_after_two_hundred_turns_these_are_left():
    left, _ = simulated(200)
    assert ends({snapshot.id for snapshot in left}) == [128, 160, 176, 192, 197, 198, 199, 200]


@pytest.mark.parametrize(("turns", "steps", "bound"), [(200, STEPS, 17), (200, 14, 20), (200, 40, 20), (1000, STEPS, 19), (1000, 40, 22)])
def test_never_more_than_so_many_are_left_whatever_a_turn_writes(turns, steps, bound):
    assert simulated(turns, steps)[1] <= bound


def test_a_thread_that_was_never_pruned_comes_to_the_same_as_one_that_always_was():
    for turns in (1, 4, 5, 17, 64, 200):
        assert pruned(thread(turns)) == simulated(turns)[0]


def test_of_the_newest_turn_all_steps_are_left_of_the_three_before_it_the_end():
    left = pruned(thread(5))
    assert [found.id for found in left] == [
        "000002-08", "000003-08", "000004-08", *(found.id for found in turn(5))]


def test_an_unfinished_turn_keeps_every_snapshot_however_many():
    snapshots = thread(9) + turn(10, 50)
    assert {found.id for found in turn(10, 50)} <= kept(snapshots, {10})
    assert len([i for i in kept(snapshots) if i.startswith("000010")]) == NEWEST_STEPS


def test_a_turn_that_has_only_been_made_leaves_the_one_before_it_whole():
    assert kept(thread(3), {4}) == kept(thread(3))


def test_of_a_ticket_resolved_for_long_only_the_last_is_left():
    assert kept(thread(30), resolved=True) == {"000030-08"}


def test_the_thread_s_last_snapshot_stays_whatever_its_turn_s_number():
    assert "999999-00" in kept([*thread(40), Snapshot("999999-00", 3)])


def test_nothing_is_kept_of_nothing():
    assert kept([]) == kept([], {1}, resolved=True) == set()


def test_an_old_turn_stays_if_its_number_has_the_step_of_its_age():
    assert [n for n in range(1, 201) if milestone(n, 200) and 200 - n >= LAST_TURNS] == [128, 160, 176, 192]
    assert milestone(8, 23)
    assert not milestone(8, 24)


def test_a_snapshot_of_an_unknown_turn_belongs_to_the_turn_before_it():
    written = [("e", None), ("a", "?"), ("b", "one"), ("c", "one"), ("d", "by hand"), ("f", "two")]
    assert [(found.id, found.turn) for found in numbered(written, {"one": 1, "two": 2})] == [
        ("a", 0), ("b", 1), ("c", 1), ("d", 1), ("e", 1), ("f", 2)]


SHAPES = st.lists(st.integers(0, 15), min_size=1, max_size=60)     # how many snapshots each turn wrote; some none


def shaped(sizes: list[int]) -> list[Snapshot]:
    return [snapshot for number, size in enumerate(sizes, 1) for snapshot in turn(number, size)]


@given(SHAPES, st.sets(st.integers(1, 60)), st.booleans())
def test_the_head_and_what_is_unfinished_always_stay_and_pruning_again_changes_nothing(sizes, unfinished, resolved):
    snapshots = shaped(sizes)
    stay = kept(snapshots, unfinished, resolved=resolved)
    assert stay <= {snapshot.id for snapshot in snapshots}
    if snapshots:
        assert max(snapshot.id for snapshot in snapshots) in stay
    if not resolved:
        assert {snapshot.id for snapshot in snapshots if snapshot.turn in unfinished} <= stay
        ended = [number for number, size in enumerate(sizes, 1) if size]
        assert {f"{number:06}-{sizes[number - 1] - 1:02}" for number in ended[-LAST_TURNS:]} <= stay
    assert {s.id for s in pruned(pruned(snapshots, unfinished, resolved=resolved), unfinished, resolved=resolved)} == stay


@given(SHAPES, st.lists(st.booleans(), min_size=60, max_size=60))
def test_it_makes_no_difference_when_somebody_prunes(sizes, sometimes):
    left: list[Snapshot] = []
    for number, size in enumerate(sizes, 1):
        left += turn(number, size)
        if sometimes[number - 1]:
            left = pruned(left)
    assert pruned(left) == pruned(shaped(sizes))


@given(SHAPES, st.integers(0, 100))
def test_order_of_reading_makes_no_difference(sizes, cut):
    snapshots = shaped(sizes)
    assert kept(snapshots[cut:] + snapshots[:cut]) == kept(snapshots)
