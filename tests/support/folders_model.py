"""A brute-force model of one folder: all intervals that were inserted, looked through for each time."""

from copy import deepcopy
from dataclasses import dataclass

from schemas.folders.blocks import OPEN
from schemas.folders.folders import FolderKind
from tests.support.folders import Report, Row

TIMES = (0, 1, 2, 5, 9, 300, 301, 10**6, 10**9 + 7, 3 * 10**11, 2**52 + 1, 2**62, OPEN - 1)
"""Times at which intervals begin and end, so that their lengths are of many classes."""


@dataclass
class Interval:
    """An interval. until: OPEN has none."""

    channel: int
    since: int
    until: int
    value: float
    version: int

    def row(self) -> Row:
        """As tests compare it."""
        return (self.channel, self.since, None if self.until == OPEN else self.until, self.value)


class Model:
    """A folder. version: how many insertions it has had."""

    def __init__(self, kind: FolderKind) -> None:
        self.kind, self.version = kind, 0
        self.intervals: list[Interval] = []

    def insert(self, given: list[Row]) -> bool:
        """Insert intervals; False, and nothing changes, where one overlaps what it may not."""
        before = deepcopy(self.intervals)
        news = [
            Interval(channel, since, OPEN if until is None else until, value, self.version + 1)
            for channel, since, until, value in given
        ]
        if self.kind is FolderKind.SINGLE:
            for each in news:
                later = [new.since for new in news if new.channel == each.channel and new.since > each.since]
                if each.until == OPEN and later:
                    each.until = min(later)
        for new in sorted(news, key=lambda each: each.since):
            if not self._make_room(new):
                self.intervals = before
                return False
            self.intervals.append(new)
        self.version += 1
        return True

    def _make_room(self, new: Interval) -> bool:
        for each in self.intervals:
            of_block = each.version == new.version
            if each.channel != new.channel or not (of_block or self.kind is FolderKind.SINGLE):
                continue
            if each.until <= new.since or new.until <= each.since:
                continue
            if self.kind is FolderKind.MULTI or each.until != OPEN or each.since >= new.since:
                return False
            each.until = new.since
        return True

    def at(self, channel: int, time: int, version: int, upto: int = OPEN) -> Interval | None:
        """What is valid, of what begins up to a time."""
        valid = [
            each
            for each in self.intervals
            if each.channel == channel
            and each.since <= min(time, upto)
            and time < each.until
            and each.version <= version
        ]
        return max(valid, key=lambda each: each.version, default=None)

    def snapshot(self, channels: list[int], time: int, version: int) -> list[Row]:
        """What is valid of each channel."""
        return [found.row() for channel in channels if (found := self.at(channel, time, version)) is not None]

    def pieces(self, channel: int, version: int, upto: int = OPEN) -> list[Row]:
        """What is seen of each interval, in order of time; upto: none that begins later is looked at."""
        found: list[tuple[Interval, int, int]] = []
        ends = (*TIMES[1:], OPEN)
        for time, end in zip(TIMES, ends, strict=True):
            valid = self.at(channel, time, version, upto)
            if valid is None:
                continue
            if found and found[-1][0] is valid and found[-1][2] == time:
                found[-1] = (valid, found[-1][1], end)
            else:
                found.append((valid, time, end))
        return [(channel, since, None if until == OPEN else until, each.value) for each, since, until in found]


def of_reports(base: list[Row], reports: list[Report], channel: int) -> list[Row]:
    """Intervals and ends of a channel, in order of time. base: those that were there; reports: each of them once."""
    begins = {since: value for number, since, value in reports if number == channel}
    begins |= {since: value for number, since, _, value in base if number == channel}
    found: list[Row] = []
    for since, value in sorted(begins.items()):
        later = [each for each in begins if each > since]
        covers = [until for number, first, until, _ in base if number == channel and first <= since < (until or OPEN)]
        until = min([*later, *(each for each in covers if each is not None)], default=None)
        found.append((channel, since, since, 0.0) if value is None else (channel, since, until, value))
    return found
