"""The messages of a reader's process, in the protocol of `daemon.workloads.frame.messages`."""

from hdrh.histogram import HdrHistogram
from pydantic import Field

from daemon.workloads.frame.messages import Message, ProcessSpec
from daemon.workloads.readers.admission import Admission
from daemon.workloads.readers.measuring import Lately, Measured, Totals, new_histogram
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
    admission: Admission = Field(description="what may ask from the start")
    seed: int


class Report(Message):
    """What a process has measured since it began; all of it only grows, so that a report may be left out.

    asking: clients that wait for an answer.
    problem: what the last question that failed within ten seconds failed with.
    histogram: encoded; nobody decodes it before somebody asks for it.
    """

    totals: Totals = Totals()
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
        totals=Totals() + measured,
        asking=asking,
        problem=measured.problem(now_s),
        lately=measured.lately(now_s),
        histogram=measured.latency.encode().decode("ascii"),
    )
