"""The messages of the process of snapshot readers, and of the processes of its clients."""

from pydantic import Field

from daemon.workloads.frame.messages import Message, ProcessSpec
from schemas.api.snapshots import CliffPoint, SnapshotCycles, SnapshotLoading, SnapshotSample, SnapshotSettings


class Spec(ProcessSpec):
    """All that a process has to know."""

    snapshots: SnapshotSettings
    gives_way: bool = Field(default=False, description="to a logger on this machine: processor time and memory")


# --- of the workload's process to the one that started it ------------------------------------------------------------


class Loading(Message):
    """How far the loader is."""

    loading: SnapshotLoading


class Measured(Message):
    """A point of the cliff."""

    point: CliffPoint


class Tick(Message):
    """How the clients are, and what has come since the message before; fields as in `SnapshotsStatus`."""

    started: int
    states: str
    progress: tuple[int, ...]
    read: tuple[int, ...]
    cycles: SnapshotCycles
    sample: SnapshotSample | None
    problem: str | None


class Troubled(Message):
    """What keeps the loader from going on, in one line."""

    problem: str


class Noted(Message):
    """What a reader of the record has to know, a sentence."""

    note: str


MESSAGES = (Loading, Measured, Tick, Troubled, Noted)


# --- of the processes of clients to the workload's process -----------------------------------------------------------


class Started(Message):
    """All processes of clients are there; the first client's first cycle is due then, by CLOCK_MONOTONIC."""

    at_s: float


class Asking(Message):
    """A client begins to connect in a cycle that was due then, by CLOCK_MONOTONIC."""

    client: int
    due_s: float


class Reading(Message):
    """A client has this percent of its snapshot."""

    client: int
    percent: int


class Done(Message):
    """A cycle ended, with or without a snapshot; times as in `SnapshotCycles`, by CLOCK_MONOTONIC.

    process, cpu_s: number of the client's process, and its processor time so far. problem: why there is no snapshot.
    """

    client: int
    number: int
    due_s: float
    wait_s: float
    connect_s: float
    query_s: float
    rows: int
    bytes: int
    in_time: bool
    process: int
    cpu_s: float
    problem: str | None = None


class Died(Message):
    """A process of clients ended early; the message is one line."""

    problem: str


OF_CLIENTS = (Started, Asking, Reading, Done, Died)
