"""What the process of visits and its workers tell each other, as JSON lines.

A worker gets a `Spec` first, then for each visit a `Draw`, and a `Do` for tiles; it answers a `Drawn`, and a `Tiled`
or a `Refused` for each tile. `Draw` comes before the visit's time begins, as image analysis does.
"""

from pydantic import BaseModel, ConfigDict, TypeAdapter

from daemon.workloads.visits.tile import Past
from schemas.api.visits import TileMeasure


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def line(self) -> bytes:
        """As it goes over the pipe."""
        return self.model_dump_json().encode() + b"\n"


class Draw(_Line):
    """Draw a visit's exposure. last_object_id, last_source_id: given away before it."""

    visit: int
    last_object_id: int
    last_source_id: int


class Do(_Line):
    """Do these tiles of the visit that was drawn, by their numbers."""

    past: Past
    tiles: tuple[int, ...]


class Drawn(_Line):
    """The visit can begin."""

    drawn: int


class Tiled(_Line):
    """A tile is done."""

    tile: TileMeasure


class Refused(_Line):
    """A tile was not done, for that reason; again: trying again may help."""

    reason: str
    again: bool


Order = Draw | Do
Answer = Drawn | Tiled | Refused

_ORDERS: TypeAdapter[Order] = TypeAdapter(Order)
_ANSWERS: TypeAdapter[Answer] = TypeAdapter(Answer)


def read_order(line: bytes) -> Order:
    """Read an order."""
    return _ORDERS.validate_json(line)


def read_answer(line: bytes) -> Answer:
    """Read an answer."""
    return _ANSWERS.validate_json(line)
