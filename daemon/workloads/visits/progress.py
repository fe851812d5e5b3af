"""The progress of a run of visits: what its process sends is held in memory, archived, and shown as a status."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from daemon.workloads.frame.messages import Message
from daemon.workloads.frame.runner import Run
from daemon.workloads.visits.archive import RunWriter, Series, VisitsArchive, measure_of
from daemon.workloads.visits.facts import expected
from daemon.workloads.visits.messages import (
    Begun,
    Compacting,
    CompactionDone,
    Lost,
    Sizes,
    Troubled,
    Visited,
    Visiting,
    Waiting,
)
from daemon.workloads.visits.settings import gap_ns
from schemas.api.visits import Compaction, Line, TableSize, VisitMeasure, VisitsRun, VisitsStatus
from schemas.config.visits import Cadence, VisitsConfig
from schemas.states import RunState, VisitsPhase

ENDED = {
    RunState.RUNNING: "it had not ended when its process did; it goes on when it is started again",
    RunState.STOPPED: "it was stopped on request",
    RunState.INTERRUPTED: "the daemon was stopped; it goes on at the next start",
}
"""The problem in a record, by its state, for people; that of a run which goes on is what a kill leaves behind."""

LATELY = 100
"""Visits of which a status has the mean."""
FIT_EVERY_S = 2.0
"""The line through all visits is computed again no sooner: it takes milliseconds of the processor."""


class RunProgress(Run):
    """Takes messages; `status` and `record` show it at any time.

    Args:
        archive: where it is archived; `begin` opens the files.
        name: its id.
        settings: what was asked.
        target: where its tables are, in words.
        in_daemon: whether a daemon goes on with it after a start, if it was cut off.
        series, compactions: what an earlier process archived of the same run.
        began_ns: when it began, maybe in that process.

    """

    def __init__(
        self,
        archive: VisitsArchive,
        name: str,
        settings: VisitsConfig,
        *,
        target: str,
        in_daemon: bool = False,
        series: Series | None = None,
        compactions: Sequence[Compaction] = (),
        began_ns: int | None = None,
    ) -> None:
        super().__init__(name, began_ns)
        self.settings = settings
        self.series = series or Series()
        self.phase = VisitsPhase.VISITING
        self.sizes: dict[str, TableSize] = {}
        self.compactions = list(compactions)
        self.done = 0
        self._archive = archive
        self._target = target
        self._in_daemon = in_daemon
        self._writer: RunWriter | None = None
        self._lost = 0
        self._last: VisitMeasure | None = None
        self._last_ns: int | None = None
        self._fit: Line | None = None
        self._fitted_s = -FIT_EVERY_S
        self._ready_s = time.monotonic()
        self._begun_s: float | None = None
        self._until_ns = 0
        self._was_interrupted = False
        self._lately: deque[float] = deque(maxlen=LATELY)
        self._overheads: deque[float] = deque(maxlen=LATELY)
        self._count_all()

    def begin(self) -> None:
        """Open its files, and write a record of a run that goes on: what a kill leaves behind.

        Raises:
            OSError: they cannot be written.
        """
        self._archive.write(self.name, self.record(RunState.RUNNING))
        self._writer = RunWriter(self._archive, self.name)

    def end(self, record: VisitsRun) -> None:
        """Close its files, and write how it ended; a run without visits is removed, unless a daemon goes on with it.

        Raises:
            OSError: it cannot be written.
        """
        self.close()
        self._fit_line()
        if not len(self.series) and record.state is not RunState.INTERRUPTED:
            self._archive.remove(self.name)
            return
        self._archive.write(self.name, record)
        self._archive.remove_old()

    def close(self) -> None:
        """Close its files, and leave the archive as it is."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    async def take(self, message: Message) -> None:
        """Take a message of the process.

        Raises:
            OSError: it cannot be archived.
        """
        match message:
            case Begun():
                await self._cut(message.done)
                self.done = message.done
                self._go_on(VisitsPhase.VISITING)
                self._ready_s = time.monotonic()
            case Visited():
                await self._visited(message)
            case Lost():
                await self._cut(message.done)
                self.done = message.done
            case Visiting():
                self.phase, self._begun_s = VisitsPhase.VISITING, time.monotonic()
            case Waiting():
                await self._interrupt(VisitsPhase.WAITING)
                self._until_ns = message.until_ns
            case Compacting():
                await self._interrupt(VisitsPhase.COMPACTING)
            case CompactionDone():
                await self._compacted(message.compaction)
            case Sizes():
                self.sizes = message.sizes
            case Troubled():
                self.problem = message.problem
            case _:
                raise AssertionError(message)

    async def _compacted(self, compaction: Compaction) -> None:
        self.compactions.append(compaction)
        if self._writer is not None:
            await asyncio.to_thread(self._writer.add_compaction, compaction)

    async def _interrupt(self, phase: VisitsPhase) -> None:
        """No visit is under way: what it does until the next one is no part of what visits take."""
        self.phase, self._begun_s, self._was_interrupted = phase, None, True
        await asyncio.to_thread(self._fit_line)

    def _fit_line(self) -> None:
        self._fitted_s, rows = time.monotonic(), self.series.rows
        self._fit = _line(rows[~rows["resumed"]])

    def _go_on(self, phase: VisitsPhase) -> None:
        self.phase, self.problem = phase, None
        if self.state is not RunState.STOPPING:
            self.state = RunState.RUNNING

    async def _visited(self, message: Visited) -> None:
        visit = message.visit
        now_s = time.monotonic()
        if not self._was_interrupted and self.problem is None:  # what it waited for is no part of a visit
            self._overheads.append(max(0.0, now_s - self._ready_s - visit.visit_s))
        self._ready_s, self._begun_s, self._was_interrupted = now_s, None, False
        self._go_on(VisitsPhase.VISITING)
        self.series.add(visit)
        self._count(visit.visit_s, resumed=visit.resumed)
        self._last, self._last_ns = visit, time.time_ns()
        self.done = max(self.done, visit.visit + 1)
        if self._writer is not None:
            await asyncio.to_thread(partial(self._writer.add, visit, message.tiles))
        if now_s - self._fitted_s >= FIT_EVERY_S:
            await asyncio.to_thread(self._fit_line)

    async def _cut(self, done: int) -> None:
        """Take out what was measured of visits that are not among those that are done: they come again."""
        measured = len(self.series)
        self.series.cut(done)
        if len(self.series) == measured:
            return
        self._lost += measured - len(self.series)
        self._last = measure_of(self.series.rows[-1]) if len(self.series) else None
        self._fit = None
        self._count_all()
        if self._writer is not None:
            await asyncio.to_thread(self._writer.cut, done)

    def _count_all(self) -> None:
        self._here = self._whole = self._over = self._slow = 0
        self._lately.clear()
        for seconds, resumed in self.series.rows[["visit_s", "resumed"]].tolist():
            self._count(seconds, resumed=resumed)

    def _count(self, seconds: float, *, resumed: bool) -> None:
        self._here += 1
        if resumed:  # its seconds are those of the rest
            return
        self._whole += 1
        self._over += seconds > self.settings.limit_s
        self._slow = self._slow + 1 if seconds > self._slow_s else 0
        self._lately.append(seconds)

    @property
    def _interval_s(self) -> float | None:
        return self.settings.survey.visit_interval_s if self.settings.cadence is Cadence.REAL else None

    @property
    def _slow_s(self) -> float:
        return min(self.settings.limit_s, self._interval_s or self.settings.limit_s)

    @property
    def left_s(self) -> float | None:
        """Estimate of the time left."""
        if self.state.is_over:
            return None
        return remaining_s(
            self.settings,
            done=self.done,
            fit=self._fit,
            mean_s=self._mean_s,
            overhead_s=float(np.mean(self._overheads)) if self._overheads else 0.0,
        )

    @property
    def _mean_s(self) -> float | None:
        return float(np.mean(self._lately)) if self._lately else None

    def status(self) -> VisitsStatus:
        """How it is."""
        return VisitsStatus(
            id=self.name,
            state=self.state,
            phase=self.phase,
            visiting_s=None if self._begun_s is None else time.monotonic() - self._begun_s,
            waits_until_ns=self._until_ns if self.phase is VisitsPhase.WAITING else None,
            problem=self.problem,
            index_mode=self.settings.index_mode,
            target=self._target,
            visits=self.settings.visits,
            done=self.done,
            here=self._here,
            lost=self._lost,
            since_ns=self.began_ns,
            last=self._last,
            compactions=len(self.compactions),
            compact_s=sum(each.compact_s for each in self.compactions),
            mean_s=self._mean_s,
            over_limit=self._over / self._whole if self._whole else None,
            limit_s=self.settings.limit_s,
            interval_s=self._interval_s,
            slow=self._slow,
            last_ns=self._last_ns,
            remaining_s=self.left_s,
            fit=self._fit,
        )

    def record(self, state: RunState, problem: str | None = None, **facts: Any) -> VisitsRun:
        """Its record in a state, without its visits: those stand in the CSV.

        facts: of the server and the machine.
        """
        known: dict[str, Any] = {"product": "", "version": "", "server": {}, "machine": {}, "expected": {}} | facts
        return VisitsRun(
            id=self.name,
            began_ns=self.began_ns,
            ended_ns=time.time_ns(),
            state=state,
            in_daemon=self._in_daemon,
            settings=self.settings,
            visits=(),
            compactions=tuple(self.compactions),
            sizes=self.sizes,
            problem=problem or ENDED.get(state),
            **known,
        )

    def expected(self) -> dict[str, float]:
        """Rows by the formula, by table; not for the event loop."""
        return expected(self.settings, self.done)


def _line(rows: np.ndarray) -> Line | None:
    # Imported here: a logger that runs no visits does without it.
    from daemon.workloads.visits.figures import line  # noqa: PLC0415

    return line(rows["visit"], rows["visit_s"])


LEAST = 30
"""Visits through which a line says something about those to come."""
POINTS = 1000


def remaining_s(
    settings: VisitsConfig, *, done: int, fit: Line | None, mean_s: float | None, overhead_s: float
) -> float | None:
    """Seconds until `settings.visits` are done; None before there is anything to go by.

    Args:
        settings: of the run.
        done: visits in the database.
        fit: seconds of a visit against its number.
        mean_s: seconds of a visit, lately.
        overhead_s: what a visit takes on top: the making of its sources, mostly.

    """
    left = settings.visits - done
    if left <= 0:
        return 0.0
    if mean_s is None:
        return None
    visits = np.linspace(done, settings.visits - 1, min(left, POINTS))
    each_s = _seconds(visits, done, fit, mean_s) + overhead_s
    if settings.cadence is Cadence.REAL:
        each_s = np.maximum(each_s, settings.survey.visit_interval_s)
    return float(each_s.mean() * left) + _pauses_s(settings, done)


def _pauses_s(settings: VisitsConfig, done: int) -> float:
    """What the pauses by day take on top of the interval, until the last visit."""
    survey = settings.survey
    if settings.cadence is not Cadence.REAL:
        return 0.0
    night = survey.visits_a_night
    days = (settings.visits - 1) // night - done // night
    return days * (gap_ns(survey, night - 1) / 1e9 - survey.visit_interval_s)


def _seconds(visits: np.ndarray, done: int, fit: Line | None, mean_s: float) -> np.ndarray:
    """Seconds of visits to come: from what they take lately along the line, where there is one.

    A slope that may as well be none is taken for none: through few visits it would say anything.
    """
    if fit is None or fit.visits < LEAST or fit.slope_low <= 0 <= fit.slope_high:
        return np.full(len(visits), mean_s)
    return np.maximum(mean_s + fit.slope_per_1000 * (visits - done) / 1000, 0.0)
