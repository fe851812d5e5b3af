"""The events of a daemon: the body of `GET /api/v1/events`. The status has the newest of them."""

from pydantic import Field

from schemas.api.model import Model
from schemas.api.status import Event


class EventList(Model):
    """Events as they were asked for."""

    events: list[Event] = Field(description="oldest first, those of earlier daemons in this state folder among them")
    cut: bool = Field(description="whether there may be earlier ones, beyond the number that was asked for")
