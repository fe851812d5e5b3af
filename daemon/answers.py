"""The API's answers about stored readings, as JSON-ready trees of numbers, names and numpy arrays."""

from typing import Any

import numpy as np
from tsdownsample import MinMaxLTTBDownsampler

from schemas.ledger import COUNTS, TIMES, missing_instruments
from schemas.readings import Array, InstrumentGroup


def group_answer(group: InstrumentGroup) -> dict[str, Any]:
    """Describe a group: instruments by name in the order of their numbers, and channels."""
    return {
        "name": group.name,
        "instruments": list(group.instruments),
        "channels": [{"name": c.name, "unit": c.unit, "dtype": c.dtype} for c in group.channels],
        "record_bytes": group.record.itemsize,
    }


def newest_answer(group: InstrumentGroup, readings: Array) -> dict[str, Any]:
    """Tell the newest complete trigger; run and trigger are None when there is none."""
    first = readings[0] if len(readings) else None
    return {
        "group": group.name,
        "run": None if first is None else int(first["run"]),
        "trigger": None if first is None else int(first["trigger"]),
        "instruments": [group.instruments[number] for number in readings["instrument"]],
        "time_ns": np.ascontiguousarray(readings["time_ns"]),
        "channels": _channels(group, readings),
        "units": _units(group),
    }


def readings_answer(
    group: InstrumentGroup, instrument: int, readings: Array, *, points: int, is_cut: bool
) -> dict[str, Any]:
    """Tell the readings of one instrument, thinned; `stored` is how many there are, `cut` whether older ones lack."""
    shown = readings[thin(group, readings, points)]
    return {
        "group": group.name,
        "instrument": instrument,
        "name": group.instruments[instrument],
        "stored": len(readings),
        "cut": is_cut,
        "time_ns": np.ascontiguousarray(shown["time_ns"]),
        "run": np.ascontiguousarray(shown["run"]),
        "trigger": np.ascontiguousarray(shown["trigger"]),
        "channels": _channels(group, shown),
        "units": _units(group),
    }


def ledger_answer(group: InstrumentGroup, row: Any) -> dict[str, Any]:
    """Tell a ledger row, with the missing instruments by name."""
    missing = missing_instruments(row, group.size)
    return {
        "group": group.name,
        "run": int(row["run"]),
        "trigger": int(row["trigger"]),
        **{name: int(row[name]) for name in (*TIMES, *COUNTS)},
        "missing": [group.instruments[number] for number in missing],
    }


def thin(group: InstrumentGroup, readings: Array, points: int) -> Array:
    """Choose at most `points` readings so that no channel loses its peaks: intp, ascending.

    MinMaxLTTB of each channel in its share of the points (J. Van Der Donckt et al., arXiv:2305.00332).
    """
    if len(readings) <= points:
        return np.arange(len(readings))
    share = max(2, points // len(group.channels))
    chosen = []
    for channel in group.channels:
        values = np.nan_to_num(np.ascontiguousarray(readings[channel.name], np.float64))
        chosen.append(MinMaxLTTBDownsampler().downsample(values, n_out=share))  # type: ignore[no-untyped-call]
    return np.unique(np.concatenate(chosen))[:points].astype(np.intp)


def _channels(group: InstrumentGroup, readings: Array) -> dict[str, Array]:
    return {channel.name: np.ascontiguousarray(readings[channel.name]) for channel in group.channels}


def _units(group: InstrumentGroup) -> dict[str, str]:
    return {channel.name: channel.unit for channel in group.channels}
