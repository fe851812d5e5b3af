"""HDF5: a dataset a channel under `readings`, units in their attributes; any program that reads HDF5 can read it."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from daemon.tools.export.about import TIME_UNITS, About
from schemas.conditions.intervals import END
from schemas.marks import Mark
from schemas.readings import CHANNEL_DTYPES, Array

CHUNK = 65_536
"""Elements that are compressed together: of 8 bytes they are half of HDF5's cache for chunks, so that one that is not
yet full is not compressed twice."""


class Hdf5Writer:
    """Writes an HDF5 file."""

    def __init__(self, path: Path, about: About) -> None:
        self._about = about
        self._file = h5py.File(path, "w")
        for name, value in about.as_json().items():
            if isinstance(value, str | int):
                self._file.attrs[name] = value
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
        self._count = 0

    def write(self, readings: Array) -> None:
        """Add readings."""
        upto = self._count + len(readings)
        for name, column in self._columns.items():
            column.resize((upto,))
            column[self._count : upto] = np.ascontiguousarray(readings[name])
        self._count = upto

    def close(self) -> None:
        """Write which calibrations were used, and close the file."""
        if self._about.calibration is not None:
            _write_calibration(self._file.create_group("calibration"), self._about.calibration.as_json())
        self._file.close()


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
        chunks=(CHUNK,),
        compression="gzip",
        compression_opts=1,
        shuffle=True,
    )
    column.attrs.update(attributes)
    return column
