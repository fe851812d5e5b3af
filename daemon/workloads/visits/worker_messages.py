"""What the process of visits and its workers send each other, in the lines of `daemon.workloads.frame.messages`.

A worker gets a `Spec` first, then for each visit a `Draw`, and a `Do` for tiles; it answers a `Drawn`, and a `Tiled`
or a `TileRefused` for each tile. `Draw` comes before the visit's time begins, as image analysis does.
"""

from daemon.workloads.frame.messages import Message, decoder
from daemon.workloads.visits.tile import Past
from schemas.api.visits import TileMeasure


class Draw(Message):
    """Draw a visit's exposure. last_object_id, last_source_id: given away before it."""

    visit: int
    last_object_id: int
    last_source_id: int


class Do(Message):
    """Do these tiles of the visit that was drawn, by their numbers."""

    past: Past
    tiles: tuple[int, ...]


class Drawn(Message):
    """The visit can begin."""

    visit: int


class Tiled(Message):
    """A tile is done."""

    tile: TileMeasure


class TileRefused(Message):
    """A tile was not done, for that reason; again: trying again may help."""

    reason: str
    again: bool


Order = Draw | Do
Answer = Drawn | Tiled | TileRefused

read_order = decoder(Draw, Do)
read_answer = decoder(Drawn, Tiled, TileRefused)
