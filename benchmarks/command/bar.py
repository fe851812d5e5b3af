"""The progress bar of `triggerlog bench`: what runs now, which round it is, and how long it all still takes."""

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from benchmarks.command.remaining import Measure, Remaining
from benchmarks.measures.contenders import measured
from benchmarks.measures.governed import BLOCKS
from benchmarks.measures.latency import windows
from benchmarks.measures.pages import AUDIENCES
from benchmarks.rounds import progress
from benchmarks.rounds.plan import Plan
from schemas.checking.dsn import Backend

STARTING_S = 2.0
"""What a step takes beyond the time it measures, at a guess: fresh tables, a daemon's start, counting what is there."""


class Bar:
    """Watches the benchmarks while it is open, and shows a bar on a terminal; elsewhere the lines are all there is."""

    def __init__(self, plan: Plan, backends: Sequence[Backend], only: str | None) -> None:
        self._remaining = Remaining(expected(plan, backends, only))
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description:<10}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[now]}"),
            _Left(lambda: self._remaining.left(time.monotonic())),
        )
        console = progress.console
        self._shown = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._shown.add_task("starting", total=None, now="the servers")

    def __enter__(self) -> Self:
        progress.watchers.append(self)
        self._shown.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        progress.watchers.remove(self)
        self._shown.stop()

    def expect(self, measure: str, steps: int) -> None:
        """Know better than the plan how many steps a measure has."""
        self._remaining.measures[measure].steps = steps

    def begin(self, measure: str, what: str) -> None:
        """Show what runs."""
        self._remaining.begin(measure, time.monotonic())
        found = self._remaining.measures[measure]
        self._shown.update(self._task, description=measure, completed=found.done, total=found.steps, now=what)


class _Left(ProgressColumn):
    """The time left of all measures, counted down while a step runs."""

    max_refresh = 1.0

    def __init__(self, left: Callable[[], float]) -> None:
        super().__init__()
        self._seconds = left

    def render(self, task: Task) -> Text:
        """About 3:20 left."""
        return Text(clock(self._seconds()), style="dim")


def clock(seconds: float) -> str:
    """Seconds as a person reads them: about 3:20 left."""
    minutes, rest = divmod(round(seconds), 60)
    return f"about {minutes}:{rest:02d} left"


def expected(plan: Plan, backends: Sequence[Backend], only: str | None) -> dict[str, Measure]:
    """Steps of the plan's measures, and seconds each takes at a guess; of those left out there are none."""
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
    measures = {
        "warm-up": ("throughput", len(ways), 1.0),
        "throughput": ("throughput", plan.rounds * len(ways), plan.write_s),
        "latency": ("latency", sum(seen), plan.window_s),
        "load": ("load", load, load_s),
        "outages": ("outages", outages, outages_s),
        "governor": ("governor", plan.governor_rounds * len(BLOCKS) if own else 0, plan.governor_s),
        "page": ("page", plan.page_rounds * len(AUDIENCES) if own else 0, plan.page_s),
    }
    return {
        name: Measure(steps=steps if part in plan.measures(only) else 0, seconds=seconds + STARTING_S)
        for name, (part, steps, seconds) in measures.items()
    }
