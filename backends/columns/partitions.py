"""Which interval of time a partition holds: pure arithmetic on int64 nanoseconds since 1970-01-01 UTC."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from schemas.readings import Array

PartitionUnit = Literal["hour", "day", "month"]

UNITS: dict[PartitionUnit, str] = {"hour": "h", "day": "D", "month": "M"}
NAMES: dict[PartitionUnit, int] = {"hour": 13, "day": 10, "month": 7}
"""How much of `2026-11-21T03` names a partition."""

DAY_NS = 86_400_000_000_000
PAST_NS = 31 * DAY_NS
FUTURE_NS = 2 * DAY_NS
"""Partitions are made for times at most this far from now: an instrument whose clock says 1970 gets none of its own."""


@dataclass(frozen=True, kw_only=True, order=True)
class Partition:
    """One interval, start_ns <= time_ns < end_ns; `label` makes its table's name."""

    start_ns: int
    end_ns: int
    label: str


def partition_of(time_ns: int, unit: PartitionUnit) -> Partition:
    """The partition that holds a time."""
    return _partition(_number(np.int64(time_ns), unit), unit)


def partitions_of(times: Array, now_ns: int, unit: PartitionUnit, ahead: int) -> list[Partition]:
    """Partitions that times (int64, any shape) near now need, and `ahead` more after the newest of them, ascending."""
    near = times[(times >= now_ns - PAST_NS) & (times <= now_ns + FUTURE_NS)]
    if near.size == 0:
        return []
    numbers = np.unique(_numbers(near, unit))
    newest = int(numbers[-1])
    wanted = {*map(int, numbers), *range(newest + 1, newest + ahead + 1)}
    return [_partition(number, unit) for number in sorted(wanted)]


def parts_outside(partition: Partition, taken: Iterable[tuple[int, int]]) -> list[Partition]:
    """Return what of a partition lies in none of the stretches (start_ns, end_ns) that are taken, ascending.

    They are taken where tables were made with another unit. A part has the label of its first hour: never that of the
    whole partition, and of no other stretch that lies beside it.
    """
    parts, at = [], partition.start_ns
    for start_ns, end_ns in [*sorted(taken), (partition.end_ns, partition.end_ns)]:
        end = min(start_ns, partition.end_ns)
        if at < end:
            parts.append(part_of(partition, at, end))
        at = max(at, end_ns)
    return parts


def part_of(partition: Partition, start_ns: int, end_ns: int) -> Partition:
    """Return the part of a partition that lies in a stretch."""
    start_ns, end_ns = max(start_ns, partition.start_ns), min(end_ns, partition.end_ns)
    if (start_ns, end_ns) == (partition.start_ns, partition.end_ns):
        return partition
    return Partition(start_ns=start_ns, end_ns=end_ns, label=partition_of(start_ns, "hour").label)


def _numbers(times: Array, unit: PartitionUnit) -> Array:
    return times.astype("datetime64[ns]").astype(f"datetime64[{UNITS[unit]}]").astype(np.int64)


def _number(time_ns: np.int64, unit: PartitionUnit) -> int:
    return int(_numbers(np.asarray([time_ns]), unit)[0])


def _partition(number: int, unit: PartitionUnit) -> Partition:
    bounds = np.array([number, number + 1], f"datetime64[{UNITS[unit]}]")
    start_ns, end_ns = (int(bound) for bound in bounds.astype("datetime64[ns]").astype(np.int64))
    label = str(bounds[0].astype("datetime64[h]"))[: NAMES[unit]].replace("-", "").replace("T", "")
    return Partition(start_ns=start_ns, end_ns=end_ns, label=label)
