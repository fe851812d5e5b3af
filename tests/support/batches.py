"""Batches of random readings, and what a store has to hold after them."""

from collections.abc import Mapping, Sequence

import numpy as np

from schemas.batch import Batch, Durability, JournalPosition
from schemas.ledger import ledger_dtype, pack_missing
from schemas.queries import answer_dtype
from schemas.readings import CHANNEL_DTYPES, Array, Channel, InstrumentGroup


def group_of(name: str = "bpm", size: int = 12, dtypes: Sequence[str] = ("float64",) * 4) -> InstrumentGroup:
    channels = tuple(Channel(name=f"ch{k}", unit="V", dtype=dtype) for k, dtype in enumerate(dtypes))
    return InstrumentGroup(name=name, instruments=tuple(f"{name}_{k:03d}" for k in range(size)), channels=channels)


def readings_of(
    group: InstrumentGroup, triggers: Array, times: Array, rng: np.random.Generator, jitter_ns: int = 1000
) -> Array:
    """One reading of each instrument at each trigger; record dtype, shape (triggers, instruments)."""
    shape = (len(triggers), group.size)
    readings = np.zeros(shape, group.record)
    readings["trigger"], readings["instrument"] = np.asarray(triggers)[:, None], np.arange(group.size)
    readings["time_ns"] = np.asarray(times)[:, None] + rng.integers(0, jitter_ns, shape)
    for channel in group.channels:
        readings[channel.name] = values_of(channel.dtype, shape, rng)
    return readings


def values_of(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    form = np.dtype(CHANNEL_DTYPES[dtype])
    if form.kind == "f":
        return rng.standard_normal(shape).astype(form)
    limits = np.iinfo(form)
    values = rng.integers(limits.min, limits.max, shape, dtype=form, endpoint=True)
    values.flat[:2] = limits.min, limits.max
    return values


def ledger_of(group: InstrumentGroup, run: int, triggers: Array, readings: Array, present: Array) -> Array:
    ledger = np.zeros(len(triggers), ledger_dtype(group.size))
    ledger["run"], ledger["trigger"] = run, triggers
    for row, mine, there in zip(ledger, readings["time_ns"], present, strict=True):
        times = mine[there]
        row["time_ns"], row["first_ns"], row["last_ns"] = np.sort(times)[len(times) // 2], times.min(), times.max()
    ledger["first_received_ns"], ledger["last_received_ns"] = ledger["first_ns"] + 5, ledger["last_ns"] + 5
    ledger["closed_ns"] = ledger["last_ns"] + 9
    ledger["expected"], ledger["arrived"] = group.size, present.sum(axis=1)
    ledger["missing"] = pack_missing(present)
    return ledger


def batch_of(
    group: InstrumentGroup,
    sequence: int,
    readings: Array,
    *,
    run: int = 1,
    present: Array | None = None,
    late: Array | None = None,
    late_of: Array | None = None,
    revised: Array | None = None,
    durability: Durability = Durability.SYNC,
    position: JournalPosition | None = None,
) -> Batch:
    """A batch as a journal has it after a restart: nobody can write to its readings. A test may, to its ledger."""
    there = np.ones(readings.shape, bool) if present is None else present
    return Batch(
        readings=_read_only(readings),
        present=_read_only(there),
        ledger=ledger_of(group, run, readings["trigger"][:, 0], readings, there),
        late=_read_only(np.empty(0, group.record) if late is None else late),
        late_of=_read_only(np.empty(0, np.intp) if late_of is None else late_of),
        revised=_read_only(np.empty(0, ledger_dtype(group.size)) if revised is None else revised),
        group=group,
        position=position or JournalPosition(sequence=sequence),
        durability=durability,
    )


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def with_late(row: Array, late: Array, present: Array) -> Array:
    """The ledger row of a trigger after late readings; `present` is bool, shape (instruments,), with them."""
    revised = row.copy()
    revised["arrived"], revised["late"] = present.sum(), len(late)
    revised["missing"] = pack_missing(present)
    revised["first_ns"] = min(int(row["first_ns"]), int(late["time_ns"].min()))
    revised["last_ns"] = max(int(row["last_ns"]), int(late["time_ns"].max()))
    return revised


def answers(group: InstrumentGroup, parts: Sequence[tuple[int, Array]]) -> Array:
    """What a store answers for readings (shape (n,)) of given runs: by run, trigger and instrument."""
    whole = np.empty(sum(len(readings) for _, readings in parts), answer_dtype(group))
    at = 0
    for run, readings in parts:
        part = whole[at : at + len(readings)]
        part["run"] = run
        for name in ("trigger", "instrument", "time_ns", *(channel.name for channel in group.channels)):
            part[name] = readings[name]
        at += len(readings)
    return np.sort(whole, order=("run", "trigger", "instrument"))


def by_group(*groups: InstrumentGroup) -> Mapping[str, InstrumentGroup]:
    return {group.name: group for group in groups}
