"""Blocks made for tests."""

from collections.abc import Callable, Iterable

import numpy as np

from schemas.ledger import ledger_dtype
from schemas.readings import Array, Channel, InstrumentGroup

START_NS = 1_700_000_000_000_000_000
PERIOD_NS = 10_000_000


def make_group(instruments: int = 5, name: str = "bpm") -> InstrumentGroup:
    return InstrumentGroup(
        name=name,
        instruments=tuple(f"{name}_{i:03d}" for i in range(instruments)),
        channels=(
            Channel(name="top_in", unit="V", dtype="float64"),
            Channel(name="gain", unit="", dtype="int16"),
        ),
    )


def time_of(trigger: int) -> int:
    """When a trigger is, by the instruments' clocks."""
    return START_NS + trigger * PERIOD_NS


def make_block(
    group: InstrumentGroup,
    readings: Iterable[tuple[int, int]],
    when: Callable[[int], int] = time_of,
) -> Array:
    """Readings of (trigger, instrument); a value tells which it is."""
    pairs = list(readings)
    block = np.zeros(len(pairs), group.record)
    for row, (trigger, instrument) in zip(block, pairs, strict=True):
        row["trigger"], row["instrument"] = trigger, instrument
        row["time_ns"] = when(trigger)
        row["top_in"] = trigger + instrument / 1000
    return block


def whole(group: InstrumentGroup, *triggers: int, when: Callable[[int], int] = time_of) -> Array:
    """Complete triggers."""
    return make_block(group, [(t, i) for t in triggers for i in range(group.size)], when)


def history_of(group: InstrumentGroup, *triggers: int, run: int = 1) -> Array:
    """Ledger rows of complete triggers, as a store has them."""
    rows = np.zeros(len(triggers), ledger_dtype(group.size))
    rows["run"] = run
    rows["trigger"] = triggers
    rows["expected"] = rows["arrived"] = group.size
    for name in ("time_ns", "first_ns", "last_ns"):
        rows[name] = [time_of(t) for t in triggers]
    return rows
