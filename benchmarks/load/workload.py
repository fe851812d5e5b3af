"""The load: 120 beam position monitors with four float64 channels of random values, every trigger complete."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import numpy as np
import uvloop

from schemas.batch import ClosedBlock, Layout
from schemas.ledger import COUNTS, TIMES, ledger_dtype
from schemas.readings import Array, Channel, InstrumentGroup

LOGGER = "bench"
INSTRUMENTS = 120
CHANNELS = ("top_in", "bot_in", "bot_out", "top_out")
PERIOD_NS = 10_000_000
"""Time between two triggers on the instruments' own clock: however fast they are sent, they are of 100 a second."""

GROUP = InstrumentGroup(
    name="bpm",
    instruments=tuple(f"bpm_{i:03d}" for i in range(INSTRUMENTS)),
    channels=tuple(Channel(name=name, unit="mm", dtype="float64") for name in CHANNELS),
)
LAYOUTS = (Layout.ROWS, Layout.ARRAYS)


def random_records(triggers: int, *, seed: int = 1) -> Array:
    """Make whole triggers of random values; `GROUP.record`, shape (triggers, INSTRUMENTS), not numbered."""
    rng = np.random.default_rng(seed)
    records = np.zeros((triggers, INSTRUMENTS), GROUP.record)
    records["instrument"] = np.arange(INSTRUMENTS)
    for name in CHANNELS:
        records[name] = rng.standard_normal(records.shape)
    return records


def number(records: Array, first: int, begun_ns: int) -> None:
    """Number triggers from `first` on, with the times that belong to the numbers; trigger 0 is at `begun_ns`."""
    numbers = np.arange(first, first + len(records))
    records["trigger"] = numbers[:, None]
    records["time_ns"] = (begun_ns + numbers * PERIOD_NS)[:, None]


def closed_triggers(records: Array) -> ClosedBlock:
    """What assembly would make of complete triggers, ready to be encoded."""
    count, now = len(records), time.time_ns()
    ledger = np.zeros(count, ledger_dtype(INSTRUMENTS))
    ledger["run"], ledger["trigger"] = 1, records["trigger"][:, 0]
    for name in TIMES:
        ledger[name] = now
    for name in ("time_ns", "first_ns", "last_ns"):
        ledger[name] = records["time_ns"][:, 0]
    for name in COUNTS[:2]:  # expected, arrived
        ledger[name] = INSTRUMENTS
    return ClosedBlock(
        readings=records,
        present=np.ones(records.shape, bool),
        ledger=ledger,
        late=np.zeros(0, GROUP.record),
        late_of=np.zeros(0, np.intp),
        revised=np.zeros(0, ledger.dtype),
    )


T = TypeVar("T")


def on_uvloop(main: Coroutine[Any, Any, T]) -> T:
    """Run to its end."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
