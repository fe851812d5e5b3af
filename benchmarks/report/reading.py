"""Reads the figures of a run from pytest-benchmark's JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.report.run import (
    SENDER,
    Audience,
    Block,
    Condition,
    Drain,
    JournalCost,
    Latency,
    Load,
    MeasuredServer,
    Memory,
    Run,
    Way,
)
from schemas.batch import Durability, Layout
from schemas.checking.dsn import Backend

UNVERSIONED = "unversioned"
"""The commit that pytest-benchmark gives where there is no repository."""


class NoRun(Exception):
    """A file holds no run of these benchmarks; the message is one line that says why."""


def run_of(report: Mapping[str, Any]) -> Run:
    """Read a run.

    Raises:
        NoRun: it is JSON of something else, or of an older version that recorded less.
    """
    try:
        return _run(report)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        what = f"{type(error).__name__}: {error}"
        raise NoRun(f"this version of `triggerlog bench` did not write that file ({what})") from None


def _run(report: Mapping[str, Any]) -> Run:
    facts, machine, commit = report["triggerlog"], report["machine_info"], report.get("commit_info", {})
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for benchmark in report["benchmarks"]:
        groups.setdefault(benchmark["group"], []).append(benchmark)
    memory = [_memory(found) for found in groups.get("memory at full speed", [])]
    return Run(
        plan=facts["plan"],
        date=report["datetime"][:19].replace("T", " ") + " UTC",
        commit="" if commit.get("id") in (None, UNVERSIONED) else commit["id"][:12],
        dirty=bool(commit.get("dirty")),
        cpu=machine.get("cpu", {}).get("brand_raw", "unknown CPU"),
        cores=int(facts["cores"]),
        memory_gib=float(facts["memory_gib"]),
        python=machine["python_version"],
        load=float(facts["load"]),
        fdatasync_ms=float(facts["fdatasync_ms"]),
        servers={Backend(name): _server(Backend(name), found) for name, found in facts["servers"].items()},
        ways=[_way(found) for found in groups.get("throughput", [])],
        latencies=[found for item in groups.get("latency, p99", []) for found in _latencies(item)],
        loads=[_load(found) for found in groups.get("CPU a trigger", [])],
        memory=memory[0] if memory else None,
        journals=_journals(groups.get("journal", [])),
        drains=[_drain(found) for found in groups.get("drain", [])],
        blocks=[_block(found) for found in groups.get("governor", [])],
        audiences=[_audience(found) for found in groups.get("page", [])],
        conditions=[_condition(found) for found in groups.get("conditions", [])],
    )


def _server(backend: Backend, found: Mapping[str, Any]) -> MeasuredServer:
    return MeasuredServer(
        backend=backend,
        product=found["product"],
        version=found["version"],
        target=found["target"],
        own=found["own"],
        settings={name: str(value) for name, value in found["settings"].items()},
        durability=dict(found["durability"]),
        risk_ms=dict(found.get("risk_ms", {})),
        shortfall=dict(found.get("shortfall", {})),
    )


def _way(found: Mapping[str, Any]) -> Way:
    extra = found["extra_info"]
    layout = extra.get("layout")
    return Way(
        backend=Backend(extra["backend"]),
        slug=extra["contender"],
        title=extra["title"],
        kind=extra["kind"],
        file=extra.get("file"),
        durability=Durability(extra["durability"]),
        layout=None if layout is None else Layout(layout),
        paper=extra.get("paper"),
        safe=bool(extra["safe"]),
        note=extra.get("note"),
        rates=[1 / seconds for seconds in found["stats"]["data"]],
        batches=_each(extra, "triggers a commit"),
        p50_ms=_each(extra, "p50 ms"),
        p99_ms=_each(extra, "p99 ms"),
        max_ms=_each(extra, "max ms"),
        hz=(_each(extra, "hz p25"), _each(extra, "hz p50"), _each(extra, "hz p75")),
        edges=_each(extra, "hz_edges"),
        counts=_each(extra, "hz_counts"),
        half_written=_each(extra, "half_written"),
    )


def _latencies(found: Mapping[str, Any]) -> list[Latency]:
    extra = found["extra_info"]
    seen = [(extra["contender"], ""), (SENDER, "sender ")]
    return [
        Latency(
            backend=Backend(extra["backend"]),
            contender=contender,
            rate=float(extra["rate"]),
            p50_ms=_each(extra, f"{prefix}p50 ms"),
            p99_ms=_each(extra, f"{prefix}p99 ms"),
            max_ms=_each(extra, f"{prefix}max ms"),
        )
        for contender, prefix in seen
        if f"{prefix}p99 ms" in extra
    ]


def _load(found: Mapping[str, Any]) -> Load:
    extra = found["extra_info"]
    cpu_ms = [seconds * 1e3 for seconds in found["stats"]["data"]]
    return Load(rate=float(extra["rate"]), percent=_each(extra, "CPU percent"), cpu_ms=cpu_ms)


def _memory(found: Mapping[str, Any]) -> Memory:
    extra = found["extra_info"]
    return Memory(
        rate=1 / found["stats"]["data"][0],
        seconds=extra["seconds"][0],
        least_mib=extra["MiB least"][0],
        most_mib=extra["MiB most"][0],
        slope_mib=extra["MiB a minute"][0],
    )


def _journals(found: Sequence[Mapping[str, Any]]) -> list[JournalCost]:
    rates = {
        (Layout(item["extra_info"]["layout"]), bool(item["extra_info"]["with_journal"])): [
            1 / seconds for seconds in item["stats"]["data"]
        ]
        for item in found
    }
    return [
        JournalCost(layout=layout, with_journal=rates[layout, True], without=rates[layout, False])
        for layout in Layout
        if (layout, True) in rates
    ]


def _drain(found: Mapping[str, Any]) -> Drain:
    extra = found["extra_info"]
    return Drain(
        layout=Layout(extra["layout"]),
        live_rate=float(extra["live_rate"]),
        outage_s=float(extra["outage_s"]),
        rates=[1 / seconds for seconds in found["stats"]["data"]],
        waiting=_each(extra, "triggers waiting"),
        first_commit_s=_each(extra, "seconds to first commit"),
        seconds=_each(extra, "seconds of drain"),
        live=_each(extra, "live triggers a second meanwhile"),
    )


def _block(found: Mapping[str, Any]) -> Block:
    extra = found["extra_info"]
    return Block(
        name=extra["block"],
        clients=int(extra["clients"]),
        ceiling_ms=_each(extra, "ceiling ms"),
        rates=_each(extra, "triggers a second"),
        p50_ms=_each(extra, "p50 ms"),
        p99_ms=_each(extra, "p99 ms"),
        sender_p99_ms=_each(extra, "sender p99 ms"),
        within=_each(extra, "within ceiling"),
        answers=_each(extra, "answers a second"),
        dose=_each(extra, "dose"),
    )


def _audience(found: Mapping[str, Any]) -> Audience:
    extra = found["extra_info"]
    return Audience(
        pages=int(extra["pages"]),
        browsers=int(extra["browsers"]),
        daemon_percent=_each(extra, "daemon percent"),
        page_percent=_each(extra, "page percent"),
        frames=_each(extra, "frames a second"),
        bytes_=_each(extra, "bytes a second"),
    )


def _condition(found: Mapping[str, Any]) -> Condition:
    extra = found["extra_info"]
    return Condition(
        backend=Backend(extra["backend"]),
        scenario=extra["scenario"],
        kind=extra["kind"],
        way=extra["way"],
        clients=int(extra["clients"]),
        types=int(extra["types"]),
        intervals=int(extra["intervals"]),
        query_plan=extra["query_plan"],
        seconds=tuple(found["stats"]["data"]),
        figures={name: _each(extra, name) for name, values in extra.items() if isinstance(values, list)},
    )


def _each(extra: Mapping[str, Any], name: str) -> tuple[float, ...]:
    return tuple(float(value) for value in extra.get(name) or ())
