"""Figures in words: as many digits as a measurement deserves."""

import math
from collections.abc import Sequence

from benchmarks.report.model import Cell
from benchmarks.rounds.summary import QUARTILES_FROM, Ratio, Spread

AIM = ("aim", "reached")
"""Columns of `aim`."""


def number(value: float) -> str:
    """Write a figure with three digits that count, and thousands set apart: 0.52, 4.13, 76.3, 1,050, 9,621."""
    if not math.isfinite(value):
        return "no limit"
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:,.{decimals}f}"


def shown(value: float | None, divided: float = 1.0) -> str:
    """Write a figure, or nothing."""
    return "" if value is None else number(value / divided)


def whole(value: float) -> str:
    """Write a count that may be a mean: 1, 1.5, 1,700."""
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


def milliseconds(value: float) -> str:
    """Write a time in ms, in seconds from ten of them on."""
    return f"{number(value / 1e3)} s" if value >= 10_000 else f"{number(value)} ms"


def times(value: float) -> str:
    """Write a ratio: 0.52, 4.1, 76."""
    return f"{value:.2f}" if value < 1 else f"{value:,.1f}" if value < 10 else f"{value:,.0f}"


def percent(gain: float) -> str:
    """Write the size of a gain: 0.034 is 3 %."""
    return f"{abs(gain) * 100:,.0f} %"


def between(found: Spread) -> str:
    """Write the spread around a median; one round has none."""
    return "" if found.low == found.high else f"{number(found.low)} to {number(found.high)}"


def kind_of_spread(count: int) -> str:
    """Say what a spread over so many values is."""
    return "the quartiles" if count >= QUARTILES_FROM else "the least and the most"


def listed(words: Sequence[str]) -> str:
    """Join with commas, and with `and` before the last."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def counted(count: int, thing: str) -> str:
    """Count things: 1 round, 3 rounds."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def cell(found: Spread, form: str = "") -> Cell:
    """Write a median with its spread below it. form: of `str.format`; by default `number`."""
    if not form:
        return Cell(number(found.median), between(found))
    median, low, high = (form.format(value) for value in (found.median, found.low, found.high))
    return Cell(median, f"{low} to {high}")


def ratio_words(found: Ratio) -> str:
    """Write a ratio with its 95 % interval, where it has one."""
    if found.low is None or found.high is None:
        return f"{times(found.value)} (one round)"
    return f"{times(found.value)} ({times(found.low)} to {times(found.high)})"


def aim(value: float, wanted: float | None, *, at_least: bool) -> tuple[str | Cell, str | Cell]:
    """Write what is aimed at, and whether it is reached; nothing where there is no aim."""
    if wanted is None:
        return "", ""
    reached = value >= wanted if at_least else value <= wanted
    return f"{wanted:g}", Cell("yes", style="good") if reached else Cell("no", style="bad")
