"""The calibrations of one group of instruments by one global tag, and positions that follow from them."""

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from backends.conditions.base import ConditionsStore
from daemon.conditions.calibration.payloads import PayloadFiles, PayloadUnusable, verified
from daemon.core.outcome import require_extra
from schemas.checking.problems import Problem
from schemas.conditions.calibration import (
    KIND,
    BpmPayload,
    PayloadRefused,
    bpm_payload,
    bpm_payload_of_rows,
    positions,
    table_of,
)
from schemas.conditions.intervals import GlobalTag, Intervals, Key
from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.conditions.stretches import stretches, valid_at
from schemas.readings import MAX_INSTRUMENTS, Array, Channel, InstrumentGroup

POSITION = (Channel(name="x_mm", unit="mm", dtype="float64"), Channel(name="y_mm", unit="mm", dtype="float64"))
"""What a calibration adds to a reading."""

CACHE_BYTES = 64 * 2**20
"""Calibrations that are kept laid out: of 120 instruments they are 9 kB a payload."""

TRIES = 5
"""How often a tag that changes meanwhile is read."""


class By(StrEnum):
    """What the keys of the intervals are."""

    TRIGGER = "trigger"  # (run, trigger)
    TIME = "time"  # (0, the reading's own time in ns since 1970-01-01 UTC)


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

    Attributes:
        tag: as it was when its intervals were read.
        by: what the keys are.
        without: how many readings had no calibration so far.
    """

    def __init__(
        self,
        group: InstrumentGroup,
        *,
        tag: GlobalTag,
        by: By,
        intervals: Intervals,
        files: PayloadFiles,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self.tag, self.by, self.without = tag, by, 0
        self._group, self._intervals, self._files = group, intervals, files
        self._used: dict[int, UsedPayload] = {}
        self._tables, self._cache_bytes = OrderedDict[str, tuple[str, Array]](), cache_bytes

    @property
    def used(self) -> list[UsedPayload]:
        """What was used so far, in the order of the intervals."""
        return [self._used[position] for position in sorted(self._used)]

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
        for position, where in stretches(valid_at(self._intervals, *self._keys(readings))):
            if position < 0:
                self.without += len(where)
                continue
            table = await self._table(position)
            some = readings[where]
            calibrations = table[some["instrument"]]
            self.without += int(np.isnan(calibrations["k_x_mm"]).sum())
            x[where], y[where] = positions(
                some["top_in"], some["bot_in"], some["bot_out"], some["top_out"], calibrations
            )
        return x, y

    def _keys(self, readings: Array) -> tuple[Array, Array]:
        if self.by is By.TIME:
            return np.zeros(len(readings), np.int64), readings["time_ns"]
        return readings["run"].astype(np.int64), readings["trigger"]

    async def _table(self, position: int) -> Array:
        """The calibrations of an interval by number of the instrument; from now on it counts as used."""
        url, checksum = str(self._intervals.urls[position]), str(self._intervals.checksums[position]).strip().lower()
        found, table = self._tables.get(checksum or f"url {url}") or await self._read(url, checksum)
        self._keep(checksum or f"url {url}", found, table)
        self._used[position] = UsedPayload(
            url=url,
            checksum=found,
            is_verified=bool(checksum),
            start=_key(self._intervals.starts[position]),
            end=_key(self._intervals.ends[position]),
        )
        return table

    async def _read(self, url: str, checksum: str) -> tuple[str, Array]:
        content = await self._files.read(url)
        found = verified(content, checksum, url)
        try:
            return found, table_of(_payload(content), self._group)
        except PayloadRefused as refused:
            wrong = refused.problem
            raise PayloadUnusable(wrong.field, f"payload {url!r}: {wrong.problem}", wrong.fix) from None

    def _keep(self, key: str, found: str, table: Array) -> None:
        self._tables[key] = found, table
        self._tables.move_to_end(key)
        while len(self._tables) > 1 and len(self._tables) * table.nbytes > self._cache_bytes:
            self._tables.popitem(last=False)


async def group_calibration(
    store: ConditionsStore, tag: str, group: InstrumentGroup, *, by: By, files: PayloadFiles
) -> GroupCalibration:
    """Read what a global tag says of a group, as it is at one moment.

    Raises:
        ConditionsRefused: the tag is unknown, has no calibrations, or changes all the time.
        StoreUnavailable: the database does not answer.
    """
    for _ in range(TRIES):
        found = await store.tag(tag)
        name = (await store.tag_lists(tag)).get(KIND)
        if name is None:
            raise ConditionsRefused(
                RefusalKind.UNKNOWN, "global_tag", f"{tag!r} has no list of type {KIND!r}", "attach one to it"
            )
        intervals = await store.timeline(name)
        if await store.tag(tag) == found:
            return GroupCalibration(group, tag=found, by=by, intervals=intervals, files=files)
    raise ConditionsRefused(RefusalKind.CONFLICT, "global_tag", f"{tag!r} changes all the time", "lock it")


def _payload(content: bytes) -> BpmPayload:
    if not content.startswith(b"PAR1"):
        return bpm_payload(content)
    require_extra("export", "a payload in Parquet", {"pyarrow": "pyarrow"})
    return bpm_payload_of_rows(_rows(content))


def _rows(content: bytes) -> list[dict[str, Any]]:
    import pyarrow as pa  # noqa: PLC0415 - it is in an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        if file.metadata.num_rows > MAX_INSTRUMENTS:  # a small file may hold many
            problem = f"it has {file.metadata.num_rows:,} rows"
            raise PayloadRefused(Problem(field="(file)", problem=problem, fix="give a row an instrument"))
        rows: list[dict[str, Any]] = file.read().to_pylist()
    except pa.ArrowException as error:
        raise PayloadRefused(
            Problem(field="(file)", problem=f"it is no Parquet that can be read ({error})", fix="write it again")
        ) from None
    return rows


def _key(stored: np.void) -> Key:
    return Key(int(stored["major"]), int(stored["minor"]))
