"""A table of figures, and how its cells are written."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.rounds.summary import Spread


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of texts; the first column is text, the others figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str


def aim(value: float, wanted: float | None, *, at_least: bool) -> tuple[str, str]:
    """What is aimed at, and whether it is reached; nothing where there is no aim."""
    if wanted is None:
        return "", ""
    reached: Callable[[float, float], bool] = float.__ge__ if at_least else float.__le__
    return f"{wanted:g}", "yes" if reached(value, wanted) else "no"


def text(found: Spread, form: str) -> str:
    """A median and its spread."""
    median, low, high = (form.format(value) for value in (found.median, found.low, found.high))
    return f"{median} ({low} to {high})"
