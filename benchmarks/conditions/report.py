"""Conditions in the report of `triggerlog bench`: the paper's findings with verdicts, figures, and query plans."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from benchmarks.conditions.measure import ALONE, APPEND, CLONE, FROM_DATABASE, FROM_MEMORY, HTTP, LOAD, ORDER, READ
from benchmarks.conditions.scenarios import SCENARIOS
from benchmarks.conditions.strategies import OURS, STRATEGIES
from benchmarks.report.model import (
    AIM,
    Cells,
    Details,
    Finding,
    Section,
    Table,
    Verdict,
    aim,
    cell,
    findings_table,
    number,
    ratio_words,
    within,
)
from benchmarks.rounds.summary import Condition, Ratio, Run, mean_ratio, ratio, spread
from schemas.checking.dsn import Backend

BY_FAR = 10.0
"""An index condition is faster by far when a read takes at most a tenth of the time; the paper has 111 times."""
FLAT = (0.9, 1.11)
"""A ratio within these is none that matters."""
INDEXED = "comb_lateral"
"""The paper calls it an index condition."""
BASELINE = "row_value"
"""The baseline of the strategies: the reference's table, asked as the index wants it."""
WAYS = ((READ, INDEXED, 0), (READ, OURS, 0), (HTTP, FROM_MEMORY, 8))
"""In which the dependence on types and intervals is looked at: the paper's way, ours, and the server."""
AIM_CPU_MS = 0.4
AIMS_MS = {APPEND: 3.0, CLONE: 50.0}
SERVED = {FROM_MEMORY: "from memory (locked)", FROM_DATABASE: "from the database (unlocked)"}
ORDERED = {APPEND: "append an interval to a list", CLONE: "clone the tag"}
NOTE = (
    "Conditions by global tag, as in the paper on the reference conditions database of HSF. Ratios are of rounds that "
    "took turns, with 95 % intervals. Slower, faster and flat count only when the whole interval says so; flat is a "
    "ratio between 0.9 and 1.11."
)


def sections(run: Run) -> list[Section]:
    """Make the sections; none where conditions were not measured."""
    if not run.conditions:
        return []
    planned = [each for each in run.conditions if each.query_plan]
    largest = planned[-1].scenario if planned else ""
    plans = [
        Details(way.title, ((way.statement or "").strip("\n"), each.query_plan))
        for each, way in ((each, STRATEGIES[each.way]) for each in planned if each.scenario == largest)
    ]
    found = findings(run)
    note = f"EXPLAIN (ANALYZE, BUFFERS) of one key in {largest}, below each statement."
    return [
        Section("Conditions: the paper’s findings", [findings_table(found, NOTE)]),
        Section("Conditions", [_reads(run), _requests(run), _orders(run), _loads(run), _sizes(run)]),
        Section("Conditions: query plans", plans, note),
    ]


# --- findings --------------------------------------------------------------------------------------------------------


def findings(run: Run) -> list[Finding]:
    """Judge all findings; what was not measured is not known."""
    found = [each for each in run.conditions if each.backend is Backend.POSTGRESQL]
    older, why = "The older design fails above 50 Hz with 70,000 payloads", "that design is not among the strategies"
    if not found:
        return []
    return [_by_far(found), *_flat(found), *_size(found), Finding(older, "50 Hz", Verdict.UNKNOWN, why)]


Judge = Callable[[Ratio], Verdict]


def _flatness(found: Ratio) -> Verdict:
    return Verdict.UNKNOWN if found.low is None else within(found, FLAT[1], FLAT[0])


def _above(limit: float) -> Judge:
    """The whole interval has to be above a limit; below it, the finding is refuted."""
    return lambda found: Verdict.UNKNOWN if found.low is None else within(found, math.inf, limit)


def _compared(claim: str, paper: str, of: Condition | None, to: Condition | None, judge: Judge, words: str) -> Finding:
    """Judge the seconds of one by those of another. words: with both in ms, {of} and {to}, and their ratio, {by}."""
    if of is None or to is None:
        return Finding(claim, paper, Verdict.UNKNOWN, "not measured")
    by = mean_ratio(of.seconds, to.seconds)
    milliseconds = {name: number(1e3 * spread(each.seconds).median) for name, each in (("of", of), ("to", to))}
    return Finding(claim, paper, judge(by), words.format(by=ratio_words(by), **milliseconds))


def _by_far(found: Sequence[Condition]) -> Finding:
    pairs = {name: (_one(found, name, READ, "or_distinct"), _one(found, name, READ, INDEXED)) for name in SCENARIOS}
    name, (of, to) = next((each for each in reversed(pairs.items()) if None not in each[1]), ("", (None, None)))
    claim, paper = "An index condition is faster than the OR filter by far", "365.2 → 3.30 ms, worst-case"
    words = f"{{of}} → {{to}} ms in {name}: the OR filter takes {{by}} times as long as {STRATEGIES[INDEXED].title}"
    judged = _compared(claim, paper, of, to, _above(BY_FAR), words)
    # A smaller scenario, in which a filter has less to do, refutes nothing.
    is_far = name != "worst-case" and judged.verdict is Verdict.REFUTED
    return replace(judged, verdict=Verdict.UNKNOWN) if is_far else judged


def _flat(found: Sequence[Condition]) -> Iterator[Finding]:
    for claim, few, many, judge, words in (
        (
            "The rate falls with the number of types",
            "tiny-moderate",
            "moderate",
            _above(FLAT[1]),
            "ten times the types",
        ),
        ("The rate is flat in the number of intervals", "moderate", "heavy-usage", _flatness, "25 times the intervals"),
    ):
        for kind, way, clients in WAYS:
            one, other = (_one(found, name, kind, way, clients) for name in (many, few))
            title = f"the server, from memory, {clients} clients" if kind == HTTP else STRATEGIES[way].title
            said = f"{{to}} → {{of}} ms: with {words} {{by}} times the time"
            yield _compared(f"{claim} ({title})", "a plot", one, other, judge, said)


def _size(found: Sequence[Condition]) -> Iterator[Finding]:
    total = sum({each.scenario: each.intervals for each in found}.values())
    for way in (INDEXED, OURS):
        alone = next((each for each in found if (each.kind, each.way) == (ALONE, way)), None)
        beside = None if alone is None else _one(found, alone.scenario, READ, way)
        words = f"alone {{to}} ms, in a database of {total:,} intervals {{of}} ms: {{by}} times the time"
        claim = f"The rate is flat in the size of the database ({STRATEGIES[way].title})"
        scenario = alone.scenario if alone else ""
        yield _compared(claim, "a plot", beside, alone, _flatness, f"{scenario} {words}")


def _one(found: Sequence[Condition], scenario: str, kind: str, way: str, clients: int = 0) -> Condition | None:
    wanted = (scenario, kind, way, clients)
    return next((each for each in found if (each.scenario, each.kind, each.way, each.clients) == wanted), None)


# --- tables ----------------------------------------------------------------------------------------------------------


def _of(run: Run, kind: str) -> list[Condition]:
    return [each for each in run.conditions if each.kind == kind]


def _figure(found: Condition, name: str, form: str = "{:.2f}") -> str:
    values = found.figures.get(name)
    return form.format(spread(values).median) if values else ""


def _reads(run: Run) -> Table:
    baselines = {each.scenario: each.seconds for each in _of(run, READ) if each.way == BASELINE}
    rows: list[Cells] = [
        (
            f"{each.scenario}: {STRATEGIES[each.way].title}",
            cell(spread([1e3 * value for value in each.seconds]), "{:.3f}"),
            *(_figure(each, name, "{:.3f}") for name in ("least ms", "p99 ms")),
            cell(ratio(each.seconds, baselines[each.scenario]), "{:.2f}"),
        )
        for each in _of(run, READ)
    ]
    note = (
        "Random keys, a prepared statement on a connection that stays open, PostgreSQL with its own settings of the "
        f"planner; {STRATEGIES[OURS].title} with those of the store. Ends are stored in the reference's table, and "
        "looked for in ours. All rows are taken by the client; from memory it is the JSON of the answer. Each strategy "
        "was compared with the store at several keys before. Medians of the rounds, which took turns."
    )
    columns = ("", "median, ms", "least, ms", "p99, ms", "/ row value")
    return Table("One read of all types of a tag", columns, rows, note)


def _requests(run: Run) -> Table:
    rows = []
    for each in _of(run, HTTP):
        cpu = [each.figures.get(f"{name} CPU ms") for name in ("server", "database")]
        both = sum(spread(values).median for values in cpu if values)
        is_aimed = each.scenario == "worst-case" and each.way == FROM_MEMORY and all(cpu)
        figures = (_figure(each, name) for name in ("p50 ms", "p99 ms", "server CPU ms", "database CPU ms"))
        name = f"{run.servers[each.backend].name}, {each.scenario}, {SERVED[each.way]}"
        aimed = aim(both, AIM_CPU_MS if is_aimed else None, at_least=False)
        rows.append((name, str(each.clients), cell(spread(each.rates), "{:,.0f}"), *figures, *aimed))
    note = (
        "Each client is a process, and each request a new connection; one process of the server. CPU is user and "
        "system of the server's process and of all processes of the database's server, a request; of a server that is "
        "not this run's own it is not known. The aim is for both together, from memory in worst-case. Clients run on "
        "the same cores."
    )
    columns = ("", "clients", "requests/s", "p50, ms", "p99, ms", "server CPU, ms", "database CPU, ms", *AIM)
    return Table("Requests of what is valid at a random key", columns, rows, note)


def _orders(run: Run) -> Table:
    rows = []
    for each in (each for each in _of(run, ORDER) if each.way != LOAD):
        found = spread([1e3 * value for value in each.seconds])
        name = f"{run.servers[each.backend].name}, {each.scenario}: {ORDERED[each.way]}"
        intervals = each.intervals // each.types if each.way == APPEND else each.intervals
        figures = (cell(found, "{:.2f}"), _figure(each, "least ms"), _figure(each, "p99 ms"))
        rows.append((name, f"{intervals:,}", *figures, *aim(found.median, AIMS_MS[each.way], at_least=False)))
    note = (
        "Given to the store, every commit on the disk. Intervals are those of the list, or of the tag. To append is "
        "two transactions: the interval is stored, and then attached."
    )
    return Table("Orders", ("", "intervals", "median, ms", "least, ms", "p99, ms", *AIM), rows, note)


def _loads(run: Run) -> Table:
    rows = [
        (
            f"{run.servers[each.backend].name}, {each.scenario}",
            f"{each.intervals:,}",
            number(each.seconds[0]),
            _figure(each, "intervals a second", "{:,.0f}"),
            _figure(each, "memory MiB", "{:,.2f}"),
            f"{100 * each['wrong in floating point'][0]:.2f} %",
        )
        for each in _of(run, ORDER)
        if each.way == LOAD
    ]
    note = (
        "Stored in bulk through the store, generating included. Memory is what a process of the server takes for the "
        "tag. The last column is no measurement: it is which part of the rows would be those of another interval if "
        "comb_iov, major + minor / 1e19, were a float64."
    )
    columns = ("", "intervals", "s", "intervals/s", "memory, MiB", "wrong in floating point")
    return Table("Loading, and memory", columns, rows, note)


def _sizes(run: Run) -> Table:
    names = {"breakpoints": "breakpoints (ours)", "reference": "reference", "covering": "covering"}
    rows = [
        (title, *(_figure(each, f"{table} {part} MiB", "{:,.1f}") for part in ("table", "indexes")))
        for each in _of(run, ORDER)
        if each.way == LOAD and "reference table MiB" in each.figures
        for table, title in names.items()
    ]
    note = (
        "Of all scenarios of the run together. Ours also holds the lists that were copied to be appended to, and its "
        "indexes are the key and the id; those of the reference's table are its id, comb_iov and the key."
    )
    return Table("Size in PostgreSQL", ("table", "table, MiB", "indexes, MiB"), rows, note)
