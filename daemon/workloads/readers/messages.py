"""The messages of a reader's process, in the protocol of `daemon.workloads.frame.messages`."""

from pathlib import Path

from pydantic import Field

from backends.counting import HourRead
from daemon.workloads.frame.messages import Message, ProcessSpec
from daemon.workloads.readers.measuring import Lately, Totals
from schemas.batch import Layout
from schemas.config import ConditionsConfig, GroupConfig, VisitsConfig, Workload
from schemas.config.section import Section


class Admission(Message):
    """So many clients may ask, each for this share of its time (above 0, up to 1).

    stretch: the number of the stretch of time that is measured by itself, from the moment in which the process hears of
    it; 0 while none is.
    """

    clients: int
    share: float = 1.0
    stretch: int = 0


REPORT_EVERY_S = 0.25


class GroupSpec(Section):
    """A group that is read; conditions: what it is calibrated by, and folder: what `payloads` there is relative to."""

    group: GroupConfig
    layout: Layout
    conditions: ConditionsConfig
    folder: Path

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


class StretchReport(Message):
    """What a process has measured of the questions that were due in a stretch of time.

    asking: how many of them have no answer yet.
    histogram: encoded; nobody decodes it before somebody asks for it.
    """

    number: int
    totals: Totals
    asking: int
    histogram: str


class Report(Message):
    """What a process has measured since it began; all of it only grows, so that a report may be left out.

    asking: clients that wait for an answer.
    problem: what the last question that failed within ten seconds failed with.
    stretch: of the newest one; None before the first.
    """

    totals: Totals = Totals()
    asking: int = 0
    problem: str | None = None
    lately: Lately = Lately()
    stretch: StretchReport | None = None


class ReadReport(Message):
    """What answers have read since the message before of this kind; sent where the server does not count it."""

    hours: tuple[HourRead, ...]
