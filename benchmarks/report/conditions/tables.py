"""The tables of conditions in the report: pure functions."""

from collections.abc import Iterator

from benchmarks.conditions.measure import APPEND, CLONE, FROM_DATABASE, FROM_MEMORY, HTTP, LOAD, ORDER, READ
from benchmarks.conditions.strategies import OURS, STRATEGIES
from benchmarks.report.formatting import number
from benchmarks.report.run import Condition, Run
from benchmarks.report.table import Table, aim, text
from benchmarks.rounds.summary import ratio, spread

BASELINE = "row_value"
"""What strategies are compared with: the reference's table, asked as the index wants it."""
AIM_CPU_MS = 0.4
AIM_APPEND_MS, AIM_CLONE_MS = 3.0, 50.0
SERVED = {FROM_MEMORY: "from memory (locked)", FROM_DATABASE: "from the database (unlocked)"}
ORDERED = {APPEND: "append an interval to a list", CLONE: "clone the tag"}


def condition_tables(run: Run) -> list[Table]:
    """All of them, without those that were not measured."""
    made = [_reads(run), _requests(run), _orders(run), _loads(run), _sizes(run)]
    return [table for table in made if table.rows]


def _of(run: Run, kind: str) -> list[Condition]:
    return [each for each in run.conditions if each.kind == kind]


def _figure(found: Condition, name: str, form: str = "{:.2f}") -> str:
    values = found.figures.get(name)
    return form.format(spread(values).median) if values else ""


def _reads(run: Run) -> Table:
    baselines = {each.scenario: each for each in _of(run, READ) if each.way == BASELINE}
    rows = tuple(
        (
            f"{each.scenario}: {STRATEGIES[each.way].title}",
            text(spread([1e3 * value for value in each.seconds]), "{:.3f}"),
            _figure(each, "least ms", "{:.3f}"),
            _figure(each, "p99 ms", "{:.3f}"),
            text(ratio(each.seconds, baselines[each.scenario].seconds), "{:.2f}"),
        )
        for each in _of(run, READ)
    )
    return Table(
        title="One read of all types of a tag",
        columns=("", "median, ms", "least, ms", "p99, ms", "/ row value"),
        rows=rows,
        note="Random keys, a prepared statement on a connection that stays open, PostgreSQL with its own settings of "
        f"the planner; {STRATEGIES[OURS].title} with those of the store. Ends are stored in the reference's table, and "
        "looked for in ours. All rows are taken by the client; from memory it is the JSON of the answer. Each strategy "
        "was compared with the store at several keys before. Medians of the rounds, which took turns.",
    )


def _requests(run: Run) -> Table:
    return Table(
        title="Requests of what is valid at a random key",
        columns=(
            "",
            "clients",
            "requests/s",
            "p50, ms",
            "p99, ms",
            "server CPU, ms",
            "database CPU, ms",
            "aim",
            "reached",
        ),
        rows=tuple(tuple(_request(run, each)) for each in _of(run, HTTP)),
        note="Each client is a process, and each request a new connection; one process of the server. CPU is user and "
        "system of the server's process and of all processes of the database's server, a request; of a server that is "
        "not this run's own it is not known. The aim is for both together, from memory in worst-case. Clients run on "
        "the same cores.",
    )


def _request(run: Run, each: Condition) -> Iterator[str]:
    yield f"{run.servers[each.backend].name}, {each.scenario}, {SERVED[each.way]}"
    yield str(each.clients)
    yield text(spread([1 / value for value in each.seconds]), "{:,.0f}")
    yield _figure(each, "p50 ms")
    yield _figure(each, "p99 ms")
    yield _figure(each, "server CPU ms")
    yield _figure(each, "database CPU ms")
    cpu = [each.figures.get(f"{name} CPU ms") for name in ("server", "database")]
    both = sum(spread(values).median for values in cpu if values)
    is_aimed = each.scenario == "worst-case" and each.way == FROM_MEMORY and all(cpu)
    yield from aim(both, AIM_CPU_MS if is_aimed else None, at_least=False)


def _orders(run: Run) -> Table:
    rows = []
    for each in _of(run, ORDER):
        if each.way != LOAD:
            found = spread([1e3 * value for value in each.seconds])
            wanted = {APPEND: AIM_APPEND_MS, CLONE: AIM_CLONE_MS}[each.way]
            name = f"{run.servers[each.backend].name}, {each.scenario}: {ORDERED[each.way]}"
            figures = (text(found, "{:.2f}"), _figure(each, "least ms"), _figure(each, "p99 ms"))
            rows.append((name, f"{_entries(each):,}", *figures, *aim(found.median, wanted, at_least=False)))
    return Table(
        title="Orders",
        columns=("", "intervals", "median, ms", "least, ms", "p99, ms", "aim", "reached"),
        rows=tuple(rows),
        note="Given to the store, every commit on the disk. Intervals are those of the list, or of the tag. To append "
        "is two transactions: the interval is stored, and then attached.",
    )


def _entries(each: Condition) -> int:
    return each.intervals // each.types if each.way == APPEND else each.intervals


def _loads(run: Run) -> Table:
    rows = []
    for each in _of(run, ORDER):
        if each.way == LOAD:
            wrong = 100 * each.figures["wrong in floating point"][0]
            figures = (number(each.seconds[0]), _figure(each, "intervals a second", "{:,.0f}"))
            name = f"{run.servers[each.backend].name}, {each.scenario}"
            rows.append(
                (name, f"{each.intervals:,}", *figures, _figure(each, "memory MiB", "{:,.2f}"), f"{wrong:.2f} %")
            )
    return Table(
        title="Loading, and memory",
        columns=("", "intervals", "s", "intervals/s", "memory, MiB", "wrong in floating point"),
        rows=tuple(rows),
        note="Stored in bulk through the store, generating included. Memory is what a process of the server takes for "
        "the tag. The last column is no measurement: it is which part of the rows would be those of another interval "
        "if comb_iov, major + minor / 1e19, were a float64.",
    )


def _sizes(run: Run) -> Table:
    names = {"breakpoints": "breakpoints (ours)", "reference": "reference", "covering": "covering"}
    rows = []
    for each in _of(run, ORDER):
        if each.way == LOAD and "reference table MiB" in each.figures:
            for table, title in names.items():
                rows.append(
                    (title, *(_figure(each, f"{table} {part} MiB", "{:,.1f}") for part in ("table", "indexes")))
                )
    return Table(
        title="Size in PostgreSQL",
        columns=("table", "table, MiB", "indexes, MiB"),
        rows=tuple(rows),
        note="Of all scenarios of the run together. Ours also holds the lists that were copied to be appended to, and "
        "its indexes are the key and the id; those of the reference's table are its id, comb_iov and the key.",
    )
