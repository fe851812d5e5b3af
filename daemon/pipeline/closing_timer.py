"""The timer by which triggers close that stay incomplete."""

import asyncio
from collections.abc import Callable

from daemon.core.outside.clock import Instant
from daemon.core.supervision.fail_stop import fail_stop
from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.assembly import Assembly, ReportAssembly


class ClosingTimer:
    """Closes what is due, unless nothing may come (`is_held`).

    due: called when the deadline of assembly has come; the timer may be armed again then.
    """

    def __init__(
        self,
        now: Callable[[], Instant],
        assembly: Assembly | ReportAssembly,
        is_held: Callable[[], bool],
        due: Callable[[], None],
    ) -> None:
        self._now = now
        self._assembly = assembly
        self._is_held = is_held
        self._due = due
        self._timer: asyncio.TimerHandle | None = None

    def arm(self) -> None:
        """Wait for the deadline, unless that is waited for already."""
        if self._timer is not None or self._is_held():
            return
        deadline = self._assembly.deadline_ns
        if deadline is not None:
            delay = max(0.0, (deadline - self._now().monotonic_ns) / 1e9)
            self._timer = asyncio.get_running_loop().call_later(delay, self._call)

    def arm_again(self) -> None:
        """Wait for the deadline as it is now."""
        self.disarm()
        self.arm()

    def disarm(self) -> None:
        """Wait no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def part(self, name: str) -> Part:
        """What has to move, for the watchdog. name: as it says it."""
        deadline = self._assembly.deadline_ns
        is_overdue = deadline is not None and deadline < self._now().monotonic_ns and not self._is_held()
        return Part(name=name, steps=deadline or 0, is_busy=is_overdue)

    @fail_stop()
    def _call(self) -> None:
        self._timer = None
        self._due()
