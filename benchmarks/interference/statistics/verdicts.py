"""What a ratio with its interval means, in one sentence."""

from schemas.api.interference import Ratio

NO_MATTER = 0.005
"""An effect that is surely smaller than this fraction does not matter."""


TOO_WIDE = 3.0
"""An interval whose ends differ by more than this factor says nothing where it holds 1."""


def factor(value: float) -> str:
    """A ratio with the digits that tell it from 1: 0.998, 1.04, 2.4, 31."""
    if value >= 10:
        return f"{value:,.0f}"
    if value >= 2:
        return f"{value:.1f}"
    if 0.95 <= value <= 1.05:
        return f"{value:.3f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def range_of(found: Ratio) -> str:
    """The interval of a ratio: `0.99 to 1.02`; empty without one."""
    return "" if found.low is None or found.high is None else f"{factor(found.low)} to {factor(found.high)}"


def is_negligible(found: Ratio) -> bool:
    """Whether the whole interval is so near 1 that it does not matter."""
    return found.low is not None and found.high is not None and found.low >= 1 - NO_MATTER <= 2 - found.high


def is_unknown(found: Ratio) -> bool:
    """Whether there is no interval, or one that holds 1 and nearly everything else."""
    if found.low is None or found.high is None:
        return True
    return bool(found.holds_one) and found.high > TOO_WIDE * found.low


def verdict(figure: str, found: Ratio) -> str:
    """What a ratio of B to A says of a figure."""
    if found.low is None or found.high is None:
        return f"ratio {factor(found.ratio)}, of one pair of blocks, which has no interval"
    if is_negligible(found):
        return f"no effect: the ratio is 1 to within {100 * max(1 - found.low, found.high - 1, 0.0005):.1f} %"
    if is_unknown(found):
        return f"not known: the ratio is {range_of(found)}"
    if found.holds_one:
        return f"no effect visible: the ratio is {range_of(found)}"
    is_long = figure in ("p50_ms", "p99_ms")
    if found.ratio >= 1.5:
        return f"{_times(found.low)} to {_times(found.high)} times as {'long' if is_long else 'high'}"
    if found.low > 1:
        return f"{_percent(found.low - 1, found.high - 1)} {'longer' if is_long else 'higher'}"
    return f"{_percent(1 - found.high, 1 - found.low)} {'shorter' if is_long else 'lower'}"


def _times(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _percent(low: float, high: float) -> str:
    return f"{_digits(100 * low)} to {_digits(100 * high)} %"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
