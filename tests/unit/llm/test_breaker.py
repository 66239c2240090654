"""The breaker's moves, with a clock that the test turns."""

from __future__ import annotations

import pytest

from supportpilot.errors import Permanent, Transient
from supportpilot.llm.breaker import FAILURES, FIRST_REST_SECONDS, LONGEST_REST_SECONDS, Breaker, ModelResting


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker("gold", clock)


def fail(breaker: Breaker, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(Transient), breaker.watching():
            raise Transient("503")


def passes(breaker: Breaker) -> bool:
    try:
        with breaker.watching():
            return True
    except ModelResting:
        return False


def test_it_opens_after_so_many_failures_in_a_row_and_not_before(breaker: Breaker) -> None:
    fail(breaker, FAILURES - 1)
    assert passes(breaker)          # an answer: the row is broken
    fail(breaker, FAILURES - 1)
    assert passes(breaker)
    fail(breaker, FAILURES)
    assert not passes(breaker)


def test_after_its_rest_one_call_finds_out_and_the_others_wait(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, FAILURES)
    clock.now += FIRST_REST_SECONDS + 0.1
    with breaker.watching():
        assert not passes(breaker)      # somebody is asking already
    assert passes(breaker)


def test_a_probe_that_fails_makes_the_rest_longer_up_to_a_bound(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, FAILURES)
    rests = []
    for _ in range(8):
        rest = 1
        while not _probe_allowed(breaker, clock):
            rest += 1
        rests.append(rest)
    assert rests[:3] == [2, 4, 8]
    assert rests[-1] == LONGEST_REST_SECONDS


def _probe_allowed(breaker: Breaker, clock: Clock) -> bool:
    """Turn the clock by a second and say whether a call (which fails) was let through."""
    clock.now += 1.0
    with pytest.raises(Transient) as raised:
        _ask(breaker)
    return raised.type is Transient


def _ask(breaker: Breaker) -> None:
    with breaker.watching():
        raise Transient("503")


def test_a_rejected_request_shows_that_the_model_is_there(breaker: Breaker) -> None:
    fail(breaker, FAILURES - 1)
    with pytest.raises(Permanent), breaker.watching():
        raise Permanent("400")
    fail(breaker, FAILURES - 1)
    assert passes(breaker)


def test_calls_that_were_under_way_when_it_opened_do_not_make_the_rest_longer(breaker: Breaker, clock: Clock) -> None:
    under_way = [breaker.watching() for _ in range(12)]
    for each in under_way:
        each.__enter__()
    for each in under_way:
        each.__exit__(Transient, Transient("503"), None)
    clock.now += FIRST_REST_SECONDS + 0.1
    assert passes(breaker)
