"""The rows of the tables of an experiment, and of the list of those that were."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from dashboard import zone
from dashboard.tabs.interference.measured import Shown, by_neighbours, figure_of, geometric_mean
from dashboard.tabs.runs import STATES
from dashboard.tabs.tables import Cell, Row, cell, choice, links, row
from dashboard.words import NONE, about, count, counted, factor, lasted, moment, number, plain
from schemas.api import interference
from schemas.api.interference import FIGURES, Block, Experiment, Mean, Ratio, ReaderRow, Record, Result, Summary
from schemas.api.status import ExperimentStatus

EXPLAINED = (
    "An experiment alternates blocks with readers and blocks without, and shows how the reading affects the writing."
)


@dataclass(frozen=True, kw_only=True)
class Head:
    """What stands above the charts. verdict: "" while there is none; is_wrong: whether it warns."""

    title: str
    summary: str
    verdict: str
    is_wrong: bool


def head(shown: Shown | None, running: ExperimentStatus | None) -> Head:
    """Of the experiment that is shown, or why there is none."""
    if shown is None:
        title, summary = ("No experiment yet", EXPLAINED) if running is None else ("An experiment is starting", "")
        return Head(title=title, summary=summary, verdict="", is_wrong=False)
    record = shown.record
    is_steady = shown.result is None or shown.result.steady is not False
    return Head(
        title=f"Experiment {shown.id}",
        summary=_summary(shown),
        verdict="" if record is None else verdict(record),
        is_wrong=record is not None and (bool(record.problem) or not is_steady),
    )


def progress(running: ExperimentStatus) -> str:
    """How far the one that runs is."""
    readers = f", {counted(running.readers, 'reader')}" if running.readers else ""
    where = f"{running.phase} · block {running.block} of {running.blocks}{readers}"
    return f"{where} · about {about(running.left_s)} left"


def verdict(record: Record) -> str:
    """How it ended, and what follows from it."""
    parts = [] if record.state == "finished" else [f"{ended(record.state, record.problem)}."]
    if result := record.result:
        parts += [result.headline, result.steadiness, result.crossing_words]
    return " ".join(filter(None, parts))


def ended(state: str, problem: str | None) -> str:
    """How an experiment ended, and why."""
    return STATES.get(state, state) + (f": {problem}" if problem else "")


def remarks(record: Record | None) -> list[str]:
    """What else a reader has to know, and the command that repeats it: the last one."""
    return [] if record is None else [" ".join([*record.notes, "To repeat it: "]), record.command]


def lasts(pairs: float | str | None, block_s: float | str | None, doses: int) -> str:
    """How many blocks an experiment with so many doses has, and how long they take; "" while that is being typed."""
    try:
        blocks, each_s = 1 + 2 * int(float(pairs or 0)) * max(1, doses), float(block_s or 0)
        return f"{count(blocks)} blocks, {lasted(blocks * each_s)}" if blocks > 1 and each_s else ""
    except (ValueError, OverflowError):
        return ""


def _summary(shown: Shown) -> str:
    settings, record = shown.settings, shown.record
    parts = [] if record is None else [f"{moment(record.began_ns / 1e6)} {zone.label()}"]
    parts += [_who(settings), f"{_what(settings)} of {plain(settings.block_s)} s, {_warm_up(settings)}"]
    if record is not None:
        parts.append(f"{record.conditions.server}, {record.conditions.durability}")
    return " · ".join(parts)


def _who(settings: Experiment) -> str:
    return ", ".join(one.name if settings.doses else f"{one.name} ×{one.clients}" for one in settings.workloads)


def _what(settings: Experiment) -> str:
    if not settings.doses:
        return f"{settings.pairs} pairs of blocks"
    return f"doses of {', '.join(map(str, settings.doses))} clients, {settings.pairs} blocks of each"


def _warm_up(settings: Experiment) -> str:
    return f"of which the first {plain(settings.warm_up_s)} s are warm-up"


ORDER = ("p99_ms", "p50_ms", "rate", "reading_rate", "backlog")
"""What most people look for comes first."""
INTERIM = ("p99_ms", "p50_ms", "rate")
LONGER = 1.1
"""A ratio that stands out, where all of its interval is beyond it."""
FEWER = 0.9


def figure_rows(shown: Shown) -> list[Row]:
    """A row a figure of the writing and number of readers; while it runs what the blocks so far tell."""
    if shown.result is None:
        return _interim(shown)
    return [_figure(one) for one in sorted(shown.result.rows, key=lambda one: (ORDER.index(one.figure), one.readers))]


def _figure(one: interference.Row) -> Row:
    ratio = one.b_to_a
    return row(
        f"{one.figure}{one.readers}",
        figure=cell("{}, {}".format(*FIGURES[one.figure])),
        readers=cell(count(one.readers), one.readers),
        a=cell(number(one.a), one.a),
        b=cell(number(one.b), one.b),
        ratio=cell(factor(ratio.ratio), ratio.ratio),
        interval=cell(interval(ratio, factor) or NONE, ratio.low),
        n=cell(count(ratio.pairs), ratio.pairs),
        verdict=cell(one.verdict, over=is_worse(one)),
    )


def is_worse(one: interference.Row) -> bool:
    """With confidence, and by more than a tenth."""
    low, high = one.b_to_a.low, one.b_to_a.high
    if low is None or high is None:
        return False
    return high < FEWER if one.figure.endswith("rate") else low > LONGER


def _interim(shown: Shown) -> list[Row]:
    return [
        _figure(found) for readers in shown.doses for figure in INTERIM if (found := _so_far(shown, figure, readers))
    ]


def _so_far(shown: Shown, figure: str, readers: int) -> interference.Row | None:
    def tried(block: Block) -> bool:
        return block.kind == "B" and block.readers == readers

    pairs = [
        (ratio, value)
        for block in shown.blocks
        if tried(block) and (value := figure_of(block, figure))
        for ratio in [by_neighbours(shown.blocks, block, figure)]
        if ratio is not None
    ]
    if not pairs:
        return None
    quiet = [value for block in shown.blocks if block.kind == "A" and (value := figure_of(block, figure))]
    ratio = geometric_mean(ratio for ratio, _ in pairs)
    return interference.Row(
        figure=figure,
        readers=readers,
        a=geometric_mean(quiet),
        b=geometric_mean(value for _, value in pairs),
        b_to_a=Ratio(ratio=ratio, low=None, high=None, pairs=len(pairs)),
        verdict="",
    )


def reader_rows(result: Result | None) -> list[Row]:
    """A row a workload and number of readers."""
    return [_reader(one) for one in (result.readers if result else [])]


def _reader(one: ReaderRow) -> Row:
    is_late = one.p99_ms is not None and one.p99_ms.value > one.deadline_ms
    efficiency = None if one.efficiency is None else 100 * one.efficiency.value
    return row(
        f"{one.workload}{one.readers}",
        workload=one.workload,
        readers=cell(count(one.readers), one.readers),
        admitted=cell(count(one.admitted), one.admitted),
        cycles=cell(count(one.cycles), one.cycles),
        failed=cell(count(one.failed), one.failed, over=one.failed > 0),
        rate=_mean(one.rate),
        rows=_mean(one.row_rate),
        p50=_mean(one.p50_ms),
        p99=_mean(one.p99_ms, over=is_late),
        deadline=cell(number(one.deadline_ms, 0), one.deadline_ms),
        efficiency=cell(
            NONE if efficiency is None else f"{efficiency:.1f} %", -1 if efficiency is None else efficiency
        ),
    )


def _mean(found: Mean | None, *, over: bool = False) -> Cell:
    """Shown as a mean, with its interval as the title."""
    if found is None:
        return cell(NONE, -1)
    return cell(number(found.value), found.value, over=over, title=_confident(found, number))


def interval(found: Ratio | Mean, written: Callable[[float], str]) -> str:
    """`1.2 to 1.4`; "" without limits."""
    return "" if found.low is None or found.high is None else f"{written(found.low)} to {written(found.high)}"


def _confident(found: Ratio | Mean, written: Callable[[float], str]) -> str | None:
    limits = interval(found, written)
    return f"{limits} with 95 % confidence" if limits else None


def server_rows(result: Result | None) -> list[Row]:
    """A row a counter of the server, and a row a thing that its sessions waited for."""
    if result is None:
        return []
    waits = [one.model_copy(update={"name": f"waiting for {one.name}"}) for one in result.waits]
    return [
        row(
            one.name,
            name=one.name,
            a=cell(number(one.a), one.a),
            b=cell(number(one.b), one.b),
            ratio=cell(NONE if one.ratio is None else factor(one.ratio), -1 if one.ratio is None else one.ratio),
        )
        for one in [*result.server, *waits]
    ]


def past_rows(past: Sequence[Summary], shown: str | None) -> list[Row]:
    """A row an experiment that was. shown: the id of the one that is."""
    return [_past(one, is_shown=one.id == shown) for one in past]


def _past(one: Summary, *, is_shown: bool) -> Row:
    doses = f" · doses {', '.join(map(str, one.doses))}" if one.doses else ""
    state = ended(one.state, one.problem or None) + (", not steady" if not one.problem and one.steady is False else "")
    # The report is written a moment after the experiment is over.
    address = f"/answers/interference/{quote(one.id, safe='')}/report"
    report = [("Report", address, f"Report of {one.id}, opens in a new tab")] if one.report else []
    return row(
        one.id,
        id=choice(one.id, chosen=is_shown),
        what=f"{one.readers}{doses} · {one.blocks} blocks of {plain(one.block_s)} s",
        state=cell(state, title=one.headline or None),
        p99=_ratio(one.p99),
        rate=_ratio(one.rate),
        report=links(*report),
    )


def _ratio(found: Ratio | None) -> Cell:
    if found is None:
        return cell(NONE, -1)
    return cell(f"×{factor(found.ratio)}", found.ratio, title=_confident(found, factor))
