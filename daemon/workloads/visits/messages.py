"""What the process of visits and who started it tell each other, as JSON lines over its standard input and output.

First comes its `Spec`, then `{"heard": true}` for each message that was taken and, at most once, `{"stop": true}`; back
come the messages below, each an object that its first key names. The end of its input tells the process that nobody is
there any more.
"""

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from schemas.api.visits import Compaction, TableSize, TileMeasure, VisitMeasure
from schemas.config import DatabaseConfig
from schemas.config.section import Section
from schemas.config.visits import VisitsConfig
from schemas.visits.records import VisitRecord

LONGEST_LINE = 2**24
"""Bytes a line may have: a visit of 1,024 tiles takes about half a million."""

STOP = b'{"stop": true}\n'
HEARD = b'{"heard": true}\n'


class Spec(Section):
    """All that the process has to know. It goes over a pipe: others may read a process's arguments."""

    parent: int = Field(description="process that it must not outlive")
    database: DatabaseConfig
    password: str | None = Field(default=None, repr=False)
    state_dir: str = Field(description="where an embedded PostgreSQL runs")
    visits: VisitsConfig
    until: int | None = Field(default=None, ge=0, description="ends with so many visits done; None: `visits.visits`")
    gives_way: bool = Field(default=False, description="to a logger beside it: for processor time and for memory")

    @property
    def wanted(self) -> int:
        """How many visits are to be done in all."""
        return self.visits.visits if self.until is None else self.until

    def line(self) -> bytes:
        """As it goes over the pipe."""
        return self.model_dump_json(by_alias=True).encode() + b"\n"


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def line(self) -> bytes:
        """As it goes over the pipe."""
        return self.model_dump_json().encode() + b"\n"


class Beginning(_Message):
    """Where a run begins. last: the last visit that is done, None before the first; done: how many are."""

    last: VisitRecord | None
    done: int


class Begun(_Message):
    """The tables are there; visits follow."""

    begun: Beginning


class Visited(_Message):
    """A visit is done. Tiles that an earlier try had committed wholly are not among `tiles`."""

    visit: VisitMeasure
    tiles: tuple[TileMeasure, ...]


class Waiting(_Message):
    """The next visit begins then, in ns since 1970-01-01 UTC."""

    waiting: int


class Compacting(_Message):
    """A table's packs of a period are being written anew."""

    compacting: str
    period: int


class Rewritten(_Message):
    """They are."""

    compacted: Compaction


class Sizes(_Message):
    """The tables on the server's disk, by name."""

    sizes: dict[str, TableSize]


class Troubled(_Message):
    """What keeps the visit from going on, in one line; the next `Visited` says that it is over."""

    problem: str


class Failed(_Message):
    """Why the process ends before its time, in one line; the last that it says."""

    failed: str


Message = Begun | Visited | Waiting | Compacting | Rewritten | Sizes | Troubled | Failed

_MESSAGES: TypeAdapter[Message] = TypeAdapter(Message)


def read_message(line: bytes) -> Message:
    """Read a message.

    Raises:
        ValueError: it is none.
    """
    return _MESSAGES.validate_json(line)
