"""The panels of a run, one below the other on one axis of time: p99, commit rate, readers."""

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.html.axes import Axis, LinearAxis, around, from_zero, grid_x, grid_y, plot, short, snug
from benchmarks.html.elements import keys
from benchmarks.html.markup import Markup, join, tag
from benchmarks.interference.statistics.verdicts import factor
from benchmarks.report.formatting import counted, number
from schemas.api.interference import Block, Record, Sample

LOG_FROM = 12.0
"""A p99 that varies by more than this factor is drawn on a logarithmic axis."""
LABELS_MOST = 10
"""Bands that have room for their ratios above them."""
BANDS_NAMED = 36


def panels(record: Record) -> Markup:
    """All panels; empty without samples."""
    if not record.timeline:
        return Markup()
    time = LinearAxis(low=0.0, high=max(record.timeline[-1].t_s, *(block.end_s for block in record.blocks), 1e-3))
    bands = _bands(record.blocks, time)
    ticks = time.ticks(8)
    parts = [_labels(record, time)]
    for name, title, unit, axis, levels, shapes in _drawn(record, time):
        drawn = plot(bands, grid_x(time, ticks), grid_y(axis, levels), *shapes, label=f"{title} against time")
        parts.append(
            tag(
                "div",
                tag("p", tag("b", title), f" {unit}", class_="title"),
                tag("div", *_levels(axis, levels), class_="ticks-y", aria_hidden="true"),
                tag("div", drawn, class_="plot"),
                class_=f"row {name}",
            )
        )
    parts.append(_times(time, ticks))
    return tag("div", *parts, class_="timeline card")


Panel = tuple[str, str, str, Axis, list[float], list[Markup]]


def _drawn(record: Record, time: Axis) -> Iterator[Panel]:
    samples, budget = record.timeline, record.conditions.budget_ms
    p99 = [(sample.t_s, sample.p99_ms) for sample in samples]
    known = [value for _, value in p99 if value]
    if known:
        axis, levels = _latency_axis(known, budget)
        shapes = [_line(p99, time, axis, "curve p99")]
        middle = _median(record)
        if middle is not None:
            shapes.insert(0, _level(middle, axis, "alone", f"median of the blocks of A: {number(middle)} ms"))
        if axis.at(budget) < 100:
            shapes.insert(0, _level(budget, axis, "budget", f"budget: {number(budget)} ms"))
        yield "p99", "Commit p99", "ms, of each half second", axis, levels, shapes
    rates = _smoothed(samples)
    rate_axis = around([value for _, value in rates if value is not None], least=_least(samples))
    shown = [_line(rates, time, rate_axis, "curve rate")]
    yield "rate", "Commit rate", "triggers/s, of two seconds", rate_axis, rate_axis.ticks(4), shown
    waiting = [float(sample.backlog) for sample in samples]
    if max(waiting) > 3:
        backlog_axis = from_zero(waiting)
        line = _line([(sample.t_s, float(sample.backlog)) for sample in samples], time, backlog_axis, "curve backlog")
        yield "backlog", "Backlog", "triggers that wait", backlog_axis, backlog_axis.ticks(3), [line]
    readers = [float(sample.readers) for sample in samples]
    reader_axis = from_zero([*readers, 1.0])
    levels = [level for level in reader_axis.ticks(3) if level == round(level)]
    yield "readers", "Readers", "clients admitted", reader_axis, levels, [_steps(samples, time, reader_axis)]


def _latency_axis(known: Sequence[float], budget: float) -> tuple[Axis, list[float]]:
    if max(known) / min(known) > LOG_FROM:
        logarithmic = snug(known)
        levels = logarithmic.ticks(steps=(1, 2, 5))
        return logarithmic, levels if len(levels) <= 6 else logarithmic.ticks()
    near = [*known, budget] if budget < 1.5 * max(known) else known
    linear = from_zero(near)
    return linear, linear.ticks(4)


def _median(record: Record) -> float | None:
    quiet = [block.p99_ms for block in record.blocks if block.kind == "A" and block.counts and block.p99_ms]
    return float(np.median(quiet)) if quiet else None


def _smoothed(samples: Sequence[Sample]) -> list[tuple[float, float | None]]:
    """The rate over two seconds: of half a second it jumps by a trigger or two for no reason."""
    rates = np.array([sample.rate for sample in samples])
    window = min(4, len(rates))
    means = np.convolve(rates, np.ones(window) / window, mode="valid")
    return [(sample.t_s, float(mean)) for sample, mean in zip(samples[window - 1 :], means, strict=True)]


def _least(samples: Sequence[Sample]) -> float:
    return max(0.02 * float(np.mean([sample.rate for sample in samples])), 0.1)


def _bands(blocks: Sequence[Block], time: Axis) -> Markup:
    rects = []
    for block in blocks:
        if block.kind == "B":
            x, width = time.at(block.begin_s), time.at(block.end_s) - time.at(block.begin_s)
            meaning = tag("title", f"block {block.number}: {counted(block.readers, 'reader')}")
            rects.append(tag("rect", meaning, x=x, y=0, width=width, height=100, class_="band"))
        # What does not count is drawn paler, over band and ground alike.
        width = time.at(block.from_s if block.counts else block.end_s) - time.at(block.begin_s)
        rects.append(tag("rect", x=time.at(block.begin_s), y=0, width=width, height=100, class_="cut"))
    return join(rects)


def _labels(record: Record, time: Axis) -> Markup:
    bands = [block for block in record.blocks if block.kind == "B"]
    if not bands or len(bands) > BANDS_NAMED:
        return Markup()
    rows = {(row.readers, row.figure): row for row in (record.result.rows if record.result else [])}
    names = []
    for block in bands:
        middle = (time.at(block.begin_s) + time.at(block.end_s)) / 2
        words = [tag("b", counted(block.readers, "reader") if len(bands) <= LABELS_MOST else str(block.readers))]
        ratio = _of_block(record.blocks, block)
        if ratio is not None and len(bands) <= LABELS_MOST and (block.readers, "p99_ms") in rows:
            words.append(tag("span", f"p99 ×{factor(ratio)}"))
        names.append(tag("div", *words, style=f"left:{middle:.2f}%"))
    return tag("div", *names, class_="labels")


def _of_block(blocks: Sequence[Block], block: Block) -> float | None:
    """The p99 of a block of B by the geometric mean of its neighbours."""
    around_it = [each.p99_ms for each in blocks if abs(each.number - block.number) == 1 and each.counts and each.p99_ms]
    if len(around_it) < 2 or not block.p99_ms or not block.counts:
        return None
    return block.p99_ms / float(np.sqrt(around_it[0] * around_it[1]))


def _line(points: Sequence[tuple[float, float | None]], time: Axis, axis: Axis, style: str) -> Markup:
    """A line that is broken where nothing is known."""
    d, pen = [], "M"
    for t, value in points:
        if value is None:
            pen = "M"
        else:
            d.append(f"{pen}{time.at(t):.2f} {100 - axis.at(value):.2f}")
            pen = "L"
    return tag("path", d="".join(d), class_=style)


def _steps(samples: Sequence[Sample], time: Axis, axis: Axis) -> Markup:
    d, before = ["M0 100"], 0.0
    for sample in samples:
        d.append(f"L{before:.2f} {100 - axis.at(sample.readers):.2f}")
        before = time.at(sample.t_s)
        d.append(f"L{before:.2f} {100 - axis.at(sample.readers):.2f}")
    return tag("path", d="".join([*d, f"L{before:.2f} 100Z"]), class_="steps")


def _level(value: float, axis: Axis, style: str, meaning: str) -> Markup:
    return tag("path", tag("title", meaning), d=f"M0 {100 - axis.at(value):.2f}H100", class_=style)


def _levels(axis: Axis, levels: Sequence[float]) -> list[Markup]:
    return [tag("span", short(value), style=f"bottom:{axis.at(value):.2f}%") for value in levels]


def _times(time: Axis, ticks: Sequence[float]) -> Markup:
    names = [tag("span", f"{value:g}", style=f"left:{time.at(value):.2f}%") for value in ticks]
    return tag("div", *names, tag("em", "seconds"), class_="ticks-x", aria_hidden="true")


def key() -> Markup:
    """What the lines and grounds of the panels mean."""
    return keys(
        (
            ("swatch band", "readers on (B)"),
            ("swatch cut", "warm-up, or left out"),
            ("stroke alone", "median of the blocks of A"),
            ("stroke budget", "budget for the p99"),
        )
    )
