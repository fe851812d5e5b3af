"""What the figures were measured on, how, and what repeats them."""

from collections.abc import Iterator

from benchmarks.html.elements import card, definitions, repeated_by, section, settings_card, with_small
from benchmarks.html.markup import Markup, tag
from benchmarks.html.table import Column, figures, table
from benchmarks.load.workload import CHANNELS, INSTRUMENTS
from benchmarks.report.formatting import between, counted, number
from benchmarks.report.run import Load, MeasuredServer, Run
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
    return section(
        "How and on what it was measured",
        card(definitions(_facts(run)), repeated_by(command)),
        tag("div", *map(_server, run.servers.values()), class_="curves"),
        name="conditions",
        note=HOW,
    )


def cost(run: Run) -> Markup:
    """CPU and memory of the daemon; empty where neither was measured."""
    parts = []
    if run.loads:
        columns = (Column("Rate"), *figures("% of one core", "CPU ms a trigger"))
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
    return section("What the daemon costs", card(*parts), name="cost", note=note)


def _load(load: Load) -> tuple[str, list[str]]:
    cells = [f"{load.rate:,.0f} triggers/s"]
    for values in (load.percent, load.cpu_ms):
        found = spread(values)
        cells.append(with_small(number(found.median), between(found)))
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
    durability = [(f"Durability {each}", server.durability[each]) for each in Durability if server.durability.get(each)]
    heading = f"{server.name} {server.version}"
    return settings_card(heading, server.settings.items(), ("Where", where), *durability)
