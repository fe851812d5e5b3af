"""From a run to tables of figures: pure functions."""

from collections.abc import Iterator, Sequence

from benchmarks.load.workload import INSTRUMENTS
from benchmarks.report.conditions.tables import condition_tables
from benchmarks.report.formatting import counted, number
from benchmarks.report.reader_tables import audiences, governor
from benchmarks.report.run import BARE_LOOP, CEILING, DAEMON, PAPER, Latency, MeasuredServer, Run, Way
from benchmarks.report.table import Table, aim, text
from benchmarks.rounds.summary import QUARTILES_FROM, ratio, spread
from schemas.batch import Durability, Layout
from schemas.checking.dsn import Backend

CEILING_AIMS = {Layout.ROWS: 0.6, Layout.ARRAYS: 0.5}
INSERT_AIMS = {Layout.ROWS: 60.0, Layout.ARRAYS: 150.0}
ONE_COPY_AIM = 5.0
BEST_AIMS = {Layout.ROWS: 2.5, Layout.ARRAYS: 5.0}
"""Against the best strategy with a trigger a commit, of the same durability, in MariaDB and MongoDB."""
LATENCY_AIM = 2.0
JOURNAL_AIM = 0.8
DRAIN_AIM = 5.0
"""Against the rate without a journal, and against the live rate."""


def tables(run: Run) -> list[Table]:
    """Make the tables of whatever was measured; a measure that was left out has none."""
    made: list[Table | None] = [_throughput(run, backend) for backend in run.servers]
    made += [_ratios(run), latency_table(run), cpu(run), memory(run), journal_cost(run), drains(run)]
    made += [governor(run), audiences(run), *condition_tables(run)]
    return [table for table in made if table is not None]


def conditions(run: Run) -> list[tuple[str, str]]:
    """What the figures were measured on."""
    servers = [condition for server in run.servers.values() for condition in _server(server)]
    return [*facts(run), *servers]


def facts(run: Run) -> Iterator[tuple[str, str]]:
    """The machine, the workload, the plan and the source."""
    yield "Date", run.date
    yield "Machine", f"{run.cpu}, {counted(run.cores, 'core')}, {run.memory_gib:.0f} GiB"
    yield "Load before", f"{run.load:.2f}"
    yield "Disk", f"an fdatasync of 8 KiB takes {number(run.fdatasync_ms)} ms (median)"
    yield "Python", run.python
    yield "Workload", f"{INSTRUMENTS} instruments x 4 float64 channels, random values"
    windows = f", up to {counted(run.windows, 'window')} at each rate" if run.windows else ""
    rounds = counted(run.rounds, "round") if run.rounds else "throughput not measured"
    yield "Plan", f"{run.plan}: {rounds}{windows}"
    if run.commit:
        yield "Source", f"commit {run.commit}{', with changes' if run.dirty else ''}"


def _server(server: MeasuredServer) -> Iterator[tuple[str, str]]:
    where = "a throw-away server on the same machine" if server.own else server.target
    yield server.name, f"{server.version}, {where}"
    for durability, words in server.durability.items():
        yield f"- {durability}", words
    yield "- settings", ", ".join(f"{name} {value}" for name, value in server.settings.items()) or "none given"


def _throughput(run: Run, backend: Backend) -> Table | None:
    ways = run.ways_of(backend)
    if not ways:
        return None
    half = [way for way in ways if way.half_written]
    seen = "".join(f" A reader saw {_sum(way.half_written)} triggers half-written by `{way.slug}`." for way in half)
    return Table(
        title=f"Throughput, {run.servers[backend].name} {run.servers[backend].version}",
        columns=("", "the paper", "triggers/s", "triggers a commit", "p50 ms", "p99 ms", "max ms", "1/dt, Hz"),
        rows=tuple(
            (
                way.title,
                way.paper or "",
                text(way.rate, "{:,.0f}"),
                f"{spread(way.batches).median:,.0f}",
                *_latencies(way),
                _hz(way),
            )
            for way in ways
        ),
        note=f"Medians of {run.rounds} interleaved rounds, in brackets {_kind(run.rounds)}. The commit latency is from "
        "when a commit's first trigger was ready to be written, and max the highest of all rounds; 1/dt is between "
        f"successive triggers, in brackets its quartiles.{seen} After every round the database held what it had "
        "acknowledged.",
    )


def _latencies(way: Way) -> Iterator[str]:
    if not way.p50_ms:
        yield from ("", "", "")
        return
    yield f"{spread(way.p50_ms).median:.2f}"
    yield f"{spread(way.p99_ms).median:.2f}"
    yield f"{max(way.max_ms):.1f}"


def _hz(way: Way) -> str:
    low, middle, high = (f"{spread(quartile).median:,.0f}" for quartile in way.hz)
    return f"{middle} ({low} to {high})"


def _sum(values: Sequence[float]) -> str:
    return f"{sum(values):,.0f}"


def _ratios(run: Run) -> Table | None:
    rows = tuple(row for backend in run.servers for row in _ratios_of(run, backend))
    if not rows:
        return None
    return Table(
        title="End to end, against the others",
        columns=("", "ratio", "aim", "reached"),
        rows=rows,
        note="The ratio of each round, and the median of these. The best, and the fastest, are by their medians.",
    )


def _ratios_of(run: Run, backend: Backend) -> Iterator[tuple[str, ...]]:
    name, ways = run.servers[backend].name, run.ways_of(backend)
    papers = [way for way in ways if way.kind == PAPER]
    for mine in (way for way in ways if way.kind == DAEMON and way.layout is not None):
        layout = mine.layout or Layout.ROWS
        alike = [way for way in papers if way.durability is mine.durability]
        others: list[tuple[str, Way, float | None]] = []
        if mine.durability is Durability.SYNC:
            ceilings = [way for way in ways if way.kind == CEILING and way.layout is layout]
            others += [
                (way.title, way, None if way.slug.endswith("with_ledger") else CEILING_AIMS[layout]) for way in ceilings
            ]
        if backend is Backend.POSTGRESQL:
            aims = {"insert_each_table": INSERT_AIMS[layout], "one_copy": ONE_COPY_AIM, "one_copy_async": ONE_COPY_AIM}
            others += [(way.title, way, aims[way.slug]) for way in alike if way.slug in aims]
        elif alike:
            best = _fastest(alike)
            others.append((f"the best of its durability ({best.slug})", best, BEST_AIMS[layout]))
        if papers:
            fastest = _fastest(papers)
            others.append((f"the fastest of all strategies ({fastest.slug})", fastest, 1.0))
        for title, other, wanted in others:
            found = ratio(mine.rates, other.rates)
            yield f"{name}: {mine.title} / {title}", text(found, "{:.2f}"), *aim(found.median, wanted, at_least=True)


def _fastest(ways: Sequence[Way]) -> Way:
    return max(ways, key=lambda way: way.rate.median)


def latency_table(run: Run) -> Table | None:
    """Latency at each steady rate, of the daemon and of a bare loop; None where it was not measured."""
    if not run.latencies:
        return None
    rows = []
    for backend, server in run.servers.items():
        found = [latency for latency in run.latencies if latency.backend is backend]
        bare = {latency.rate: latency for latency in found if latency.contender == BARE_LOOP}
        for latency in found:
            against = bare.get(latency.rate) if latency.contender == DAEMON else None
            rows.append((f"{server.name}, {latency.rate:g}/s, {latency.contender}", *_latency_row(latency, against)))
    return Table(
        title="Latency from the last reading to the commit acknowledged",
        columns=("", "p50 ms", "p99 ms", "max ms", "p99 / bare p99", "aim", "reached"),
        rows=tuple(rows),
        note=f"Medians of up to {run.windows} windows taken by turns, in brackets {_kind(run.windows)}; max is the "
        "highest of all. The daemon's is of its own histogram, from the closing of a trigger; what its sender sees has "
        "the network, the assembly and the way back in it.",
    )


def _latency_row(latency: Latency, bare: Latency | None) -> Iterator[str]:
    yield f"{spread(latency.p50_ms).median:.2f}"
    yield text(spread(latency.p99_ms), "{:.2f}")
    yield f"{max(latency.max_ms):.1f}"
    if bare is None:
        yield from ("", "", "")
        return
    found = ratio(latency.p99_ms, bare.p99_ms)
    yield text(found, "{:.2f}")
    yield from aim(found.median, LATENCY_AIM, at_least=False)


def cpu(run: Run) -> Table | None:
    """CPU of the daemon by rate; None where it was not measured."""
    if not run.loads:
        return None
    rows = tuple(
        (f"{load.rate:g} triggers/s", text(spread(load.percent), "{:.1f}"), text(spread(load.cpu_ms), "{:.2f}"))
        for load in run.loads
    )
    return Table(
        title=f"CPU of the daemon, over {INSTRUMENTS} connections",
        columns=("", "% of one core", "CPU ms a trigger"),
        rows=rows,
        note="Of the daemon's process alone: the database has its own.",
    )


def memory(run: Run) -> Table | None:
    """Memory of the daemon at full speed; None where it was not measured."""
    found = run.memory
    if found is None:
        return None
    row = (
        f"{found.seconds:g} s at {found.rate:,.0f} triggers/s",
        f"{found.least_mib:.0f} to {found.most_mib:.0f}",
        f"{found.slope_mib:+.1f}",
    )
    return Table(
        title="Resident memory of the daemon at full speed",
        columns=("", "MiB, second half", "slope, MiB a minute"),
        rows=(row,),
        note="The slope is over the second half. Up to 256 MiB of it (`max_waiting_mib`) waits for the database, since "
        "the sender is faster.",
    )


def journal_cost(run: Run) -> Table | None:
    """Full speed with the journal against that without; None where it was not measured."""
    if not run.journals:
        return None
    rows = []
    for cost in run.journals:
        found = ratio(cost.with_journal, cost.without)
        rates = (text(spread(rates), "{:,.0f}") for rates in (cost.with_journal, cost.without))
        rows.append((cost.layout.value, *rates, text(found, "{:.2f}"), *aim(found.median, JOURNAL_AIM, at_least=True)))
    return Table(
        title="What the journal costs",
        columns=("", "triggers/s with it", "without", "ratio", "aim", "reached"),
        rows=tuple(rows),
        note=f"Medians of {run.rounds_of_journal} interleaved rounds at full speed, the ratio of each round.",
    )


def drains(run: Run) -> Table | None:
    """How outages were made up for; None where none was measured."""
    if not run.drains:
        return None
    rows = []
    for drain in run.drains:
        times = [rate / drain.live_rate for rate in drain.rates]
        rows.append(
            (
                f"{drain.layout}, away for {drain.outage_s:g} s",
                f"{spread(drain.waiting).median:,.0f}",
                f"{spread(drain.first_commit_s).median:.2f}",
                f"{spread(drain.seconds).median:.2f}",
                f"{spread(drain.live).median:,.0f}",
                text(spread(times), "{:.1f}"),
                *aim(spread(times).median, DRAIN_AIM, at_least=True),
            )
        )
    return Table(
        title="After an outage of the database",
        columns=(
            "",
            "triggers waited",
            "first commit, s",
            "drained, s",
            "live/s meanwhile",
            "drain / live",
            "aim",
            "reached",
        ),
        rows=tuple(rows),
        note=f"The database was killed while {run.drains[0].live_rate:g} triggers/s came in, and went on coming in."
        " Times are from the moment in which it takes connections again; drained is when less than a second's triggers"
        " wait. Afterwards it held every reading once.",
    )


def _kind(count: int) -> str:
    return "their quartiles" if count >= QUARTILES_FROM else "the least and the most"
