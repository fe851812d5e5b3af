"""Heat: how many seconds a day the readers of a period wait longer where it lies on a slow disk than on a fast one.

It is made of what the server counts of each table. It is kept by the name of a period, since a move gives its table
another identity, and a crash takes the counts away; and it decays, so that what is read now counts more than what was.

What readers do not read does not count: VACUUM and ANALYZE ask for pages, but for no rows, and the mover's copy reads
rows, but begins no scan. The pages that VACUUM asks for are left aside where the server says that it has looked after
the table. What is counted of a new table when it is first seen is how it was made. Decision 0094 has the measurements.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp2, log
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from backends.base import Partition, ReadCounters
from backends.counting import HOUR_NS, HourRead
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.core.outside.clock import Instant
from daemon.core.process.kept_file import KeptFile, Part, Remembered

Label = tuple[str, str]
"""A group and the name of its partition."""

PAGE = 8192
RANDOM_S, SCANNED_S = 0.014, 0.0048 / 128
"""What a page (8 KiB) on the slow disk costs a reader more than on the fast one, in seconds: one from anywhere, and
one after the other. Measured between a disk of 71 random reads a second and 90 MB/s (which is that of Gaido et al.,
68/s), and a fast one: 14 ms, and 4.8 ms a MiB."""
CACHED = 0.1
"""What a page counts that the server had in its memory: no disk is waited for now, but it may be after a restart."""
DAY_S = 86_400.0
AWAY_MOST = 2.0
"""A restart takes off no more half-lives than these: it may be the clock that is wrong, and what was read while the
daemon was away is added by the counters."""


@dataclass(frozen=True, kw_only=True)
class Reads:
    """What was read of a period, in pages: in their order, and from anywhere; missed: the part that was not cached."""

    scanned: float = 0.0
    random: float = 0.0
    missed: float = 1.0

    @property
    def gain_s(self) -> float:
        """The seconds that a fast place had saved."""
        return (self.missed + CACHED * (1 - self.missed)) * (self.scanned * SCANNED_S + self.random * RANDOM_S)


NO_READS = Reads()


def reads_between(before: ReadCounters, now: ReadCounters) -> Reads:
    """What readers have read of a table since its counters were `before`.

    Counters that have fallen were reset: nobody knows what was read before.
    """
    grown = ReadCounters(*(value - was for was, value in zip(before, now, strict=True)))
    if min(grown.scans, grown.scanned_rows, grown.lookups, grown.fetched_rows, grown.pages_asked) < 0 or not now.pages:
        return NO_READS
    a_page = max(1.0, now.rows / now.pages)
    # The mover's copy counts rows, and no scan; a parallel scan counts as several.
    scanned = min(grown.scanned_rows, grown.scans * now.rows) / a_page
    fetched = float(grown.fetched_rows)
    least = fetched / a_page
    if grown.maintained:
        # Whoever looked after the table asked for pages, too: each look into an index finds one at least.
        asked, missed = least + grown.lookups, 0.0
    else:
        asked = grown.pages_asked - scanned
        missed = grown.pages_missed / grown.pages_asked if grown.pages_asked else 0.0
    asked = min(max(asked, least), fetched)
    # Rows of an index that come page by page are a scan of these pages.
    dense = (fetched - asked) / (a_page - 1) if a_page > 1 else 0.0
    return Reads(scanned=scanned + dense, random=asked - dense, missed=min(1.0, max(0.0, missed)))


def _by_index(before: ReadCounters, now: ReadCounters) -> ReadCounters:
    """These counters without what came in the order of the pages, and without the pages that were asked for.

    A scan that somebody has begun beside a copy would count the copy's rows.
    """
    return now._replace(scans=before.scans, scanned_rows=before.scanned_rows, maintained=before.maintained + 1)


@dataclass(frozen=True, kw_only=True)
class PeriodHeat:
    """The heat of a period.

    s_a_day: seconds a day. wanted_s: for how long it has been so hot that it should lie in an earlier tier, in s.
    counted: its counters as last seen.
    """

    s_a_day: float = 0.0
    wanted_s: float = 0.0
    counted: tuple[ReadCounters, ...] = ()


class Heat:
    """The heat of all periods.

    Where a server counts, `look` gets its counters. Where it does not, it gets what whoever asks for readings has read
    (`daemon.tiers.heat`).
    """

    def __init__(self, half_life_s: float, found: Mapping[Label, PeriodHeat] | None = None, age_s: float = 0.0) -> None:
        """Begin with what was found before, so long ago."""
        self.half_life_s = half_life_s
        self._found = dict(found or {})
        self._looked: Instant | None = None
        self._away_s = max(0.0, age_s)
        """How long nobody had looked before the first look."""
        self._is_told = False
        self._wanted: Collection[Label] = {label for label, each in self._found.items() if each.wanted_s > 0}
        self._decay(min(self._away_s, AWAY_MOST * half_life_s))

    def look(
        self,
        partitions: Mapping[str, Sequence[Partition]],
        at: Instant,
        *,
        asked: Mapping[Label, Reads] | None = None,
        own: Collection[Label] = (),
    ) -> None:
        """Take over what was read since the last look; what is there no more is forgotten.

        asked: what our own readers have read since then; None where that is not counted. own: periods that we may have
        copied or reduced since then. What lies out of line the server has looked up for that, as for readers: of these
        the table of the rows counts alone, and what of it came by an index.
        """
        passed_s = 0.0 if self._looked is None else max(0.0, (at.monotonic_ns - self._looked.monotonic_ns) / 1e9)
        unseen_s = self._away_s if self._looked is None else passed_s
        self._looked = at
        self._decay(passed_s)
        self._is_told = asked is not None
        for label, reads in (asked or {}).items():
            self.add(label, reads)
        there = {(group, each.name): each for group, of in partitions.items() for each in of}
        left = self._left_of(unseen_s)
        self._found = {label: self._seen(label, each, passed_s, left, label in own) for label, each in there.items()}

    def add(self, label: Label, reads: Reads, left: float = 1.0) -> None:
        """Add what was read of a period. left: the part that is left of it, as it was not all read just now."""
        before = self._found.get(label, PeriodHeat())
        gain = left * reads.gain_s * log(2) * DAY_S / self.half_life_s
        self._found[label] = replace(before, s_a_day=before.s_a_day + gain)

    def want(self, labels: Collection[Label]) -> None:
        """Note which periods should lie in an earlier tier, from now until the next look."""
        self._wanted = labels

    def of(self, label: Label) -> float | None:
        """How hot a period is, in s a day; None where nobody knows."""
        found = self._found.get(label)
        if found is None or not (self._is_told or found.counted or found.s_a_day):
            return None
        return found.s_a_day

    def all(self) -> Mapping[Label, PeriodHeat]:
        """The heat of all of them."""
        return self._found

    def _seen(self, label: Label, partition: Partition, passed_s: float, left: float, is_own: bool) -> PeriodHeat:
        was = {each.counted_by: each for each in self._found.get(label, PeriodHeat()).counted}
        for each in partition.counted[:1] if is_own else partition.counted:
            if each.counted_by in was:
                before = was[each.counted_by]
                self.add(label, reads_between(before, _by_index(before, each) if is_own else each), left)
        after = self._found.get(label, PeriodHeat())
        wanted_s = after.wanted_s + passed_s if label in self._wanted else 0.0
        return replace(after, wanted_s=wanted_s, counted=partition.counted)

    def _left_of(self, unseen_s: float) -> float:
        """What is left of what was read in so long a time, as much at each moment of it."""
        half_lives = unseen_s / self.half_life_s
        return (1 - exp2(-half_lives)) / (half_lives * log(2)) if half_lives > 1e-6 else 1.0

    def _decay(self, passed_s: float) -> None:
        left = exp2(-max(0.0, passed_s) / self.half_life_s)
        self._found = {label: replace(each, s_a_day=each.s_a_day * left) for label, each in self._found.items()}


# --- reads of our own, where the server does not count ---------------------------------------------------------------
# Rows are known, or estimated, by the hour of their times (`backends.counting`). How many pages they were is estimated
# by what the server says of the partition's rows and bytes. Nobody knows which pages were cached: what is read of a
# partition beyond all of it, between two looks, is taken for cached.

FIRST = 2
"""So many pages are read where reading starts: InnoDB's are twice as large as those that heat counts."""


def reads_of(read: Iterable[HourRead], partitions: Mapping[str, Sequence[Partition]]) -> dict[Label, Reads]:
    """What was read of each partition; those that nothing was read of are left out."""
    by_time = {group: sorted(of, key=lambda each: each.start_ns) for group, of in partitions.items()}
    found: dict[Label, tuple[Partition, list[HourRead]]] = {}
    for each in read:
        for one in _partitions_of(each, by_time.get(each.group, ())):
            found.setdefault((each.group, one.name), (one, []))[1].append(each)
    return {label: _reads(one, hours) for label, (one, hours) in found.items()}


def _partitions_of(read: HourRead, by_time: Sequence[Partition]) -> Sequence[Partition]:
    """Those that were read; one that has no readings any more was not."""
    if read.hour is None:
        return [each for each in by_time if each.readings_bytes]
    time_ns = read.hour * HOUR_NS
    number = bisect_right(by_time, time_ns, key=lambda each: each.start_ns) - 1
    one = by_time[number] if number >= 0 else None
    return [one] if one is not None and time_ns < one.end_ns and one.readings_bytes else []


def _reads(of: Partition, hours: Sequence[HourRead]) -> Reads:
    pages = (of.readings_bytes or 0) / PAGE
    whole = sum(each.answers for each in hours if each.hour is None)
    rows = sum(each.rows for each in hours)
    # What was read of rows that were reduced is more than there is: nobody reads a page twice for one answer.
    answers = max((each.answers for each in hours if each.hour is not None), default=0)
    scanned = whole * pages + min(rows * pages / max(1, of.rows), answers * pages)
    starts = sum(each.starts for each in hours)
    asked = scanned + FIRST * starts
    return Reads(scanned=scanned, random=starts, missed=min(1.0, pages / asked) if asked else 1.0)


# --- heat over a restart ---------------------------------------------------------------------------------------------
# The counters tell at the next look what was read meanwhile; so it does not have to be written often.

FILE = "heat.json"
MOST = 1e100
"""No reader waits so long: what is more, and sums of it, would soon be no number."""


def _of_a_server(counted: ReadCounters) -> ReadCounters:
    """Counters as a server has them: whole numbers of 64 bits."""
    if not all(-(2**63) <= each < 2**63 for each in counted):
        raise ValueError("no server counts so far")
    return counted


class KeptHeat(Part):
    """As `PeriodHeat`."""

    s_a_day: float = Field(ge=0, le=MOST, allow_inf_nan=False)
    wanted_s: float = Field(ge=0, le=MOST, allow_inf_nan=False)
    counted: tuple[Annotated[ReadCounters, AfterValidator(_of_a_server)], ...]


class HeatMemory(Remembered):
    """The heat of each group's partitions, as at at_ns (UTC, ns)."""

    version: Literal[1] = 1
    at_ns: int = Field(default=0, ge=-(2**63), lt=2**63)
    groups: dict[str, dict[str, KeptHeat]] = Field(default={})

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not self.groups


class HeatFile(KeptFile[HeatMemory]):
    """Where heat is kept, in the state folder."""

    def __init__(self, state_dir: Path, outside: Outside, events: Events) -> None:
        super().__init__(
            state_dir / FILE,
            HeatMemory(),
            outside,
            events,
            unread="all partitions begin as cold",
            unwritten="a restart forgets which partitions are read",
        )


def memory_of(heat: Heat, utc_ns: int) -> HeatMemory:
    """What to remember of heat as it is now."""
    groups: dict[str, dict[str, KeptHeat]] = {}
    for (group, name), each in heat.all().items():
        kept = KeptHeat(s_a_day=each.s_a_day, wanted_s=each.wanted_s, counted=each.counted)
        groups.setdefault(group, {})[name] = kept
    return HeatMemory(at_ns=utc_ns, groups=groups)


def heat_of(memory: HeatMemory, half_life_s: float, utc_ns: int) -> Heat:
    """The heat that was remembered, as it is now."""
    found: Mapping[Label, PeriodHeat] = {
        (group, name): PeriodHeat(s_a_day=each.s_a_day, wanted_s=each.wanted_s, counted=each.counted)
        for group, of in memory.groups.items()
        for name, each in of.items()
    }
    return Heat(half_life_s, found, (utc_ns - memory.at_ns) / 1e9)
