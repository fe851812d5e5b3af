"""Decimation: what was reduced, what is being reduced, and what is next: a part of the status."""

from pydantic import Field

from schemas.api.model import Model


class ReducingPeriod(Model):
    """A partition that is being reduced."""

    group: str
    name: str
    how: str = Field(description="what its readings become, in words")
    done: float = Field(description="how far it is, 0 to 1")
    left_s: float | None = Field(description="how long it will last at the pace so far; null before it is known")


class NextReduction(Model):
    """The next partition that becomes too old."""

    group: str
    name: str
    at_ns: int = Field(description="when it is reduced, at the earliest")


class LastReduction(Model):
    """The partition that was reduced last."""

    group: str
    name: str
    at_ns: int = Field(description="when")


class DecimationStatus(Model):
    """Decimation as a whole."""

    periods: int = Field(default=0, description="partitions reduced, ever")
    readings: int = Field(default=0, description="readings that are there no more as they were, ever")
    size_bytes: int = Field(default=0, description="what readings of these partitions took of the disk before")
    last: LastReduction | None = Field(default=None, description="what was reduced last")
    reducing: ReducingPeriod | None = Field(default=None, description="what is being reduced now")
    waiting: int = Field(default=0, description="partitions that are reduced after it")
    next: NextReduction | None = Field(default=None, description="what age reduces next")
    held: list[str] = Field(default=[], description="what has to be reduced, and stays, with the reason, a line each")
    problem: str | None = Field(default=None, description="why something could not be reduced, in one line")
    checked_ns: int | None = Field(default=None, description="when it was last looked; null before the first time")

    def words(self) -> str:
        """What is done now or next, in one line."""
        if self.reducing is not None:
            return f"reducing {self.reducing.name} of {self.reducing.group} to {self.reducing.how}"
        if self.next is not None:
            return f"next: {self.next.name} of {self.next.group}"
        return "nothing to reduce now"
