"""Readings as Arrow columns, and their writers: Parquet, and CSV with units in the header."""

import gzip
import json
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from daemon.tools.export.about import TIME_UNITS, About
from schemas.readings import CHANNEL_DTYPES, Array


def schema_of(about: About) -> pa.Schema:
    """run, trigger, instrument (a dictionary of names), time, time_ns, channels; units in the fields' metadata."""
    fields = [
        pa.field("run", pa.int32(), nullable=False),
        pa.field("trigger", pa.int64(), nullable=False),
        pa.field("instrument", pa.dictionary(pa.int16(), pa.string()), nullable=False),
        pa.field("time", pa.timestamp("ns", tz="UTC"), nullable=False),
        pa.field("time_ns", pa.int64(), nullable=False, metadata={"units": TIME_UNITS}),
    ]
    for channel in about.columns:
        kind = pa.from_numpy_dtype(np.dtype(CHANNEL_DTYPES[channel.dtype]))
        fields.append(pa.field(channel.name, kind, nullable=False, metadata={"units": channel.unit}))
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
    """Writes a Parquet file: a row a reading, zstd, a row group a write."""

    def __init__(self, path: Path, about: About) -> None:
        self._about = about
        self._schema = schema_of(about)
        self._file = pq.ParquetWriter(path, self._schema, compression="zstd")

    def write(self, readings: Array) -> None:
        """Add readings as a row group."""
        self._file.write_batch(columns_of(readings, self._about, self._schema))

    def close(self) -> None:
        """Write the end of the file, without which nothing can be read."""
        if self._about.calibration is not None:
            self._file.add_key_value_metadata({"calibration": json.dumps(self._about.calibration.as_json())})
        self._file.close()


class CsvWriter:
    """Writes a CSV file: a row a reading, times as RFC 3339 and as nanoseconds; one that ends in .gz is compressed."""

    def __init__(self, path: Path, about: About, *, compressed: bool = False) -> None:
        self._about = about
        self._schema = schema_of(about)
        columns = [pa.field(_heading(field), _type_written(field)) for field in self._schema]
        self._written = pa.schema(columns)
        # Of the text of 1.2 million readings level 9 makes a tenth less, and takes eight times as long.
        self._file: BinaryIO = gzip.open(path, "wb", compresslevel=1) if compressed else path.open("wb")  # type: ignore[assignment]  # noqa: SIM115
        self._rows = pacsv.CSVWriter(self._file, self._written)

    def write(self, readings: Array) -> None:
        """Add readings."""
        batch = columns_of(readings, self._about, self._schema)
        columns = [_rfc3339(column) if pa.types.is_timestamp(column.type) else column for column in batch.columns]
        self._rows.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._written))

    def close(self) -> None:
        """Write what is still in memory."""
        self._rows.close()
        self._file.close()


def _heading(field: pa.Field) -> str:
    units = (field.metadata or {}).get(b"units", b"").decode()
    return f"{field.name} [{units}]" if units else str(field.name)


def _type_written(field: pa.Field) -> pa.DataType:
    return pa.string() if pa.types.is_timestamp(field.type) else field.type


def _rfc3339(times: pa.TimestampArray) -> pa.StringArray:
    # strftime is ten times slower.
    plain = times.cast(pa.timestamp("ns")).cast(pa.string())
    return pc.binary_join_element_wise(pc.binary_replace_slice(plain, 10, 11, "T"), "Z", "")
