"""The tables of ways, one for each database, with the figures of the paper."""

from collections import Counter
from collections.abc import Sequence

from benchmarks.html.elements import card, section, with_small
from benchmarks.html.markup import Markup, join, raw, tag
from benchmarks.html.table import NOTHING, Column, figures, table
from benchmarks.report.choice import crash_safe
from benchmarks.report.formatting import between, kind_of_spread, number, times, whole
from benchmarks.report.html.distributions import published_hz, style_of
from benchmarks.report.run import CEILING, DAEMON, MeasuredServer, Run, Way
from benchmarks.rounds.summary import spread
from schemas.batch import Durability

COLUMNS = (
    Column("Way"),
    Column("Safe", style="words"),
    Column("The paper", style="words"),
    *figures("Triggers/s", "Times the paper’s", "1/dt Hz, median", "Triggers a commit"),
    *figures("Commit p50 ms", "p99 ms", "Longest ms"),
)
BADGES = {DAEMON: "the daemon", CEILING: "ceiling"}


def ways(run: Run) -> Markup:
    """All tables; empty where throughput was not measured."""
    if not run.ways:
        return Markup()
    note = (
        f"{_rounds(run.rounds)} (for 1/dt the quartiles over triggers). Safe: a trigger that was acknowledged survives "
        "a crash of the server, and no reader sees half of one. The commit latency counts from when a commit’s first "
        "trigger was ready to be written until it was acknowledged, all at full speed: with many triggers a commit it "
        "grows with the batch. The ceiling copies batches made beforehand, with no daemon around it: it is no way to "
        "choose."
    )
    tables = [_table(run, server) for server in run.servers.values() if run.ways_of(server.backend)]
    return section("Ways to write triggers", *tables, name="ways", note=note)


def _table(run: Run, server: MeasuredServer) -> Markup:
    found = run.ways_of(server.backend)
    with_paper = any(way.paper for way in found)
    columns = [column for column in COLUMNS if with_paper or "aper" not in column.heading]
    shared = [note for note, times_ in Counter(way.note for way in found if way.note).items() if times_ > 1]
    rows = []
    for way in found:
        cells = dict(zip(COLUMNS, _cells(run, way, shared), strict=True))
        rows.append((style_of(run, way), [cells[column] for column in columns]))
    heading = tag("h3", f"{server.name} {server.version}")
    notes = [tag("li", note) for note in shared]
    below = [tag("ol", *notes, class_="footnotes")] if notes else []
    return card(heading, table(f"Ways on {server.name}", columns, rows), *below)


def _rounds(count: int) -> str:
    if count == 1:
        return "One round, which has no spread"
    return f"Medians of {count} interleaved rounds, small below them {kind_of_spread(count)}"


def _cells(run: Run, way: Way, shared: Sequence[str]) -> Sequence[str]:
    low, middle, high = (spread(values).median if values else None for values in way.hz)
    hz = "" if low is None or high is None or low == high else f"{number(low)} to {number(high)}"
    return (
        _name(run, way, shared),
        _safety(run, way),
        way.paper or NOTHING,
        with_small(number(way.rate.median), between(way.rate)),
        _times(way),
        NOTHING if middle is None else with_small(number(middle), hz),
        whole(spread(way.batches).median) if way.batches else NOTHING,
        number(spread(way.p50_ms).median) if way.p50_ms else NOTHING,
        with_small(number(spread(way.p99_ms).median), between(spread(way.p99_ms))) if way.p99_ms else NOTHING,
        number(max(way.max_ms)) if way.max_ms else NOTHING,
    )


def _name(run: Run, way: Way, shared: Sequence[str]) -> Markup:
    parts = [tag("b", way.title)]
    if way.kind in BADGES:
        parts.append(tag("span", BADGES[way.kind], class_="badge"))
    if way.note in shared:
        parts.append(tag("sup", str(shared.index(way.note) + 1)))
    if way.file:
        parts.append(tag("small", tag("code", join(way.file.split("/"), raw("/<wbr>")))))
    if way.note and way.note not in shared:
        parts.append(tag("small", way.note, class_=None if crash_safe(run, way) else "remark"))
    return join(parts, " ")


def _safety(run: Run, way: Way) -> Markup:
    if crash_safe(run, way):
        return join([tag("span", "✓ yes", class_="yes"), tag("small", str(way.durability))])
    missing = run.servers[way.backend].missing(way.durability)
    if way.safe and run.servers[way.backend].is_unknown(way.durability):
        return join([tag("span", "? not known", class_="no"), tag("small", f"{way.durability}: see the warning above")])
    if sum(way.half_written):
        why = f"{sum(way.half_written):,.0f} half-written triggers seen"
    elif missing:
        why = "the server is not durable"
    else:
        why = "may lose its last moments" if way.durability is Durability.ASYNC else "readers may see half a trigger"
    return join([tag("span", "✗ no", class_="no"), tag("small", f"{way.durability}: {why}")])


def _times(way: Way) -> str:
    found = published_hz(way)
    if found is None:
        return NOTHING
    ratios = sorted({way.rate.median / hz for hz in found})
    return " to ".join(times(ratio) for ratio in ratios)
