"""Figures in words: as many digits as a measurement deserves."""

import math
from collections.abc import Sequence

from benchmarks.rounds.summary import QUARTILES_FROM, Spread


def number(value: float) -> str:
    """A figure with three digits that count, and thousands set apart: 0.52, 4.13, 76.3, 1,050, 9,621."""
    if not math.isfinite(value):
        return "no limit"
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:,.{decimals}f}"


def whole(value: float) -> str:
    """A count that may be a mean: 1, 1.5, 1,700."""
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


def milliseconds(value: float) -> str:
    """A time in ms, in seconds from ten of them on."""
    return f"{number(value / 1e3)} s" if value >= 10_000 else f"{number(value)} ms"


def times(value: float) -> str:
    """A ratio: 0.52, 4.1, 76."""
    return f"{value:.2f}" if value < 1 else f"{value:,.1f}" if value < 10 else f"{value:,.0f}"


def percent(gain: float) -> str:
    """A gain as a fraction: 0.034 is 3 %."""
    return f"{abs(gain) * 100:,.0f} %"


def between(found: Spread) -> str:
    """The spread around a median; one round has none."""
    return "" if found.low == found.high else f"{number(found.low)} to {number(found.high)}"


def kind_of_spread(count: int) -> str:
    """What a spread over so many values is."""
    return "the quartiles" if count >= QUARTILES_FROM else "the least and the most"


def listed(words: Sequence[str]) -> str:
    """Join with commas, and with `and` before the last."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def counted(count: int, thing: str) -> str:
    """1 round, 3 rounds."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
