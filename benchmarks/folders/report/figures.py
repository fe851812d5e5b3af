"""What the tables and the findings are made of: figures of a record, pure functions."""

from collections.abc import Callable, Sequence
from statistics import median

from benchmarks.folders.plan import CLIFF
from benchmarks.folders.record import Measured, Record
from schemas.api.snapshots import CliffPoint, SnapshotFigures

BLOCK_BYTES = 8192
AGAIN, AGAIN_LEAST = 0.1, 20
"""Of the blocks that the values alone would fill, and at least so many: where more are read again, a snapshot does not
stay in the cache."""


def backends(record: Record, part: str) -> list[str]:
    """Databases of which a part was measured, in their order."""
    return list(dict.fromkeys(each.backend for each in record.measured if each.part == part))


def names(record: Record, part: str, backend: str) -> list[str]:
    """Conditions of a part, in their order."""
    return list(dict.fromkeys(each.name for each in of(record, part, backend)))


def of(record: Record, part: str, backend: str, name: str | None = None) -> list[Measured]:
    """Runs of a part, or of one of its conditions."""
    return [
        each for each in record.measured if each.part == part and each.backend == backend and name in (None, each.name)
    ]


def middle(found: Sequence[Measured], figure: Callable[[SnapshotFigures], float | None]) -> float | None:
    """Median over the rounds of those that have the figure."""
    values = [value for each in found if (value := figure(each.run.figures)) is not None]
    return median(values) if values else None


def efficiency(found: Sequence[Measured]) -> float | None:
    """Cycles in time over all rounds, by those that ended."""
    ended = sum(each.run.figures.cycles for each in found)
    return sum(each.run.figures.in_time for each in found) / ended if ended else None


def counted(record: Record, part: str, backend: str, name: str, what: str) -> float | None:
    """What was counted of a condition."""
    for each in record.counted:
        if (each.part, each.backend, each.name, each.what) == (part, backend, name, what):
            return each.value
    return None


def cliffs(record: Record, backend: str) -> dict[str, list[CliffPoint]]:
    """The cliff of each layout."""
    found = {each.name: each.run.cliff for each in of(record, CLIFF, backend)}
    return {name: points for name, points in found.items() if points and points[0].read is not None}


def edge(points: Sequence[CliffPoint]) -> tuple[int, int | None]:
    """Bytes of the largest snapshot that stays in the cache, 0 if none does, and of the next that was tried.

    The second is None where the largest of all stays.
    """
    stays = 0
    for point in points:
        assert point.read is not None
        if point.read > max(AGAIN_LEAST, AGAIN * point.value_bytes / BLOCK_BYTES):
            return stays, point.value_bytes
        stays = point.value_bytes
    return stays, None


def last_seconds(found: Sequence[Measured]) -> float | None:
    """Seconds of reading the whole snapshot again, alone."""
    return next((each.run.cliff[-1].seconds for each in found if each.run.cliff), None)
