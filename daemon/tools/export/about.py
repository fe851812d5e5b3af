"""The description that a file holds of itself, and the interface of a writer."""

from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Protocol

from daemon.calibration.group import GroupCalibration
from daemon.core.moments import rfc3339
from daemon.tools.export.span import Choice, Span
from schemas.batch import Layout
from schemas.conditions.calibration import POSITION
from schemas.marks import Mark
from schemas.readings import Array, Channel
from schemas.retention import Span as DroppedSpan

TIME_UNITS = "ns since 1970-01-01T00:00:00Z"


@dataclass(frozen=True, kw_only=True)
class About:
    """The origin of the readings of a file.

    dropped: stretches of the span whose readings were dropped by retention.
    calibration: what x_mm and y_mm follow from; None where the file has only what was read.
    """

    logger: str
    layout: Layout
    choice: Choice
    span: Span
    marks: tuple[Mark, ...] = ()
    dropped: tuple[DroppedSpan, ...] = ()
    calibration: GroupCalibration | None = None

    @property
    def columns(self) -> tuple[Channel, ...]:
        """What of each reading is written: the chosen channels, and what a calibration adds."""
        return self.choice.channels if self.calibration is None else (*self.choice.channels, *POSITION)

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
            "dropped_by_retention": [{"from_ns": each.start_ns, "to_ns": each.end_ns} for each in self.dropped],
            "marks": [mark.model_dump(mode="json") for mark in self.marks],
            "channels": [{"name": each.name, "units": each.unit, "dtype": each.dtype} for each in self.columns],
        }


class Writer(Protocol):
    """Writes readings into one file. It is made with the file's path and `About`."""

    def write(self, readings: Array) -> None:
        """Add readings: `answer_dtype(group)`, and the fields that a calibration adds.

        Raises:
            OSError: it cannot be written.
        """

    def close(self) -> None:
        """Write what is still to be written, and close the file; also of one that is given up.

        That is also which calibrations were used: it is known at the end.
        """
