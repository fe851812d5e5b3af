"""Commands and what they changed: runs announced, dead letters retried, reader workloads; and a daemon's events."""

from pydantic import Field, RootModel

from schemas.api.model import Model
from schemas.api.status import Event, ReaderStatus


class RunsAnnounced(RootModel[dict[str, int | None]]):
    """Body of the answer to `POST /api/v1/run`: the number of the new run, by group; null where it begins later.

    So it does without an epoch, and where the database has not answered yet.
    """


class Retried(Model):
    """What became of the dead letters of one group, by now."""

    letters: int = Field(description="letters that there were to offer")
    committed: int = Field(description="letters of these that the database took")
    readings: int = Field(description="readings in them")
    rejected: int = Field(description="letters that stay")
    unreadable: int = Field(description="letters whose bytes are damaged; they stay")
    aside: int = Field(default=0, description="letters that are not offered, since assembly set them aside; they stay")
    lost: int = Field(default=0, description="readings of earlier retries that the database, put back, has no more")
    reasons: dict[str, int] = Field(description="why letters stay, with how often")
    running: bool = Field(description="whether there are more to offer")
    problem: str | None = Field(description="what ended it before all were offered, if anything did")


class RetriedByGroup(RootModel[dict[str, Retried]]):
    """Body of the answers of `/api/v1/dead-letters/retry`."""


class Discarded(Model):
    """How much of the dead letters of one group was thrown away."""

    letters: int
    triggers: int
    readings: int


class DiscardedByGroup(RootModel[dict[str, Discarded]]):
    """Body of the answer to `POST /api/v1/dead-letters/discard`."""


class EventList(Model):
    """Events as they were asked for."""

    events: list[Event] = Field(description="oldest first, those of earlier daemons in this state folder among them")
    cut: bool = Field(description="whether there may be earlier ones, beyond the number that was asked for")


class ReadersByName(RootModel[dict[str, ReaderStatus]]):
    """Body of `GET /api/v1/readers`: the workloads that run."""
