"""The description that a file holds of itself, and the interface of a writer."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Protocol

from daemon.calibration.current import GroupCalibration
from daemon.core.moments import rfc3339
from daemon.tools.export.span import Choice, Span
from schemas.batch import Layout
from schemas.conditions.calibration import POSITION
from schemas.decimation import FIGURES, reduced_dtype
from schemas.folders.folders import Folder
from schemas.marks import Mark
from schemas.readings import Array, Channel
from schemas.retention import Span as DroppedSpan

TIME_UNITS = "ns since 1970-01-01T00:00:00Z"


@dataclass(kw_only=True)
class Meanwhile:
    """Stretches that were dropped or reduced while the readings were read: the file has all of one, a part, or none."""

    dropped: tuple[DroppedSpan, ...] = ()
    decimated: tuple[DroppedSpan, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """For JSON; nothing where there are none."""
        return _stretches(self.dropped, self.decimated) if self.dropped or self.decimated else {}


@dataclass(frozen=True, kw_only=True)
class About:
    """The origin of the readings of a file.

    dropped: stretches of the span whose readings were dropped by retention. decimated: those that were reduced, of
    which the file has what stayed. meanwhile: those that come to these by the end, when it is known.
    calibration: what x_mm and y_mm follow from; None where the file has only what was read.
    """

    logger: str
    layout: Layout
    choice: Choice
    span: Span
    marks: tuple[Mark, ...] = ()
    dropped: tuple[DroppedSpan, ...] = ()
    decimated: tuple[DroppedSpan, ...] = ()
    meanwhile: Meanwhile = field(default_factory=Meanwhile)
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
            **_written(self.logger),
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
            **self.gone(),
            "marks": [mark.model_dump(mode="json") for mark in self.marks],
            "channels": [{"name": each.name, "units": each.unit, "dtype": each.dtype} for each in self.columns],
        }

    def gone(self) -> dict[str, Any]:
        """For JSON, the stretches of which the file has not all readings that were stored."""
        return _stretches(self.dropped, self.decimated)


@dataclass(frozen=True, kw_only=True)
class ReducedAbout:
    """The origin of figures: that of the readings beside them, with what was reduced as it was after them."""

    readings: About

    def as_json(self) -> dict[str, Any]:
        """All of it for JSON."""
        channels = [{"name": each.name, "units": each.unit, "dtype": each.dtype} for each in self.channels]
        return self.readings.as_json() | {"content": "figures of readings that were reduced", "channels": channels}

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Of what there are figures."""
        return self.readings.choice.channels

    @property
    def columns(self) -> Iterator[tuple[str, str, str]]:
        """A column a figure of each channel: its name, dtype and unit."""
        for channel in self.channels:
            square = f"({channel.unit})^2" if channel.unit else ""
            units = {"n": "", "mean": channel.unit, "m2": square, "least": channel.unit, "greatest": channel.unit}
            forms = reduced_dtype(self.readings.choice.group)[channel.name]
            for figure, unit in units.items():
                yield f"{channel.name}_{figure}", forms[figure].str, unit

    def values_of(self, figures: Array) -> dict[str, Array]:
        """The values of figures, `figures_dtype(group)`, by column; also those of what is no channel."""
        bucket = {name: figures[name] for name in ("instrument", "time_ns", "step_ns", "readings")}
        return bucket | {
            f"{channel.name}_{figure}": figures[channel.name][figure] for channel in self.channels for figure in FIGURES
        }


@dataclass(frozen=True, kw_only=True)
class FolderAbout:
    """The origin of the intervals of a file.

    channels: names by number of those that are chosen. at: the time of a snapshot; None of a span, since <= t < until.
    """

    logger: str
    folder: Folder
    channels: Mapping[int, str]
    since: int
    until: int
    at: int | None = None
    tag: str | None = None

    def as_json(self) -> dict[str, Any]:
        """All of it for JSON."""
        folder = self.folder
        return {
            **_written(self.logger),
            "folder": folder.path,
            "kind": str(folder.kind),
            "description": folder.description,
            **({"since": self.since, "until": self.until} if self.at is None else {"at": self.at}),
            "tag": self.tag,
            "channels": {str(number): name for number, name in self.channels.items()},
            "columns": [{"name": each.name, "dtype": each.dtype} for each in folder.columns],
        }


def _stretches(dropped: Iterable[DroppedSpan], decimated: Iterable[DroppedSpan]) -> dict[str, Any]:
    both = {"dropped_by_retention": dropped, "decimated": decimated}
    return {name: [{"from_ns": each.start_ns, "to_ns": each.end_ns} for each in of] for name, of in both.items()}


def _written(logger: str) -> dict[str, Any]:
    return {
        "triggerlog": version("triggerlog"),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "logger": logger,
    }


class Writer(Protocol):
    """Writes rows into one file. It is made with the file's path, and the about of what is written."""

    def write(self, block: Array) -> None:
        """Add rows.

        They are readings (`answer_dtype(group)`, and the fields that a calibration adds), figures
        (`figures_dtype(group)`), or intervals of the folder.

        Raises:
            OSError: it cannot be written.
        """

    def close(self) -> None:
        """Write what is still to be written, and close the file; also of one that is given up.

        That is also which calibrations were used, and what was reduced meanwhile: it is known at the end.
        """
