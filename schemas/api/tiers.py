"""Tiers: what lies in which, what is being moved, and what moves next: a part of the status."""

from pydantic import Field

from schemas.api.model import Model
from schemas.config.section import Section
from schemas.config.tiers import Policy


class TierStatus(Model):
    """One tier, in the order of the configuration."""

    name: str
    place: str | None = Field(description="its tablespace or directory; null is the database's own")
    size_bytes: int = Field(description="what lies there, of all groups, as last looked")
    partitions: int = Field(description="partitions with readings that lie there, as last looked")
    max_bytes: int | None = Field(description="most that may lie there; null without a limit")
    heat_s_a_day: float = Field(
        default=0.0, description="seconds a day that readers of what lies there would wait longer on a slow disk"
    )


class MovingPeriod(Model):
    """A partition that is being moved."""

    group: str
    name: str
    source: str = Field(description="the tier that it lies in until the move ends")
    target: str = Field(description="the tier that it moves to")
    size_bytes: int
    done: float = Field(description="how much of it is copied, 0 to 1")
    left_s: float | None = Field(description="how long it will last at the pace so far; null before it is known")


class NextMove(Model):
    """The next partition that moves as time goes on: too old for its tier, or hot for long enough."""

    group: str
    name: str
    tier: str = Field(description="where it moves to")
    at_ns: int = Field(description="when it is moved, at the earliest")


class TiersStatus(Model):
    """Tiers as a whole."""

    tiers: list[TierStatus]
    policy: Policy = Field(default=Policy.AGE, description="what says in which tier a partition lies")
    moved: int = Field(default=0, description="partitions moved since the daemon's start")
    thrown_away: int = Field(
        default=0, description="copies thrown away since then: readings came for the partition meanwhile"
    )
    failed: int = Field(default=0, description="moves that the database refused since then")
    moving: MovingPeriod | None = Field(default=None, description="what is being moved now")
    waiting: int = Field(default=0, description="partitions that move after it")
    next: NextMove | None = Field(default=None, description="what time moves next; null where nothing is known to")
    held: list[str] = Field(default=[], description="what a limit asks for, and stays, with the reason, a line each")
    short: list[str] = Field(default=[], description="tiers that take more than they may, a line each")
    problem: str | None = Field(default=None, description="why nothing could be moved, in one line")
    checked_ns: int | None = Field(default=None, description="when it was last looked; null before the first time")

    def words(self) -> str:
        """What is done now or next, in one line."""
        if self.moving is not None:
            return f"moving {self.moving.name} of {self.moving.group} to {self.moving.target}"
        if self.short:
            return self.short[0]
        if self.next is not None:
            return f"next: {self.next.name} of {self.next.group} to {self.next.tier}"
        return "nothing to move now"


class TierMove(Section):
    """Which partition is moved to which tier."""

    group: str = Field(min_length=1, max_length=64, description="The instrument group.")
    partition: str = Field(min_length=1, max_length=64, description="Its partition, by name.")
    tier: str = Field(min_length=1, max_length=64, description="The tier that it is moved to.")


class MoveOrdered(Model):
    """Body of the answer to `POST /api/v1/tiers/move`: it will be moved."""

    group: str
    name: str
    source: str = Field(description="the tier that it lies in until the move ends")
    target: str = Field(description="the tier that it moves to")
    size_bytes: int
