"""The dose-response plot: the p99 and the rate against the number of readers, with their intervals."""

from collections.abc import Callable, Sequence

from benchmarks.html.axes import Axis, LinearAxis, around, from_zero
from benchmarks.html.elements import chart, section
from benchmarks.html.markup import Markup, join, tag
from benchmarks.report.formatting import counted, number
from schemas.api.interference import Dose, Mean, Record

ROOM = 1.05
WIDEST = 2.5
"""An axis ends at so many times the highest point at most."""


def dose_response(record: Record) -> Markup:
    """Both plots; empty of a plain A/B run."""
    result = record.result
    if result is None or len(result.doses) < 2:
        return Markup()
    doses = result.doses
    widest = max(doses[-1].readers, result.crossing or 0)
    across = LinearAxis(low=-0.03 * widest, high=ROOM * widest)
    budget = record.conditions.budget_ms
    # An interval without bounds, of few blocks, must not press the points onto the axis.
    most = WIDEST * max(dose.p99_ms.value for dose in doses)
    latencies = [min(limit, most) for dose in doses for limit in _limits(dose.p99_ms)]
    up = from_zero([*latencies, *([budget] if budget < 1.5 * max(latencies) else [])])
    lines = []
    if budget < up.high:
        meaning = tag("title", f"budget: {number(budget)} ms")
        lines.append(tag("path", meaning, d=f"M0 {100 - up.at(budget):.2f}H100", class_="budget"))
    if result.crossing is not None:
        x, y = across.at(result.crossing), max(0.0, 100 - up.at(budget))
        lines.append(tag("path", d=f"M{x:.2f} {y:.2f}V100", class_="budget"))
    highest = WIDEST * max(dose.rate.value for dose in doses)
    rates = [min(limit, highest) for dose in doses for limit in _limits(dose.rate)]
    rate_up = around(rates, least=0.02 * max(rates))
    p99 = _panel("Commit p99", "ms", doses, lambda dose: dose.p99_ms, across, up, "p99", lines)
    rate = _panel("Commit rate", "triggers/s", doses, lambda dose: dose.rate, across, rate_up, "rate", [])
    note = (
        "Each point is the geometric mean of the blocks of A times the ratio of the blocks with so many readers to "
        "their neighbours; upright lines are intervals of 95 % confidence. "
    )
    noted = join([note, tag("strong", result.crossing_words)])
    return section("Dose and response", tag("div", p99, rate, class_="curves"), name="doses", note=noted)


def _panel(
    title: str,
    unit: str,
    doses: Sequence[Dose],
    of: Callable[[Dose], Mean],
    across: Axis,
    up: LinearAxis,
    style: str,
    more: Sequence[Markup],
) -> Markup:
    levels = up.ticks(5)
    places = [float(dose.readers) for dose in doses]
    points = [(across.at(dose.readers), of(dose), dose.readers) for dose in doses]
    d = "L".join(f"{x:.2f} {100 - up.at(mean.value):.2f}" for x, mean, _ in points)
    shapes = [*more, tag("path", d=f"M{d}", class_=f"curve {style}")]
    shapes += [_point(x, mean, readers, up, style, unit) for x, mean, readers in points]
    label = f"{title} in {unit} against the number of readers"
    return chart(title, f"{unit} against readers; 0 is A", shapes, (across, places), (up, levels), label=label)


def _point(x: float, mean: Mean, readers: int, up: Axis, style: str, unit: str) -> Markup:
    low, high = _limits(mean)
    meaning = tag("title", f"{counted(readers, 'reader')}: {number(mean.value)} {unit}")
    y = 100 - up.at(mean.value)
    parts = [tag("path", meaning, d=f"M{x:.2f} {y:.2f}h0", class_=f"point {style}")]
    if mean.low is not None:
        d = f"M{x:.2f} {100 - up.at(low):.2f}V{100 - up.at(high):.2f}"
        parts.insert(0, tag("path", d=d, class_=f"whisker {style}"))
    return join(parts)


def _limits(mean: Mean) -> tuple[float, float]:
    return (mean.value if mean.low is None else mean.low, mean.value if mean.high is None else mean.high)
