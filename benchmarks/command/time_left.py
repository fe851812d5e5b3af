"""How long the benchmarks still take: at first by the plan, later by what the steps took."""

from collections.abc import Mapping
from dataclasses import dataclass


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
