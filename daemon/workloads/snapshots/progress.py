"""The progress of a run of snapshot readers: what its process sends, as a status and as a record."""

import time
from typing import Any

from daemon.workloads.frame.messages import Message
from daemon.workloads.frame.runner import Run
from daemon.workloads.snapshots.board import figures
from daemon.workloads.snapshots.data import Data
from daemon.workloads.snapshots.messages import Loading, Measured, Noted, Tick, Troubled
from schemas.api.snapshots import (
    CliffPoint,
    SnapshotCycles,
    SnapshotLoading,
    SnapshotSample,
    SnapshotSettings,
    SnapshotsLive,
    SnapshotsRun,
    SnapshotsStatus,
)
from schemas.states import RunState, SnapshotsPhase

FIGURES_EVERY_S = 1.0
FIGURES_SHARE = 50
"""Figures of many cycles take long to compute: they are computed so much more seldom that they take this part of the
time at most."""


class SnapshotsProgress(Run):
    """Takes messages; `status`, `live` and `record` show them at any time.

    Args:
        name: its id.
        settings: what was asked.
        target: where the database is, in words.
        command: what repeats it.
    """

    def __init__(self, name: str, settings: SnapshotSettings, *, target: str, command: str) -> None:
        super().__init__(name)
        data = Data(settings)
        self.settings = settings
        self.target = f"{target}, schema {settings.schema_name}, set {data.top}"
        self.command = command
        self.phase = SnapshotsPhase.LOADING
        self.loading = SnapshotLoading(
            rows=0, rows_in_all=data.folders * data.rows_a_folder, rows_found=0, seconds=0.0, row_rate=None
        )
        self.cliff: list[CliffPoint] = []
        self.cycles = SnapshotCycles()
        self.timeline: list[SnapshotSample] = []
        self.notes: list[str] = []
        self._tick: Tick | None = None
        self._figures = figures(settings, self.cycles, [])
        self._figured_s = 0.0
        self._are_figures_whole = False
        self._reading_s: float | None = None

    def take(self, message: Message) -> None:
        """Take a message of the process."""
        if self.state is RunState.STARTING:
            self.state = RunState.RUNNING
        match message:
            case Loading():
                self.loading, self.problem = message.loading, None
            case Measured():
                self.phase = SnapshotsPhase.MEASURING
                self.cliff.append(message.point)
            case Tick():
                self._take_tick(message)
            case Troubled():
                self.problem = message.problem
            case Noted():
                self.notes.append(message.note)
            case _:
                raise AssertionError(message)

    def _take_tick(self, tick: Tick) -> None:
        if self._reading_s is None:
            self._reading_s = time.monotonic()
        self.phase, self.problem, self._tick = SnapshotsPhase.READING, tick.problem, tick
        for name in SnapshotCycles.model_fields:
            getattr(self.cycles, name).extend(getattr(tick.cycles, name))
        if tick.sample is not None:
            self.timeline.append(tick.sample)

    @property
    def is_whole(self) -> bool:
        """Whether all was done that was asked."""
        settings = self.settings
        loaded = self.loading.rows >= self.loading.rows_in_all
        return loaded and len(self.cycles) >= settings.clients * settings.cycles

    @property
    def remaining_s(self) -> float | None:
        """Estimate of the time left; None before there is anything to go by."""
        settings, loading = self.settings, self.loading
        if self.state.is_over:
            return None
        planned_s = (settings.cycles * settings.cycle_data_s + settings.clients * settings.chunk_s) * settings.scale
        if self._reading_s is not None:
            done = len(self.cycles) / max(1, settings.clients * settings.cycles)
            spent_s = time.monotonic() - self._reading_s
            # Late clients take longer than is planned.
            return max(planned_s - spent_s, spent_s / done * (1 - done) if done > 0.1 else 0.0, 0.0)
        if loading.rows < loading.rows_in_all:
            if loading.row_rate is None:
                return None
            planned_s += (loading.rows_in_all - loading.rows) / loading.row_rate
        return planned_s

    def status(self) -> SnapshotsStatus:
        """How it is."""
        settings, tick = self.settings, self._tick
        shown = tick if tick is not None and not self.state.is_over else None
        now_s = time.monotonic()
        # Once more at the end, whenever they were made last: these are the ones that stay.
        if now_s - self._figured_s >= FIGURES_EVERY_S or (self.state.is_over and not self._are_figures_whole):
            self._are_figures_whole = self.state.is_over
            self._figures = figures(settings, self.cycles, self.timeline)
            took_s = time.monotonic() - now_s
            self._figured_s = now_s + FIGURES_SHARE * took_s
        cycle_s = settings.cycle_data_s * settings.scale
        return SnapshotsStatus(
            id=self.name,
            state=self.state,
            phase=self.phase,
            problem=self.problem,
            target=self.target,
            since_ns=self.began_ns,
            settings=settings,
            cycle_s=cycle_s,
            deadline_s=cycle_s - settings.processing_s * settings.scale,
            stagger_s=settings.chunk_s * settings.scale,
            rows_asked=settings.rows_asked,
            loading=self.loading,
            started=0 if tick is None else tick.started,
            states="" if shown is None else shown.states,
            progress=[] if shown is None else list(shown.progress),
            read=[] if shown is None else list(shown.read),
            cycles=settings.clients * settings.cycles,
            figures=self._figures,
            lately=self.timeline[-1] if self.timeline else None,
            remaining_s=self.remaining_s,
        )

    def live(self, cycles: int, samples: int) -> SnapshotsLive:
        """What was measured, from these numbers on."""
        later = {name: getattr(self.cycles, name)[cycles:] for name in SnapshotCycles.model_fields}
        return SnapshotsLive(
            id=self.name,
            cliff=list(self.cliff),
            cycles=SnapshotCycles(**later),
            next_cycle=len(self.cycles),
            samples=self.timeline[samples:],
            next_sample=len(self.timeline),
        )

    def record(self, **facts: Any) -> SnapshotsRun:
        """Its record. facts: of the server and the machine."""
        return SnapshotsRun(
            id=self.name,
            began_ns=self.began_ns,
            ended_ns=time.time_ns() if self.state.is_over else None,
            state=self.state,
            problem=self.problem,
            settings=self.settings,
            target=self.target,
            command=self.command,
            loading=self.loading,
            cliff=list(self.cliff),
            cycles=self.live(0, 0).cycles,
            timeline=list(self.timeline),
            figures=figures(self.settings, self.cycles, self.timeline),
            notes=list(self.notes),
            **facts,
        )
