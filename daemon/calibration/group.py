"""The calibrations of one group of instruments by one global tag, and positions that follow from them."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backends.conditions.base import ConditionsStore
from daemon.calibration.tables import PayloadTables
from schemas.conditions.calibration import POSITION, By, positions
from schemas.conditions.intervals import END, GlobalTag, Intervals, Key, TagRevision
from schemas.conditions.rules import ConditionsRefused, RefusalKind, no_list
from schemas.conditions.stretches import stretches, valid_at
from schemas.queries import answer_dtype
from schemas.readings import Array, InstrumentGroup

AT_ONCE = 2**15
"""Readings that are computed in one step: a thread that works on many at once lets no other run."""

TRIES = 5
"""How often a tag that changes meanwhile is read."""


@dataclass(frozen=True, kw_only=True)
class UsedPayload:
    """A payload that was used: its interval, and the checksum that its content has.

    is_verified: the interval has a checksum, which is this one.
    """

    url: str
    checksum: str
    is_verified: bool
    start: Key
    end: Key


class GroupCalibration:
    """Computes the positions of a group's readings.

    Args:
        group: as it is read.
        tag: as it was when its intervals were read.
        by: what the keys are.
        intervals: all that hold the key of a reading that is to come.
        tables: of the group.

    Attributes:
        group: with the channels of POSITION.
        without: how many readings had no calibration so far.
    """

    def __init__(
        self,
        group: InstrumentGroup,
        *,
        tag: GlobalTag | TagRevision,
        by: By,
        intervals: Intervals,
        tables: PayloadTables,
    ) -> None:
        self.tag, self.by, self.without = tag, by, 0
        self.group = replace(group, channels=(*group.channels, *POSITION))
        self._intervals, self._tables = intervals, tables
        self._used: dict[int, UsedPayload] = {}

    @property
    def used(self) -> list[UsedPayload]:
        """What was used so far, in the order of the intervals."""
        return [self._used[position] for position in sorted(self._used)]

    def as_json(self) -> dict[str, Any]:
        """The calibrations that were used, for JSON: the tag, and by interval the payload and its checksum."""
        return {
            "tag": self.tag.name,
            "revision": self.tag.revision,
            "status": str(self.tag.status),
            "by": str(self.by),
            "readings_without": self.without,
            "payloads": [
                {
                    "url": each.url,
                    "checksum": each.checksum,
                    "is_verified": each.is_verified,
                    "start": list(each.start),
                    "end": None if each.end == END else list(each.end),
                }
                for each in self.used
            ],
        }

    async def with_positions(self, readings: Array) -> Array:
        """Readings with what a calibration adds to them: `answer_dtype(self.group)`, else as `positions`."""
        x, y = await self.positions(readings)
        return await asyncio.to_thread(_wider, readings, self.group, x, y)

    async def positions(self, readings: Array) -> tuple[Array, Array]:
        """Compute positions, a stretch of readings with the same payload at a time.

        Args:
            readings: `answer_dtype(group)`, shape (n).

        Returns:
            x and y in mm, float64, shape (n); NaN where no calibration is valid.

        Raises:
            PayloadUnusable: a payload that is needed cannot be used.
        """
        x, y = np.full((2, len(readings)), np.nan)
        # In threads: of half a million readings each step takes tens of milliseconds.
        for position, where in await asyncio.to_thread(_valid, self._intervals, readings, self.by):
            if position < 0:
                self.without += len(where)
                continue
            table = await self._table(position)
            for some in np.array_split(where, -(-len(where) // AT_ONCE)):
                x[some], y[some], without = await asyncio.to_thread(_positions, readings, some, table)
                self.without += without
        return x, y

    async def _table(self, position: int) -> Array:
        """The calibrations of an interval by number of the instrument; from now on it counts as used."""
        intervals, before = self._intervals, self._used.get(position)
        url, stored = str(intervals.urls[position]), str(intervals.checksums[position]).strip()
        # One without a checksum stays what it was when it was used first.
        expected = before.checksum if before is not None and not stored else stored
        found = await self._tables.table(url, expected, int(intervals.sizes[position]))
        self._used[position] = UsedPayload(
            url=url,
            checksum=found.checksum,
            is_verified=bool(stored),
            start=_key(intervals.starts[position]),
            end=_key(intervals.ends[position]),
        )
        return found.table


async def group_calibration(
    store: ConditionsStore, tag: str, group: InstrumentGroup, type_: str, *, by: By, tables: PayloadTables
) -> GroupCalibration:
    """Read all that a global tag says of a group, as it is at one moment.

    Raises:
        ConditionsRefused: the tag is unknown, has no list of this payload type, or changes all the time.
        StoreUnavailable: the database does not answer.
    """
    for _ in range(TRIES):
        found = await store.tag(tag)
        name = (await store.tag_lists(tag)).get(type_)
        if name is None:
            raise no_list(tag, type_)
        intervals = await store.timeline(name)
        if await store.tag(tag) == found:
            return GroupCalibration(group, tag=found, by=by, intervals=intervals, tables=tables)
    raise ConditionsRefused(RefusalKind.CONFLICT, "global_tag", f"{tag!r} changes all the time", "lock it")


def keys_of(readings: Array, by: By) -> tuple[Array, Array]:
    """The keys of readings: major and minor, int64, shape (n)."""
    if by is By.TIME:
        return np.zeros(len(readings), np.int64), readings["time_ns"]
    return readings["run"].astype(np.int64), readings["trigger"]


def _valid(intervals: Intervals, readings: Array, by: By) -> list[tuple[int, Array]]:
    """The intervals that are valid at readings, and at which, as `stretches` gives them."""
    return list(stretches(valid_at(intervals, *keys_of(readings, by))))


def _wider(readings: Array, group: InstrumentGroup, x: Array, y: Array) -> Array:
    """Readings with positions: `answer_dtype(group)`."""
    wider = np.empty(len(readings), answer_dtype(group))
    for name in readings.dtype.names or ():
        wider[name] = readings[name]
    wider["x_mm"], wider["y_mm"] = x, y
    return wider


def _positions(every: Array, where: Array, table: Array) -> tuple[Array, Array, int]:
    """Positions x and y in mm of some readings, and how many of these have no calibration."""
    readings = every[where]
    calibrations = table[readings["instrument"]]
    x, y = positions(readings["top_in"], readings["bot_in"], readings["bot_out"], readings["top_out"], calibrations)
    return x, y, int(np.isnan(calibrations["k_x_mm"]).sum())


def _key(stored: np.void) -> Key:
    return Key(int(stored["major"]), int(stored["minor"]))
