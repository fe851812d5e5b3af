"""Numbers and times as a person reads them. What the scripts write themselves they write the same way (format.js)."""

import math
from collections.abc import Mapping
from decimal import Decimal

from dashboard.zone import local

NONE = "–"
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def number(value: float | None, digits: int | None = None) -> str:
    """Three or four significant digits (two of 0.1 to 1), thousands apart; or so many behind the point."""
    if value is None or math.isnan(value):
        return NONE
    size = abs(value)
    if digits is None and 0 < size < 0.1:
        return f"{Decimal(value):.3g}"  # which a script's toPrecision writes, too
    if digits is None:
        digits = 0 if size >= 100 or size == 0 else 1 if size >= 10 else 2
    return f"{value:,.{digits}f}"


def count(value: float | None) -> str:
    """A whole number, thousands apart."""
    return NONE if value is None else f"{round(value):,}"


def counted(value: int, one: str, many: str | None = None) -> str:
    """A count with its noun: `1 reader`, `2 readers`."""
    return f"{value:,} {one if value == 1 else many or f'{one}s'}"


def plain(value: float) -> str:
    """What somebody asked for: 20 and not 20.0."""
    return f"{float(f'{value:.4g}'):g}" if abs(value) < 1e15 else str(value)


def signed(value: float) -> str:
    """Three significant digits with a real minus sign."""
    size = abs(value)
    return ("−" if value < 0 else "") + (number(size, 0) if size >= 100 else f"{float(f'{size:.3g}'):g}")


def factor(value: float) -> str:
    """A ratio: more digits where it is about 1."""
    return number(value, 0 if value >= 10 else 1 if value >= 2 else 3 if 0.95 <= value <= 1.05 else 2)


def seconds(value: float | None) -> str:
    """Seconds, to the millisecond where there are few."""
    return NONE if value is None else number(value, 1 if value >= 10 else 2 if value >= 1 else 3)


def size(value: float | None) -> str:
    """Bytes in the unit that leaves three digits."""
    if value is None:
        return NONE
    left, unit = abs(value), 0
    while left >= 1024 and unit < len(UNITS) - 1:
        left, unit = left / 1024, unit + 1
    digits = 0 if unit == 0 or left >= 100 else 1 if left >= 10 else 2
    return f"{'−' if value < 0 else ''}{number(left, digits)} {UNITS[unit]}"


def reasons(counts: Mapping[str, int]) -> str:
    """How often each of some reasons applied, those that did."""
    return ", ".join(f"{why.replace('_', ' ')} {times:,}" for why, times in counts.items() if times)


def lasted(value: float) -> str:
    """How long something has lasted, in s, in at most two units."""
    whole = max(0, int(value))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def about(value: float) -> str:
    """About how long, in s: one unit, at most two digits; more would suggest a precision that nobody has."""
    if value < 100:
        return f"{round(value)} s"
    if value < 6000:
        return f"{round(value / 60)} min"
    return f"{round(value / 3600)} h" if value < 172_800 else f"{value / 86400:,.0f} d"


def coarse(seconds: float) -> float:
    """To two digits: nobody needs more of an estimate, and what changes less often travels less."""
    return float(f"{seconds:.2g}")


def time(ms: float) -> str:
    """Time of day in the zone of the page; ms since 1970-01-01 UTC."""
    return f"{local(ms):%H:%M:%S}"


def moment(ms: float) -> str:
    """Day and time in the zone of the page; ms since 1970-01-01 UTC."""
    return f"{local(ms):%Y-%m-%d %H:%M:%S}"
