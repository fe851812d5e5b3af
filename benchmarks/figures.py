"""From pytest-benchmark's JSON to tables of figures: pure functions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.latency import BARE, DAEMON
from benchmarks.summary import QUARTILES_FROM, Spread, ratio, spread
from benchmarks.throughput import CONTENDERS, INSERTS, ONE_COPY, ceiling, daemon
from benchmarks.workload import INSTRUMENTS, LAYOUTS
from schemas.batch import Layout

Benchmark = Mapping[str, Any]

CEILING_AIMS = {Layout.ROWS: 0.6, Layout.ARRAYS: 0.5}
INSERT_AIMS = {Layout.ROWS: 60.0, Layout.ARRAYS: 150.0}
LATENCY_AIM = 2.0


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of texts; the first column is text, the others figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str


def tables(report: Mapping[str, Any]) -> list[Table]:
    """Make the tables of whatever the report holds; a measure that was left out has none."""
    benchmarks = report["benchmarks"]
    made = [_throughput(benchmarks), _ratios(benchmarks), _latency(benchmarks), _cpu(benchmarks), _memory(benchmarks)]
    return [table for table in made if table is not None]


def conditions(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the figures were measured on."""
    cpu, facts = report["machine_info"].get("cpu", {}), report.get("triggerlog", {})
    settings = facts.get("settings", {})
    commit = report.get("commit_info", {})
    changed = " with changes" if commit.get("dirty") else ""
    durability = ("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "wal_compression")
    memory = ("shared_buffers", "max_wal_size", "checkpoint_timeout", "wal_buffers")
    return [
        ("date", report["datetime"][:19] + " UTC"),
        ("machine", f"{cpu.get('brand_raw', 'unknown CPU')}, {facts['cores']} cores, {facts['memory_gib']:.0f} GiB"),
        ("load before", f"{facts['load']:.2f}"),
        ("Python", report["machine_info"]["python_version"]),
        ("PostgreSQL", f"{settings['server_version']}, embedded, on the same machine"),
        ("durability", ", ".join(f"{name} {settings[name]}" for name in durability)),
        ("server", ", ".join(f"{name} {settings[name]}" for name in memory)),
        ("fdatasync", f"{facts['fdatasync_ms']:.2f} ms for 8 KiB (median)"),
        ("workload", f"{INSTRUMENTS} instruments x 4 float64 channels, random values; sync commits"),
        (
            "set",
            f"`{facts['plan']}`, at commit {commit.get('id', '?')[:12]}{changed}",
        ),
    ]


def _of(benchmarks: Sequence[Benchmark], group: str, **wanted: Any) -> Benchmark | None:
    for benchmark in benchmarks:
        extra = benchmark["extra_info"]
        if benchmark["group"] == group and all(extra.get(key) == value for key, value in wanted.items()):
            return benchmark
    return None


def _rates(benchmarks: Sequence[Benchmark], contender: str) -> list[float]:
    found = _of(benchmarks, "throughput", contender=contender)
    assert found is not None
    return [1 / seconds for seconds in found["stats"]["data"]]


def _throughput(benchmarks: Sequence[Benchmark]) -> Table | None:
    if _of(benchmarks, "throughput") is None:
        return None
    rows = []
    for contender in CONTENDERS:
        found = _of(benchmarks, "throughput", contender=contender)
        assert found is not None
        rate = spread(_rates(benchmarks, contender))
        batch = spread(found["extra_info"]["triggers a commit"])
        rows.append((contender, _text(rate, "{:,.0f}"), f"{rate.median * INSTRUMENTS:,.0f}", f"{batch.median:,.0f}"))
    count = len(_rates(benchmarks, INSERTS))
    return Table(
        title="Throughput",
        columns=("", "triggers/s", "readings/s", "triggers a commit"),
        rows=tuple(rows),
        note=f"Medians of {count} interleaved rounds, in brackets {_kind(count)}. After every round of the daemon the "
        "database held exactly what was sent.",
    )


def _ratios(benchmarks: Sequence[Benchmark]) -> Table | None:
    if _of(benchmarks, "throughput") is None:
        return None
    rows = []
    for layout in LAYOUTS:
        mine = _rates(benchmarks, daemon(layout))
        against = (
            (ceiling(layout), CEILING_AIMS[layout], "{:.2f}"),
            (ceiling(layout, with_ledger=True), None, "{:.2f}"),
            (INSERTS, INSERT_AIMS[layout], "{:,.0f}"),
            (ONE_COPY, None, "{:,.1f}"),
        )
        for other, aim, form in against:
            found = ratio(mine, _rates(benchmarks, other))
            rows.append((f"{daemon(layout)} / {other}", _text(found, form), *_aim(found.median, aim, at_least=True)))
    return Table(
        title="End to end, against the others",
        columns=("", "ratio", "aim", "reached"),
        rows=tuple(rows),
        note="The ratio of each round, and the median of these.",
    )


def _latency(benchmarks: Sequence[Benchmark]) -> Table | None:
    rates = sorted({b["extra_info"]["rate"] for b in benchmarks if b["group"] == "latency, p99"})
    if not rates:
        return None
    rows: list[tuple[str, ...]] = []
    count = 0
    for rate in rates:
        bare, mine = (_of(benchmarks, "latency, p99", contender=name, rate=rate) for name in (BARE, DAEMON))
        assert bare is not None
        assert mine is not None
        count = len(mine["stats"]["data"])
        found = ratio(mine["stats"]["data"], bare["stats"]["data"])
        rows.append((f"{rate}/s, bare loop", *_milliseconds(bare, ""), "", "", ""))
        aim = _aim(found.median, LATENCY_AIM, at_least=False)
        rows.append((f"{rate}/s, daemon", *_milliseconds(mine, ""), _text(found, "{:.2f}"), *aim))
        rows.append((f"{rate}/s, as its sender sees it", *_milliseconds(mine, "sender "), "", "", ""))
    return Table(
        title="Latency from the last reading to the commit acknowledged",
        columns=("", "p50 ms", "p99 ms", "max ms", "p99 / bare p99", "aim", "reached"),
        rows=tuple(rows),
        note=f"Medians of {count} windows taken by turns, in brackets {_kind(count)}; max is the highest of all. The "
        "daemon's is of its own histogram, from the closing of a trigger; what its sender sees has the network, the "
        "assembly and the way back in it.",
    )


def _milliseconds(benchmark: Benchmark, prefix: str) -> Iterator[str]:
    extra = benchmark["extra_info"]
    yield f"{spread(extra[f'{prefix}p50 ms']).median:.2f}"
    yield _text(spread(extra[f"{prefix}p99 ms"]), "{:.2f}")
    yield f"{max(extra[f'{prefix}max ms']):.1f}"


def _cpu(benchmarks: Sequence[Benchmark]) -> Table | None:
    found = [benchmark for benchmark in benchmarks if benchmark["group"] == "CPU a trigger"]
    if not found:
        return None
    rows = tuple(
        (
            f"{b['extra_info']['rate']} triggers/s",
            _text(spread(b["extra_info"]["CPU percent"]), "{:.1f}"),
            _text(spread(b["stats"]["data"]).scaled(1e3), "{:.2f}"),
        )
        for b in found
    )
    return Table(
        title=f"CPU of the daemon, over {INSTRUMENTS} connections",
        columns=("", "% of one core", "CPU ms a trigger"),
        rows=rows,
        note="Of the daemon's process alone: the database has its own.",
    )


def _memory(benchmarks: Sequence[Benchmark]) -> Table | None:
    found = _of(benchmarks, "memory at full speed")
    if found is None:
        return None
    extra = found["extra_info"]
    row = (
        f"{extra['seconds'][0]:g} s at {1 / found['stats']['data'][0]:,.0f} triggers/s",
        f"{extra['MiB least'][0]:.0f} to {extra['MiB most'][0]:.0f}",
        f"{extra['MiB a minute'][0]:+.1f}",
    )
    return Table(
        title="Resident memory of the daemon at full speed",
        columns=("", "MiB, second half", "slope, MiB a minute"),
        rows=(row,),
        note="The slope is over the second half. Up to 256 MiB of it (`max_waiting_mib`) waits for the database, since "
        "the sender is faster.",
    )


def _aim(value: float, aim: float | None, *, at_least: bool) -> tuple[str, str]:
    if aim is None:
        return "", ""
    reached: Callable[[float, float], bool] = float.__ge__ if at_least else float.__le__
    return f"{aim:g}", "yes" if reached(value, aim) else "no"


def _kind(count: int) -> str:
    return "their quartiles" if count >= QUARTILES_FROM else "the least and the most"


def _text(found: Spread, form: str) -> str:
    median, low, high = (form.format(value) for value in (found.median, found.low, found.high))
    return f"{median} ({low} to {high})"
