"""What a tab asks the daemon, answered in numpy arrays, and once for all browsers that ask the same."""

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np

from dashboard.feed.client import DaemonApi, DaemonUnavailable, detail_of
from dashboard.feed.hub import Hub
from dashboard.feed.relay import TtlCache
from schemas.api.readings import OneTrigger, Readings

FRESH_S = 0.9
GROUP_FRESH_S = 30.0
MARGIN_NS = 1_000_000_000
"""How far an instrument's own timestamps may be from those of the triggers; a reading beyond it is not found."""

READINGS_MOST = 100_000
"""The daemon gives no more of them in one answer, but a choice of them."""

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, kw_only=True)
class Group:
    """An instrument group: names of its instruments and channels, and by channel the unit."""

    name: str
    instruments: list[str]
    channels: list[str]
    units: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Series:
    """One channel of an instrument at the last N triggers; all arrays have shape (N,), the newest trigger last.

    values: in the unit of the channel; NaN where the reading is missing.
    trigger: the trigger numbers, each one more than the one before.
    time_ns: the readings' own timestamps, ns since 1970-01-01 UTC; 0 where the reading is missing.
    unit: of the channel, "" if it has none.
    """

    values: Floats
    trigger: Integers
    time_ns: Integers
    unit: str

    @property
    def rate(self) -> float | None:
        """Triggers a second, by the timestamps of the first and the last reading; None if these do not tell."""
        there = np.flatnonzero(self.time_ns)
        if len(there) < 2:
            return None
        first, last = there[0], there[-1]
        lasted_ns = int(self.time_ns[last] - self.time_ns[first])
        return float(last - first) / lasted_ns * 1e9 if lasted_ns > 0 else None


@dataclass(frozen=True, kw_only=True)
class Newest:
    """The newest trigger of a group.

    channels: by name an array of shape (instruments,), in the order of `Group.instruments`; NaN where one is missing.
    trigger: its number; None where there is none yet.
    """

    trigger: int | None
    channels: dict[str, Floats]


class Questions:
    """Questions to the daemon. Each method raises DaemonUnavailable, which the page shows in the tab."""

    def __init__(self, hub: Hub, api: DaemonApi) -> None:
        self._hub, self._api = hub, api
        self._groups, self._newest = TtlCache[Group](), TtlCache[OneTrigger]()
        self._readings = TtlCache[tuple[OneTrigger, Readings | None]]()

    async def groups(self) -> list[str]:
        """Names of the instrument groups."""
        self._see()
        return [] if self._hub.status is None else list(self._hub.status.groups)

    async def group(self, name: str) -> Group:
        """Instruments and channels of a group."""
        self._see()
        return await self._groups.get(name, GROUP_FRESH_S, lambda: self._described(name))

    async def series(self, group: str, instrument: str, channel: str, *, last: int) -> Series:
        """One channel of an instrument at the last triggers.

        last: how many triggers, 1 to 20,000. The arrays always have so many values: in a shorter run the first are NaN.
        Raises ValueError: the group has no such instrument or channel.
        """
        of = await self.group(group)
        _known(instrument, of.instruments, f"group {group} has no instrument")
        _known(channel, of.channels, f"group {group} has no channel")
        newest, readings = await self._readings.get(
            (group, instrument, last), FRESH_S, lambda: self._last(group, instrument, last)
        )
        return _series(newest, readings, channel, last, of.units[channel])

    async def newest(self, group: str) -> Newest:
        """All instruments at the newest trigger, complete or not."""
        of = await self.group(group)
        found = await self._newest.get(group, FRESH_S, lambda: self._api.newest(group, complete=False))
        places = [of.instruments.index(name) for name in found.instruments]
        channels = {name: np.full(len(of.instruments), np.nan) for name in of.channels}
        for name, values in found.channels.items():
            channels[name][places] = np.array(values, np.float64)
        return Newest(trigger=found.trigger, channels=channels)

    async def get(self, path: str, **asked: int | str) -> Any:
        """Any other question of the API: the decoded JSON of `GET /api/v1{path}`, such as `get("/groups/bpm/gaps")`."""
        self._see()
        answer = await self._api.ask(path, **asked)
        if not answer.is_success:
            raise DaemonUnavailable(f"the daemon answered {answer.status_code}: {detail_of(answer)}")
        return answer.json()

    def _see(self) -> None:
        """See that the daemon is there: one that has gone would be waited for."""
        if self._hub.problem is not None:
            raise DaemonUnavailable(self._hub.problem)

    async def _described(self, name: str) -> Group:
        found = await self._api.group(name)
        units = {channel.name: channel.unit for channel in found.channels}
        return Group(name=name, instruments=found.instruments, channels=list(units), units=units)

    async def _last(self, group: str, instrument: str, last: int) -> tuple[OneTrigger, Readings | None]:
        """The newest trigger, and the instrument's readings in the time of the last rows of the ledger."""
        newest, ledger = await asyncio.gather(
            self._api.newest(group, complete=False), self._api.missing(group, last=last, instrument=instrument)
        )
        if ledger.end_ns is None:
            return newest, None
        readings = await self._api.readings(
            group,
            instrument,
            start_ns=ledger.stretches.time_ns[0] - MARGIN_NS,
            end_ns=ledger.end_ns + MARGIN_NS,
            points=READINGS_MOST,
        )
        if readings.stored > READINGS_MOST:
            problem = f"it has {readings.stored:,} readings of {readings.name} around the last {last:,} triggers"
            raise DaemonUnavailable(f"{problem}, and gives no more than {READINGS_MOST:,}: ask for fewer triggers")
        return newest, readings


def _series(newest: OneTrigger, readings: Readings | None, channel: str, last: int, unit: str) -> Series:
    values, time_ns = np.full(last, np.nan), np.zeros(last, np.int64)
    end = -1 if newest.trigger is None else newest.trigger
    if readings is not None:
        place = np.array(readings.trigger, np.int64) - end + last - 1
        ours = (np.array(readings.run, np.int64) == newest.run) & (place >= 0) & (place < last)
        values[place[ours]] = np.array(readings.channels[channel], np.float64)[ours]
        time_ns[place[ours]] = np.array(readings.time_ns, np.int64)[ours]
    return Series(values=values, trigger=np.arange(end - last + 1, end + 1), time_ns=time_ns, unit=unit)


def _known(name: str, names: list[str], without: str) -> None:
    if name not in names:
        raise ValueError(f"{without} {name!r}; name one of {names[0]} ... {names[-1]}")
