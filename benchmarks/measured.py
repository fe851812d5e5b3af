"""What a kept run holds, taken out of pytest-benchmark's JSON: nothing is computed here but medians."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.summary import Spread, spread
from schemas.batch import Durability, Layout
from schemas.dsn import Backend

PRODUCTS = {
    "postgresql": "PostgreSQL",
    "mariadb": "MariaDB",
    "mysql": "MySQL",
    "mongodb": "MongoDB",
    "ferretdb": "FerretDB",
}
PAPER, CEILING, DAEMON = "paper", "ceiling", "daemon"
ASYNC_SUFFIX = "_async"
BARE_LOOP = "bare loop"
UNVERSIONED = "unversioned"
"""What pytest-benchmark says of a folder that is in no repository."""


class NoRun(Exception):
    """A file is no kept run of these benchmarks; the message is one line that says why."""


@dataclass(frozen=True, kw_only=True)
class MeasuredServer:
    """A server of the run.

    durability, risk_ms, shortfall: by `sync` and `async`, as `backends.base.Held` has them; a risk of None has no
    limit.
    """

    backend: Backend
    product: str
    version: str
    target: str
    own: bool
    settings: Mapping[str, str]
    durability: Mapping[str, str]
    risk_ms: Mapping[str, float | None] = field(default_factory=dict)
    shortfall: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The product as its makers write it."""
        return PRODUCTS.get(self.product, self.product)

    def missing(self, durability: Durability) -> str | None:
        """What is wrong with a durability that the server does not give; None where it gives it."""
        words = self.durability.get(durability, "")
        return self.shortfall.get(durability) or (words if words.startswith("NOT durable") else None)


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to write triggers: a contender of the throughput. Sequences have one value a round.

    rates: triggers/s. batches: triggers a commit. p50_ms, p99_ms, max_ms: commit latency. hz: quartiles of 1/dt.
    edges: Hz, of the bins of counts, which has one fewer and counts triggers of all rounds.
    """

    backend: Backend
    slug: str
    title: str
    kind: str
    file: str | None
    durability: Durability
    layout: Layout | None
    paper: str | None
    safe: bool
    note: str | None
    rates: Sequence[float]
    batches: Sequence[float]
    p50_ms: Sequence[float]
    p99_ms: Sequence[float]
    max_ms: Sequence[float]
    hz: tuple[Sequence[float], Sequence[float], Sequence[float]]
    edges: Sequence[float]
    counts: Sequence[float]
    half_written: Sequence[float]

    @property
    def rate(self) -> Spread:
        """Triggers/s over the rounds."""
        return spread(self.rates)


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Commit latency at a steady rate: a value a window. `p99_ms` is what is compared."""

    backend: Backend
    contender: str
    rate: float
    p50_ms: Sequence[float]
    p99_ms: Sequence[float]
    max_ms: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Load:
    """CPU of the daemon at a rate: percent of a core and ms a trigger, a value each a window."""

    rate: float
    percent: Sequence[float]
    cpu_ms: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Resident memory of the daemon at full speed: rate (triggers/s), s, MiB, MiB a minute."""

    rate: float
    seconds: float
    least_mib: float
    most_mib: float
    slope_mib: float


@dataclass(frozen=True, kw_only=True)
class JournalCost:
    """Full speed of a layout, in triggers/s a round, with the journal and without; rounds took turns."""

    layout: Layout
    with_journal: Sequence[float]
    without: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Drain:
    """Outages of a layout, a value each.

    live_rate: triggers/s that come in all the time. rates: triggers/s drained, counted from the moment in which the
    database was back. waiting: triggers. first_commit_s, seconds: from that moment to the first commit, and to the end.
    live: triggers/s that came in meanwhile.
    """

    layout: Layout
    live_rate: float
    outage_s: float
    rates: Sequence[float]
    waiting: Sequence[float]
    first_commit_s: Sequence[float]
    seconds: Sequence[float]
    live: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Block:
    """Writing with readers or without, held back or not; a value each a block.

    name: `writing alone`, `readers`, or `readers, governed`. ceiling_ms: what the governor was told in that round.
    rates: triggers/s committed. p50_ms, p99_ms: commit latency as the daemon's status says it; sender_p99_ms: from the
    write of a trigger to its acknowledgement. within: part of the looks at the status at which p99 was within the
    ceiling of the round. answers: of all readers, a second. dose: mean number of clients that might ask.
    """

    name: str
    clients: int
    ceiling_ms: Sequence[float]
    rates: Sequence[float]
    p50_ms: Sequence[float]
    p99_ms: Sequence[float]
    sender_p99_ms: Sequence[float]
    within: Sequence[float]
    answers: Sequence[float]
    dose: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Audience:
    """Processes of the page and browsers at them; a value each a round.

    daemon_percent, page_percent: CPU, of a core, of the daemon and of all pages. frames, bytes_: a second, a browser.
    """

    pages: int
    browsers: int
    daemon_percent: Sequence[float]
    page_percent: Sequence[float]
    frames: Sequence[float]
    bytes_: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A whole kept run."""

    plan: str
    date: str
    commit: str
    dirty: bool
    cpu: str
    cores: int
    memory_gib: float
    python: str
    load: float
    fdatasync_ms: float
    servers: Mapping[Backend, MeasuredServer]
    ways: Sequence[Way]
    latencies: Sequence[Latency]
    loads: Sequence[Load]
    memory: Memory | None
    journals: Sequence[JournalCost] = ()
    drains: Sequence[Drain] = ()
    blocks: Sequence[Block] = ()
    audiences: Sequence[Audience] = ()

    def ways_of(self, backend: Backend) -> list[Way]:
        """The ways measured on a database, in the order they were given."""
        return [way for way in self.ways if way.backend is backend]

    def way(self, backend: Backend, slug: str) -> Way | None:
        """One way, None where it was not measured."""
        return next((way for way in self.ways_of(backend) if way.slug == slug), None)

    @property
    def rounds(self) -> int:
        """Rounds of the throughput; 0 where it was not measured."""
        return max((len(way.rates) for way in self.ways), default=0)

    @property
    def rounds_of_journal(self) -> int:
        """Rounds with the journal and without; 0 where it was not measured."""
        return max((len(found.with_journal) for found in self.journals), default=0)

    @property
    def windows(self) -> int:
        """Windows of the latency at each rate; 0 where it was not measured."""
        return max((len(found.p99_ms) for found in self.latencies), default=0)


def run_of(report: Mapping[str, Any]) -> Run:
    """Read a kept run.

    Raises:
        NoRun: it is JSON of something else, or of an older version that kept less.
    """
    try:
        return _run(report)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        what = f"{type(error).__name__}: {error}"
        raise NoRun(f"not a run that this version of `triggerlog bench` keeps ({what})") from None


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
    seen = [(extra["contender"], ""), (f"{extra['contender']}, as its sender sees it", "sender ")]
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


def _each(extra: Mapping[str, Any], name: str) -> tuple[float, ...]:
    return tuple(float(value) for value in extra.get(name) or ())
