"""Another `database.partition` at the next start: what is there stays, and new partitions begin where it ends."""

import itertools
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from backends.base import Partition, Store
from backends.columns.partitions import PartitionUnit, partition_of
from schemas.batch import JournalPosition, Layout
from schemas.readings import Array, InstrumentGroup
from schemas.retention import Rule
from tests.backends.test_store_contract import Make, everything, layout_of, maker, opened, rng
from tests.backends.test_store_retention import period_of
from tests.support.batches import answers, batch_of, group_of, readings_of

__all__ = ["opened", "rng"]

MINUTE_NS = 60_000_000_000
HOUR_NS = 60 * MINUTE_NS
NOON_NS = int(np.datetime64("2026-11-28T12:30", "ns").astype(np.int64))


@pytest.fixture(params=["rows", "arrays", "mysql-rows", "mysql-arrays"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(request: pytest.FixtureRequest, kind: str, schema: str) -> Make:
    return maker(request, kind, schema)


class Clock:
    """The clock by which partitions are made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = NOON_NS
        fake = SimpleNamespace(time_ns=lambda: self.now_ns, monotonic=time.monotonic)
        for module in ("backends.sql.partitioner", "backends.sql.writing", "backends.mysql.schema.create"):
            monkeypatch.setattr(f"{module}.time", fake)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def finite(partitions: tuple[Partition, ...]) -> list[Partition]:
    """Those that a period has: not the one that takes what fits no other."""
    return [each for each in partitions if each.name.isdigit()]


async def logged(
    store: Store, group: InstrumentGroup, numbers: "itertools.count[int]", time_ns: int, rng: np.random.Generator
) -> Array:
    number = next(numbers)
    readings = readings_of(group, np.array([number]), np.array([time_ns]), rng)
    await store.commit(batch_of(group, number, readings, position=JournalPosition(sequence=number)))
    return readings.ravel()


@pytest.mark.parametrize(
    "units",
    [
        ("hour", "day", "hour"),
        ("day", "hour", "day"),
        ("hour", "month", "day"),
        ("month", "hour", "month"),
        ("day", "month", "day"),
    ],
    ids="-".join,
)
async def test_another_partition_begins_where_the_last_one_ends(
    make: Make, kind: str, opened: Any, rng: np.random.Generator, clock: Clock, units: tuple[PartitionUnit, ...]
) -> None:
    group = group_of(size=3)
    numbers, sent = itertools.count(1), []
    for unit in units:
        store = await opened(make(group, partition=unit))
        # Across the ends of hours, of days, and of all that is there; and something that comes late.
        there = finite((await store.partitions())[group.name])
        for at_ns in (*(clock.now_ns + k * HOUR_NS for k in (0, 1, 7, 25)), there[-1].end_ns + 90 * MINUTE_NS):
            clock.now_ns = at_ns
            sent += [await logged(store, group, numbers, time_ns, rng) for time_ns in (at_ns, at_ns - 2 * HOUR_NS)]
            found = finite((await store.partitions())[group.name])
            (now,) = [each for each in found if each.start_ns <= at_ns < each.end_ns]
        assert now.end_ns == partition_of(at_ns, unit).end_ns
        for one, other in itertools.pairwise(found):
            assert one.end_ns <= other.start_ns
        # Old data goes on by the bounds that a partition has, and not by the period that its name may stand for.
        oldest = await period_of(store, group, NOON_NS) if unit == units[-1] else None
        await store.close()
    store = await opened(make(group, partition=units[-1]))
    whole = np.concatenate(sent)
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, whole)]))
    assert oldest is not None
    dropped = await store.drop(oldest, Rule.AGE, at_ns=time.time_ns(), patience_s=5.0)
    stays = ~((whole["time_ns"] >= oldest.start_ns) & (whole["time_ns"] < oldest.end_ns))
    assert dropped.stored == {1: np.count_nonzero(~stays) // (group.size if layout_of(kind) is Layout.ARRAYS else 1)}
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, whole[stays])]))
