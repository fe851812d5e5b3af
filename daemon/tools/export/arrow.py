"""Parquet: readings, figures and intervals as Arrow columns, units in their metadata."""

import json
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from daemon.tools.export.about import TIME_UNITS, About, FolderAbout, ReducedAbout
from schemas.folders.blocks import OPEN
from schemas.readings import CHANNEL_DTYPES, Array


class Columns(Protocol):
    """How blocks are laid out in columns."""

    schema: pa.Schema

    def of(self, block: Array) -> pa.RecordBatch:
        """Lay a block out."""

    def known_at_end(self) -> dict[str, str]:
        """What a file says of itself that is known when all is written, as JSON."""


class ReadingColumns:
    """A row a reading."""

    def __init__(self, about: About) -> None:
        self._about = about
        self.schema = schema_of(about)

    def of(self, block: Array) -> pa.RecordBatch:
        """Lay readings out."""
        return columns_of(block, self._about, self.schema)

    def known_at_end(self) -> dict[str, str]:
        """Which calibrations were used, and what was dropped or reduced meanwhile."""
        calibration, meanwhile = self._about.calibration, self._about.meanwhile.as_json()
        known = {} if calibration is None else {"calibration": json.dumps(calibration.as_json())}
        return known | ({"meanwhile": json.dumps(meanwhile)} if meanwhile else {})


class FigureColumns:
    """A row a bucket and instrument: instrument, time, time_ns, step_ns, readings, and the figures of each channel."""

    def __init__(self, about: ReducedAbout) -> None:
        self._about = about
        self._names = pa.array(about.readings.choice.group.instruments, pa.string())
        fields = [
            _INSTRUMENT,
            _TIME,
            _time_ns("where the bucket begins"),
            pa.field("step_ns", pa.int64(), nullable=False, metadata={"meaning": "how long it is"}),
            pa.field("readings", pa.int64(), nullable=False),
        ]
        fields += [
            pa.field(name, pa.from_numpy_dtype(np.dtype(dtype)), nullable=False, metadata={"units": unit})
            for name, dtype, unit in about.columns
        ]
        self.schema = pa.schema(fields, metadata={"triggerlog": json.dumps(about.as_json())})

    def of(self, block: Array) -> pa.RecordBatch:
        """Lay figures out."""
        values = {name: np.ascontiguousarray(each) for name, each in self._about.values_of(block).items()}
        times = pa.array(values.pop("time_ns"))
        instruments = pa.array(values.pop("instrument").astype(np.int16))
        columns = [
            pa.DictionaryArray.from_arrays(instruments, self._names),
            times.cast(pa.timestamp("ns", tz="UTC")),
            times,
            *(pa.array(each) for each in values.values()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def known_at_end(self) -> dict[str, str]:
        """Nothing more."""
        return {}


class IntervalColumns:
    """A row an interval: channel (number), name, since, until (null where it is open), columns of the folder."""

    def __init__(self, about: FolderAbout) -> None:
        self._columns = about.folder.columns
        self._numbers = np.array(sorted(about.channels), np.int32)
        self._names = pa.array([about.channels[number] for number in self._numbers.tolist()], pa.string())
        kinds = ((each.name, pa.string() if each.is_text else _kind(each.dtype)) for each in self._columns)
        fields = [
            pa.field("channel", pa.int32(), nullable=False),
            pa.field("name", pa.dictionary(pa.int32(), pa.string()), nullable=False),
            pa.field("since", pa.int64(), nullable=False),
            pa.field("until", pa.int64()),
            *(pa.field(name, kind, nullable=False) for name, kind in kinds),
        ]
        self.schema = pa.schema(fields, metadata={"triggerlog": json.dumps(about.as_json())})

    def of(self, block: Array) -> pa.RecordBatch:
        """Lay intervals out."""
        places = pa.array(np.searchsorted(self._numbers, block["channel"]).astype(np.int32))
        until = np.ascontiguousarray(block["until"])
        columns = [
            pa.array(np.ascontiguousarray(block["channel"])),
            pa.DictionaryArray.from_arrays(places, self._names),
            pa.array(np.ascontiguousarray(block["since"])),
            pa.array(until, mask=until == OPEN),
        ]
        for each in self._columns:
            values = np.ascontiguousarray(block[each.name])
            columns.append(
                pa.array(values.tolist(), pa.binary()).cast(pa.string()) if each.is_text else pa.array(values)
            )
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def known_at_end(self) -> dict[str, str]:
        """Nothing more."""
        return {}


_INSTRUMENT = pa.field("instrument", pa.dictionary(pa.int16(), pa.string()), nullable=False)
_TIME = pa.field("time", pa.timestamp("ns", tz="UTC"), nullable=False)


def _time_ns(meaning: str = "") -> pa.Field:
    about = {"units": TIME_UNITS} | ({"meaning": meaning} if meaning else {})
    return pa.field("time_ns", pa.int64(), nullable=False, metadata=about)


def _kind(dtype: str) -> pa.DataType:
    return pa.from_numpy_dtype(np.dtype(CHANNEL_DTYPES[dtype]))


def schema_of(about: About) -> pa.Schema:
    """run, trigger, instrument (a dictionary of names), time, time_ns, channels; units in the fields' metadata."""
    fields = [
        pa.field("run", pa.int32(), nullable=False),
        pa.field("trigger", pa.int64(), nullable=False),
        _INSTRUMENT,
        _TIME,
        _time_ns(),
    ]
    fields += [
        pa.field(channel.name, _kind(channel.dtype), nullable=False, metadata={"units": channel.unit})
        for channel in about.columns
    ]
    return pa.schema(fields, metadata={"triggerlog": json.dumps(about.as_json())})


def columns_of(readings: Array, about: About, schema: pa.Schema) -> pa.RecordBatch:
    """Lay readings out in columns; NaN stays NaN and does not become null."""
    names = pa.array(about.choice.group.instruments, pa.string())
    times = pa.array(np.ascontiguousarray(readings["time_ns"]))
    numbers = pa.array(readings["instrument"].astype(np.int16))
    columns = [
        pa.array(np.ascontiguousarray(readings["run"])),
        pa.array(np.ascontiguousarray(readings["trigger"])),
        pa.DictionaryArray.from_arrays(numbers, names),
        times.cast(pa.timestamp("ns", tz="UTC")),
        times,
        *(pa.array(np.ascontiguousarray(readings[channel.name])) for channel in about.columns),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class ParquetWriter:
    """Writes a Parquet file: zstd, a row group a write."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._columns = columns
        self._file = pq.ParquetWriter(path, columns.schema, compression="zstd")

    def write(self, block: Array) -> None:
        """Add rows as a row group."""
        self._file.write_batch(self._columns.of(block))

    def close(self) -> None:
        """Write the end of the file, without which nothing can be read."""
        self._file.add_key_value_metadata(self._columns.known_at_end())
        self._file.close()
