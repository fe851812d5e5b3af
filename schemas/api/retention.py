"""What retention has dropped, and does next: a part of the status, and the account of all of it."""

from pydantic import Field, RootModel

from schemas.api.model import Model
from schemas.retention import Dropped, Rule


class DroppedPeriod(Model):
    """A period whose readings were dropped; its ledger is there."""

    group: str
    name: str = Field(description="of the partition")
    start_ns: int = Field(description="start_ns <= time_ns < end_ns")
    end_ns: int
    rule: Rule = Field(description="for which limit it was dropped")
    dropped_ns: int | None = Field(description="when; null while it is being dropped")
    triggers: int
    readings: int
    missing: int = Field(description="readings that were missing, by the ledger")
    skipped: int = Field(description="trigger numbers that never came, by the ledger")
    size_bytes: int = Field(description="what it took of the database's disk, with indexes")

    @classmethod
    def of(cls, found: Dropped) -> "DroppedPeriod":
        """The account of a period as the API gives it."""
        period = found.period
        return cls(
            group=period.group,
            name=period.name,
            start_ns=period.start_ns,
            end_ns=period.end_ns,
            rule=found.rule,
            dropped_ns=found.dropped_ns,
            triggers=found.triggers,
            readings=found.readings,
            missing=found.missing,
            skipped=found.skipped,
            size_bytes=found.size_bytes,
        )


class DroppedPeriods(RootModel[list[DroppedPeriod]]):
    """Body of `GET /api/v1/retention`."""


class NextPeriod(Model):
    """The next period that becomes too old."""

    group: str
    name: str
    at_ns: int = Field(description="when it is dropped, at the earliest")


class RetentionStatus(Model):
    """Retention as a whole."""

    is_limited: bool = Field(description="whether the configuration sets any limit; else nothing is ever dropped")
    periods: int = Field(default=0, description="periods dropped, ever")
    readings: int = Field(default=0, description="readings dropped, ever")
    size_bytes: int = Field(default=0, description="what these took of the database's disk")
    last: DroppedPeriod | None = Field(default=None, description="what was dropped last")
    dropping: str | None = Field(default=None, description="what is being dropped now, in one line")
    next: NextPeriod | None = Field(default=None, description="what age drops next; null where no age is set")
    held: list[str] = Field(default=[], description="what a limit asks for, and stays, with the reason, a line each")
    short: list[str] = Field(
        default=[], description="limits that are not met with all that may be dropped, a line each"
    )
    problem: str | None = Field(default=None, description="why nothing could be dropped, in one line")
    checked_ns: int | None = Field(default=None, description="when it was last looked; null before the first time")

    def words(self) -> str:
        """What it does next, in one line."""
        if not self.is_limited:
            return "nothing is ever dropped: no limit is set"
        if self.dropping is not None:
            return f"dropping {self.dropping}"
        if self.short:
            return f"not met: {self.short[0]}"
        if self.next is not None:
            return f"next: {self.next.name} of {self.next.group}"
        return "nothing to drop now"
