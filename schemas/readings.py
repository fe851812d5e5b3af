"""Readings as blocks: one numpy structured array for many readings of one instrument group.

A record is what a C compiler makes of the struct `{int64 trigger; int64 time_ns; uint32 instrument; uint32 epoch;
channels...}`: natural alignment, little-endian, padded to a multiple of 8 bytes, so that a block can also be moved as
an array of 64-bit words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

CHANNEL_DTYPES: dict[str, str] = {
    "int8": "<i1",
    "uint8": "<u1",
    "int16": "<i2",
    "uint16": "<u2",
    "int32": "<i4",
    "uint32": "<u4",
    "int64": "<i8",
    "float32": "<f4",
    "float64": "<f8",
}
"""Channel dtypes by the name used in the configuration, and their form on the wire."""

SYSTEM_COLUMNS = ("cmax", "cmin", "ctid", "db_roll_ptr", "db_row_id", "db_trx_id", "tableoid", "xmax", "xmin")
"""Columns that PostgreSQL or InnoDB has in every table."""

HEADER: tuple[tuple[str, str], ...] = (
    ("trigger", "<i8"),
    ("time_ns", "<i8"),
    ("instrument", "<u4"),
    ("epoch", "<u4"),
)
"""Fields every record begins with (24 bytes); `epoch` counts the restarts of the timing system, 0 is unknown."""

MAX_INSTRUMENTS = 32_767
"""An instrument is a small integer within its group: it has to fit the stores' 16-bit signed column."""


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One measured quantity of an instrument."""

    name: str
    unit: str
    dtype: str  # a key of CHANNEL_DTYPES

    @property
    def is_float(self) -> bool:
        """Whether a missing value can be NaN (else it is 0)."""
        return self.dtype.startswith("float")


@dataclass(frozen=True, kw_only=True)
class InstrumentGroup:
    """Instruments of one kind with the same channels; one table a group.

    `instruments` are names; an instrument's number is its position there. folder: its readings are reports on change,
    and go into this folder of channels in place of a table.
    """

    name: str
    instruments: tuple[str, ...]
    channels: tuple[Channel, ...]
    folder: str | None = None

    @property
    def size(self) -> int:
        """How many instruments a complete trigger has."""
        return len(self.instruments)

    @property
    def reports(self) -> bool:
        """Whether its readings are reports on change, each whole in itself, and belong to no trigger."""
        return self.folder is not None

    @cached_property
    def record(self) -> np.dtype[Any]:
        """The dtype of a block: one reading on the wire and in memory. Its itemsize is a multiple of 8 bytes."""
        return record_dtype(self.channels)


def record_dtype(channels: Sequence[Channel]) -> np.dtype[Any]:
    """Lay out one reading as a naturally aligned little-endian C struct, padded to a multiple of 8 bytes."""
    fields = [*HEADER, *((channel.name, CHANNEL_DTYPES[channel.dtype]) for channel in channels)]
    aligned = np.dtype(fields, align=True)
    assert aligned.fields is not None
    return np.dtype(
        {
            "names": [name for name, _ in fields],
            "formats": [form for _, form in fields],
            "offsets": [aligned.fields[name][1] for name, _ in fields],
            "itemsize": -(-aligned.itemsize // 8) * 8,
        }
    )


def field_bits(record: np.dtype[Any]) -> Array:
    """Which bits of a record's words belong to its fields, and not to the padding: int64, shape (itemsize // 8,)."""
    mask = np.zeros(record.itemsize, np.uint8)
    assert record.fields is not None
    for dtype, offset, *_ in record.fields.values():
        mask[offset : offset + dtype.itemsize] = 0xFF
    return mask.view(np.int64)


def words(block: Array) -> Array:
    """View a C-contiguous block of shape (..., ) as 64-bit words of shape (..., itemsize // 8), without a copy."""
    return block.view(np.int64).reshape(*block.shape, block.dtype.itemsize // 8)


def join(blocks: Sequence[Array]) -> Array:
    """Join one or more blocks along their first axis; as words, since numpy would drop the padding of their dtype."""
    if len(blocks) == 1:
        return blocks[0]
    joined = np.concatenate([words(np.ascontiguousarray(block)) for block in blocks])
    record: Array = joined.view(blocks[0].dtype)[..., 0]
    return record
