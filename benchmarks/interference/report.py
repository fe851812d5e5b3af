"""The report of an experiment: what readers do to the writing."""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.interference.analysis import factor, is_negligible, is_unknown, range_of
from benchmarks.report.model import (
    Advice,
    Axis,
    Cell,
    Cells,
    Chart,
    Facts,
    Panel,
    Part,
    Report,
    Section,
    Series,
    Table,
    Tile,
    Warnings,
    counted,
    number,
    whole,
)
from daemon.workloads.interference.experiment import readers_words
from schemas.api.interference import FIGURES, Block, Dose, Mean, Ratio, Record, Result, Row, Sample, ServerRow
from schemas.states import RunState

STATES = {
    RunState.STOPPED: "It was stopped before its end",
    RunState.INTERRUPTED: "The daemon ended under it",
    RunState.FAILED: "It failed",
}
WORSE_UP = frozenset({"p50_ms", "p99_ms", "backlog"})
"""Figures of which more is worse."""
SERVER_WORDS = {
    "cache_hit_percent": "cache hits, % of lookups",
    "daemon": "daemon, % of one core",
    "machine": "machine, % of all cores",
}
LOG_FROM = 12.0
"""A p99 that varies by more than this factor is drawn on a logarithmic axis."""
WIDEST = 2.5
"""An axis ends at so many times the highest point at most: an interval without bounds must not flatten the points."""
RUN = (
    "Blocks of A, without readers, and of B, with readers, take turns under the same load. What is grey does not "
    "count: the start of a block, which is its warm-up, and blocks that are left out."
)
WRITING = (
    "Each block of B is compared with the two blocks of A around it, so that a straight drift cancels; small below a "
    "ratio is its interval of 95 % confidence, n the number of blocks of B. Latencies count from a trigger’s closing "
    "to its commit acknowledged. The ratio of the backlog is of the backlog plus one."
)
READERS = (
    "Latencies count from when a client was due to ask, so that waiting behind a slow answer counts, too "
    "(HdrHistogram, corrected for coordinated omission). In time: the fraction answered within the deadline. Small "
    "below a figure is its interval over the blocks."
)


def report(record: Record) -> Report:
    """Make the report of a record that has its result."""
    result, of = record.result, record.conditions
    assert result is not None
    words = (
        f"{of.server} · {readers_words(record.settings)} · {of.machine}, {counted(of.cores, 'core')} · {_date(record)}"
    )
    return Report(
        title="What readers do to the writing",
        facts=words,
        date=_date(record),
        command="triggerlog interference",
        sections=[
            Section("", list(_found(record, result))),
            Section("The run", timeline(record), RUN),
            Section("Dose and response", doses(record), _doses_note(result)),
            Section("The writing, without and with readers", _writing(result), WRITING),
            Section(
                "Was the machine steady?",
                _agreement(result),
                "The same method, with every second block of A in the place of B: a steady machine gives 1.",
            ),
            Section("The readers", _readers(record, result), READERS),
            Section("The server’s own view", _server(result), _server_note(result, of.server)),
            Section("How and on what it was measured", list(_conditions(record))),
        ],
    )


def _date(record: Record) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(record.began_ns // 10**9))


# --- what was found --------------------------------------------------------------------------------------------------


def _found(record: Record, result: Result) -> Iterator[Part]:
    most = max((row.readers for row in result.rows), default=0)
    for figure, title, unit in (("p99_ms", "Commit p99", "ms"), ("rate", "Commit rate", "triggers/s")):
        for row in [row for row in result.rows if row.figure == figure and row.readers == most][:1]:
            yield Tile(
                title=f"{title}, {counted(row.readers, 'reader')}",
                figure=f"×{factor(row.b_to_a.ratio)}",
                unit=range_of(row.b_to_a),
                lines=[f"{number(row.a)} → {number(row.b)} {unit}"],
            )
    if result.readers:
        yield _readers_tile(result, most)
    words = [result.headline, result.crossing_words, "" if result.steady is False else result.steadiness]
    yield Advice([("", each) for each in words if each])
    warnings = list(_warnings(record, result))
    if warnings:
        yield Warnings(warnings)


def _readers_tile(result: Result, most: int) -> Tile:
    rows = [row for row in result.readers if row.readers == most]
    asked = sum(row.cycles + row.failed for row in rows)
    known = [(row.efficiency.value, row.cycles + row.failed) for row in rows if row.efficiency is not None]
    total = sum(weight for _, weight in known)
    share = f"{100 * sum(part * weight for part, weight in known) / total:.1f} %" if total else "nothing"
    lines = [f"of {counted(asked, 'question')} in {counted(len(rows), 'workload')}"]
    return Tile("The readers", share, unit="in time", lines=lines)


def _warnings(record: Record, result: Result) -> Iterator[str]:
    if record.state in STATES:
        why = f": {record.problem}" if record.problem else ""
        done = sum(block.whole for block in record.blocks)
        yield f"{STATES[record.state]}{why}. {done} of {record.planned} blocks were measured."
    if result.steady is False:
        yield result.steadiness
    if record.conditions.governor:
        yield f"The governor was on ({record.conditions.governor}): it may have admitted fewer readers than B asks for."
    yield from record.notes


# --- charts ----------------------------------------------------------------------------------------------------------


def timeline(record: Record) -> list[Chart]:
    """Draw p99, commit rate, backlog and readers on one axis of time; nothing without samples."""
    samples = record.timeline
    if not samples:
        return []
    high = max(samples[-1].t_s, *(block.end_s for block in record.blocks), 1e-3)
    panels = [*_p99(record), _rate(samples)]
    times = [sample.t_s for sample in samples]
    backlog = [float(sample.backlog) for sample in samples]
    if max(backlog) > 3:
        waiting = Series(x=times, y=backlog, colour="violet")
        panels.append(Panel(Axis("triggers that wait"), [waiting], title="Backlog"))
    steps = [
        (t, sample.readers)
        for sample, before in zip(samples, [0.0, *times], strict=False)
        for t in (before, sample.t_s)
    ]
    readers = Series(x=[t for t, _ in steps], y=[float(count) for _, count in steps], colour="teal")
    panels.append(Panel(Axis("clients admitted"), [readers], title="Readers"))
    bands = _bands(record.blocks)
    return [
        Chart(
            title="The blocks of the run",
            x=Axis("seconds", high=high),
            panels=[Panel(each.y, [*bands, *each.series], title=each.title) for each in panels],
        )
    ]


def _p99(record: Record) -> Iterator[Panel]:
    samples, budget = record.timeline, record.conditions.budget_ms
    known = [sample.p99_ms for sample in samples if sample.p99_ms]
    if not known:
        return
    quiet = [block.p99_ms for block in record.blocks if block.kind == "A" and block.counts and block.p99_ms]
    middle = float(np.median(quiet)) if quiet else None
    is_log = max(known) / min(known) > LOG_FROM
    high = None if is_log else 1.08 * max(*known, budget if budget < 1.5 * max(known) else 0.0)
    series = [
        Series(x=[sample.t_s for sample in samples], y=[sample.p99_ms for sample in samples], colour="orange"),
        _level("budget for the p99", budget, f"budget: {number(budget)} ms"),
    ]
    if middle is not None:
        words = f"median of the blocks of A: {number(middle)} ms"
        series.append(Series(name="median of the blocks of A", kind="level", y=[middle], titles=[words], colour="grey"))
    yield Panel(Axis("ms, of each half second", log=is_log, high=high), series, title="Commit p99")


def _level(name: str, value: float, title: str) -> Series:
    return Series(name=name, kind="level", y=[value], titles=[title], colour="red")


def _rate(samples: Sequence[Sample]) -> Panel:
    """The rate over two seconds: of half a second it jumps by a trigger or two for no reason."""
    rates = np.array([sample.rate for sample in samples])
    window = min(4, len(rates))
    means = np.convolve(rates, np.ones(window) / window, mode="valid").tolist()
    line = Series(x=[sample.t_s for sample in samples[window - 1 :]], y=means, colour="blue")
    return Panel(Axis("triggers/s, of two seconds", tight=True), [line], title="Commit rate")


def _bands(blocks: Sequence[Block]) -> list[Series]:
    busy = [block for block in blocks if block.kind == "B"]
    titles = []
    for block in busy:
        ratio = _of_block(blocks, block)
        by_a = "" if ratio is None else f", p99 ×{factor(ratio)}"
        titles.append(f"block {block.number}: {counted(block.readers, 'reader')}{by_a}")
    cut = [(block.begin_s, block.from_s if block.counts else block.end_s) for block in blocks]
    return [
        Series(
            name="readers on (B)",
            kind="band",
            x=[block.begin_s for block in busy],
            until=[block.end_s for block in busy],
            titles=titles,
            colour="teal",
        ),
        Series(
            name="warm-up, or left out",
            kind="band",
            x=[begin for begin, _ in cut],
            until=[end for _, end in cut],
            colour="grey",
        ),
    ]


def _of_block(blocks: Sequence[Block], block: Block) -> float | None:
    """The p99 of a block of B by the geometric mean of its neighbours."""
    around_it = [each.p99_ms for each in blocks if abs(each.number - block.number) == 1 and each.counts and each.p99_ms]
    if len(around_it) < 2 or not block.p99_ms or not block.counts:
        return None
    return block.p99_ms / float(np.sqrt(around_it[0] * around_it[1]))


def doses(record: Record) -> list[Chart]:
    """Draw the p99 and the rate against the number of readers, with their intervals; nothing of a plain A/B run."""
    result = record.result
    if result is None or len(result.doses) < 2:
        return []
    widest, budget = max(result.doses[-1].readers, result.crossing or 0), record.conditions.budget_ms
    across = Axis("readers; 0 is A", low=-0.03 * widest, high=1.05 * widest)
    limits = _limits(result.doses, lambda dose: dose.p99_ms)
    up = Axis("ms", high=1.08 * max(*limits, budget if budget < 1.5 * max(limits) else 0.0))
    levels = [_level("budget for the p99", budget, f"budget: {number(budget)} ms")]
    if result.crossing is not None:
        words = f"the budget is reached at {number(result.crossing)} readers"
        levels.append(Series(name="budget reached", kind="at", x=[result.crossing], titles=[words], colour="red"))
    p99 = _dose_line(result.doses, lambda dose: dose.p99_ms, "ms", "orange")
    rate = _dose_line(result.doses, lambda dose: dose.rate, "triggers/s", "blue")
    rate_up = Axis("triggers/s", tight=True, high=1.02 * max(_limits(result.doses, lambda dose: dose.rate)))
    return [
        Chart("Commit p99 against readers", across, [Panel(up, [*levels, p99])]),
        Chart("Commit rate against readers", across, [Panel(rate_up, [rate])]),
    ]


def _limits(doses: Sequence[Dose], of: Callable[[Dose], Mean]) -> list[float]:
    most = WIDEST * max(of(dose).value for dose in doses)
    return [min(each, most) for dose in doses for each in (of(dose).value, of(dose).high) if each is not None]


def _dose_line(doses: Sequence[Dose], of: Callable[[Dose], Mean], unit: str, colour: str) -> Series:
    return Series(
        x=[float(dose.readers) for dose in doses],
        y=[of(dose).value for dose in doses],
        low=[of(dose).low for dose in doses],
        high=[of(dose).high for dose in doses],
        titles=[f"{counted(dose.readers, 'reader')}: {number(of(dose).value)} {unit}" for dose in doses],
        colour=colour,
    )


def _doses_note(result: Result) -> str:
    return (
        "Each point is the geometric mean of the blocks of A times the ratio of the blocks with so many readers to "
        f"their neighbours; upright lines are intervals of 95 % confidence. {result.crossing_words}"
    )


# --- tables ----------------------------------------------------------------------------------------------------------


def _writing(result: Result) -> list[Table]:
    """Compare A and B, a row a figure; of doses, a row a figure and dose."""
    several = len({row.readers for row in result.rows}) > 1
    rows: list[Cells] = []
    for row in sorted(result.rows, key=lambda row: (list(FIGURES).index(row.figure), row.readers)):
        write = whole if row.figure == "backlog" else number
        readers = [f"{row.readers:,}"] if several else []
        figures = (write(row.a), write(row.b), _ratio(row.b_to_a), str(row.b_to_a.pairs))
        rows.append((Cell(*FIGURES[row.figure]), *readers, *figures, _verdict(row)))
    heads = ("A: write only", "B: write and read", "B by A", "n", "Verdict")
    columns = ("Figure", *(["Readers"] if several else []), *heads)
    return [Table("Writing without and with readers", columns, rows, words=columns[-1:])]


def _verdict(row: Row) -> Cell:
    """The sentence with a mark, so that colour alone does not carry it."""
    found = row.b_to_a
    if is_unknown(found):
        return Cell(row.verdict, "", "soft", "?")
    if found.holds_one or is_negligible(found):
        return Cell(row.verdict, "", "soft", "●")
    is_worse = (found.ratio > 1) == (row.figure in WORSE_UP)
    return Cell(row.verdict, "", "bad" if is_worse else "good", "▲" if is_worse else "▼")


def _agreement(result: Result) -> list[Table]:
    rows = [
        (
            FIGURES[each.figure][0],
            _ratio(each.a_to_a),
            str(each.a_to_a.pairs),
            f"{100 * each.scatter:.1f} %",
            f"{round(100 * (each.drift - 1), 1) + 0.0:+.1f} %",
        )
        for each in result.agreement
    ]
    columns = ("A against A", "Ratio", "n", "Scatter of a block", "Drift over the run")
    return [Table("Blocks of A against blocks of A", columns, rows)]


def _ratio(found: Ratio) -> Cell:
    return Cell(factor(found.ratio), range_of(found))


def _readers(record: Record, result: Result) -> list[Table]:
    kinds = {workload.name: workload.kind.value for workload in record.settings.workloads}
    rows = []
    for row in result.readers:
        kind = "" if kinds[row.workload] == row.workload else f"{kinds[row.workload]}, "
        means = (_mean(each) for each in (row.rate, row.row_rate, row.p50_ms, row.p99_ms))
        name = Cell(row.workload, f"{kind}deadline {row.deadline_ms / 1e3:g} s")
        counts = (f"{row.cycles:,}", f"{row.failed:,}")
        rows.append((name, f"{row.admitted:,}", *means, _efficiency(row.efficiency), *counts))
    columns = ("Workload", "Clients", "Answers/s", "Rows/s", "p50 ms", "p99 ms", "In time", "Answers", "Failed")
    return [Table("The readers", columns, rows)]


def _mean(found: Mean | None) -> str | Cell:
    if found is None or found.low is None or found.high is None:
        return "" if found is None else number(found.value)
    return Cell(number(found.value), f"{number(max(0.0, found.low))} to {number(found.high)}")


def _efficiency(found: Mean | None) -> str | Cell:
    if found is None:
        return ""
    words = f"{100 * found.value:.1f} %"
    if found.low is None or found.high is None:
        return words
    return Cell(words, f"{100 * found.low:.1f} to {100 * found.high:.1f} %")


def _server(result: Result) -> list[Table]:
    kinds = {
        "Counters of the server, a second": result.server,
        "Sessions that waited, on average": result.waits,
        "Busy, %": result.processor,
    }
    return [
        Table(title, ("", "A", "B", "B by A"), [_server_row(each) for each in rows]) for title, rows in kinds.items()
    ]


def _server_row(row: ServerRow) -> tuple[str, str, str, str]:
    name = SERVER_WORDS.get(row.name, f"`{row.name}`")
    return name, _count(row.a), _count(row.b), "" if row.ratio is None else factor(row.ratio)


def _count(value: float) -> str:
    for unit, least, size in (("G", 1e9, 1e9), ("M", 1e6, 1e6), ("k", 1e4, 1e3)):
        if value >= least:
            return f"{number(value / size)} {unit}"
    return number(value)


def _server_note(result: Result, product: str) -> str:
    counts = (
        f"What {product} counts of itself, and what its sessions were seen waiting for once a second, the daemon’s and "
        "the readers’ alike"
        if result.server or result.waits
        else f"{product} gave no counters; this is what the machine was busy with"
    )
    return (
        f"{counts}: means over the blocks of A, and over those of B. They show where to look; they have no intervals."
    )


# --- conditions ------------------------------------------------------------------------------------------------------


def _conditions(record: Record) -> Iterator[Facts]:
    yield Facts("The run", list(_facts(record)))
    if record.conditions.settings:
        settings = [(f"`{name}`", value) for name, value in record.conditions.settings.items()]
        yield Facts("The server’s settings", settings)


def _facts(record: Record) -> Iterator[tuple[str, str]]:
    of, settings = record.conditions, record.settings
    yield "The command that repeats it", f"`{record.command}`"
    yield "Date", _date(record)
    yield "Machine", f"{of.machine}, {counted(of.cores, 'core')}, {of.memory_gib:.0f} GiB"
    yield "Load before", f"{of.load_average:.2f}"
    yield "triggerlog", f"{of.version}, Python {of.python}"
    yield "Database", f"{of.server}, {of.target}"
    if of.read_from != of.target:
        yield "Read from", of.read_from
    yield "Durability", of.durability
    for name, words in of.groups.items():
        yield f"Group {name}", words
    yield "Journal", "yes" if of.journal else "no"
    yield "Stored before", counted(of.stored, "trigger")
    offered = [block.received_rate for block in record.blocks if block.whole]
    if offered:
        yield "Load offered", f"{sum(offered) / len(offered):,.0f} readings/s"
    yield "Readers", readers_words(settings)
    warm_up = f"the first {settings.warm_up_s:g} s of each cut off" if settings.warm_up_s else "nothing cut off"
    yield "Blocks", f"{record.planned} of {settings.block_s:g} s, {warm_up}"
    if settings.doses:
        seeded = f"each {settings.pairs} times, shuffled by seed {settings.seed}"
        yield "Doses", f"{', '.join(map(str, settings.doses))}, {seeded}"
    else:
        yield "Order", "A B A B … A"
    yield "Daemon’s budget", f"commit p99 {number(of.budget_ms)} ms"
