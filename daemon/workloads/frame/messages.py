"""The protocol between a workload's process and the process that started it: JSON lines over its standard streams.

The first line to the child is its `ProcessSpec`. Each line after it, in either direction, is one `Message`:
`{"Visited": {...}}`. The parent answers each message with `Taken`, so that the child knows how far it was followed; it
sends `Stop` once. The end of its input tells the child that its parent is gone. Before it ends early the child sends
`Failed`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field

from schemas.config import DatabaseConfig
from schemas.config.section import Section

LONGEST_LINE = 2**24
"""Bytes of a line, at most: names of 100,000 instruments take a few million; a visit of 1,024 tiles half a million."""


class ProcessSpec(Section):
    """What the process of a workload has to know. It goes over a pipe: other users may read a process's arguments."""

    parent: int = Field(description="process that it must not outlive")
    database: DatabaseConfig
    password: str | None = Field(default=None, repr=False)
    state_dir: Path = Field(description="where an embedded PostgreSQL runs")

    def line(self) -> bytes:
        """The spec as a line of the protocol."""
        return self.model_dump_json(by_alias=True).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Self:
        """Read the line of a spec."""
        return cls.model_validate_json(line)


class Message(BaseModel):
    """One message; its class names it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def line(self) -> bytes:
        """The message as a line of the protocol."""
        return b'{"%b":%b}\n' % (type(self).__name__.encode(), self.model_dump_json().encode())


class Taken(Message):
    """To the child: one more of its messages was dealt with."""


class Stop(Message):
    """To the child: end as soon as what is under way is whole."""


class Failed(Message):
    """To the parent: why the process ends early, in one line. It would fail again if it were started again."""

    problem: str


M = TypeVar("M", bound=Message)


def decoder(*kinds: type[Message]) -> Callable[[bytes], Any]:
    """Make the function that reads a line as a message of one of these kinds; it raises ValueError for another line."""
    by_name = {kind.__name__: kind for kind in kinds}

    def decode(line: bytes) -> Message:
        found = orjson.loads(line)
        if not isinstance(found, dict) or len(found) != 1 or not found.keys() <= by_name.keys():
            raise ValueError(f"{line[:60]!r} is no message of {', '.join(by_name)}")
        ((name, body),) = found.items()
        return by_name[name].model_validate(body)

    return decode
