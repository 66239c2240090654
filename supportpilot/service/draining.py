"""Giving turns back at shutdown: a deploy must not make a ticket wait for its lease to run out.

Asked to stop, every running turn ends at its next node boundary, its lease is freed and the ticket woken for
another worker. What has not got there in time (a model call that hangs) is handed back over its head: its late
writes are refused, as a zombie's are.
"""

from __future__ import annotations

import threading

from langgraph.runtime import RunControl

from supportpilot.desk.turns import Work


class Draining:
    """The turns that this process runs, and whether it is about to stop."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._requested = False
        self._held: dict[str, tuple[Work, RunControl]] = {}
        self._idle = threading.Condition(self._guard)

    @property
    def requested(self) -> bool:
        """Whether the process is about to stop."""
        return self._requested

    def hold(self, work: Work) -> None:
        """Note a turn that begins."""
        control = RunControl()
        with self._guard:
            self._held[work.token] = (work, control)
            if self._requested:
                control.request_drain()

    def control(self, token: str) -> RunControl | None:
        """Return what the graph asks at each node boundary of the turn under this token."""
        with self._guard:
            held = self._held.get(token)
        return held[1] if held else None

    def let_go(self, token: str) -> None:
        """Forget a turn that has ended."""
        with self._guard:
            self._held.pop(token, None)
            self._idle.notify_all()

    def request(self) -> None:
        """Ask every running turn, and those that begin from now on, to end at the next node boundary."""
        with self._guard:
            self._requested = True
            for _, control in self._held.values():
                control.request_drain()

    def wait(self, seconds: float) -> list[Work]:
        """Wait until no turn runs, at most `seconds`; return those that still do."""
        with self._guard:
            self._idle.wait_for(lambda: not self._held, timeout=seconds)
            return [work for work, _ in self._held.values()]
