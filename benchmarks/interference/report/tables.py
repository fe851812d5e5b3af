"""The tables of the report."""

from collections.abc import Sequence

from benchmarks.html.elements import card, section, with_small
from benchmarks.html.markup import Markup, join, tag
from benchmarks.html.table import NOTHING, Column, figures, table
from benchmarks.interference.statistics.verdicts import factor, is_negligible, is_unknown, range_of
from benchmarks.report.formatting import number, whole
from schemas.api.interference import FIGURES, Mean, Ratio, Record, Result, Row, ServerRow

WORSE_UP = frozenset({"p50_ms", "p99_ms", "backlog"})
"""Figures of which more is worse."""
SERVER_WORDS = {"cache_hit_percent": "cache hits, % of lookups"}


def writing(result: Result) -> Markup:
    """A against B, a row a figure; of doses, a row a figure and dose."""
    several = len({row.readers for row in result.rows}) > 1
    columns = [
        Column("Figure"),
        *(figures("Readers") if several else ()),
        *figures("A: write only", "B: write and read", "B by A", "n"),
        Column("Verdict", style="verdict"),
    ]
    ordered = sorted(result.rows, key=lambda row: (list(FIGURES).index(row.figure), row.readers))
    rows = [("", _cells(row, several=several)) for row in ordered]
    return card(table("Writing without and with readers", columns, rows))


def _cells(row: Row, *, several: bool) -> list[str]:
    title, unit = FIGURES[row.figure]
    return [
        with_small(tag("b", title), unit),
        *([f"{row.readers:,}"] if several else []),
        number(row.a) if row.figure != "backlog" else whole(row.a),
        number(row.b) if row.figure != "backlog" else whole(row.b),
        _ratio(row.b_to_a),
        str(row.b_to_a.pairs),
        _verdict(row),
    ]


def _verdict(row: Row) -> Markup:
    """The sentence with a mark, so that colour alone does not carry it."""
    found = row.b_to_a
    if is_unknown(found):
        mark, style = "?", "soft"
    elif found.holds_one or is_negligible(found):
        mark, style = "●", "soft"
    elif (found.ratio > 1) == (row.figure in WORSE_UP):
        mark, style = "▲", "worse"
    else:
        mark, style = "▼", "yes"
    return join([tag("span", mark, class_=f"mark {style}", aria_hidden="true"), row.verdict], " ")


def agreement(result: Result) -> Markup:
    """A against A; empty where there are too few blocks."""
    if not result.agreement:
        return Markup()
    columns = (Column("A against A"), *figures("Ratio", "n", "Scatter of a block", "Drift over the run"))
    rows = []
    for each in result.agreement:
        cells = [
            tag("b", FIGURES[each.figure][0]),
            _ratio(each.a_to_a),
            str(each.a_to_a.pairs),
            f"{100 * each.scatter:.1f} %",
            f"{round(100 * (each.drift - 1), 1) + 0.0:+.1f} %",
        ]
        rows.append(("", cells))
    return card(table("Blocks of A against blocks of A", columns, rows))


def readers(record: Record) -> Markup:
    """The latency and the rate of the readers."""
    result = record.result
    if result is None or not result.readers:
        return Markup()
    kinds = {workload.name: workload.kind.value for workload in record.settings.workloads}
    columns = (
        Column("Workload"),
        *figures("Clients", "Answers/s", "Rows/s", "p50 ms", "p99 ms", "In time", "Answers", "Failed"),
    )
    rows = []
    for row in result.readers:
        kind = kinds[row.workload]
        about = f"{'' if kind == row.workload else f'{kind}, '}deadline {row.deadline_ms / 1e3:g} s"
        cells = [
            with_small(tag("b", row.workload), about),
            f"{row.admitted:,}",
            _mean(row.rate),
            _mean(row.row_rate),
            _mean(row.p50_ms),
            _mean(row.p99_ms),
            _efficiency(row.efficiency),
            f"{row.cycles:,}",
            f"{row.failed:,}",
        ]
        rows.append(("", cells))
    note = (
        "Latencies count from when a client was due to ask, so that waiting behind a slow answer counts, too "
        "(HdrHistogram, corrected for coordinated omission). In time: the fraction answered within the deadline. "
        "Small below a figure is its interval over the blocks."
    )
    return section("The readers", card(table("The readers", columns, rows)), name="readers", note=note)


def server(result: Result, product: str) -> Markup:
    """The server's own view, and the processor's."""
    parts = []
    if result.server:
        parts.append(_server_table("Counters of the server, a second", result.server))
    if result.waits:
        parts.append(_server_table("Sessions that waited, on average", result.waits))
    counts = (
        f"What {product} counts of itself, and what its sessions were seen waiting for once a second, the daemon’s and "
        "the readers’ alike"
        if parts
        else f"{product} gave no counters; this is what the machine was busy with"
    )
    if result.processor:
        parts.append(_server_table("Busy, %", [_busy(row) for row in result.processor]))
    if not parts:
        return Markup()
    note = (
        f"{counts}: means over the blocks of A, and over those of B. They show where to look; they have no intervals."
    )
    return section("The server’s own view", tag("div", *parts, class_="curves"), name="server", note=note)


def _busy(row: ServerRow) -> ServerRow:
    words = {"daemon": "daemon, % of one core", "machine": "machine, % of all cores"}
    return row.model_copy(update={"name": words.get(row.name, row.name)})


def _server_table(title: str, rows: Sequence[ServerRow]) -> Markup:
    columns = (Column(title), *figures("A", "B", "B by A"))
    body = [("", [_server_name(row.name), _count(row.a), _count(row.b), _times(row)]) for row in rows]
    return card(table(title, columns, body))


def _server_name(name: str) -> Markup:
    if name in SERVER_WORDS:
        return join([SERVER_WORDS[name]])
    return join([name]) if "%" in name else tag("code", name)


def _count(value: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if value >= size:
            return f"{number(value / (1e3 if unit == 'k' else size))} {unit}"
    return number(value)


def _times(row: ServerRow) -> str:
    return NOTHING if row.ratio is None else factor(row.ratio)


def _ratio(found: Ratio) -> Markup:
    return with_small(factor(found.ratio), range_of(found))


def _mean(found: Mean | None) -> str:
    if found is None:
        return NOTHING
    if found.low is None or found.high is None:
        return number(found.value)
    return with_small(number(found.value), f"{number(max(0.0, found.low))} to {number(found.high)}")


def _efficiency(found: Mean | None) -> str:
    if found is None:
        return NOTHING
    words = f"{100 * found.value:.1f} %"
    if found.low is None or found.high is None:
        return words
    return with_small(words, f"{100 * found.low:.1f} to {100 * found.high:.1f} %")
