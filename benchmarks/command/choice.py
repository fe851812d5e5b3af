"""The way to choose for which need, in plain words and computed from the figures: pure functions.

Nothing is advised that was not measured, and two ways whose rounds overlap count as alike.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.load.workload import INSTRUMENTS
from benchmarks.report.model import counted, listed, milliseconds, number, percent, times
from benchmarks.rounds.summary import ASYNC_SUFFIX, BARE_LOOP, CEILING, DAEMON, PAPER, Latency, Run, Spread, Way, spread
from schemas.batch import Durability, Layout
from schemas.checking.dsn import Backend

GOAL_HZ = 10.0
BASELINE_HZ = 44.0
"""The goal of the paper, and about what its baseline reached on the server's own node (workloads.md, section 1)."""
BASELINE = "insert_each_table"
WORTH = 0.1
"""Gain of asynchronous commit below which it is not worth what it risks."""
BUSY = 0.5
"""Load a core before the run above which the machine had other work."""
FEW_ROUNDS = 3


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A recommendation for a need, e.g. `Highest rate, crash safe`."""

    need: str
    text: str


def advise(run: Run) -> list[Advice]:
    """Say which way to choose for each need that the run has figures for."""
    found = (rule(run) for rule in (_goal, _fastest, _latency, _layout, _asynchronous, _own_program))
    return [advice for advice in found if advice is not None]


def warn(run: Run) -> list[str]:
    """Say what a reader has to know before trusting a figure or choosing a way."""
    rules: Sequence[Callable[[Run], Iterator[str]]] = (_not_durable, _half_written, _not_the_product, _conditions)
    return [warning for rule in rules for warning in rule(run)]


def crash_safe(run: Run, way: Way) -> bool:
    """Check that every trigger it acknowledged survives a crash, whole, on the server it was measured on."""
    return _meant_safe(way) and run.servers[way.backend].missing(Durability.SYNC) is None


def _meant_safe(way: Way) -> bool:
    # A server that may fail it has a warning of its own.
    return way.safe and way.durability is Durability.SYNC


def label(run: Run, way: Way) -> str:
    """Name a way by its title, and its database where there are several."""
    return quoted(way) + _on(run, way.backend)


def quoted(way: Way) -> str:
    """Name a way by its title, which has commas in it."""
    return f"“{way.title}”"


def fastest(run: Run, backend: Backend) -> Way | None:
    """Return the crash safe way of highest median that is no ceiling; None where nothing measured is safe."""
    return max(_candidates(run, backend), key=_median, default=None)


def alike(a: Spread, b: Spread) -> bool:
    """Check that two spreads overlap."""
    return a.low <= b.high and b.low <= a.high


def _on(run: Run, backend: Backend) -> str:
    return f" on {run.servers[backend].name}" if len(run.servers) > 1 else ""


def _median(way: Way) -> float:
    return way.rate.median


def _candidates(run: Run, backend: Backend) -> list[Way]:
    return [way for way in _meant_safe_ways(run, backend) if crash_safe(run, way)]


def _meant_safe_ways(run: Run, backend: Backend) -> list[Way]:
    return [way for way in run.ways_of(backend) if way.kind != CEILING and _meant_safe(way)]


def _best_alone(run: Run, backend: Backend) -> Way | None:
    alone = [way for way in _meant_safe_ways(run, backend) if way.kind == PAPER]
    return max(alone, key=_median, default=None)


def _best(run: Run) -> list[Way]:
    found = [way for backend in run.servers if (way := fastest(run, backend)) is not None]
    return sorted(found, key=_median, reverse=True)


def _goal(run: Run) -> Advice | None:
    safe = [way for backend in run.servers for way in _candidates(run, backend)]
    if not safe:
        return None
    missed = [way for way in safe if _median(way) < GOAL_HZ]
    slowest = min(safe, key=_median)
    if missed:
        text = (
            f"{len(missed)} of {counted(len(safe), 'crash safe way')} measured here do not reach the goal of "
            f"{GOAL_HZ:g} Hz: {listed([f'{label(run, way)} ({number(_median(way))} Hz)' for way in missed])}."
        )
    else:
        text = (
            f"This machine meets the goal of {GOAL_HZ:g} Hz with every crash safe way: the slowest, "
            f"{label(run, slowest)}, writes {number(_median(slowest))} triggers/s, {times(_median(slowest) / GOAL_HZ)} "
            "times the goal."
        )
    return Advice(need="The goal", text=text + _baseline(run))


def _baseline(run: Run) -> str:
    way = run.way(Backend.POSTGRESQL, BASELINE)
    if way is None:
        return ""
    factor = _median(way) / BASELINE_HZ
    reached = f"{times(factor)} times" if factor >= 1 else f"{percent(factor)} of"
    return (
        f" The paper's own way ({label(run, way)}) makes {number(_median(way))} Hz here, {reached} the about "
        f"{BASELINE_HZ:g} Hz it made on the paper's server."
    )


def _fastest(run: Run) -> Advice | None:
    best = _best(run)
    if not best:
        return None
    first, *others = best
    text = (
        f"{label(run, first)}: {number(_median(first))} triggers/s, {number(_median(first) * INSTRUMENTS)} readings/s"
    )
    ordinary = _best_alone(run, first.backend)
    if ordinary is not None and ordinary is not first:
        factor = times(_median(first) / _median(ordinary))
        text += f"; that is {factor} times the best way that commits each trigger alone ({quoted(ordinary)})"
    text += "."
    if others:
        compared = [f"{_than(run, way, first)} ({number(_median(way))}/s)" for way in others]
        text += f" Elsewhere the best is {listed(compared)}."
    for backend, server in run.servers.items():
        rest = max(_meant_safe_ways(run, backend), key=_median, default=None)
        if rest is not None and fastest(run, backend) is None:
            known = f"On {server.name} nothing is known to be crash safe"
            text += f" {known}; the fastest that asks for it is {quoted(rest)} ({number(_median(rest))}/s)."
    return Advice(need="Highest rate, crash safe", text=text)


def _than(run: Run, way: Way, first: Way) -> str:
    same = ", as fast within the spread of the rounds" if alike(way.rate, first.rate) else ""
    return f"{label(run, way)}{same}"


def _latency(run: Run) -> Advice | None:
    rates = sorted({found.rate for found in run.latencies})
    parts = [part for rate in rates if (part := _latency_at(run, rate)) is not None]
    if not parts:
        return None
    heading = "From the last reading of a trigger to its commit, 99 % take at most this long."
    return Advice(need="Lowest latency", text=" ".join([heading, *parts]))


def _latency_at(run: Run, rate: float) -> str | None:
    mine = [found for found in run.latencies if found.rate == rate and found.contender == DAEMON]
    if not mine:
        return None
    mine.sort(key=_p99)
    first, *others = mine
    bare = _bare(run, first)
    compared = "" if bare is None else f" (a bare loop that only commits: {milliseconds(_p99(bare))})"
    fastest_p99 = f"{milliseconds(_p99(first))}{compared}"
    text = f"At {number_of_rate(rate)} triggers/s the daemon{_on(run, first.backend)}: {fastest_p99}"
    for other in others:
        same = ", alike within the spread" if alike(spread(other.p99_ms), spread(first.p99_ms)) else ""
        text += f"; {_on(run, other.backend).strip()} {milliseconds(_p99(other))}{same}"
    return text + "."


def number_of_rate(rate: float) -> str:
    """Write a rate as it was asked for: 10, 1,000."""
    return f"{rate:,.0f}" if rate >= 1 else f"{rate:g}"


def _bare(run: Run, latency: Latency) -> Latency | None:
    wanted = (latency.backend, latency.rate, BARE_LOOP)
    return next((b for b in run.latencies if (b.backend, b.rate, b.contender) == wanted), None)


def _p99(found: Latency) -> float:
    return spread(found.p99_ms).median


def _layout(run: Run) -> Advice | None:
    parts = [part for backend in run.servers if (part := _layouts_of(run, backend)) is not None]
    if not parts:
        return None
    text = "“rows” is the plainer one to query, a row a reading; “arrays” keeps a trigger in one row. "
    return Advice(need="Layout", text=f"{text}{'. '.join(parts)}.")


def _layouts_of(run: Run, backend: Backend) -> str | None:
    ways = {way.layout: way for way in _meant_safe_ways(run, backend) if way.kind == DAEMON}
    rows, arrays = ways.get(Layout.ROWS), ways.get(Layout.ARRAYS)
    if rows is None or arrays is None:
        return None
    where = f"On {run.servers[backend].name}" if len(run.servers) > 1 else "Here"
    slow, fast = number(_median(rows)), number(_median(arrays))
    if alike(rows.rate, arrays.rate):
        return f"{where}, take rows: arrays is no faster within the spread ({fast} triggers/s against {slow})"
    if _median(rows) > _median(arrays):
        return f"{where}, take rows, the faster of the two: {slow} triggers/s against {fast}"
    factor = times(_median(arrays) / _median(rows))
    return f"{where}, take rows up to {slow} triggers/s, and arrays beyond: up to {fast}, {factor} times as many"


def _asynchronous(run: Run) -> Advice | None:
    parts = [part for backend in run.servers if (part := _gains(run, backend)) is not None]
    if not parts:
        return None
    disk = f"An fdatasync takes {milliseconds(run.fdatasync_ms)} on this disk."
    return Advice(need="Asynchronous commit", text=" ".join([disk, *parts]))


def _gains(run: Run, backend: Backend) -> str | None:
    pairs = [
        (way, loose)
        for way in _meant_safe_ways(run, backend)
        if (way.kind == DAEMON or way is _best_alone(run, backend))
        and (loose := run.way(backend, way.slug + ASYNC_SUFFIX)) is not None
    ]
    if not pairs:
        return None
    gains = listed([f"{quoted(way)} {_gain(way, loose)}" for way, loose in pairs])
    daemon = [pair for pair in pairs if pair[0].kind == DAEMON] or pairs
    worth = any(_worth(way, loose) for way, loose in daemon)
    verdict = "Take it only where that may be lost." if worth else "It does not buy the daemon that: stay with sync."
    return f"Not to wait for the disk gives{_on(run, backend)} {gains}, and {_risk(run, backend)}. {verdict}"


def _gain(way: Way, loose: Way) -> str:
    gain = _median(loose) / _median(way) - 1
    if alike(way.rate, loose.rate):
        return "nothing beyond the spread"
    return f"{percent(gain)} {'more' if gain > 0 else 'less'}"


def _worth(way: Way, loose: Way) -> bool:
    return not alike(way.rate, loose.rate) and _median(loose) / _median(way) - 1 >= WORTH


def _risk(run: Run, backend: Backend) -> str:
    server = run.servers[backend]
    if Durability.ASYNC not in server.risk_ms:
        return f"of a crash the server says: {server.durability.get(Durability.ASYNC, 'nothing')}"
    risk_ms = server.risk_ms[Durability.ASYNC]
    if server.missing(Durability.SYNC) is not None:
        return "it is not known what a crash loses there"
    if risk_ms == 0:
        return "by the server’s settings a crash loses nothing even so"
    if risk_ms is None:
        return "a crash of the server may lose without a limit"
    triggers = math.ceil(risk_ms / 1e3 * GOAL_HZ)
    return (
        f"a crash may lose the last {milliseconds(risk_ms)}: at {GOAL_HZ:g} Hz {counted(triggers, 'trigger')}, "
        f"{triggers * INSTRUMENTS:,} readings"
    )


def _own_program(run: Run) -> Advice | None:
    parts = []
    for backend in run.servers:
        way = _best_alone(run, backend)
        if way is not None:
            parts.append(f"{label(run, way)} ({number(_median(way))} triggers/s)")
    if not parts:
        return None
    return Advice(need="A program of your own", text=f"Without the daemon, a commit a trigger: {listed(parts)}.")


def _not_durable(run: Run) -> Iterator[str]:
    for server in run.servers.values():
        for durability in (Durability.SYNC, Durability.ASYNC):
            missing = server.missing(durability)
            if missing is not None:
                yield f"{server.name}, {durability}: {missing}"
                break


def _half_written(run: Run) -> Iterator[str]:
    for way in run.ways:
        seen = sum(way.half_written)
        if seen:
            yield (
                f"{label(run, way)}: {counted(round(seen), 'half-written trigger')} seen by a reader in "
                f"{counted(len(way.half_written), 'round')}. However fast, it does not keep triggers whole"
            )


def _not_the_product(run: Run) -> Iterator[str]:
    for server in run.servers.values():
        if server.product == "ferretdb":
            yield (
                "FerretDB speaks MongoDB's protocol over another database: its figures are its own, and say nothing "
                "about a MongoDB server"
            )


def _conditions(run: Run) -> Iterator[str]:
    if run.ways and run.rounds < FEW_ROUNDS:
        yield f"Only {counted(run.rounds, 'round')}: enough to try the benchmarks, too few to choose by"
    if run.load > BUSY * run.cores:
        busy = f"load {run.load:.1f} on {counted(run.cores, 'core')}"
        yield f"The machine was busy before the run ({busy}): measure again"
