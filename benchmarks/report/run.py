"""The figures of a run of the benchmarks: nothing is computed here but medians."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from backends.kinds import product_of
from benchmarks.rounds.summary import Spread, spread
from schemas.batch import Durability, Layout
from schemas.checking.dsn import Backend

PAPER, CEILING, DAEMON = "paper", "ceiling", "daemon"
ASYNC_SUFFIX = "_async"
BARE_LOOP = "bare loop"
SENDER = "daemon, as its sender sees it"


@dataclass(frozen=True, kw_only=True)
class MeasuredServer:
    """A server of the run.

    durability, risk_ms, shortfall: by `sync` and `async`, as `DurabilityInForce` has them; a risk of None has no limit.
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
        return product_of(self.product).title

    def missing(self, durability: Durability) -> str | None:
        """What is wrong with a durability that the server does not give; None where it gives it."""
        return self.shortfall.get(durability)

    def is_unknown(self, durability: Durability) -> bool:
        """Whether the server falls short only because it does not tell what it does with a commit."""
        return self.missing(durability) is not None and self.risk_ms.get(durability, 0) == 0


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

    name: `writing alone`, `readers`, or `readers, governed`. ceiling_ms: the setting of the governor in that round.
    rates: triggers/s committed. p50_ms, p99_ms: commit latency as the daemon's status says it; sender_p99_ms: from the
    write of a trigger to its acknowledgement. within: part of the samples of the status in which p99 was within the
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
class Condition:
    """A contender of the measure of conditions (`benchmarks.conditions.measure.Contender`); a value each a round.

    seconds: of the median read or order, or of one request of all clients. figures: further ones, by name.
    """

    backend: Backend
    scenario: str
    kind: str
    way: str
    clients: int
    types: int
    intervals: int
    query_plan: str
    seconds: Sequence[float]
    figures: Mapping[str, Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class Run:
    """All figures of one run."""

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
    conditions: Sequence[Condition] = ()

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
