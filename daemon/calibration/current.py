"""Readings calibrated by a global tag as it is at the moment of asking."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from backends.base import StoreError
from backends.conditions import ConditionsStore
from daemon.calibration.payloads import NotCalibrated, payload_files
from daemon.calibration.tables import PayloadTables
from schemas.checking.problems import listed
from schemas.conditions.calibration import BUTTONS, POSITION, By, positions
from schemas.conditions.intervals import END, GlobalTag, Intervals, Key, TagRevision, stretches, valid_at
from schemas.conditions.rules import ConditionsRefused, RefusalKind, check_tag, no_list
from schemas.config import ConditionsConfig, GroupConfig
from schemas.queries import answer_dtype
from schemas.readings import Array, InstrumentGroup

# --- a group ---------------------------------------------------------------------------------------------------------

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


class CalibratedTooLate(NotCalibrated):
    """The database or the place of the payloads does not answer in time."""


class Calibrations:
    """Calibrates readings of groups.

    The database is asked anew for each question, for the intervals that hold its readings and no others: what is valid
    is never remembered. Payloads are, by their checksums.

    Args:
        store: of the conditions; None where the database has none.
        conditions: the tag, what its keys are, and where the payloads are.
        groups: the instrument groups.
        folder: what the name of the folder of payloads is relative to.
        give_up_s: how long a question may take.
    """

    def __init__(
        self,
        store: ConditionsStore | None,
        conditions: ConditionsConfig,
        groups: Iterable[GroupConfig],
        *,
        folder: Path,
        give_up_s: float,
    ) -> None:
        self._store, self._folder, self._give_up_s = store, folder, give_up_s
        self._groups = {each.name: (each.group(), each.calibrated_as) for each in groups}
        self.change(conditions)

    def change(self, conditions: ConditionsConfig) -> None:
        """Calibrate by this from now on."""
        self._conditions = conditions
        files = None if conditions.payloads is None else payload_files(conditions.payloads, self._folder)
        # Questions that are under way have the old ones.
        self._tables = {name: PayloadTables(group, files) for name, (group, _) in self._groups.items() if files}

    async def calibrate(self, group: str, readings: Array, tag: str | None = None) -> tuple[GroupCalibration, Array]:
        """Add positions to readings.

        Args:
            group: its name.
            readings: `answer_dtype` of the group, shape (n).
            tag: in place of the configured one.

        Returns:
            What was used, and the readings as `answer_dtype` of its group, shape (n): x_mm and y_mm are NaN where no
            calibration is valid.

        Raises:
            NotCalibrated: there is no calibration, or it cannot be used.
            StoreUnavailable: the database does not answer.
        """
        try:
            async with asyncio.timeout(self._give_up_s):
                used = await self._calibration(group, readings, tag)
                return used, await used.with_positions(readings)
        except TimeoutError:
            raise CalibratedTooLate(
                "calibrated",
                f"the conditions and payloads of group {group} took longer than {self._give_up_s:g} s",
                "see that the database and the place of conditions.payloads answer",
            ) from None

    async def _calibration(self, name: str, readings: Array, tag: str | None) -> GroupCalibration:
        group, type_ = self._groups[name]
        by, tag = self._conditions.by, tag or self._conditions.tag
        if type_ is None:
            fix = f"ask for a group with the channels {listed(BUTTONS)}, and neither x_mm nor y_mm"
            raise NotCalibrated("group", f"group {name} gives no four buttons", fix)
        if name not in self._tables:
            fix = "name the folder or address that payloads are below, and the global tag"
            raise NotCalibrated("conditions.payloads", "not given", fix)
        if tag is None or self._store is None:
            raise NotCalibrated("conditions.tag", "not given", "name the global tag by which readings are calibrated")
        tables = self._tables[name]
        try:
            check_tag(tag, "")
            revision, intervals = await self._store.between(tag, type_, *_extent(readings, by))
        except ConditionsRefused as refused:
            raise NotCalibrated(refused.field, refused.problem, refused.fix) from None
        except StoreError as error:
            if error.is_away:
                raise
            fix = "name the one that a server of conditions has made"
            problem = f"{self._conditions.schema_name} cannot be read ({error})"
            raise NotCalibrated("conditions.schema", problem, fix) from None
        return GroupCalibration(group, tag=revision, by=by, intervals=intervals, tables=tables)

    async def close(self) -> None:
        """Give back the connections."""
        if self._store is not None:
            await self._store.close()


def _extent(readings: Array, by: By) -> tuple[Key, Key]:
    """The least and the greatest key of readings."""
    if not len(readings):
        return Key(0, 0), Key(0, 0)
    majors, minors = keys_of(readings, by)
    first, last = majors.min(), majors.max()
    return Key(int(first), int(minors[majors == first].min())), Key(int(last), int(minors[majors == last].max()))
