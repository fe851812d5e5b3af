"""How each instrument of a group is: present, late, missing, silent, or out of step."""

from collections.abc import Sequence
from dataclasses import dataclass

from daemon.core.monitoring.events import Events
from daemon.pipeline.assembly import InHand
from daemon.pipeline.closed_blocks import merge
from daemon.pipeline.instruments.desync import Announcer, Desync, Finding
from daemon.pipeline.instruments.watch import Watch
from schemas.batch import ClosedBlock
from schemas.config import AlarmConfig
from schemas.readings import Array, InstrumentGroup

TOGETHER = 64
"""Closed blocks noted at once, of one second; fewer where somebody looks before."""


@dataclass(frozen=True, kw_only=True)
class InstrumentFigures:
    """How the instruments are.

    states: one letter an instrument, in order (see `schemas.api.status.STATE_LETTERS`).
    missing_a_trigger: mean number of instruments missing from a trigger of the last seconds; None without one.
    quiet_s: since anything was heard of any of them; None before the first reading.
    ahead_s: how far their clocks are ahead of the node's, all of them together; see `Watch.ahead_s`.
    findings: those out of step.
    """

    states: str
    missing_a_trigger: float | None
    quiet_s: float | None
    ahead_s: float | None
    findings: tuple[Finding, ...]


class Instruments:
    """Watches the instruments of one group."""

    def __init__(self, group: InstrumentGroup, alarms: AlarmConfig, events: Events) -> None:
        self._group = group
        self._events = events
        self._reports = group.reports
        self._watch = Watch(group.size, int(alarms.stale_s * 1e9))
        self._desync = Desync(group.size, limit_ns=int(alarms.clock_offset_ms * 1e6))
        self._announcer = Announcer(group.name, group.instruments)
        self._closed: list[ClosedBlock] = []  # and not noted yet: many at once cost as much as one
        self._closed_ns = 0

    @property
    def in_hand_most(self) -> int:
        """Of how many open triggers `look` takes the readings in hand."""
        return self._desync.most

    def change(self, alarms: AlarmConfig) -> None:
        """Take over the limit that can change while the daemon runs."""
        self._watch.change_stale(int(alarms.stale_s * 1e9))

    def note(self, blocks: Sequence[ClosedBlock], monotonic_ns: int) -> None:
        """Take note of closed triggers and late readings."""
        if monotonic_ns // 1_000_000_000 != self._closed_ns // 1_000_000_000 or len(self._closed) >= TOGETHER:
            self._note()
        self._closed += blocks
        self._closed_ns = monotonic_ns

    def _note(self) -> None:
        if not self._closed:
            return
        block, self._closed = merge(self._closed), []
        if self._reports:
            # One that reports on change is silent while nothing changes, whatever others do.
            self._watch.hear(block.late["instrument"], self._closed_ns)
            return
        self._watch.note(block, self._closed_ns)
        self._desync.note(block)

    def hear(self, instruments: Array, monotonic_ns: int) -> None:
        """Take note of instruments, by number, whose readings are not put together yet."""
        self._watch.hear(instruments, monotonic_ns, is_fresh=True)

    def look(self, in_hand: InHand, monotonic_ns: int) -> None:
        """Judge what is in hand, and report which instruments fell silent, are out of step, or are well again."""
        self._note()
        # Whose number falls back or stands still is heard, though nothing of it gets into a trigger.
        self._watch.hear(in_hand.strays["instrument"], monotonic_ns)
        self._watch.hear(in_hand.doubles["instrument"], monotonic_ns)
        self._desync.look(in_hand)
        for severity, text in self._announcer.lines(self._desync.findings):
            self._events.record(severity, text)
        for severity, text in self._watch.changes(self._group, monotonic_ns):
            self._events.record(severity, text)

    def figures(self, monotonic_ns: int) -> InstrumentFigures:
        """How they are now."""
        self._note()
        findings = self._desync.findings
        return InstrumentFigures(
            states=self._watch.states(monotonic_ns, out_of_step=list(findings)),
            missing_a_trigger=self._watch.missing_a_trigger(monotonic_ns),
            quiet_s=self._watch.quiet_s(monotonic_ns),
            ahead_s=self._watch.ahead_s(monotonic_ns),
            findings=tuple(findings.values()),
        )

    def late(self) -> Array:
        """Readings of each instrument that came after their trigger had closed, since the start: int64."""
        self._note()
        return self._watch.late.copy()

    def heard_s(self, monotonic_ns: int) -> Array:
        """Seconds since each instrument was last heard: float64, NaN of one that never was."""
        self._note()
        return self._watch.heard_s(monotonic_ns)
