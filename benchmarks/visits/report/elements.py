"""What the report of a run and that of a comparison share: settings, and seconds and slopes as text."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.html.elements import with_small
from benchmarks.html.markup import Markup, join
from benchmarks.report.formatting import number
from schemas.api.visits import Line
from schemas.config.visits import VisitsConfig


def settings_of(settings: VisitsConfig) -> Iterator[tuple[str, str]]:
    """All settings of a run, those of the survey by their path."""
    return _flat("", settings.model_dump(mode="json", by_alias=True))


def _flat(path: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{path}{name}.", value)
        else:
            yield f"{path}{name}", "–" if value is None else str(value)


def seconds(value: float) -> str:
    """Seconds, below one in milliseconds: `84.0 ms`, `2.41 s`."""
    return f"{number(value)} s" if abs(value) >= 1 else f"{number(1e3 * value)} ms"


def figure(value: float) -> str:
    """A figure, without a sign where nothing of it is left."""
    words = number(value)
    return words.removeprefix("-") if not words.strip("-0.") else words


def slope(fit: Line | None) -> Markup:
    """A slope with its interval; a dash without a line."""
    if fit is None:
        return join(["–"])
    around = f"{figure(fit.slope_low)} to {figure(fit.slope_high)}"
    return with_small(figure(fit.slope_per_1000), around)
