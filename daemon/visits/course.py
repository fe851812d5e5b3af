"""How a run of visits goes: what its process says, kept in memory and on disk, and told as a status."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from daemon.visits.facts import expected
from daemon.visits.kept import CUT_OFF, GOES_ON, Kept, Writing
from daemon.visits.messages import Begun, Compacting, Message, Rewritten, Sizes, Troubled, Visited, Waiting
from daemon.visits.outlook import remaining_s
from daemon.visits.series import Series
from schemas.config.visits import Cadence, VisitsConfig
from schemas.visits.measures import Compaction, Line, TableSize, VisitMeasure, VisitsRun, VisitsStatus

LATELY = 100
"""Visits of which a status tells the mean."""
FIT_EVERY_S = 2.0
"""The line through all visits is drawn anew no sooner: it takes milliseconds of the processor."""


class Course:
    """Takes messages; `status` and `run` tell of it at any time.

    Args:
        kept: where it is kept; `begin` opens the files.
        name: its id.
        settings: what was asked.
        target: where its tables are, in words.
        series, compactions: what an earlier process kept of the same run.
        began_ns: when it began, maybe in that process.

    """

    def __init__(
        self,
        kept: Kept,
        name: str,
        settings: VisitsConfig,
        *,
        target: str,
        series: Series | None = None,
        compactions: Sequence[Compaction] = (),
        began_ns: int | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.series = series or Series()
        self.state = "starting"
        self.problem: str | None = None
        self.sizes: dict[str, TableSize] = {}
        self.compactions = list(compactions)
        self.began_ns = began_ns or time.time_ns()
        self.done = 0
        self._kept = kept
        self._target = target
        self._writing: Writing | None = None
        self._here = self._over = self._slow = 0
        self._last: VisitMeasure | None = None
        self._last_ns: int | None = None
        self._fit: Line | None = None
        self._fitted_s = -FIT_EVERY_S
        self._ready_s = time.monotonic()
        self._lately: deque[float] = deque(maxlen=LATELY)
        self._beside: deque[float] = deque(maxlen=LATELY)
        for seconds in self.series.column("visit_s").tolist():
            self._count(seconds)

    def begin(self, cut_off: str = CUT_OFF) -> None:
        """Open its files, and say in them that it has begun.

        cut_off: its problem, as long as no end is written down.

        Raises:
            OSError: they cannot be written.
        """
        self._kept.write(self.run(cut_off))
        self._writing = Writing(self._kept, self.name)

    def end(self, run: VisitsRun) -> None:
        """Close its files, and keep what became of it; of a run without visits nothing, unless it goes on.

        Raises:
            OSError: it cannot be written.
        """
        self.close()
        if not len(self.series) and run.problem not in GOES_ON:
            self._kept.forget(self.name)
            return
        self._kept.write(run)
        self._kept.forget_old()

    def close(self) -> None:
        """Give the files back, and leave what was kept as it is."""
        if self._writing is not None:
            self._writing.close()
            self._writing = None

    async def take(self, message: Message) -> None:
        """Take what the process says.

        Raises:
            OSError: it cannot be written down.
        """
        match message:
            case Begun():
                self.done = message.begun.done
                self.state, self.problem = "running", None
                self._ready_s = time.monotonic()
            case Visited():
                await self._visited(message)
            case Waiting():
                self.state = "waiting"
            case Compacting():
                self.state = "compacting" if self.state != "stopping" else self.state
            case Rewritten():
                await self._compacted(message.compacted)
            case Sizes():
                self.sizes = message.sizes
            case Troubled():
                self.problem = message.problem
            case _:  # `Failed` is raised by who follows the process
                raise AssertionError(message)

    async def _compacted(self, compaction: Compaction) -> None:
        self.compactions.append(compaction)
        if self._writing is not None:
            await asyncio.to_thread(self._writing.add_compaction, compaction)

    async def _visited(self, message: Visited) -> None:
        visit = message.visit
        now_s = time.monotonic()
        if (
            self.state not in ("waiting", "compacting") and self.problem is None
        ):  # what it waited for is nothing that a visit takes
            self._beside.append(max(0.0, now_s - self._ready_s - visit.visit_s))
        self._ready_s = now_s
        self.state, self.problem = ("running" if self.state in ("waiting", "compacting") else self.state), None
        self.series.add(visit)
        self._count(visit.visit_s)
        self._last, self._last_ns = visit, time.time_ns()
        self.done = max(self.done, visit.visit + 1)
        if self._writing is not None:
            await asyncio.to_thread(partial(self._writing.add, visit, message.tiles))
        if now_s - self._fitted_s >= FIT_EVERY_S:
            self._fitted_s = now_s
            rows = self.series.rows
            self._fit = await asyncio.to_thread(_line, rows["visit"], rows["visit_s"])

    def _count(self, seconds: float) -> None:
        self._here += 1
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
        if self.state in ("done", "stopped", "failed"):
            return None
        return remaining_s(
            self.settings,
            done=self.done,
            fit=self._fit,
            mean_s=self._mean_s,
            beside_s=float(np.mean(self._beside)) if self._beside else 0.0,
        )

    @property
    def _mean_s(self) -> float | None:
        return float(np.mean(self._lately)) if self._lately else None

    def status(self) -> VisitsStatus:
        """How it is."""
        return VisitsStatus(
            id=self.name,
            state=self.state,
            problem=self.problem,
            index_mode=self.settings.index_mode,
            target=self._target,
            visits=self.settings.visits,
            done=self.done,
            here=self._here,
            since_ns=self.began_ns,
            last=self._last,
            compactions=len(self.compactions),
            compact_s=sum(each.compact_s for each in self.compactions),
            mean_s=self._mean_s,
            over_limit=self._over / self._here if self._here else None,
            limit_s=self.settings.limit_s,
            interval_s=self._interval_s,
            slow=self._slow,
            last_ns=self._last_ns,
            remaining_s=self.left_s,
            fit=self._fit,
        )

    def run(self, problem: str | None, **facts: Any) -> VisitsRun:
        """What is kept of it, without its visits: those stand in the CSV.

        facts: of the server and the machine.
        """
        told: dict[str, Any] = {"product": "", "version": "", "server": {}, "machine": {}, "expected": {}} | facts
        return VisitsRun(
            id=self.name,
            began_ns=self.began_ns,
            ended_ns=time.time_ns(),
            settings=self.settings,
            visits=(),
            compactions=tuple(self.compactions),
            sizes=self.sizes,
            problem=problem,
            **told,
        )

    def expected(self) -> dict[str, float]:
        """Rows by the formula, by table; not for the event loop."""
        return expected(self.settings, self.done)


def _line(visits: np.ndarray, seconds: np.ndarray) -> Line | None:
    # Imported here: a logger that runs no visits does without it.
    from daemon.visits.figures import line  # noqa: PLC0415

    return line(visits, seconds)
