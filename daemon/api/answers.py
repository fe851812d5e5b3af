"""Answers about readings, with calibrated values where these are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, Query
from tsdownsample import MinMaxLTTBDownsampler

from daemon.api.service import ApiService
from daemon.calibration.current import CalibratedTooLate
from daemon.calibration.payloads import NotCalibrated
from daemon.web.errors import ApiError
from schemas.api.readings import ChannelDescription, GroupDescription
from schemas.conditions.intervals import NAME_MOST
from schemas.decimation import FIGURES, SECOND_NS
from schemas.ledger import COUNTS, NUMBERS, missing_instruments, unpack_missing
from schemas.readings import Array, InstrumentGroup
from schemas.retention import Span


def group_description(group: InstrumentGroup) -> GroupDescription:
    """Describe a group: instruments by name in the order of their numbers, and channels."""
    return GroupDescription(
        name=group.name,
        instruments=list(group.instruments),
        channels=[ChannelDescription(name=c.name, unit=c.unit, dtype=c.dtype) for c in group.channels],
        record_bytes=group.record.itemsize,
    )


def trigger_answer(
    group: InstrumentGroup, readings: Array, calibration: dict[str, Any] | None, now_ns: int
) -> dict[str, Any]:
    """`OneTrigger`: run and trigger are None when there is no trigger; calibration: where readings have positions."""
    first = readings[0] if len(readings) else None
    return {
        "group": group.name,
        "run": None if first is None else int(first["run"]),
        "trigger": None if first is None else int(first["trigger"]),
        "age_s": None if first is None else (now_ns - float(np.median(readings["time_ns"]))) / 1e9,
        "instruments": [group.instruments[number] for number in readings["instrument"]],
        "time_ns": np.ascontiguousarray(readings["time_ns"]),
        "channels": _channels(group, readings),
        "units": _units(group),
        "calibration": calibration,
    }


def readings_answer(
    group: InstrumentGroup,
    instrument: int,
    readings: Array,
    calibration: dict[str, Any] | None,
    *,
    points: int,
    is_cut: bool,
    dropped: Sequence[Span] = (),
    decimated: Sequence[Span] = (),
) -> dict[str, Any]:
    """`Readings` of one instrument, thinned to a number of points.

    dropped, decimated: what of the range is no more, and of what not all is there.
    """
    shown = readings[thin(group, readings, points)]
    return {
        "group": group.name,
        "instrument": instrument,
        "name": group.instruments[instrument],
        "stored": len(readings),
        "cut": is_cut,
        "dropped_from_ns": [span.start_ns for span in dropped],
        "dropped_to_ns": [span.end_ns for span in dropped],
        "decimated_from_ns": [span.start_ns for span in decimated],
        "decimated_to_ns": [span.end_ns for span in decimated],
        "time_ns": np.ascontiguousarray(shown["time_ns"]),
        "run": np.ascontiguousarray(shown["run"]),
        "trigger": np.ascontiguousarray(shown["trigger"]),
        "channels": _channels(group, shown),
        "units": _units(group),
        "calibration": calibration,
    }


def reduced_answer(group: InstrumentGroup, figures: Array, step_ns: int) -> dict[str, Any]:
    """`Reduced` of figures, `figures_dtype(group)`. step_ns: what was asked for."""
    return {
        "asked_step_s": step_ns / SECOND_NS,
        "coarser": bool((figures["step_ns"] > step_ns).any()),
        "time_ns": np.ascontiguousarray(figures["time_ns"]),
        "step_s": figures["step_ns"] / SECOND_NS,
        "readings": np.ascontiguousarray(figures["readings"]),
        "channels": {
            channel.name: {name: np.ascontiguousarray(figures[channel.name][name]) for name in FIGURES}
            for channel in group.channels
        },
    }


def ledger_answer(group: InstrumentGroup, row: Any, *, is_dropped: bool, is_decimated: bool) -> dict[str, Any]:
    """`LedgerEntry` of a ledger row; is_dropped, is_decimated: whether its readings are, or may be, no more."""
    missing = missing_instruments(row, group.size)
    return {
        "group": group.name,
        "run": int(row["run"]),
        "trigger": int(row["trigger"]),
        **{name: int(row[name]) for name in (*NUMBERS, *COUNTS)},
        "missing": [group.instruments[number] for number in missing],
        "dropped": is_dropped,
        "decimated": is_decimated and not is_dropped,
    }


def gaps_answer(group: InstrumentGroup, rows: Array, before: Sequence[Array], *, is_cut: bool) -> dict[str, Any]:
    """`Gaps` of the ledger rows after them, newest first, and of those before them, as far as these are there."""
    times = {(int(row["run"]), int(row["trigger"])): int(row["time_ns"]) for some in before for row in some}
    first = rows["trigger"] - rows["skipped"]
    return {
        "group": group.name,
        "run": np.ascontiguousarray(rows["run"]),
        "epoch": np.ascontiguousarray(rows["epoch"]),
        "first": first,
        "last": rows["trigger"] - 1,
        "triggers": np.ascontiguousarray(rows["skipped"]),
        "before_ns": [times.get(key) for key in zip(rows["run"].tolist(), (first - 1).tolist(), strict=True)],
        "after_ns": np.ascontiguousarray(rows["time_ns"]),
        "cut": is_cut,
    }


BINS = 60
"""Ranges of triggers of a missing history: as many as a strip on a screen shows."""

ROWS = 200
"""Instruments of a missing history, those missing most first."""


def missing_answer(group: InstrumentGroup, rows: Array, only: int | None = None) -> dict[str, Any]:
    """`Missing` without `late` and `heard_s`: in up to BINS ranges of as many triggers each.

    rows: ledger rows in ascending order. only: the number of the one instrument asked for.
    """
    bins = [part for part in np.array_split(rows, min(BINS, max(1, len(rows)))) if len(part)]
    # Range by range: all rows of a large group unpacked at once would take a hundred times their memory.
    counts = np.zeros((len(bins), group.size), np.int64)
    for place, part in enumerate(bins):
        counts[place] = unpack_missing(np.ascontiguousarray(part["missing"]), group.size).sum(axis=0)
    totals = counts.sum(axis=0)
    order = np.argsort(-totals, kind="stable")
    lacking = [int(number) for number in order if totals[number] and only in (None, number)]
    return {
        "group": group.name,
        "run": int(rows["run"][-1]) if len(rows) else None,
        "triggers": len(rows),
        "stretches": {
            "trigger": [int(part["trigger"][0]) for part in bins],
            "time_ns": [int(part["time_ns"][0]) for part in bins],
            "triggers": [len(part) for part in bins],
        },
        "end_ns": int(rows["time_ns"][-1]) if len(rows) else None,
        "missing": {str(number): counts[:, number].tolist() for number in lacking[:ROWS]},
        "more": max(0, len(lacking) - ROWS),
    }


LEAST_SHARE = 3
"""Points of a channel below which MinMaxLTTB has none to choose: the first and the last are two of them."""


def thin(group: InstrumentGroup, readings: Array, points: int) -> Array:
    """Choose at most `points` readings so that no channel loses its peaks: intp, ascending.

    MinMaxLTTB of each channel in its share of the points (J. Van Der Donckt et al., arXiv:2305.00332). Where these are
    too few for it, the readings are evenly spaced, and peaks are lost.
    """
    if len(readings) <= points:
        return np.arange(len(readings))
    share = points // len(group.channels)
    if share < LEAST_SHARE:
        return np.linspace(0, len(readings) - 1, points).astype(np.intp)
    chosen = []
    for channel in group.channels:
        values = np.nan_to_num(np.ascontiguousarray(readings[channel.name], np.float64))
        chosen.append(MinMaxLTTBDownsampler().downsample(values, n_out=share))  # type: ignore[no-untyped-call]
    return np.unique(np.concatenate(chosen))[:points].astype(np.intp)


def _channels(group: InstrumentGroup, readings: Array) -> dict[str, Array]:
    return {channel.name: np.ascontiguousarray(readings[channel.name]) for channel in group.channels}


def _units(group: InstrumentGroup) -> dict[str, str]:
    return {channel.name: channel.unit for channel in group.channels}


REFUSAL = {409: "Calibrated values are asked for, and there is no calibration, or it cannot be used."}


@dataclass(frozen=True, kw_only=True)
class Calibrating:
    """Whether values are calibrated; tag: by which global tag, where not by the configured one."""

    is_wanted: bool
    tag: str | None


def _asked(
    *,
    calibrated: Annotated[
        bool,
        Query(
            description="Whether x_mm and y_mm are added to the channels, by the calibrations that `conditions.tag` "
            "has valid at each reading; `calibration` of the answer names them."
        ),
    ] = False,
    tag: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=NAME_MOST,
            description="Of `calibrated`: another global tag than `conditions.tag`.",
            examples=["summer_2026"],
        ),
    ] = None,
) -> Calibrating:
    if tag is not None and not calibrated:
        raise ApiError(422, "it says by which tag values are calibrated", "give calibrated=true, too", field="tag")
    return Calibrating(is_wanted=calibrated, tag=tag)


Calibrated = Annotated[Calibrating, Depends(_asked)]


async def calibrated(
    service: ApiService, group: InstrumentGroup, readings: Array, asked: Calibrating
) -> tuple[InstrumentGroup, Array, dict[str, Any] | None]:
    """The group with the channels of the answer, readings with their values, and `Calibration` where it is asked for.

    Raises:
        ApiError: 409 where there is no calibration, or it cannot be used; 503 where it takes too long.
        StoreUnavailable: the database does not answer.
    """
    if not asked.is_wanted:
        return group, readings, None
    try:
        used, wider = await service.calibrations.calibrate(group.name, readings, asked.tag)
    except NotCalibrated as error:
        status = 503 if isinstance(error, CalibratedTooLate) else 409
        raise ApiError(status, f"not calibrated: {error.problem}", error.fix, field=error.field) from None
    return used.group, wider, used.as_json()
