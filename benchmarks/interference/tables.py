"""The tables of the report."""

from collections.abc import Sequence

from benchmarks.interference.wording import FIGURES, factor, is_nothing, range_of, says_nothing
from benchmarks.report.html.markup import Markup, join, tag
from benchmarks.report.html.table import NOTHING, Column, table
from benchmarks.report.wording import number, whole
from schemas.api.interference import Mean, Ratio, Record, Result, Row, ServerRow

WORSE_UP = frozenset({"p50_ms", "p99_ms", "backlog"})
"""Figures of which more is worse."""
SERVER_WORDS = {"cache_hit_percent": "cache hits, % of lookups"}


def writing(result: Result) -> Markup:
    """A against B, a row a figure; of doses, a row a figure and dose."""
    several = len({row.readers for row in result.rows}) > 1
    columns = [
        Column("Figure"),
        *([Column("Readers", figures=True)] if several else []),
        Column("A: write only", figures=True),
        Column("B: write and read", figures=True),
        Column("B by A", figures=True),
        Column("n", figures=True),
        Column("Verdict", style="verdict"),
    ]
    ordered = sorted(result.rows, key=lambda row: (list(FIGURES).index(row.figure), row.readers))
    rows = [("", _cells(row, several=several)) for row in ordered]
    return tag("div", table("Writing without and with readers", columns, rows), class_="card")


def _cells(row: Row, *, several: bool) -> list[str]:
    title, unit = FIGURES[row.figure]
    return [
        join([tag("b", title), tag("small", unit)]),
        *([f"{row.readers:,}"] if several else []),
        number(row.a) if row.figure != "backlog" else whole(row.a),
        number(row.b) if row.figure != "backlog" else whole(row.b),
        _ratio(row.b_to_a),
        str(row.b_to_a.pairs),
        _verdict(row),
    ]


def _verdict(row: Row) -> Markup:
    """In words, with a mark, so that it is not told by colour alone."""
    found = row.b_to_a
    if says_nothing(found):
        mark, style = "?", "soft"
    elif found.holds_one or is_nothing(found):
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
    columns = (
        Column("A against A"),
        Column("Ratio", figures=True),
        Column("n", figures=True),
        Column("Scatter of a block", figures=True),
        Column("Drift over the run", figures=True),
    )
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
    return tag("div", table("Blocks of A against blocks of A", columns, rows), class_="card")


def readers(record: Record) -> Markup:
    """How the readers fared."""
    result = record.result
    if result is None or not result.readers:
        return Markup()
    kinds = {workload.name: workload.kind.value for workload in record.settings.workloads}
    columns = (
        Column("Workload"),
        Column("Clients", figures=True),
        Column("Answers/s", figures=True),
        Column("Rows/s", figures=True),
        Column("p50 ms", figures=True),
        Column("p99 ms", figures=True),
        Column("In time", figures=True),
        Column("Answers", figures=True),
        Column("Failed", figures=True),
    )
    rows = []
    for row in result.readers:
        kind = kinds[row.workload]
        about = f"{'' if kind == row.workload else f'{kind}, '}deadline {row.deadline_ms / 1e3:g} s"
        cells = [
            join([tag("b", row.workload), tag("small", about)]),
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
    body = tag("div", table("The readers", columns, rows), class_="card")
    return tag("section", tag("h2", "The readers"), tag("p", note, class_="note"), body, id="readers")


def server(result: Result, product: str) -> Markup:
    """The server's own view, and the processor's."""
    parts = []
    if result.server:
        parts.append(_server_table("Counters of the server, a second", result.server))
    if result.waits:
        parts.append(_server_table("Sessions that waited, on average", result.waits))
    told = (
        f"What {product} counts of itself, and what its sessions were seen waiting for once a second, the daemon’s and "
        "the readers’ alike"
        if parts
        else f"{product} told nothing of itself; this is what the machine was busy with"
    )
    if result.processor:
        parts.append(_server_table("Busy, %", [_busy(row) for row in result.processor]))
    if not parts:
        return Markup()
    note = f"{told}: means over the blocks of A, and over those of B. It says where to look, not how sure one may be."
    heading = tag("h2", "The server’s own view")
    return tag("section", heading, tag("p", note, class_="note"), tag("div", *parts, class_="curves"), id="server")


def _busy(row: ServerRow) -> ServerRow:
    words = {"daemon": "daemon, % of one core", "machine": "machine, % of all cores"}
    return row.model_copy(update={"name": words.get(row.name, row.name)})


def _server_table(title: str, rows: Sequence[ServerRow]) -> Markup:
    columns = (Column(title), Column("A", figures=True), Column("B", figures=True), Column("B by A", figures=True))
    body = [("", [_server_name(row.name), _count(row.a), _count(row.b), _times(row)]) for row in rows]
    return tag("div", table(title, columns, body), class_="card")


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
    return join([factor(found.ratio), tag("small", range_of(found))])


def _mean(found: Mean | None) -> str:
    if found is None:
        return NOTHING
    if found.low is None or found.high is None:
        return number(found.value)
    return join([number(found.value), tag("small", f"{number(max(0.0, found.low))} to {number(found.high)}")])


def _efficiency(found: Mean | None) -> str:
    if found is None:
        return NOTHING
    words = f"{100 * found.value:.1f} %"
    if found.low is None or found.high is None:
        return words
    return join([words, tag("small", f"{100 * found.low:.1f} to {100 * found.high:.1f} %")])
