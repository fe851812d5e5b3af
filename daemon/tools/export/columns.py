"""Readings as Arrow columns, for Parquet and CSV."""

import json

import numpy as np
import pyarrow as pa

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
    for channel in about.choice.channels:
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
        *(pa.array(np.ascontiguousarray(readings[channel.name])) for channel in about.choice.channels),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
