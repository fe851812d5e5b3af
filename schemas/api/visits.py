"""What is measured of visits, and what a status tells of a run.

Seconds of a visit's selects and stores are summed over its tiles; `visit_s` is the wall time from the first tile's
begin to the last one's end. The generation of the mock sources (`dia_s`) is not part of it, as in the paper.
"""

from typing import Any

from pydantic import Field, RootModel

from schemas.api.model import Model
from schemas.config.visits import VisitsConfig
from schemas.states import RunState, VisitsPhase

TIMES = (
    *("select_object_s", "select_source_s", "select_forced_s"),
    *("store_last_s", "store_object_s", "store_source_s", "store_forced_s", "commit_s"),
)
COUNTS = ("objects_read", "sources_read", "forced_read", "objects", "sources", "forced")


class TileMeasure(Model):
    """One tile of one visit."""

    visit: int
    tile: int = Field(description="its number, from 0; without tiles 0")
    select_object_s: float = 0.0
    select_source_s: float = 0.0
    select_forced_s: float = 0.0
    store_last_s: float = 0.0
    store_object_s: float = 0.0
    store_source_s: float = 0.0
    store_forced_s: float = 0.0
    commit_s: float = Field(default=0.0, description="commits, in the modes that count them apart")
    tile_s: float = Field(default=0.0, description="wall time of the tile")
    objects_read: int = Field(default=0, description="last versions in the tile, after trimming")
    sources_read: int = Field(default=0, description="sources of their history, within the window")
    forced_read: int = Field(default=0, description="forced sources of their history, within the window")
    objects: int = Field(default=0, description="object versions written")
    sources: int = Field(default=0, description="sources written")
    forced: int = Field(default=0, description="forced sources written")


class VisitMeasure(Model):
    """One visit: a row of the CSV and of the Parquet file."""

    visit: int
    time_ns: int = Field(description="when the exposure was taken, in the survey's time")
    ra: float = Field(description="of the pointing, in degrees")
    decl: float = Field(description="of the pointing, in degrees")
    tiles: int
    visit_s: float
    select_s: float = Field(description="the three selects together")
    select_object_s: float
    select_source_s: float
    select_forced_s: float
    store_s: float = Field(description="the stores and their commits together")
    store_last_s: float
    store_object_s: float
    store_source_s: float
    store_forced_s: float
    commit_s: float
    dia_s: float = Field(description="mock image analysis before the visit, not part of it")
    upkeep_s: float = Field(
        default=0.0,
        description="before and after the visit, not part of it: beginning and ending it in the database, making and "
        "dropping partitions",
    )
    slowest_tile_s: float
    objects_read: int
    sources_read: int
    forced_read: int
    objects: int
    sources: int
    forced: int
    resumed: bool = Field(default=False, description="an earlier try had been cut short")


class Compaction(Model):
    """A table's packs of a period that ended were compacted, after a night's last visit."""

    table: str
    period: int = Field(description="in periods since 1970-01-01 of the survey's time")
    after_visit: int = Field(description="the last visit that was done before")
    compact_s: float = Field(description="no visit runs meanwhile")
    packs_before: int
    packs: int
    records_before: int
    records: int = Field(description="of DIAObjectLast only the newest of each object stay")


class Line(Model):
    """A straight line through seconds against visit: `intercept + slope_per_1000 * visit / 1000`."""

    intercept: float = Field(description="seconds")
    slope_per_1000: float = Field(description="seconds per 1,000 visits")
    slope_low: float = Field(description="lower end of the slope's 95 % interval")
    slope_high: float = Field(description="upper end of the slope's 95 % interval")
    visits: int = Field(description="through so many points")


class Box(Model):
    """Seconds of the visits of a bin: quartiles, the whole range, and the mean."""

    first: int = Field(description="first visit of the bin")
    last: int
    low: float
    q1: float
    median: float
    q3: float
    high: float
    mean: float


class Over(Model):
    """The fraction of the visits of a bin that took longer than a limit."""

    first: int = Field(description="first visit of the bin")
    last: int
    fraction: float


class TableSize(Model):
    """A table on the server's disk. rows: the server's estimate where counting would be expensive."""

    rows: int
    table_bytes: int
    index_bytes: int


class VisitsRun(Model):
    """The record of a run: what was asked, of which server, and what was measured."""

    id: str
    began_ns: int
    ended_ns: int
    state: RunState = Field(
        default=RunState.FINISHED,
        description="how it ended; running or starting in the record of a run whose process was killed",
    )
    in_daemon: bool = Field(default=False, description="a daemon goes on with it after a start, if it was cut off")
    settings: VisitsConfig
    product: str = Field(description="e.g. `postgresql`, `mariadb`, `ferretdb`")
    version: str
    server: dict[str, str] = Field(description="the server's settings that decide about the figures")
    machine: dict[str, str] = Field(default_factory=dict, description="cores, memory, disk")
    visits: tuple[VisitMeasure, ...]
    compactions: tuple[Compaction, ...] = Field(default=(), description="of `partitioned`, in order")
    sizes: dict[str, TableSize] = Field(default_factory=dict, description="at the end, by table")
    counts: dict[str, int] = Field(default_factory=dict, description="rows at the end, by table; empty if not counted")
    expected: dict[str, float] = Field(default_factory=dict, description="rows by the formula, by table")
    problem: str | None = Field(default=None, description="why it ended early, in words")

    @property
    def timed(self) -> tuple[VisitMeasure, ...]:
        """Visits without those that were resumed, whose seconds are those of the rest; all where all of them were."""
        return tuple(visit for visit in self.visits if not visit.resumed) or self.visits


class VisitsStatus(Model):
    """How a run of visits is."""

    id: str = Field(default="", description="of the record that is kept of the run")
    state: RunState
    phase: VisitsPhase = Field(default=VisitsPhase.VISITING, description="what it does while it is running")
    visiting_s: float | None = Field(
        default=None, description="how long the visit that is under way has taken so far; null between visits"
    )
    waits_until_ns: int | None = Field(default=None, description="when the next visit begins, while it is waiting")
    problem: str | None = Field(default=None, description="why it failed, or what a visit waits for, in words")
    index_mode: str
    target: str = Field(description="schema the tables are in")
    visits: int = Field(description="wanted in all")
    done: int = Field(description="in the database")
    here: int = Field(description="done since this run began")
    lost: int = Field(
        default=0, description="so many were acknowledged by the server, lost by it, and done again or still to be done"
    )
    since_ns: int = Field(description="when the run began")
    last: VisitMeasure | None = None
    compactions: int = Field(default=0, description="tables of periods that were compacted in this run")
    compact_s: float = Field(default=0.0, description="seconds that they took")
    mean_s: float | None = Field(default=None, description="seconds a visit, mean of the last 100")
    over_limit: float | None = Field(default=None, description="fraction of this run's visits over limit_s")
    limit_s: float = 10.0
    interval_s: float | None = Field(
        default=None, description="from visit to visit at the real cadence; null as fast as possible"
    )
    slow: int = Field(
        default=0, description="so many visits, the last ones in a row, took longer than limit_s or interval_s"
    )
    last_ns: int | None = Field(default=None, description="when the last visit of this run was done")
    remaining_s: float | None = Field(default=None, description="estimate of the time left")
    fit: Line | None = Field(default=None, description="through visit_s of this run")

    @property
    def is_active(self) -> bool:
        """Whether the run has not ended yet."""
        return not self.state.is_over


class VisitsSummary(Model):
    """A line of the list of runs."""

    id: str
    began_ns: int
    ended_ns: int
    index_mode: str
    visits: int
    state: RunState = RunState.FINISHED
    problem: str | None = Field(default=None, description="why it ended early, in words")


class Visits(Model):
    """Body of `GET /api/v1/visits`."""

    status: VisitsStatus | None = Field(description="the run that is under way, or was last since the daemon started")
    past: list[VisitsSummary] = Field(description="those that were, the newest first")
    settings: VisitsConfig = Field(description="of a run that is started without any, as the configuration says")


class VisitsSettings(RootModel[dict[str, Any]]):
    """Body of `POST /api/v1/visits`: the fields of `[visits]` that differ from the configuration's."""


class ReferenceLine(Model):
    """A published straight line to compare with: `intercept + slope_per_1000 * visit / 1000`, in seconds."""

    label: str
    intercept: float
    slope_per_1000: float


class VisitsFigures(Model):
    """Body of `GET /api/v1/visits/figures`: what is drawn of a run."""

    id: str
    index_mode: str
    columns: dict[str, list[float]] = Field(
        description="by name of a field of VisitMeasure, a value a visit; thinned, extremes are kept"
    )
    fits: dict[str, Line | None] = Field(description="by name of a column; null of too few visits")
    visits: int = Field(description="that were measured")
    boxes: list[Box]
    bin: int = Field(description="visits a box")
    parts: dict[str, list[float]] = Field(description="by part of a visit its mean seconds, a value a box")
    over: list[Over]
    sizes: dict[str, TableSize] = Field(description="by table")
    counts: dict[str, int] = Field(description="rows by table; empty if not counted")
    expected: dict[str, float] = Field(description="rows by the formula, by table")
    limit_s: float
    paper: ReferenceLine
    settings: VisitsConfig
    problem: str | None = Field(description="why it ended early")
