"""The ledger: one row a trigger that says what arrived, what came late or twice, and what is missing."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from schemas.readings import Array

COUNTS = ("expected", "arrived", "late", "duplicates")
TIMES = ("time_ns", "first_ns", "last_ns", "first_received_ns", "last_received_ns", "closed_ns")
NUMBERS = ("epoch", "skipped", *TIMES)
"""The columns of 64 bits beside the key, in their order."""


def bitmap_bytes(instruments: int) -> int:
    """Bytes of a bitmap with one bit an instrument."""
    return -(-instruments // 8)


@lru_cache
def ledger_dtype(instruments: int) -> np.dtype[Any]:
    """The dtype of a ledger row for a group of that many instruments.

    run, trigger: the identity.
    epoch: the timing system's counter of restarts at this trigger; 0 = unknown.
    skipped: how many trigger numbers of the run, next below this one, nothing had come of when it closed; at least one
    of a trigger that was placed later. Some may have come since: `SkippedTriggers` counts anew.
    time_ns: the trigger's own time (ns since 1970-01-01 UTC, by the instruments' clocks); what stores partition by.
    first_ns, last_ns: earliest and latest timestamp among its readings (instruments' clocks).
    first_received_ns, last_received_ns, closed_ns: by the daemon's clock, in ns since 1970-01-01 UTC; the last reading
    received comes after closing when it is late.
    expected, arrived: distinct instruments; arrived counts the late ones too.
    late: readings that came after closing and were written into the trigger all the same.
    duplicates: readings of an instrument that was already there; they are not stored.
    missing: bitmap, bit i of byte i // 8 (least significant first) is set when instrument i is missing.
    """
    return np.dtype(
        [
            ("run", "<i4"),
            ("trigger", "<i8"),
            *((name, "<i8") for name in NUMBERS),
            *((name, "<i4") for name in COUNTS),
            ("missing", "u1", (bitmap_bytes(instruments),)),
        ]
    )


def own_rows(parts: Sequence[Array], instruments: int) -> Array:
    """Ledger rows that may be changed, of one or more answers of a store."""
    found = np.concatenate(parts)
    rows = np.zeros(len(found), ledger_dtype(instruments))
    rows[:] = found
    return rows


def pack_missing(present: Array) -> Array:
    """Turn presence, bool of shape (triggers, instruments), into missing bitmaps, uint8 of shape (triggers, bytes)."""
    return np.packbits(~present, axis=-1, bitorder="little")


def unpack_missing(missing: Array, instruments: int) -> Array:
    """Turn missing bitmaps, uint8 of shape (..., bytes), into bool of shape (..., instruments): True is missing."""
    return np.unpackbits(missing, axis=-1, count=instruments, bitorder="little").astype(bool)


def missing_instruments(row: Any, instruments: int) -> list[int]:
    """List the numbers of the instruments that one ledger row calls missing."""
    return [int(i) for i in np.flatnonzero(unpack_missing(np.asarray(row["missing"]), instruments))]
