"""The report of `triggerlog bench`: which way to choose first, then all that follows from."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.command.choice import BASELINE_HZ, GOAL_HZ, advise, crash_safe, fastest, number_of_rate, warn
from benchmarks.conditions import report as conditions
from benchmarks.load.workload import CHANNELS, INSTRUMENTS
from benchmarks.measures.governor import ALONE, GOVERNED, READERS, ROOM
from benchmarks.measures.pages import RATE
from benchmarks.report.model import (
    AIM,
    Advice,
    Axis,
    Cell,
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
    aim,
    between,
    cell,
    counted,
    kind_of_spread,
    number,
    times,
    whole,
)
from benchmarks.report.render import scale_of
from benchmarks.rounds.summary import (
    BARE_LOOP,
    CEILING,
    DAEMON,
    PAPER,
    SENDER,
    Item,
    Latency,
    MeasuredServer,
    Run,
    Way,
    ratio,
    spread,
)
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
DOUBLED = 2.0
"""Readers that do not at least double commit p99 say nothing of the governor."""
MOST_TIMES_ALONE = 1.1
"""CPU of a daemon that is looked at, against that of one that is not: next to nothing."""
PAPER_HZ = {
    "insert_each_table": (BASELINE_HZ, BASELINE_HZ),
    "threads_one_connection": (20 * BASELINE_HZ, 20 * BASELINE_HZ),
    "processes_same_tables": (100.0, 1000.0),
    "processes_own_tables": (3 * BASELINE_HZ, 3 * BASELINE_HZ),
}
"""The paper's figures in Hz, from and to, by way (workloads.md, section 1): about 44 Hz, up to 20 times that, "the bulk
in the hundreds", and 3 times that. It measured PostgreSQL alone."""
COLOURS = {
    PAPER: ("steel", "the paper’s ways"),
    CEILING: ("grey", "bare copies, the ceiling"),
    DAEMON: ("green", DAEMON),
}
LINES = {DAEMON: "green", BARE_LOOP: "steel", SENDER: "grey"}
HOW = (
    f"A trigger is {INSTRUMENTS} instruments with {len(CHANNELS)} random float64 values each, committed as one. All "
    "ways take turns, round by round, in fresh tables and after a warm-up, so that whatever else the machine does "
    "meets them alike. Figures are medians over the rounds with their quartiles (of fewer than five rounds, the least "
    "and the most), and after every round of the daemon the database is compared with what was sent, value by value."
)


def report(run: Run, command: str) -> Report:
    """Make the report. command: what repeats the run, without a password."""
    names = " · ".join(f"{server.name} {server.version}" for server in run.servers.values())
    return Report(
        title="Which database, and how to write to it",
        facts=f"{INSTRUMENTS} instruments a trigger · {names} · {run.cpu}, {run.cores} cores · {run.date}",
        date=run.date,
        command="triggerlog bench",
        sections=[
            Section("Which way to choose for which need", list(_choice(run))),
            Section("Ways to write triggers", [*_ways(run), *_ratios(run)], _ways_note(run)),
            Section("Distributions of 1/dt", _distributions(run), DISTRIBUTIONS),
            Section("Latency against the rate", [*_curves(run), _latencies(run)], _latency_note(run)),
            Section("When the database is away", [*_journal_cost(run), *_drains(run)]),
            Section("While others read", [*_governor(run), *_audiences(run)]),
            *conditions.sections(run),
            Section("What the daemon costs", list(_cost(run))),
            Section("How and on what it was measured", list(_facts(run, command)), HOW),
        ],
    )


def _choice(run: Run) -> Iterator[Part]:
    for server in run.servers.values():
        if run.ways_of(server.backend):
            yield _tile(run, server)
    yield Advice([(f"{each.need}.", each.text) for each in advise(run)])
    yield Warnings([f"{warning}." for warning in warn(run)])


def _tile(run: Run, server: MeasuredServer) -> Tile:
    best = fastest(run, server.backend)
    if best is None:
        return Tile(server.name, "", lines=["nothing measured here is known to be crash safe"])
    lines = [
        f"{best.title} ({between(best.rate)})" if between(best.rate) else best.title,
        f"{times(best.rate.median / GOAL_HZ)} times the goal of {GOAL_HZ:g} Hz, crash safe",
    ]
    return Tile(server.name, number(best.rate.median), unit="triggers/s", lines=lines)


# --- ways ------------------------------------------------------------------------------------------------------------


def _ways_note(run: Run) -> str:
    rounds = (
        "One round, which has no spread"
        if run.rounds == 1
        else f"Medians of {run.rounds} interleaved rounds, small below them {kind_of_spread(run.rounds)}"
    )
    return (
        f"{rounds} (for 1/dt the quartiles over triggers). Safe: a trigger that was acknowledged survives a crash of "
        "the server, and no reader sees half of one. The commit latency counts from when a commit’s first trigger was "
        "ready to be written until it was acknowledged, all at full speed: with many triggers a commit it grows with "
        "the batch. The ceiling copies batches made beforehand, with no daemon around it: it is no way to choose."
    )


def _ways(run: Run) -> Iterator[Table]:
    for server in run.servers.values():
        ways = run.ways_of(server.backend)
        if not ways:
            continue
        notes = [note for note, count in Counter(way.note for way in ways if way.note).items() if count > 1]
        columns = ["Way", "Safe", "The paper", "Triggers/s", "Times the paper’s", "1/dt Hz, median"]
        columns += ["Triggers a commit", "Commit p50 ms", "p99 ms", "Longest ms"]
        rows = [_way(run, way, notes) for way in ways]
        # Without the paper's columns where it has no figures.
        shown = [k for k in range(len(columns)) if k not in (2, 4) or any(way.paper for way in ways)]
        yield Table(
            f"Ways on {server.name} {server.version}",
            [columns[k] for k in shown],
            rows=[[row[k] for k in shown] for row in rows],
            note=" ".join(f"{k}: {note}" for k, note in enumerate(notes, 1)),
            words=columns[1:3],
        )


def _way(run: Run, way: Way, notes: Sequence[str]) -> list[str | Cell]:
    marks = [{DAEMON: "the daemon", CEILING: "the ceiling"}.get(way.kind, ""), f"`{way.file}`" if way.file else ""]
    marks.append(f"note {notes.index(way.note) + 1}" if way.note in notes else way.note or "")
    found = published_hz(way)
    by_paper = "" if found is None else " to ".join(sorted({times(way.rate.median / hz) for hz in found}))
    low, middle, high = way.hz or (0.0, 0.0, 0.0)
    return [
        Cell(way.title, " · ".join(each for each in marks if each)),
        _safety(run, way),
        way.paper or "",
        cell(way.rate),
        by_paper,
        Cell(number(middle), "" if low == high else f"{number(low)} to {number(high)}") if middle else "",
        whole(spread(way.batches).median) if way.batches else "",
        number(spread(way.p50_ms).median) if way.p50_ms else "",
        cell(spread(way.p99_ms)) if way.p99_ms else "",
        number(max(way.max_ms)) if way.max_ms else "",
    ]


def _safety(run: Run, way: Way) -> Cell:
    if crash_safe(run, way):
        return Cell("yes", way.durability, "good", "✓")
    server = run.servers[way.backend]
    if way.safe and server.is_unknown(way.durability):
        return Cell("not known", f"{way.durability}: see the warning above", "bad", "?")
    if sum(way.half_written):
        why = f"{sum(way.half_written):,.0f} half-written triggers seen"
    elif server.missing(way.durability):
        why = "the server is not durable"
    else:
        why = "may lose its last moments" if way.durability is Durability.ASYNC else "readers may see half a trigger"
    return Cell("no", f"{way.durability}: {why}", "bad", "✗")


def published_hz(way: Way) -> tuple[float, float] | None:
    """Return the paper's figure for a way in Hz, from and to; None where it gives none."""
    if way.backend is not Backend.POSTGRESQL or way.paper is None:
        return None
    return PAPER_HZ.get(way.slug)


def _ratios(run: Run) -> Iterator[Table]:
    rows = [row for backend in run.servers for row in _ratios_of(run, backend)]
    note = "The ratio of each round, and the median of these. The best, and the fastest, are by their medians."
    yield Table("End to end, against the others", ("", "ratio", *AIM), rows, note)


def _ratios_of(run: Run, backend: Backend) -> Iterator[tuple[str | Cell, ...]]:
    name, ways = run.servers[backend].name, run.ways_of(backend)
    papers = [way for way in ways if way.kind == PAPER]
    for mine in (way for way in ways if way.kind == DAEMON and way.layout is not None):
        for title, other, wanted in _others(backend, mine, mine.layout or Layout.ROWS, ways, papers):
            found = ratio(mine.rates, other.rates)
            yield f"{name}: {mine.title} / {title}", cell(found, "{:.2f}"), *aim(found.median, wanted, at_least=True)


def _others(
    backend: Backend, mine: Way, layout: Layout, ways: Sequence[Way], papers: Sequence[Way]
) -> Iterator[tuple[str, Way, float | None]]:
    """Yield what a daemon's way is compared with, and the aim."""
    alike = [way for way in papers if way.durability is mine.durability]
    if mine.durability is Durability.SYNC:
        for way in (way for way in ways if way.kind == CEILING and way.layout is layout):
            yield way.title, way, None if way.slug.endswith("with_ledger") else CEILING_AIMS[layout]
    if backend is Backend.POSTGRESQL:
        aims = {"insert_each_table": INSERT_AIMS[layout], "one_copy": ONE_COPY_AIM, "one_copy_async": ONE_COPY_AIM}
        yield from ((way.title, way, aims[way.slug]) for way in alike if way.slug in aims)
    elif alike:
        best = _fastest(alike)
        yield f"the best of its durability ({best.slug})", best, BEST_AIMS[layout]
    if papers:
        fastest_of_all = _fastest(papers)
        yield f"the fastest of all strategies ({fastest_of_all.slug})", fastest_of_all, 1.0


def _fastest(ways: Sequence[Way]) -> Way:
    return max(ways, key=lambda way: way.rate.median)


# --- distributions ---------------------------------------------------------------------------------------------------

DISTRIBUTIONS = (
    "As the paper plots them. Each panel counts triggers by 1/dt, dt being the time since the trigger before; a commit "
    "of n triggers after dt counts n times n/dt. All panels share the axis; each is as high as its own highest bin. "
    "The grey band spans the quartiles."
)


def _distributions(run: Run) -> list[Chart]:
    drawn = [way for way in run.ways if sum(way.counts)]
    reached = [GOAL_HZ, BASELINE_HZ]
    for way in drawn:
        filled = [k for k, count in enumerate(way.counts) if count]
        reached += [way.edges[filled[0]], way.edges[filled[-1] + 1], *(published_hz(way) or ())]
    low, high = math.floor(math.log10(min(reached))), math.ceil(math.log10(max(reached)))
    axis = Axis("1/dt, Hz", log=True, low=10.0**low, high=10.0**high)
    panels = {each: [_distribution(run, way) for way in drawn if way.backend is each] for each in run.servers}
    return [Chart(f"{server.name} {server.version}", axis, panels[each]) for each, server in run.servers.items()]


def _distribution(run: Run, way: Way) -> Panel:
    colour, meaning = COLOURS[way.kind] if crash_safe(run, way) else ("amber", "not known to be safe")
    filled, total = [k for k, count in enumerate(way.counts) if count], sum(way.counts)
    edges = [(way.edges[k], way.edges[k + 1], 100 * way.counts[k] / total) for k in filled]
    bars = Series(
        name=meaning,
        kind="bars",
        x=[low for low, _, _ in edges],
        until=[high for _, high, _ in edges],
        y=[way.counts[k] for k in filled],
        titles=[f"{number(low)} to {number(high)} Hz: {part:.2g} % of the triggers" for low, high, part in edges],
        colour=colour,
    )
    goal = Series(name=f"the goal, {GOAL_HZ:g} Hz", kind="at", x=[GOAL_HZ], colour="violet")
    words, series = f"{number(way.rate.median)} triggers/s", [bars, goal]
    if way.hz:
        low, middle, high = way.hz
        words = f"median {number(middle)} Hz, quartiles {number(low)} to {number(high)} Hz"
        series.insert(0, Series(kind="band", x=[low], until=[high], colour="ink", titles=[words]))
    for low, high in filter(None, [published_hz(way)]):
        kind, titles = "at" if low == high else "band", [f"the paper: {way.paper}"]
        series.append(Series(name="the paper’s figure", kind=kind, x=[low], until=[high], titles=titles, colour="red"))
    return Panel(Axis("", high=1.08 * max(way.counts)), series, title=way.title, words=words)


# --- latency ---------------------------------------------------------------------------------------------------------


def _latency_note(run: Run) -> str:
    windows = (
        "A point is one window."
        if run.windows == 1
        else f"Points are medians of up to {run.windows} windows taken by turns, upright lines "
        f"{kind_of_spread(run.windows)}."
    )
    return (
        "From a trigger’s last reading to its commit acknowledged, at a steady rate. A rate that the daemon cannot "
        "keep up with is left out. The bare loop only commits, one trigger at a time. What the sender sees has the "
        f"network, the assembly and the way back in it. {windows}"
    )


def _curves(run: Run) -> Iterator[Chart]:
    values = [value for found in run.latencies for value in (*found.p50_ms, *found.p99_ms)]
    across = scale_of(Axis("", log=True), [found.rate for found in run.latencies])
    up = scale_of(Axis("", log=True), values)
    for server in run.servers.values():
        found = [item for item in run.latencies if item.backend is server.backend]
        series = [
            line
            for contender in dict.fromkeys(item.contender for item in found)
            for line in _lines(
                sorted((each for each in found if each.contender == contender), key=lambda each: each.rate)
            )
        ]
        if series:
            yield Chart(
                title=f"{server.name} {server.version}",
                x=Axis("triggers/s", log=True, low=across.low, high=across.high),
                panels=[Panel(Axis("latency, ms", log=True, low=up.low, high=up.high), series)],
            )


def _lines(found: Sequence[Latency]) -> Iterator[Series]:
    name, rates = found[0].contender, [each.rate for each in found]
    p99 = [spread(each.p99_ms) for each in found]
    yield Series(
        name=f"{name}, p99",
        x=rates,
        y=[each.median for each in p99],
        low=[each.low for each in p99],
        high=[each.high for each in p99],
        titles=[
            f"{name} at {number_of_rate(rate)}/s: p99 {number(each.median)} ms"
            for rate, each in zip(rates, p99, strict=True)
        ],
        colour=LINES[name],
    )
    if name != SENDER:
        p50 = [spread(each.p50_ms).median for each in found]
        yield Series(name=f"{name}, p50", x=rates, y=p50, colour=LINES[name], dashed=True)


def _latencies(run: Run) -> Table:
    rows: list[tuple[str | Cell, ...]] = []
    for latency in (each for backend in run.servers for each in run.latencies if each.backend is backend):
        alike = (latency.backend, latency.rate, BARE_LOOP)
        bare = [each for each in run.latencies if (each.backend, each.rate, each.contender) == alike]
        against: tuple[str | Cell, ...] = ("", "", "")
        if bare and latency.contender == DAEMON:
            against = _against(latency.p99_ms, bare[0].p99_ms, LATENCY_AIM)
        rows.append(
            (
                f"{run.servers[latency.backend].name}, {latency.rate:g}/s, {latency.contender}",
                f"{spread(latency.p50_ms).median:.2f}",
                cell(spread(latency.p99_ms), "{:.2f}"),
                f"{max(latency.max_ms):.1f}",
                *against,
            )
        )
    note = (
        f"Medians of up to {run.windows} windows taken by turns, small below them {kind_of_spread(run.windows)}; max "
        "is the highest of all. The daemon's is of its own histogram, from the closing of a trigger; what its sender "
        "sees has the network, the assembly and the way back in it."
    )
    columns = ("", "p50 ms", "p99 ms", "max ms", "p99 / bare p99", *AIM)
    return Table("Latency from the last reading to the commit acknowledged", columns, rows, note)


def _against(
    of: Sequence[float], to: Sequence[float], wanted: float, *, at_least: bool = False
) -> tuple[str | Cell, str | Cell, str | Cell]:
    found = ratio(of, to)
    return cell(found, "{:.2f}"), *aim(found.median, wanted, at_least=at_least)


# --- outages, readers, cost ------------------------------------------------------------------------------------------


def _of(run: Run, group: str) -> tuple[Item, ...]:
    return run.groups.get(group, ())


def _median(item: Item, name: str, form: str = "{:.2f}", factor: float = 1.0) -> str:
    return form.format(factor * spread(item[name]).median)


def _journal_cost(run: Run) -> Iterator[Table]:
    rates = {(each.facts["layout"], each.facts["with_journal"]): each.rates for each in _of(run, "journal")}
    rows = [
        (
            str(layout),
            *(cell(spread(rates[layout, each]), "{:,.0f}") for each in (True, False)),
            *_against(rates[layout, True], rates[layout, False], JOURNAL_AIM, at_least=True),
        )
        for layout in Layout
        if (layout, True) in rates
    ]
    columns = ("", "triggers/s with it", "without", "ratio", "aim", "reached")
    rounds = max(map(len, rates.values()), default=0)
    note = f"Medians of {counted(rounds, 'interleaved round')} at full speed, the ratio of each round."
    yield Table("What the journal costs", columns, rows, note)


def _drains(run: Run) -> Iterator[Table]:
    rows, live = [], 0.0
    for each in _of(run, "drain"):
        live = each.facts["live_rate"]
        by_live = spread([rate / live for rate in each.rates])
        rows.append(
            (
                f"{each.facts['layout']}, away for {each.facts['outage_s']:g} s",
                _median(each, "triggers waiting", "{:,.0f}"),
                _median(each, "seconds to first commit"),
                _median(each, "seconds of drain"),
                _median(each, "live triggers a second meanwhile", "{:,.0f}"),
                cell(by_live, "{:.1f}"),
                *aim(by_live.median, DRAIN_AIM, at_least=True),
            )
        )
    columns = ("", "triggers waited", "first commit, s", "drained, s", "live/s meanwhile", "drain / live", *AIM)
    note = (
        f"The database was killed while {live:g} triggers/s came in, and went on coming in. Times are from the moment "
        "in which it takes connections again; drained is when less than a second's triggers wait. Afterwards it held "
        "every reading once."
    )
    yield Table("After an outage of the database", columns, rows, note)


def _governor(run: Run) -> Iterator[Table]:
    blocks = {each.facts["block"]: each for each in _of(run, "governor")}
    if blocks.keys() != {ALONE, READERS, GOVERNED}:
        return
    alone, ceilings = blocks[ALONE], blocks[ALONE]["ceiling ms"]
    rows = []
    for name in (ALONE, READERS, GOVERNED):
        each, wanted = blocks[name], DOUBLED if name == READERS else ROOM
        against = _against(each["p99 ms"], alone["p99 ms"], wanted, at_least=name == READERS)
        rows.append(
            (
                name,
                cell(spread(each["p99 ms"]), "{:.2f}"),
                *(("", "", "") if each is alone else against),
                _median(each, "within ceiling", "{:.0f} %", 100),
                _median(each, "sender p99 ms"),
                _median(each, "triggers a second", "{:.1f}"),
                *("" if each is alone else _median(each, figure) for figure in ("answers a second", "dose")),
            )
        )
    columns = ("", "p99 ms", "/ alone", *AIM, "within", "sender p99 ms", "triggers/s", "answers/s", "dose")
    note = (
        f"{blocks[READERS].facts['clients']} clients that scan everything or ask for half an hour's means, each again "
        f"as soon as it has its answer. The governor's ceiling was {ROOM:g} times the p99 of the block of writing "
        f"alone just before: {min(ceilings):.1f} to {max(ceilings):.1f} ms. p99 is that of commits in the daemon's "
        "status, over ten seconds each; a block's is the median of its samples, and the table has medians of the "
        "blocks. Within is the part of the samples in which it was within that ceiling. The sender's is of a whole "
        "block, from the write of a trigger to its acknowledgement. The dose is the mean number of clients that might "
        "ask."
    )
    yield Table("The governor", columns, rows, note)


def _audiences(run: Run) -> Iterator[Table]:
    found, rows = _of(run, "page"), []
    alone = next((each for each in found if not each.facts["pages"]), None)
    for each in found:
        pages, browsers = each.facts["pages"], each.facts["browsers"]
        looking = counted(browsers, "browser") if browsers else "no browser"
        against: tuple[str | Cell, ...] = ("", "", "")
        if alone is not None and alone is not each:
            against = _against(each["daemon percent"], alone["daemon percent"], MOST_TIMES_ALONE)
        rows.append(
            (
                f"{'a page' if pages == 1 else f'{pages} pages'}, {looking}" if pages else "no page",
                cell(spread(each["daemon percent"]), "{:.1f}"),
                *against,
                cell(spread(each["page percent"]), "{:.1f}") if pages else "",
                _median(each, "frames a second") if browsers else "",
                cell(spread(each["bytes a second"]).scaled(1e-3), "{:.1f}") if browsers else "",
            )
        )
    columns = (
        "",
        "daemon, % of a core",
        "/ no page",
        *AIM,
        "pages, % of a core",
        "frames/s a browser",
        "kB/s a browser",
    )
    note = (
        f"{RATE} triggers/s come in all the time. A browser is a context of its own in one Chromium and shows the Live "
        "tab; bytes are those of the frames and of whatever else it loads while it looks. Pages are taken together; "
        "the CPU of Chromium is not in it."
    )
    yield Table("What pages and browsers cost", columns, rows, note)


def _cost(run: Run) -> Iterator[Table]:
    cpu = [
        (
            f"{each.facts['rate']:g} triggers/s",
            cell(spread(each["CPU percent"]), "{:.1f}"),
            cell(spread([1e3 * value for value in each.seconds]), "{:.2f}"),
        )
        for each in _of(run, "CPU a trigger")
    ]
    note = "Of the daemon's process alone: the database has its own."
    columns = ("", "% of one core", "CPU ms a trigger")
    yield Table(f"CPU of the daemon, over {INSTRUMENTS} connections", columns, cpu, note)
    memory = [
        (
            f"{each['seconds'][0]:g} s at {each.rates[0]:,.0f} triggers/s",
            f"{each['MiB least'][0]:.0f} to {each['MiB most'][0]:.0f}",
            f"{each['MiB a minute'][0]:+.1f}",
        )
        for each in _of(run, "memory at full speed")
    ]
    note = (
        "The slope is over the second half. Up to 256 MiB of it (`max_waiting_mib`) waits for the database, since the "
        "sender is faster."
    )
    columns = ("", "MiB, second half", "slope, MiB a minute")
    yield Table("Resident memory of the daemon at full speed", columns, memory, note)


# --- how it was measured ---------------------------------------------------------------------------------------------


def _facts(run: Run, command: str) -> Iterator[Facts]:
    windows = f", up to {counted(run.windows, 'window')} at each rate" if run.windows else ""
    rounds = counted(run.rounds, "round") if run.rounds else "throughput not measured"
    machine = [
        ("The command that repeats it", f"`{command}`"),
        ("Date", run.date),
        ("Machine", f"{run.cpu}, {counted(run.cores, 'core')}, {run.memory_gib:.0f} GiB"),
        ("Load before", f"{run.load:.2f}"),
        ("Disk", f"an fdatasync of 8 KiB takes {number(run.fdatasync_ms)} ms (median)"),
        ("Python", run.python),
        ("Workload", f"{INSTRUMENTS} instruments x {len(CHANNELS)} float64 channels, random values"),
        ("Plan", f"{run.plan}: {rounds}{windows}"),
    ]
    if run.commit:
        machine.append(("Source", f"commit {run.commit}{', with changes' if run.dirty else ''}"))
    yield Facts("The run", machine)
    for server in run.servers.values():
        items = [("Where", "a server of its own, for this run" if server.own else server.target)]
        items += [(f"Durability {each}", words) for each, words in server.durability.items() if words]
        items += [(f"`{name}`", value) for name, value in server.settings.items()]
        yield Facts(f"{server.name} {server.version}", items)
