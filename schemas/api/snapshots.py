"""Snapshot readers with a deadline: what is asked of a run, what is measured, and what a status tells of it.

Times of the data are in seconds of the data; all others are in seconds of the clock, of which `scale` pass for each
second of the data. Clients start one after the other; each reads one snapshot in a cycle, and waits for the rest of it.
A cycle is in time if the snapshot is there, and processed, before it ends. A late client begins its next cycle late: it
slips, and all its later cycles with it.
"""

from enum import StrEnum
from typing import Any

from pydantic import Field, RootModel, model_validator

from schemas.api.model import Model
from schemas.checking.problems import refuse, wrong
from schemas.config.section import Name, Section
from schemas.folders.folders import CHANNELS_AT_ONCE, TEXT_MOST, FolderLayout
from schemas.states import RunState, SnapshotsPhase

MOST_CLIENTS = 2_000
MOST_PROCESSES = 200
MOST_CYCLES = 200_000
"""Cycles of all clients of a run: each is a row of the record."""


class Payload(StrEnum):
    """What the value of each interval is."""

    RANDOM = "random"  # characters that nothing can compress
    CONSTANT = "constant"  # one character again and again, which whatever compresses makes small: a control


class InsertionOrder(StrEnum):
    """In which order the intervals of a folder are inserted."""

    TIME = "time"  # one interval of each channel after the other, as they come in an experiment
    CHANNEL = "channel"  # all intervals of a channel, then those of the next one, as the paper did


class Sample(StrEnum):
    """How the intervals are dealt to folders and channels."""

    FOLDERS = "folders"  # `folders` of `channels`, each with `intervals`
    CONTROL = "control"  # one folder with one channel, which has as many intervals as a snapshot has rows: all are read


class Ask(StrEnum):
    """What a client asks for in a cycle."""

    SNAPSHOT = "snapshot"  # all that is valid at a time, of another chunk of the data each time
    CHANGES = "changes"  # what has changed since the chunk before: each client goes through a stretch of its own


class SnapshotSettings(Section):
    """What is asked of a run of snapshot readers; the defaults are the paper's."""

    schema_name: Name = Field(
        default="triggerlog_snapshots",
        alias="schema",
        description="Schema that the folders of runs lie in; in MariaDB, the database. In that of "
        "`database`; no other of the configuration.",
    )
    layout: FolderLayout = Field(
        default=FolderLayout.WINDOW, description="How the folders lie, and how a snapshot is asked for."
    )
    folders: int = Field(default=100, ge=1, le=1_000, description="Folders, each a table.")
    channels: int = Field(default=1_000, ge=1, le=CHANNELS_AT_ONCE, description="Channels of a folder.")
    intervals: int = Field(default=60, ge=2, le=100_000, description="Intervals of a channel, one behind the other.")
    interval_s: float = Field(
        default=300.0,
        gt=0,
        le=1e6,
        description="Length of an interval, in seconds of the data; the channels begin "
        "theirs one after the other, evenly over this length (in the paper 3 ms apart).",
    )
    payload: Payload = Field(default=Payload.RANDOM, description="`random` characters, or `constant` ones.")
    payload_bytes: int = Field(default=1_000, ge=1, le=TEXT_MOST, description="Characters of the value of an interval.")
    order: InsertionOrder = Field(
        default=InsertionOrder.TIME, description="In which order intervals are inserted: by `time`, or by `channel`."
    )
    sample: Sample = Field(
        default=Sample.FOLDERS,
        description="`folders` of channels, or `control`: one folder with one channel, which is read whole.",
    )
    ask: Ask = Field(
        default=Ask.SNAPSHOT,
        description="A whole `snapshot` in each cycle, or the `changes` since the chunk before.",
    )
    clients: int = Field(default=100, ge=1, le=MOST_CLIENTS, description="Clients that read.")
    processes: int | None = Field(
        default=None,
        ge=1,
        le=MOST_PROCESSES,
        description=f"Processes that the clients are in, which share them evenly; one each when left out, and at most "
        f"{MOST_PROCESSES}.",
    )
    chunk_s: float = Field(
        default=5.0,
        gt=0,
        le=1e6,
        description="Data that a client processes in a cycle, with one snapshot, in seconds of the data; clients start "
        "so far apart.",
    )
    cycle_s: float | None = Field(
        default=None,
        gt=0,
        le=1e8,
        description="Length of a cycle, in seconds of the data; when left out, `clients` times `chunk_s`, so that the "
        "clients together keep up with the data.",
    )
    processing_s: float = Field(
        default=0.0,
        ge=0,
        le=1e8,
        description="What a client does with a snapshot takes so long, in seconds of the data, and has to end within "
        "the cycle: so much less is left for reading.",
    )
    cycles: int = Field(
        default=50, ge=0, le=MOST_CYCLES, description="Cycles of each client; 0 loads the folders, and reads nothing."
    )
    scale: float = Field(
        default=1.0, gt=0, le=100, description="Seconds of the clock that pass for a second of the data."
    )
    cliff: bool = Field(
        default=True,
        description="Before the clients start, count the blocks that are read again for snapshots of 1 folder to all.",
    )

    @model_validator(mode="after")
    def _fits(self) -> "SnapshotSettings":
        problems = []
        if self.clients * self.cycles > MOST_CYCLES:
            fix = f"take at most {MOST_CYCLES // self.clients:,} with {self.clients:,} clients"
            problems.append(
                wrong(f"{self.clients * self.cycles:,} cycles in all are too many to record", fix, "cycles")
            )
        if self.processing_s >= self.cycle_data_s:
            fix = "leave some of the cycle to read"
            problems.append(wrong(f"not less than the cycle, {self.cycle_data_s:g} s", fix, "processing_s"))
        if self.sample is Sample.CONTROL and self.ask is Ask.CHANGES:
            problems.append(wrong("the control sample is read whole", 'set ask = "snapshot"', "ask"))
        refuse(problems)
        return self

    @property
    def cycle_data_s(self) -> float:
        """Length of a cycle, in seconds of the data."""
        return self.clients * self.chunk_s if self.cycle_s is None else self.cycle_s

    @property
    def rows_in_snapshot(self) -> int:
        """Rows of a whole snapshot."""
        return self.folders * self.channels

    @property
    def rows_in_all(self) -> int:
        """Rows of the folders together."""
        return self.rows_in_snapshot * (1 if self.sample is Sample.CONTROL else self.intervals)

    @property
    def rows_asked(self) -> float:
        """Rows of snapshots that the clients ask for in a second of the clock, while none is late."""
        return self.clients * self.rows_in_snapshot / (self.cycle_data_s * self.scale)


class ClientState(StrEnum):
    """What a client does now."""

    NOT_STARTED = "not started"
    CONNECTING = "connecting"
    READING = "reading"
    LATE = "late"  # it reads, and its cycle is over
    PROCESSING = "processing"
    WAITING = "waiting"  # for the rest of its cycle; its snapshot came in time
    FAILED = "failed"  # it waits for the rest of its cycle, without a snapshot
    ENDED = "ended"


CLIENT_LETTERS: dict[str, ClientState] = {
    "n": ClientState.NOT_STARTED,
    "c": ClientState.CONNECTING,
    "r": ClientState.READING,
    "l": ClientState.LATE,
    "p": ClientState.PROCESSING,
    "w": ClientState.WAITING,
    "f": ClientState.FAILED,
    "e": ClientState.ENDED,
}
"""By which the status sends the state of each client of a run."""


class SnapshotLoading(Model):
    """Loading of the folders of a run. Rows that an earlier run has loaded count as rows."""

    rows: int = Field(description="rows that are in the database")
    rows_in_all: int
    rows_found: int = Field(description="rows that were there when the run began")
    seconds: float = Field(description="spent with loading in this run")
    row_rate: float | None = Field(description="rows a second; null where nothing was loaded")


class CliffPoint(Model):
    """A snapshot of the first folders, read again: what the reading that needed the fewest blocks needs."""

    folders: int
    rows: int
    value_bytes: int = Field(description="values in the snapshot, which is its size")
    read: int | None = Field(
        description="blocks that the server had not in its cache, though it had read them just before; null where it "
        "does not say"
    )
    hit: int | None = Field(description="blocks that it found in its cache; null where it does not say")
    seconds: float = Field(description="of that reading")


class SnapshotCycles(Model):
    """Cycles that ended, as columns: a value a cycle, in the order in which they ended.

    Times are in seconds of the clock; those at which something was are since the first client's first cycle was due.
    """

    client: list[int] = Field(default_factory=list, description="number of the client, from 0")
    number: list[int] = Field(default_factory=list, description="number of its cycle, from 0")
    due_s: list[float] = Field(default_factory=list, description="when the cycle began, as the client had slipped")
    wait_s: list[float] = Field(default_factory=list, description="from then until the client came to connect")
    connect_s: list[float] = Field(default_factory=list, description="from then until it had a connection")
    query_s: list[float] = Field(default_factory=list, description="from then until it had the whole snapshot")
    rows: list[int] = Field(default_factory=list)
    bytes: list[int] = Field(default_factory=list, description="values and keys of the rows")
    in_time: list[bool] = Field(default_factory=list)
    failed: list[bool] = Field(default_factory=list, description="there was no snapshot")

    def __len__(self) -> int:
        """How many."""
        return len(self.client)


class SnapshotSample(Model):
    """A stretch of the time line of a run, up to `t_s`; rates are a second of the clock.

    What the server or the machine does not say is null.
    """

    t_s: float = Field(description="its end, since the first client's first cycle was due")
    reading: int = Field(description="clients that connected or read at its end")
    late: int = Field(description="of these, those whose cycle was over")
    row_rate: float
    byte_rate: float
    in_time: int = Field(description="cycles that ended in it, in time")
    ended: int = Field(description="cycles that ended in it")
    read_rate: float | None = Field(description="blocks that the server had not in its cache")
    hit_rate: float | None = Field(description="blocks that it had")
    server_percent: float | None = Field(description="processor time of the database server, of one core")
    clients_percent: float | None = Field(description="processor time of all clients, of one core")
    machine_percent: float = Field(description="processor time of everything on this machine, of all cores")


class SnapshotFigures(Model):
    """What follows from the cycles and the time line of a run, or of the run so far."""

    cycles: int = Field(description="cycles that ended")
    in_time: int
    failed: int
    efficiency: float | None = Field(description="cycles in time, of those that ended; null before the first")
    slipped_s: float = Field(description="by how much late clients moved their later cycles, seconds in all")
    p50_s: float | None = Field(description="of the seconds from begin of a cycle until the snapshot was there")
    p90_s: float | None
    max_s: float | None
    row_rate: float | None = Field(description="rows a second, over the whole run")
    byte_rate: float | None = Field(description="bytes a second, over the whole run")
    blocks_read: float | None = Field(description="blocks read for a snapshot; null where the server does not say")
    blocks_hit: float | None = Field(description="blocks found in the cache for a snapshot; the same")
    server_percent: float | None = Field(description="of one core, on average")
    clients_percent: float | None = Field(description="of one core, on average")
    machine_percent: float | None = Field(description="of all cores, on average")


class SnapshotsStatus(Model):
    """How a run of snapshot readers is."""

    id: str = Field(description="of the record that is kept of the run")
    state: RunState
    phase: SnapshotsPhase = Field(description="what it does while it is running")
    problem: str | None = Field(
        default=None, description="why it failed, or what a cycle of the last ten seconds failed with, in words"
    )
    target: str = Field(description="schema and set that the folders are in")
    since_ns: int = Field(description="when the run began")
    settings: SnapshotSettings
    cycle_s: float = Field(description="length of a cycle, in seconds of the clock")
    deadline_s: float = Field(description="part of it that may be spent with reading, in seconds of the clock")
    stagger_s: float = Field(description="from the start of one client to that of the next, in seconds of the clock")
    rows_asked: float = Field(description="rows a second that the clients ask for while none is late")
    loading: SnapshotLoading
    started: int = Field(description="clients whose first cycle has begun")
    states: str = Field(
        default="", description="a letter a client, see CLIENT_LETTERS; empty while none reads, and when it is over"
    )
    progress: list[int] = Field(
        default_factory=list,
        description="percent of its cycle that is over, a value a client: above 100 it is late, 999 at most; as "
        "`states`",
    )
    read: list[int] = Field(default_factory=list, description="percent of its snapshot that a client has; as `states`")
    cycles: int = Field(description="cycles that there are to be in all")
    figures: SnapshotFigures = Field(description="so far")
    lately: SnapshotSample | None = Field(default=None, description="the last stretch of the time line")
    remaining_s: float | None = Field(default=None, description="estimate of the time left")

    @property
    def is_active(self) -> bool:
        """Whether the run has not ended yet."""
        return not self.state.is_over


class SnapshotsRun(Model):
    """The record of a run, in `state_dir/snapshots/ID.json`."""

    id: str
    began_ns: int
    ended_ns: int | None = None
    state: RunState = RunState.RUNNING
    problem: str | None = Field(default=None, description="why it ended early, in words")
    settings: SnapshotSettings
    target: str
    command: str = Field(description="what repeats it")
    product: str = Field(default="", description="e.g. `postgresql`, `mariadb`, `ferretdb`")
    version: str = ""
    server: dict[str, str] = Field(
        default_factory=dict, description="the server's settings that decide about the figures"
    )
    machine: dict[str, str] = Field(default_factory=dict, description="processor, cores, memory")
    loading: SnapshotLoading
    cliff: list[CliffPoint] = Field(default_factory=list)
    cycles: SnapshotCycles = Field(default_factory=SnapshotCycles)
    timeline: list[SnapshotSample] = Field(default_factory=list)
    figures: SnapshotFigures
    notes: list[str] = Field(default_factory=list, description="what else a reader has to know, each a sentence")


class SnapshotsSummary(Model):
    """A line of the list of past runs."""

    id: str
    began_ns: int
    ended_ns: int | None
    state: RunState
    problem: str | None
    layout: FolderLayout
    folders: int
    channels: int
    clients: int
    cycles: int = Field(description="that ended")
    efficiency: float | None
    rows_asked: float = Field(description="rows a second that the clients asked for")
    cliff: list[CliffPoint] = Field(description="few: those of several layouts are drawn together")


class SnapshotsLive(Model):
    """Body of `GET /api/v1/snapshots/live`: what the run under way, or the last one, has measured so far."""

    id: str
    cliff: list[CliffPoint]
    cycles: SnapshotCycles = Field(description="those after the number that was asked for")
    next_cycle: int = Field(description="ask for cycles after this number the next time")
    samples: list[SnapshotSample] = Field(description="those after the number that was asked for")
    next_sample: int = Field(description="ask for samples after this number the next time")


class Snapshots(Model):
    """Body of `GET /api/v1/snapshots`."""

    status: SnapshotsStatus | None = Field(
        description="the run that is under way, or was last since the daemon started"
    )
    past: list[SnapshotsSummary] = Field(description="those that were, the newest first")
    settings: SnapshotSettings = Field(description="of a run that is started without any")


class SnapshotChanges(RootModel[dict[str, Any]]):
    """Body of `POST /api/v1/snapshots`: the fields of a run that differ from the defaults."""
