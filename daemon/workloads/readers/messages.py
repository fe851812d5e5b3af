"""What a reader's process and the daemon tell each other, as JSON lines over its standard input and output.

First comes its `Spec`, then orders (`{"admit": 3, "share": 0.5}`, `{"stop": true}`); back come `Report`s. The end of
its input tells the process that the daemon is gone.
"""

from dataclasses import asdict, dataclass, field, fields

import orjson
from hdrh.histogram import HdrHistogram
from pydantic import Field

from daemon.workloads.readers.measuring import Lately, Measured, new_histogram
from schemas.batch import Layout
from schemas.config import DatabaseConfig, GroupConfig, VisitsConfig, Workload
from schemas.config.section import Section

REPORT_EVERY_S = 0.25
LONGEST_LINE = 2**24
"""Bytes a line may have: names of 100,000 instruments take a few million; a histogram with something in all of its
23,552 counts takes 60,000."""


class GroupSpec(Section):
    """A group that is read."""

    group: GroupConfig
    layout: Layout

    @property
    def name(self) -> str:
        """What the status calls it."""
        return self.group.name


class VisitsSpec(Section):
    """Visits that are read."""

    visits: VisitsConfig

    @property
    def name(self) -> str:
        """What the status calls them."""
        return self.visits.schema_name


class Spec(Section):
    """All that a reader's process has to know. It goes over a pipe: others may read a process's arguments."""

    parent: int = Field(description="process that it must not outlive")
    workload: Workload
    of: GroupSpec | VisitsSpec
    logger: str
    database: DatabaseConfig
    password: str | None = Field(default=None, repr=False)
    state_dir: str = Field(description="where an embedded PostgreSQL runs")
    give_up_s: float
    admitted: int = Field(description="clients that may ask from the start")
    share: float = Field(default=1.0, description="part of their time for which they may")
    seed: int

    def line(self) -> bytes:
        """As it goes over the pipe."""
        return self.model_dump_json(by_alias=True).encode() + b"\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What a process has measured since it began. What is counted only grows, so that one may be left out.

    asking: clients that wait for an answer.
    problem: what the last question that failed within ten seconds failed with.
    histogram: encoded; nobody decodes it before somebody asks for it.
    """

    cycles: int = 0
    in_time: int = 0
    failed: int = 0
    rows: int = 0
    slipped_s: float = 0.0
    asking: int = 0
    problem: str | None = None
    lately: Lately = field(default_factory=Lately)
    histogram: str | None = None

    def line(self) -> bytes:
        """As it goes over the pipe."""
        return orjson.dumps(asdict(self), option=orjson.OPT_APPEND_NEWLINE)

    def latency(self) -> HdrHistogram:
        """Its latencies in microseconds."""
        return new_histogram() if self.histogram is None else HdrHistogram.decode(self.histogram.encode())


def report_of(measured: Measured, *, asking: int, now_s: float) -> Report:
    """Put a report together."""
    encoded = measured.latency.encode()
    return Report(
        cycles=measured.cycles,
        in_time=measured.in_time,
        failed=measured.failed,
        rows=measured.rows,
        slipped_s=measured.slipped_s,
        asking=asking,
        problem=measured.problem(now_s),
        lately=measured.lately(now_s),
        histogram=encoded.decode("ascii"),
    )


def read_report(line: bytes) -> Report:
    """Read a report.

    Raises:
        ValueError: it is none.
    """
    told = orjson.loads(line)
    if not isinstance(told, dict) or told.keys() != _FIELDS:
        raise ValueError("a reader's process said something that is no report")
    return Report(**{**told, "lately": Lately(**told["lately"])})


_FIELDS = {each.name for each in fields(Report)}
