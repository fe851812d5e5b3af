"""HDF5: a dataset a column, units in their attributes; any program that reads HDF5 can read it."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from daemon.tools.export.about import TIME_UNITS, About, FolderAbout, ReducedAbout
from schemas.conditions.intervals import END
from schemas.marks import Mark
from schemas.readings import CHANNEL_DTYPES, Array

CHUNK_BYTES = 512 * 1024
"""Compressed together: half of HDF5's cache for chunks, so that one that is not yet full is not compressed twice."""
CHUNK = CHUNK_BYTES // 8


class _ColumnFile:
    """A file with columns that grow."""

    def __init__(self, path: Path, about: dict[str, Any], mode: str = "w") -> None:
        self._file = h5py.File(path, mode)
        for name, value in about.items():
            if isinstance(value, str | int):
                self._file.attrs[name] = value
        self._columns: dict[str, Any] = {}
        self._count = 0

    def write(self, block: Array) -> None:
        """Add rows."""
        self._add(len(block), block)

    def _add(self, count: int, values: Array | dict[str, Array]) -> None:
        upto = self._count + count
        for name, column in self._columns.items():
            column.resize((upto,))
            column[self._count : upto] = np.ascontiguousarray(values[name])
        self._count = upto

    def close(self) -> None:
        """Write what is still in memory."""
        self._file.close()


class Hdf5IntervalsWriter(_ColumnFile):
    """Writes intervals of a folder: `intervals` has a dataset a column, `channels` their numbers and names."""

    def __init__(self, path: Path, about: FolderAbout) -> None:
        super().__init__(path, about.as_json())
        channels = self._file.create_group("channels")
        numbers = sorted(about.channels)
        channels.create_dataset("number", data=np.array(numbers, "<i4"))
        names = np.array([about.channels[number] for number in numbers], object)
        channels.create_dataset("name", data=names, dtype=h5py.string_dtype())
        intervals = self._file.create_group("intervals")
        meaning = {"channel": "number in /channels", "until": "without this; 2^63 - 1 where nobody knows yet"}
        dtype = about.folder.dtype
        for name in dtype.names or ():
            attributes = {"meaning": meaning[name]} if name in meaning else {}
            self._columns[name] = _column(intervals, name, dtype[name].str, attributes)


class Hdf5Writer(_ColumnFile):
    """Writes readings: `readings` has a dataset a channel."""

    def __init__(self, path: Path, about: About) -> None:
        super().__init__(path, about.as_json())
        self._about = about
        for name, stretches in about.gone().items():
            # As text: what is not in the file may leave no figures that would tell.
            self._file.attrs[name] = json.dumps(stretches)
        self._file.create_dataset("instruments", data=list(about.choice.group.instruments), dtype=h5py.string_dtype())
        _write_marks(self._file.create_group("marks"), about.marks)
        readings = self._file.create_group("readings")
        number = {"meaning": "position in /instruments"}
        self._columns = {
            "run": _column(readings, "run", "<i4", {}),
            "trigger": _column(readings, "trigger", "<i8", {}),
            "instrument": _column(readings, "instrument", "<i2", number),
            "time_ns": _column(readings, "time_ns", "<i8", {"units": TIME_UNITS}),
        }
        for channel in about.columns:
            kind = CHANNEL_DTYPES[channel.dtype]
            self._columns[channel.name] = _column(readings, channel.name, kind, {"units": channel.unit})

    def close(self) -> None:
        """Write which calibrations were used, and what was dropped or reduced meanwhile, and close the file."""
        if meanwhile := self._about.meanwhile.as_json():
            self._file.attrs["meanwhile"] = json.dumps(meanwhile)
        if self._about.calibration is not None:
            _write_calibration(self._file.create_group("calibration"), self._about.calibration.as_json())
        super().close()


class Hdf5ReducedWriter(_ColumnFile):
    """Adds figures to a file with readings: `reduced` has a dataset a figure, and attributes of its own."""

    def __init__(self, path: Path, about: ReducedAbout) -> None:
        super().__init__(path, {}, mode="r+")
        self._about = about
        reduced = self._file.create_group("reduced")
        for name, times in (
            ("stretch_from_ns", [each.start_ns for each in about.readings.decimated]),
            ("stretch_to_ns", [each.end_ns for each in about.readings.decimated]),
        ):
            reduced.create_dataset(name, data=np.array(times, "<i8")).attrs["units"] = TIME_UNITS
        self._columns = {
            "time_ns": _column(reduced, "time_ns", "<i8", {"units": TIME_UNITS, "meaning": "where the bucket begins"}),
            "step_ns": _column(reduced, "step_ns", "<i8", {"meaning": "how long it is"}),
            "instrument": _column(reduced, "instrument", "<i2", {"meaning": "position in /instruments"}),
            "readings": _column(reduced, "readings", "<i8", {}),
        }
        for name, dtype, unit in about.columns:
            self._columns[name] = _column(reduced, name, dtype, {"units": unit})

    def write(self, block: Array) -> None:
        """Add figures."""
        self._add(len(block), self._about.values_of(block))


def _write_marks(group: Any, marks: tuple[Mark, ...]) -> None:
    for name, times in (("time_ns", [m.time_ns for m in marks]), ("until_ns", [m.last_ns for m in marks])):
        group.create_dataset(name, data=np.array(times, "<i8")).attrs["units"] = TIME_UNITS
    for name in ("text", "author", "group", "id"):
        texts = [str(getattr(mark, name) or "") for mark in marks]
        group.create_dataset(name, data=np.array(texts, object), dtype=h5py.string_dtype())


def _write_calibration(group: Any, calibration: dict[str, Any]) -> None:
    payloads = calibration.pop("payloads")
    group.attrs.update(calibration)
    for name in ("url", "checksum"):
        texts = np.array([each[name] for each in payloads], object)
        group.create_dataset(name, data=texts, dtype=h5py.string_dtype())
    group.create_dataset("is_verified", data=np.array([each["is_verified"] for each in payloads], bool))
    for name in ("start", "end"):
        keys = np.array([each[name] or END for each in payloads], "<i8").reshape(-1, 2)
        group.create_dataset(name, data=keys).attrs["meaning"] = "major, minor"


def _column(group: Any, name: str, dtype: str, attributes: dict[str, str]) -> Any:
    # Level 1 with shuffling is nearly as small as more, and several times faster.
    column = group.create_dataset(
        name,
        (0,),
        np.dtype(dtype),
        maxshape=(None,),
        chunks=(max(1, min(CHUNK, CHUNK_BYTES // np.dtype(dtype).itemsize)),),
        compression="gzip",
        compression_opts=1,
        shuffle=True,
    )
    column.attrs.update(attributes)
    return column
