"""Statistics of what was measured, and the figures of a run, read from pytest-benchmark's JSON: pure functions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from backends.kinds import product_of
from daemon.workloads.visits.figures import students_t
from schemas.batch import Durability, Layout
from schemas.checking.dsn import Backend
from schemas.readings import Array


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A median with its spread: quartiles from five values on, the least and the most of fewer."""

    median: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Spread":
        """The same in another unit; factor > 0."""
        return Spread(median=self.median * factor, low=self.low * factor, high=self.high * factor)


QUARTILES_FROM = 5


def spread(values: Sequence[float]) -> Spread:
    """Summarise one value a round; at least one.

    Raises:
        ValueError: there is none.
    """
    if not len(values):
        raise ValueError("no rounds, no median")
    edges = (25, 75) if len(values) >= QUARTILES_FROM else (0, 100)
    low, middle, high = (float(value) for value in np.percentile(values, (edges[0], 50, edges[1])))
    return Spread(median=middle, low=low, high=high)


def ratio(of: Sequence[float], to: Sequence[float]) -> Spread:
    """Ratio round by round: interleaved rounds of the same number met the same machine. Same lengths, none 0."""
    return spread([a / b for a, b in zip(of, to, strict=True)])


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """A mean ratio with the ends of its 95 % interval, which a single round does not have."""

    value: float
    low: float | None
    high: float | None


def mean_ratio(of: Sequence[float], to: Sequence[float]) -> Ratio:
    """Geometric mean of the ratios round by round, with Student's interval. Same lengths, at least 1, all above 0."""
    logarithms = np.log(np.asarray(of, np.float64) / np.asarray(to, np.float64))
    middle, count = float(logarithms.mean()), len(logarithms)
    if count < 2:
        return Ratio(value=math.exp(middle), low=None, high=None)
    half = students_t(count - 1) * float(logarithms.std(ddof=1)) / math.sqrt(count)
    return Ratio(value=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half))


@dataclass(frozen=True, kw_only=True)
class Percentiles:
    """Latencies in milliseconds."""

    p50: float
    p99: float
    max: float


def percentiles(latencies_ms: Array) -> Percentiles:
    """Percentiles by the nearest rank, as the daemon's histogram counts them; float64, shape (n,), n > 0."""
    p50, p99, most = np.percentile(latencies_ms, (50, 99, 100), method="inverted_cdf")
    return Percentiles(p50=float(p50), p99=float(p99), max=float(most))


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Slope of the second half of a series by least squares, in units of `values` over units of `times`.

    Raises:
        ValueError: the second half has fewer than two times.
    """
    half = len(times) // 2
    t, v = np.asarray(times[half:], float), np.asarray(values[half:], float)
    if len(t) < 2 or np.ptp(t) == 0:
        raise ValueError("a slope needs two different times in the second half")
    t = t - t.mean()
    return float(t @ v / (t @ t))


def commit_rate(acks: Array, instruments: int) -> tuple[float, float]:
    """Triggers a second and seconds from the first commit to the last, by the acknowledgements.

    acks: float64, shape (n, 2): time (s), readings acknowledged until then; ascending. What the first acknowledged is
    not counted: it was committed before the clock began.

    Raises:
        ValueError: there are fewer than two acknowledgements.
    """
    if len(acks) < 2:
        raise ValueError(f"{len(acks)} acknowledgements are too few for a rate; send for longer")
    seconds = float(acks[-1, 0] - acks[0, 0])
    return float(acks[-1, 1] - acks[0, 1]) / instruments / seconds, seconds


def acknowledged_after(sent: Array, acks: Array, instruments: int) -> Array:
    """Time from the sending of each trigger to its acknowledgement, in s; float64, shape (triggers,).

    sent: times in s, shape (triggers,): when the last reading of each had gone out. acks: as in `commit_rate`.

    Raises:
        ValueError: not all are acknowledged.
    """
    wanted = (np.arange(len(sent)) + 1) * instruments
    row = np.searchsorted(acks[:, 1], wanted)
    if len(sent) and row[-1] >= len(acks):
        raise ValueError("not all triggers are acknowledged")
    return np.asarray(acks[row, 0] - sent)


# --- the record of a run ---------------------------------------------------------------------------------------------

PAPER, CEILING, DAEMON = "paper", "ceiling", "daemon"
ASYNC_SUFFIX = "_async"
BARE_LOOP = "bare loop"
SENDER = "daemon, as its sender sees it"
UNVERSIONED = "unversioned"
"""The commit that pytest-benchmark gives where there is no repository."""

Values = Annotated[tuple[float, ...], BeforeValidator(lambda found: found or ())]
"""A value a round, or a window."""


GROUPS = {
    "CPU a trigger": {"rate", "CPU percent"},
    "memory at full speed": {"seconds", "MiB least", "MiB most", "MiB a minute"},
    "journal": {"layout", "with_journal"},
    "drain": {
        *("layout", "live_rate", "outage_s", "triggers waiting", "seconds to first commit", "seconds of drain"),
        "live triggers a second meanwhile",
    },
    "governor": {
        *("block", "clients", "ceiling ms", "p99 ms", "sender p99 ms", "within ceiling", "triggers a second"),
        *("answers a second", "dose"),
    },
    "page": {"pages", "browsers", "daemon percent", "page percent", "frames a second", "bytes a second"},
}
"""Groups of which only the report knows what they mean, and what each benchmark of one has to have."""


class NoRun(Exception):
    """A file holds no run of these benchmarks; the message is one line that says why."""


class Item(BaseModel):
    """A benchmark of the JSON: `extra_info`, and the seconds that were measured, one a round.

    facts: what it is. figures: by their names, such as `p99 ms`.
    """

    model_config = ConfigDict(frozen=True)
    seconds: tuple[float, ...]
    facts: Mapping[str, Any] = {}
    figures: Mapping[str, Values] = {}

    def __getitem__(self, name: str) -> tuple[float, ...]:
        return self.figures[name]

    @property
    def rates(self) -> list[float]:
        """Triggers/s, a value a round."""
        return [1 / each for each in self.seconds]


class Condition(Item):
    """A contender of the measure of conditions (`benchmarks.conditions.measure.Contender`).

    seconds: of the median read or order, or of one request of all clients.
    """

    backend: Backend
    scenario: str
    kind: str
    way: str
    clients: int
    types: int
    intervals: int
    query_plan: str


class MeasuredServer(BaseModel):
    """A server of the run.

    durability, risk_ms, shortfall: by `sync` and `async`, as `DurabilityInForce` has them; a risk of None has no limit.
    """

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)
    backend: Backend
    product: str
    version: str
    target: str
    own: bool
    settings: Mapping[str, str]
    durability: Mapping[str, str]
    risk_ms: Mapping[str, float | None] = {}
    shortfall: Mapping[str, str | None] = {}

    @property
    def name(self) -> str:
        """The product as its makers write it."""
        return product_of(self.product).title

    def missing(self, durability: Durability) -> str | None:
        """Say why the server does not give a durability; None where it gives it."""
        return self.shortfall.get(durability)

    def is_unknown(self, durability: Durability) -> bool:
        """Check that the server falls short only because it does not tell what it does with a commit."""
        return self.missing(durability) is not None and self.risk_ms.get(durability, 0) == 0


class Way(Item):
    """A way to write triggers: a contender of the throughput.

    batches: triggers a commit. hz: quartiles of 1/dt. edges: Hz, of the bins of counts, which has one fewer and counts
    triggers of all rounds.
    """

    backend: Backend
    slug: str = Field(alias="contender")
    title: str
    kind: str
    file: str | None = None
    durability: Durability
    layout: Layout | None = None
    paper: str | None = None
    safe: bool
    note: str | None = None
    batches: Values = Field((), alias="triggers a commit")
    p50_ms: Values = Field((), alias="p50 ms")
    p99_ms: Values = Field((), alias="p99 ms")
    max_ms: Values = Field((), alias="max ms")
    hz_25: Values = Field((), alias="hz p25")
    hz_50: Values = Field((), alias="hz p50")
    hz_75: Values = Field((), alias="hz p75")
    edges: Values = Field((), alias="hz_edges")
    counts: Values = Field((), alias="hz_counts")
    half_written: Values = ()

    @property
    def rate(self) -> Spread:
        """Triggers/s over the rounds."""
        return spread(self.rates)

    @property
    def hz(self) -> list[float]:
        """Quartiles of 1/dt, medians over the rounds; empty where they are not known."""
        return [spread(each).median for each in (self.hz_25, self.hz_50, self.hz_75) if each]


class Latency(Item):
    """Commit latency at a steady rate: a value a window. `p99_ms` is what is compared."""

    backend: Backend
    contender: str
    rate: float
    p50_ms: Values = Field((), alias="p50 ms")
    p99_ms: Values = Field((), alias="p99 ms")
    max_ms: Values = Field((), alias="max ms")


class Run(BaseModel):
    """All figures of one run."""

    model_config = ConfigDict(frozen=True)
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
    ways: tuple[Way, ...]
    latencies: tuple[Latency, ...]
    conditions: tuple[Condition, ...]
    groups: Mapping[str, tuple[Item, ...]]
    """All others, by the name of their group."""

    def ways_of(self, backend: Backend) -> list[Way]:
        """Return the ways measured on a database, in the order they were given."""
        return [way for way in self.ways if way.backend is backend]

    def way(self, backend: Backend, slug: str) -> Way | None:
        """Return one way, None where it was not measured."""
        return next((way for way in self.ways_of(backend) if way.slug == slug), None)

    @property
    def rounds(self) -> int:
        """Rounds of the throughput; 0 where it was not measured."""
        return max((len(way.seconds) for way in self.ways), default=0)

    @property
    def windows(self) -> int:
        """Windows of the latency at each rate; 0 where it was not measured."""
        return max((len(found.p99_ms) for found in self.latencies), default=0)


def run_of(report: Mapping[str, Any]) -> Run:
    """Read a run.

    Raises:
        NoRun: it is JSON of something else, or of an older version that recorded less.
    """
    try:
        return _run(report)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        what = f"{type(error).__name__}: {error}"
    raise NoRun(f"this version of `triggerlog bench` did not write that file ({what})")


T = TypeVar("T", bound=Item)


def _run(report: Mapping[str, Any]) -> Run:
    facts, machine, commit = report["triggerlog"], report["machine_info"], report.get("commit_info", {})
    benchmarks = report["benchmarks"]

    def items(group: str, model: type[T]) -> tuple[T, ...]:
        return tuple(_item(model, each) for each in benchmarks if each["group"] == group)

    windows = [each for each in benchmarks if each["group"] == "latency, p99"]
    return Run(
        plan=facts["plan"],
        date=report["datetime"][:19].replace("T", " ") + " UTC",
        commit="" if commit.get("id") in (None, UNVERSIONED) else commit["id"][:12],
        dirty=bool(commit.get("dirty")),
        cpu=machine.get("cpu", {}).get("brand_raw", "unknown CPU"),
        python=machine["python_version"],
        **{name: facts[name] for name in ("cores", "memory_gib", "load", "fdatasync_ms")},
        servers={name: MeasuredServer(backend=name, **found) for name, found in facts["servers"].items()},
        ways=items("throughput", Way),
        latencies=tuple(latency for each in windows for latency in _latencies(each)),
        conditions=items("conditions", Condition),
        groups={group: found for group in GROUPS if (found := items(group, Item))},
    )


def _item(model: type[T], found: Mapping[str, Any]) -> T:
    extra, missing = found["extra_info"], GROUPS.get(found["group"], set()) - found["extra_info"].keys()
    if missing:
        raise KeyError(min(missing))
    lists = {name: values for name, values in extra.items() if isinstance(values, list)}
    figures = {name: values for name, values in lists.items() if all(isinstance(each, int | float) for each in values)}
    facts = {name: value for name, value in extra.items() if name not in lists}
    return model.model_validate({**extra, "facts": facts, "figures": figures, "seconds": found["stats"]["data"]})


def _latencies(found: Mapping[str, Any]) -> list[Latency]:
    """Read a window as the daemon saw it, and as its sender did."""
    sender = {name.removeprefix("sender "): each for name, each in found["extra_info"].items() if "sender " in name}
    seen = {"extra_info": {**found["extra_info"], **sender, "contender": SENDER}}
    return [_item(Latency, found), *([_item(Latency, {**found, **seen})] if sender else [])]
