"""Closing: what the ledger says of triggers that close."""

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly.pool import Pool
from daemon.pipeline.assembly.progress import ONE_MOMENT_NS
from schemas.ledger import ledger_dtype, pack_missing
from schemas.readings import Array

_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def close_slots(pool: Pool, slots: Array, now: Instant) -> tuple[Array, Array, Array]:
    """Free these slots of the pool and account for them; what only their run knows stays 0.

    Returns readings, record dtype (t, instruments); present, bool of that shape; ledger rows, ledger dtype (t,).
    """
    instruments = pool.present.shape[1]
    ledger = np.zeros(len(slots), ledger_dtype(instruments))
    ledger["run"] = pool.run[slots]
    ledger["trigger"] = pool.trigger[slots]
    ledger["first_received_ns"] = pool.first_received[slots]
    ledger["last_received_ns"] = pool.last_received[slots]
    ledger["closed_ns"] = now.utc_ns
    ledger["expected"] = instruments
    ledger["arrived"] = pool.arrived[slots]
    ledger["duplicates"] = pool.duplicates[slots]
    is_complete = bool((ledger["arrived"] == instruments).all())
    readings, present = pool.release(slots)
    if not is_complete:
        ledger["missing"] = pack_missing(present)
    _set_times(ledger, readings["time_ns"], present, is_complete=is_complete)
    return readings, present, ledger


def _set_times(ledger: Array, times: Array, present: Array, *, is_complete: bool) -> None:
    if is_complete:
        first, last = times.min(axis=1), times.max(axis=1)
    else:
        first = np.where(present, times, _LATEST).min(axis=1)
        last = np.where(present, times, _EARLIEST).max(axis=1)
    ledger["first_ns"], ledger["last_ns"] = first, last
    ledger["time_ns"] = first
    # One instrument with a wrong clock must not decide when the trigger was. As floats: garbage could overflow.
    for k in np.flatnonzero(last.astype(float) - first.astype(float) > ONE_MOMENT_NS):
        mine = np.sort(times[k][present[k]])
        ledger["time_ns"][k] = mine[len(mine) // 2]
