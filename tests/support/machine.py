"""A machine in virtual time: triggers, instruments with faults, assembly and the alarm, without any waiting."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly import Assembly, Runs
from daemon.pipeline.instruments.desync import Desync, Finding
from schemas.readings import Array
from tests.support.readings import START_NS, make_group

LOOK_NS = 250_000_000
MS = 1_000_000


@dataclass(kw_only=True)
class Machine:
    """`instruments` of one group; every `LOOK_NS` the alarm looks. found: (time, findings) of each look."""

    instruments: int = 12
    timeout_ms: int = 500
    limit_ms: float = 20.0
    found: list[tuple[int, dict[int, Finding]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.group = make_group(self.instruments)
        self.alarm = Desync(self.instruments, limit_ns=int(self.limit_ms * MS))
        self.assembly = Assembly(
            self.group,
            timeout_ns=self.timeout_ms * MS,
            window=65_536,
            max_open=4096,
            runs=Runs(1),
        )
        self.now_ns = START_NS
        self._next_look_ns = START_NS + LOOK_NS

    def run(self, until_ns: int) -> None:
        """Let time go on: triggers close by their timeout, and the alarm looks."""
        while True:
            deadline = self.assembly.deadline_ns
            step = self._next_look_ns if deadline is None else min(deadline, self._next_look_ns)
            if step > until_ns:
                break
            self.now_ns = max(self.now_ns, step)
            if step == deadline:
                self._note(self.assembly.close_due(self._instant()))
            else:
                self.alarm.look(self.assembly.in_hand(self.alarm.most))
                self.found.append((self.now_ns, self.alarm.findings))
                self._next_look_ns += LOOK_NS
        self.now_ns = max(self.now_ns, until_ns)

    def send(self, trigger: Array, time_ns: Array, instruments: Array | None = None) -> None:
        """One reading an instrument, now: int64 (instruments,) each; `instruments` (bool) leaves some out."""
        block = np.zeros(self.instruments, self.group.record)
        block["instrument"] = np.arange(self.instruments)
        block["trigger"], block["time_ns"] = trigger, time_ns
        if instruments is not None:
            block = block[instruments]
        self._note(self.assembly.receive(block, None, self._instant()))

    def play(
        self,
        times_ns: Sequence[int] | Array,
        *,
        first: int = 1000,
        slips: Mapping[int, int] | None = None,
        clocks_ms: Mapping[int, float] | None = None,
        noise: Callable[[int], Array] | None = None,
        present: Callable[[int], Array] | None = None,
    ) -> None:
        """Triggers at these times, numbered from `first`; slips and clocks_ms by instrument; noise in ns."""
        for k, at_ns in enumerate(times_ns):
            self.run(int(at_ns))
            trigger = np.full(self.instruments, first + k, np.int64)
            stamps = np.full(self.instruments, at_ns, np.int64)
            for i, slip in (slips or {}).items():
                trigger[i] += slip
            for i, off_ms in (clocks_ms or {}).items():
                stamps[i] += int(off_ms * MS)
            if noise is not None:
                stamps += noise(k)
            self.send(trigger, stamps, None if present is None else present(k))

    @property
    def findings(self) -> dict[int, Finding]:
        """What the last look found."""
        return self.found[-1][1] if self.found else {}

    @property
    def ever(self) -> set[int]:
        """Instruments that were found at any time."""
        return {i for _, findings in self.found for i in findings}

    def flagged_after_ms(self, instrument: int, since_ns: int) -> float:
        """How long after that moment the instrument was first found."""
        return next((at - since_ns) / MS for at, findings in self.found if at >= since_ns and instrument in findings)

    def _instant(self) -> Instant:
        return Instant(self.now_ns, self.now_ns)

    def _note(self, closed_blocks: list) -> None:
        for closed_block in closed_blocks:
            self.alarm.note(closed_block)


def beat(rate: float, count: int, start_ns: int = START_NS) -> Array:
    """Times of `count` triggers at a steady rate: int64 ns."""
    return start_ns + np.rint(np.arange(1, count + 1) * 1e9 / rate).astype(np.int64)
