"""What an experiment has measured, wherever it comes from: the one that runs, or the record of one that was."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.api.interference import Block, Experiment, Live, Record, Result, Sample


@dataclass(frozen=True, kw_only=True)
class Shown:
    """An experiment as the tab shows it; `record` is None while it runs."""

    id: str
    settings: Experiment
    budget_ms: float
    samples: Sequence[Sample]
    blocks: Sequence[Block]
    record: Record | None = None

    @property
    def result(self) -> Result | None:
        """What follows from it, once it is over."""
        return None if self.record is None else self.record.result

    @property
    def doses(self) -> list[int]:
        """Each number of readers that was tried, but 0."""
        return sorted({block.readers for block in self.blocks if block.kind == "B"})


def of_live(live: Live) -> Shown:
    """The experiment that runs."""
    return Shown(id=live.id, settings=live.settings, budget_ms=live.budget_ms, samples=live.samples, blocks=live.blocks)


def of_record(record: Record) -> Shown:
    """One that was."""
    return Shown(
        id=record.id,
        settings=record.settings,
        budget_ms=record.conditions.budget_ms,
        samples=record.timeline,
        blocks=record.blocks,
        record=record,
    )


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive values, of which there must be some."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))


def figure_of(block: Block, figure: str) -> float | None:
    """A figure of a block that counts; None where it has none, or 0."""
    value: Any = getattr(block, figure) if block.counts else None
    return float(value) if value else None


def by_neighbours(blocks: Sequence[Block], block: Block, figure: str) -> float | None:
    """A block of B divided by the geometric mean of the blocks of A next to it, as in the report."""
    value = figure_of(block, figure)
    near = [figure_of(one, figure) for one in blocks if abs(one.number - block.number) == 1]
    known = [one for one in near if one is not None]
    return None if value is None or len(known) < 2 else value / geometric_mean(known)
