"""What answers read of each hour of readings, counted by the store that gives them.

It stands in for a server that counts no reads by partition. An hour is the shortest partition, and each partition is of
whole hours: whoever knows the partitions can tell by the hours which of them were read.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol, runtime_checkable

HOUR_NS = 3_600_000_000_000

Hour = tuple[str, int | None]


class HourRead(NamedTuple):
    """What answers have read of a group's table of readings within an hour.

    hour: number of the hour since 1970-01-01 UTC, of the readings' times; None is the whole table, gone through.
    answers: how many have read there. Each has read a row once at most.
    starts: how often one has begun to read somewhere.
    rows: of the table, that were read; 0 of the whole table.
    """

    group: str
    hour: int | None
    answers: int
    starts: int
    rows: int


class HourReads:
    """What was read and not taken yet, by hour."""

    def __init__(self) -> None:
        self._found: dict[Hour, HourRead] = {}

    def add(self, reads: Iterable[HourRead]) -> None:
        """Add what was read."""
        for more in reads:
            key = more.group, more.hour
            one = self._found.get(key, HourRead(*key, 0, 0, 0))
            self._found[key] = HourRead(
                *key, one.answers + more.answers, one.starts + more.starts, one.rows + more.rows
            )

    def take(self) -> tuple[HourRead, ...]:
        """What was read since the last call: each read is in one answer only."""
        found, self._found = self._found, {}
        return tuple(found.values())


@runtime_checkable
class Counting(Protocol):
    """What a store has besides that counts what its answers read, where the server does not by partition."""

    def take_read(self) -> tuple[HourRead, ...] | None:
        """What the answers to `ask` have read since the last call; None where the server counts.

        A question that got no answer counts nothing, and neither do other methods, such as those that move or reduce.
        """
