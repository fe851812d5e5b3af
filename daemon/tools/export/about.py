"""The description that a file holds of itself, and the interface of a writer."""

from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Protocol

from daemon.core.moments import rfc3339
from daemon.tools.export.span import Choice, Span
from schemas.batch import Layout
from schemas.marks import Mark
from schemas.readings import Array

TIME_UNITS = "ns since 1970-01-01T00:00:00Z"


@dataclass(frozen=True, kw_only=True)
class About:
    """The origin of the readings of a file."""

    logger: str
    layout: Layout
    choice: Choice
    span: Span
    marks: tuple[Mark, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """All of it for JSON."""
        choice = self.choice
        chosen = choice.instruments
        return {
            "triggerlog": version("triggerlog"),
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
            "logger": self.logger,
            "group": choice.group.name,
            "layout": str(self.layout),
            "from": rfc3339(self.span.start_ns),
            "to": rfc3339(self.span.end_ns),
            "from_ns": self.span.start_ns,
            "to_ns": self.span.end_ns,
            "run": choice.run,
            "triggers": None if choice.triggers is None else list(choice.triggers),
            "instruments": list(choice.group.instruments),
            "chosen": None if chosen is None else [choice.group.instruments[number] for number in chosen],
            "marks": [mark.model_dump(mode="json") for mark in self.marks],
            "channels": [{"name": each.name, "units": each.unit, "dtype": each.dtype} for each in choice.channels],
        }


class Writer(Protocol):
    """Writes readings into one file. It is made with the file's path and `About`."""

    def write(self, readings: Array) -> None:
        """Add readings, `answer_dtype(group)`.

        Raises:
            OSError: it cannot be written.
        """

    def close(self) -> None:
        """Write what is still to be written, and close the file; also of one that is given up."""
