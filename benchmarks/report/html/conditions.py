"""What the figures were measured on, how, and what repeats them."""

from collections.abc import Iterator

from benchmarks.load.workload import CHANNELS, INSTRUMENTS
from benchmarks.report.html.markup import Markup, join, tag
from benchmarks.report.html.table import Column, table
from benchmarks.report.measured import Load, MeasuredServer, Run
from benchmarks.report.wording import between, counted, number
from benchmarks.rounds.summary import spread
from schemas.batch import Durability

HOW = (
    f"A trigger is {INSTRUMENTS} instruments with {len(CHANNELS)} random float64 values each, committed as one. "
    "All ways take turns, round by round, in fresh tables and after a warm-up, so that whatever else the machine does "
    "meets them alike. Figures are medians over the rounds with their quartiles (of fewer than five rounds, the least "
    "and the most), and after every round of the daemon the database is compared with what was sent, value by value."
)


def conditions(run: Run, command: str) -> Markup:
    """Machine, servers, settings, and the command."""
    facts = tag("dl", *(join([tag("dt", name), tag("dd", words)]) for name, words in _facts(run)))
    servers = [_server(server) for server in run.servers.values()]
    repeated = tag("p", "The command that repeats it: ", tag("code", command, class_="command"))
    return tag(
        "section",
        tag("h2", "How and on what it was measured"),
        tag("p", HOW, class_="note"),
        tag("div", facts, repeated, class_="card"),
        tag("div", *servers, class_="curves"),
        id="conditions",
    )


def cost(run: Run) -> Markup:
    """CPU and memory of the daemon; empty where neither was measured."""
    parts = []
    if run.loads:
        columns = (
            Column("Rate"),
            Column("% of one core", figures=True),
            Column("CPU ms a trigger", figures=True),
        )
        parts.append(table("CPU of the daemon", columns, [_load(load) for load in run.loads]))
    if run.memory is not None:
        memory = run.memory
        parts.append(
            tag(
                "p",
                f"Resident memory over {memory.seconds:g} s at full speed ({number(memory.rate)} triggers/s): "
                f"{memory.least_mib:,.0f} to {memory.most_mib:,.0f} MiB in its second half, "
                f"{memory.slope_mib:+.1f} MiB a minute.",
            )
        )
    if not parts:
        return Markup()
    note = "Of the daemon’s process alone; the database server has its own."
    heading = tag("h2", "What the daemon costs")
    return tag("section", heading, tag("p", note, class_="note"), tag("div", *parts, class_="card"), id="cost")


def _load(load: Load) -> tuple[str, list[str]]:
    cells = [f"{load.rate:,.0f} triggers/s"]
    for values in (load.percent, load.cpu_ms):
        found = spread(values)
        cells.append(join([number(found.median), tag("small", between(found))]))
    return "daemon", cells


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    yield "Date", run.date
    yield "Machine", f"{run.cpu}, {counted(run.cores, 'core')}, {run.memory_gib:.0f} GiB"
    yield "Load before", f"{run.load:.2f}"
    yield "Disk", f"an fdatasync of 8 KiB takes {number(run.fdatasync_ms)} ms (median)"
    yield "Python", run.python
    windows = f", up to {counted(run.windows, 'window')} at each rate" if run.windows else ""
    rounds = f"{counted(run.rounds, 'round')}" if run.rounds else "throughput not measured"
    yield "Set", f"{run.plan}: {rounds}{windows}"
    if run.commit:
        yield "Source", f"commit {run.commit}{', with changes' if run.dirty else ''}"


def _server(server: MeasuredServer) -> Markup:
    where = "a server of its own, for this run" if server.own else server.target
    durability = [
        join([tag("dt", f"Durability {name}"), tag("dd", words)])
        for name, words in ((str(d), server.durability.get(d)) for d in Durability)
        if words
    ]
    settings = [join([tag("dt", tag("code", name)), tag("dd", value)]) for name, value in server.settings.items()]
    heading = tag("h3", f"{server.name} {server.version}")
    return tag("div", heading, tag("dl", tag("dt", "Where"), tag("dd", where), *durability, *settings), class_="card")
