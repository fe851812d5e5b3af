"""The progress bar of `triggerlog bench`: what runs now, which round it is, and how long it all still takes."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from benchmarks.conditions.measure import HTTP, LOAD, contenders, scenarios_for
from benchmarks.measures.contenders import measured
from benchmarks.measures.governor import BLOCKS
from benchmarks.measures.latency import windows
from benchmarks.measures.pages import AUDIENCES
from benchmarks.rounds.plan import Plan
from benchmarks.rounds.rounds import console, watchers
from daemon.tools.console import ProgressBar
from schemas.checking.dsn import Backend

STARTING_S = 2.0
"""A guess of what a step takes beyond the time it measures: new tables, the start of a daemon, counting the rows."""


@dataclass
class Measure:
    """A measure: its steps, and the expected seconds of one. done, spent: steps done, and the seconds they took."""

    steps: int
    seconds: float
    done: int = 0
    spent: float = 0.0

    @property
    def each(self) -> float:
        """Seconds a step takes, as far as is known."""
        return self.spent / self.done if self.done else self.seconds

    @property
    def left(self) -> float:
        """Seconds that its other steps take."""
        return max(0, self.steps - self.done) * self.each


class TimeLeft:
    """Time left over all measures. Times are seconds of a clock that only goes forward."""

    def __init__(self, measures: Mapping[str, Measure]) -> None:
        self.measures = dict(measures)
        self._running: tuple[Measure, float] | None = None

    def begin(self, name: str, now: float) -> None:
        """A step of a measure begins; the one before it is done."""
        self.end(now)
        self._running = self.measures[name], now

    def end(self, now: float) -> None:
        """The step that runs is done; nothing happens when none does."""
        if self._running is not None:
            measure, since = self._running
            measure.done += 1
            measure.spent += now - since
            self._running = None

    def seconds(self, now: float) -> float:
        """Seconds left."""
        total = sum(measure.left for measure in self.measures.values())
        if self._running is not None:
            measure, since = self._running
            total -= min(now - since, measure.each)
        return max(0.0, total)


class BenchProgress(ProgressBar):
    """The bar of the benchmarks: it watches them while it is open."""

    def __init__(
        self, plan: Plan, backends: Sequence[Backend], only: str | None, scenarios: Sequence[str] = ()
    ) -> None:
        self._time_left = TimeLeft(expected(plan, backends, only, scenarios))
        super().__init__(
            console, "starting the servers", seconds_left=lambda: self._time_left.seconds(time.monotonic())
        )

    def __enter__(self) -> Self:
        watchers.append(self)
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        watchers.remove(self)
        super().__exit__(kind, error, trace)

    def expect(self, measure: str, steps: int) -> None:
        """Replace the number of steps that the plan gives a measure."""
        self._time_left.measures[measure].steps = steps

    def begin(self, measure: str, what: str) -> None:
        """Show what runs."""
        self._time_left.begin(measure, time.monotonic())
        found = self._time_left.measures[measure]
        self.show(measure, what, done=found.done, total=found.steps)


def expected(
    plan: Plan, backends: Sequence[Backend], only: str | None, scenarios: Sequence[str] = ()
) -> dict[str, Measure]:
    """Steps of the plan's measures, and a guess of the seconds that each takes; a measure left out has none."""
    ways = [contender for backend in backends for contender in measured(backend, plan)]
    seen = [
        plan.windows if backend is Backend.POSTGRESQL else plan.further_windows
        for backend in backends
        for _ in windows(backend, plan)
    ]
    own = Backend.POSTGRESQL in backends
    load = (len(plan.cpu_rates) + bool(plan.memory_s)) if own else 0
    load_s = (len(plan.cpu_rates) * plan.cpu_s + plan.memory_s) / max(load, 1)
    rounds, drains = 2 * plan.rounds * len(plan.layouts), plan.drains * len(plan.layouts)
    outages = rounds + drains if own else 0
    outages_s = (rounds * plan.send_s + drains * plan.outage_s) / max(outages, 1)
    kinds = [each.kind for each in contenders(backends, plan, scenarios) if each.way != LOAD]
    loads = sum(len(scenarios_for(backend, plan, scenarios)) for backend in backends)
    conditions = loads + plan.condition_rounds * len(kinds)
    conditions_s = plan.read_s + kinds.count(HTTP) / max(len(kinds), 1) * plan.request_s - STARTING_S
    measures = {
        "warm-up": ("throughput", len(ways), 1.0),
        "throughput": ("throughput", plan.rounds * len(ways), plan.write_s),
        "latency": ("latency", sum(seen), plan.window_s),
        "load": ("load", load, load_s),
        "outages": ("outages", outages, outages_s),
        "governor": ("governor", plan.governor_rounds * len(BLOCKS) if own else 0, plan.governor_s),
        "conditions": ("conditions", conditions, max(0.0, conditions_s)),
        "page": ("page", plan.page_rounds * len(AUDIENCES) if own else 0, plan.page_s),
    }
    return {
        name: Measure(steps=steps if part in plan.measures(only) else 0, seconds=seconds + STARTING_S)
        for name, (part, steps, seconds) in measures.items()
    }
