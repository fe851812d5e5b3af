"""Reports on change: groups of them, what is to be in their folder, and a store for them in memory."""

from collections.abc import Iterable
from math import isnan

import numpy as np

from backends.folders.base import FoldersStore
from backends.folders.reporting import ReportingStore
from schemas.folders.blocks import OPEN
from schemas.readings import Array, Channel, InstrumentGroup
from tests.support.memory.folders import MemoryFoldersStore
from tests.support.memory.store import MemoryStore

PATH = "/magnets/current"
CURRENTS = InstrumentGroup(
    name="current",
    instruments=("Q1", "Q2", "Q3"),
    channels=(
        Channel(name="ampere", unit="A", dtype="float64"),
        Channel(name="volt", unit="V", dtype="float32"),
    ),
    folder=PATH,
)
NAN = float("nan")
Report = tuple[int, int, float]
"""Instrument, time in ns, value of all channels; NaN is an end."""


def readings_of(reports: Iterable[Report], group: InstrumentGroup = CURRENTS) -> Array:
    """Reports as they come from a sender; their trigger numbers count them."""
    given = list(reports)
    block = np.zeros(len(given), group.record)
    block["trigger"] = np.arange(len(given))
    for k, (instrument, time_ns, value) in enumerate(given):
        block["instrument"][k], block["time_ns"][k] = instrument, time_ns
        for channel in group.channels:
            block[channel.name][k] = value
    return block


def expected(reports: Iterable[Report]) -> list[tuple[int, int, int, float]]:
    """Channel, since, until and value of all that holds after reports: of several of one time the first counts."""
    first: dict[tuple[int, int], float] = {}
    for instrument, time_ns, value in reports:
        first.setdefault((instrument, time_ns), value)
    rows = []
    for instrument, since in sorted(first):
        nexts = [time_ns for other, time_ns in first if other == instrument and time_ns > since]
        if not isnan(first[instrument, since]):
            rows.append((instrument, since, min(nexts, default=OPEN), first[instrument, since]))
    return rows


async def in_folder(store: FoldersStore, path: str = PATH) -> list[tuple[int, int, int, float]]:
    """The same as a folder has it, whose columns all have the value."""
    block = await store.changes(path, -1, OPEN)
    rows = []
    for channel, since, until, *values in block[block["until"] > block["since"]].tolist():
        assert len(set(values)) == 1, values
        rows.append((channel, since, until, values[0]))
    return rows


async def reporting_to_memory(group: InstrumentGroup = CURRENTS) -> tuple[ReportingStore, MemoryFoldersStore]:
    """An open store, and the folders in it."""
    folders = MemoryFoldersStore()
    store = ReportingStore(MemoryStore({}), folders, {group.name: group}, logger="test")
    await store.open()
    return store, folders
