"""Mock DIA visits: what is run beside the instruments, or by `triggerlog visits`."""

from enum import StrEnum

from pydantic import Field, model_validator

from schemas.batch import Durability
from schemas.checking.problems import Problem, refuse, wrong
from schemas.config.section import Name, Section
from schemas.visits.survey import Survey
from schemas.visits.tables import IndexMode, LastColumns, LastUpdate

MOST_TILES = 32
MOST_NIGHTS = 20_000
"""So that times fit int64 nanoseconds, which end in 2262: a first night is in 2199 at the latest."""


class Cadence(StrEnum):
    """When the next visit begins."""

    REAL = "real"  # at the survey's interval by night, with a pause by day
    FAST = "fast"  # as soon as the one before is done


class Workers(StrEnum):
    """Who processes the tiles of a visit."""

    ONE = "one"  # one process, tile after tile
    FORK = "fork"  # a process per tile per visit
    PERSISTENT = "persistent"  # processes that stay, and share the tiles


class Connections(StrEnum):
    """How long a worker's connection to the database lasts; a process per tile per visit has no longer one."""

    PERMANENT = "permanent"
    PER_VISIT = "per_visit"


class Transactions(StrEnum):
    """How a tile of a visit is committed."""

    THREE = "three"  # as the paper: objects; sources; forced sources
    ONE = "one"


class VisitsConfig(Section):
    """Mock DIA visits."""

    start: bool = Field(default=False, description="Begin with the daemon, or go on where an earlier one stopped.")
    schema_name: Name = Field(
        default="triggerlog_visits",
        alias="schema",
        description="Schema the tables of visits live in; in MariaDB and MongoDB, the database. In that of `database`.",
    )
    visits: int = Field(
        default=24_000, ge=1, le=100_000_000, description="Total number of visits; those that are there already count."
    )
    cadence: Cadence = Field(
        default=Cadence.REAL,
        description="`real`: at the survey's interval from "
        "dusk to dawn, with a pause by day; the first visit of a run begins at once. `fast`: as fast as possible.",
    )
    survey: Survey = Field(default_factory=Survey, description="What the telescope sees.")
    index_mode: IndexMode = Field(
        default=IndexMode.PARTITIONED,
        description="`baseline`, `pix_id_iov`, `last_object_table`: the paper's; `partitioned`: packed by period and "
        "coarse sky pixel, so that a visit reads few, whole packs.",
    )
    last_columns: LastColumns = Field(
        default=LastColumns.NARROW,
        description="Of `last_object_table`: DIAObjectLast has the 18 columns that are needed, or all.",
    )
    last_update: LastUpdate | None = Field(
        default=None,
        description="Of `last_object_table`: `delete_insert`, `replace` (MariaDB, MySQL, MongoDB) or `upsert`; when "
        "left out `replace`, in PostgreSQL `upsert`.",
    )
    pixel_level: int = Field(
        default=8,
        ge=0,
        le=14,
        description="Of `partitioned`: level of the coarse pixels (MQ3C); a field touches about 32 at 7, 112 at 8.",
    )
    period_days: float = Field(
        default=30.0, gt=0, le=3660, description="Of `partitioned`: time span of a partition, in days."
    )
    compact: bool = Field(
        default=True,
        description="Of `partitioned`: when a night is over, compact the small packs of periods that ended, so "
        "that those of a pixel, and of its neighbours, lie together; MongoDB leaves them as they are.",
    )
    tiles: int = Field(default=1, ge=1, le=MOST_TILES, description="The field is divided into so many tiles squared.")
    workers: Workers = Field(
        default=Workers.ONE,
        description="`one`: one process, tile after tile; `fork`: a process per tile per visit; `persistent`: "
        "`processes` that stay.",
    )
    processes: int = Field(default=2, ge=1, le=256, description="Of `persistent`: how many.")
    connections: Connections = Field(
        default=Connections.PERMANENT, description="`permanent`, or opened again `per_visit`; `fork` has no other."
    )
    transactions: Transactions = Field(
        default=Transactions.THREE,
        description="`three` a tile, as in the paper: objects, sources, forced sources; or `one`.",
    )
    durability: Durability = Field(default=Durability.SYNC, description="As `database.durability`, of visits.")
    history_days: float = Field(
        default=365.0, gt=0, description="History that is read, in days; `partitioned` drops older partitions."
    )
    all_history: bool = Field(default=False, description="Read all of the history, however old.")
    htm_ranges: int = Field(
        default=64, ge=1, le=4096, description="Objects are asked for in at most so many ranges of HTM level 20."
    )
    id_chunk: int = Field(
        default=1000, ge=1, le=100_000, description="Histories are asked for in chunks of so many ids."
    )
    statement_timeout_s: float = Field(
        default=600.0,
        gt=0,
        le=86_400,
        description="A select or a transaction of a visit that takes longer ends the run as failed, while the server "
        "still answers; `database.command_timeout_s` is for connecting, for locks, and for asking whether it does.",
    )
    limit_s: float = Field(default=10.0, gt=0, description="A visit should take no longer, in seconds.")

    @model_validator(mode="after")
    def _fits(self) -> "VisitsConfig":
        if self.last_update is not None and self.index_mode is not IndexMode.LAST_OBJECT_TABLE:
            fix = 'take it out, or set index_mode = "last_object_table"'
            refuse([wrong(f"index mode {self.index_mode} has no table to update", fix, "last_update")])
        if self.index_mode is IndexMode.PARTITIONED and not self.all_history:
            refuse(problem for problem in (self._is_forgotten_too_soon(),) if problem is not None)
        if self.visits // self.survey.visits_a_night > MOST_NIGHTS:
            fix = f"take at most {MOST_NIGHTS * self.survey.visits_a_night}, or more visits a night (survey.scale)"
            refuse([wrong(f"they would take more than {MOST_NIGHTS} nights", fix, "visits")])
        return self

    def _is_forgotten_too_soon(self) -> Problem | None:
        """What is dropped with the window must be what no visit writes anything of any more."""
        cutoff = self.survey.forced_cutoff_days
        if self.history_days < cutoff:
            fix = f"set it to {cutoff:g} or more, or survey.forced_cutoff_days to less"
            return wrong(
                f"is shorter than forced_cutoff_days, {cutoff:g}: objects would be forgotten", fix, "history_days"
            )
        if self.survey.cutoff_since_first:
            fix = "set all_history = true, or another index_mode"
            return wrong("needs first detections, which partitions take along", fix, "survey.cutoff_since_first")
        return None

    @property
    def window_ns(self) -> int | None:
        """History that is read, in ns; None is all of it."""
        return None if self.all_history else round(self.history_days * 86_400e9)

    @property
    def period_ns(self) -> int:
        """Stretch of time of a partition, in ns."""
        return round(self.period_days * 86_400e9)
