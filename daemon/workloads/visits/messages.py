"""The messages of the process of visits, in the protocol of `daemon.workloads.frame.messages`."""

import os
from pathlib import Path

from pydantic import Field

from daemon.workloads.frame.messages import Message, ProcessSpec
from daemon.workloads.frame.runner import WorkloadProcess
from schemas.api.visits import Compaction, TableSize, TileMeasure, VisitMeasure
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig
from schemas.visits.records import VisitRecord


class Spec(ProcessSpec):
    """All that the process has to know."""

    visits: VisitsConfig
    until: int | None = Field(default=None, ge=0, description="ends with so many visits done; None: `visits.visits`")
    gives_way: bool = Field(default=False, description="to a logger on this machine: processor time and memory")

    @property
    def wanted(self) -> int:
        """How many visits are to be done in all."""
        return self.visits.visits if self.until is None else self.until


class Begun(Message):
    """The tables are there; visits follow. last: the last visit that is done, None before the first; done: how many."""

    last: VisitRecord | None
    done: int


class Visiting(Message):
    """A visit is under way; after a failure the same one again."""

    visit: int


class Visited(Message):
    """A visit is done. Tiles that an earlier try had committed wholly are not among `tiles`."""

    visit: VisitMeasure
    tiles: tuple[TileMeasure, ...]


class Lost(Message):
    """The server has lost visits that it had acknowledged: so many are done, and those after them are done again."""

    done: int


class Waiting(Message):
    """The next visit begins then, in ns since 1970-01-01 UTC."""

    until_ns: int


class Compacting(Message):
    """The rows of a table in a period are being compacted."""

    table: str
    period: int


class CompactionDone(Message):
    """They were."""

    compaction: Compaction


class Sizes(Message):
    """The tables on the server's disk, by name."""

    sizes: dict[str, TableSize]


class Troubled(Message):
    """What keeps the visit from going on, in one line; the next `Visited` says that it is over."""

    problem: str


MESSAGES = (Begun, Visiting, Visited, Lost, Waiting, Compacting, CompactionDone, Sizes, Troubled)


def spec_of(
    database: DatabaseConfig,
    visits: VisitsConfig,
    *,
    state_dir: Path,
    password: str | None = None,
    until: int | None = None,
    gives_way: bool = False,
) -> Spec:
    """The spec of a process of visits that ends with this one."""
    return Spec(
        parent=os.getpid(),
        database=database,
        password=password,
        state_dir=state_dir,
        visits=visits,
        until=until,
        gives_way=gives_way,
    )


def visits_process(spec: Spec, log: Path) -> WorkloadProcess[Message]:
    """The process of visits, not started yet; it sends `MESSAGES`."""
    return WorkloadProcess("process of visits", "daemon.workloads.visits", lambda: spec, log, MESSAGES)
