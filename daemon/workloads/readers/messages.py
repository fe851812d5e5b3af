"""The messages of a reader's process, in the protocol of `daemon.workloads.frame.messages`."""

from hdrh.histogram import HdrHistogram
from pydantic import Field

from daemon.workloads.frame.messages import Message, ProcessSpec
from daemon.workloads.readers.measuring import Lately, Measured, new_histogram
from schemas.batch import Layout
from schemas.config import GroupConfig, VisitsConfig, Workload
from schemas.config.section import Section

REPORT_EVERY_S = 0.25


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


class Spec(ProcessSpec):
    """All that a reader's process has to know."""

    workload: Workload
    of: GroupSpec | VisitsSpec
    logger: str
    give_up_s: float
    admitted: int = Field(description="clients that may ask from the start")
    share: float = Field(default=1.0, description="part of their time for which they may")
    seed: int


class Admit(Message):
    """To the process: let so many clients ask from now on, for this part of their time."""

    clients: int
    share: float


class Report(Message):
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
    lately: Lately = Lately()
    histogram: str | None = None

    def latency(self) -> HdrHistogram:
        """Its latencies in microseconds."""
        return new_histogram() if self.histogram is None else HdrHistogram.decode(self.histogram.encode())


def report_of(measured: Measured, *, asking: int, now_s: float) -> Report:
    """Put a report together."""
    return Report(
        cycles=measured.cycles,
        in_time=measured.in_time,
        failed=measured.failed,
        rows=measured.rows,
        slipped_s=measured.slipped_s,
        asking=asking,
        problem=measured.problem(now_s),
        lately=measured.lately(now_s),
        histogram=measured.latency.encode().decode("ascii"),
    )
